//! Never says what it is.

use opgate_sdk::{Descriptor, Document, Policy, Request, Verdict};

/// The policy.
#[derive(Debug)]
pub struct Loops;

opgate_sdk::export!(Loops);

impl Policy for Loops {
    fn describe() -> Descriptor {
        opgate_hostile::spin();
        opgate_hostile::DESCRIPTOR
    }

    fn validate(_: &Request, _: Option<&Document>, _: Option<&Document>, _: &Document) -> Verdict {
        Verdict::default()
    }
}
