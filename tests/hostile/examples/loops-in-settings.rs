//! Never says whether its settings are good.

use opgate_sdk::{Descriptor, Document, Policy, Request, SettingsError, Verdict};

/// The policy.
#[derive(Debug)]
pub struct Loops;

opgate_sdk::export!(Loops);

impl Policy for Loops {
    fn describe() -> Descriptor {
        opgate_hostile::DESCRIPTOR
    }

    fn validate_settings(_: &Document) -> Result<(), Vec<SettingsError>> {
        opgate_hostile::spin();
        Ok(())
    }

    fn validate(_: &Request, _: Option<&Document>, _: Option<&Document>, _: &Document) -> Verdict {
        Verdict::default()
    }
}
