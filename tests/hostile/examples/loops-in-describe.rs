//! Never returns a description.

use opgate_hostile::{Hostile, descriptor};
use opgate_sdk::bindings::opgate::policy::types::Descriptor;

/// The policy.
#[derive(Debug)]
pub struct Loops;

opgate_hostile::export!(Loops);

impl Hostile for Loops {
    fn describe() -> Descriptor {
        opgate_hostile::spin_forever();
        descriptor()
    }
}
