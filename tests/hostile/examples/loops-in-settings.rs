//! Never says whether its settings are good.

use opgate_hostile::Hostile;
use opgate_sdk::{Document, SettingsError};

/// The policy.
#[derive(Debug)]
pub struct Loops;

opgate_hostile::export!(Loops);

impl Hostile for Loops {
    fn validate_settings(_: &Document) -> Result<(), Vec<SettingsError>> {
        opgate_hostile::spin_forever();
        Ok(())
    }
}
