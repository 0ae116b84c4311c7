//! Describes a settings schema of very many regular expressions, each of which is good by itself.

use std::fmt::Write as _;

use opgate_hostile::{Hostile, descriptor};
use opgate_sdk::bindings::opgate::policy::types::Descriptor;

/// The policy.
#[derive(Debug)]
pub struct Explodes;

opgate_hostile::export!(Explodes);

impl Hostile for Explodes {
    fn describe() -> Descriptor {
        let mut schema = r#"{"type": "object", "patternProperties": {"a": {}"#.to_owned();
        for number in 0..5_000 {
            let _ = write!(schema, r#", "^[\\p{{L}}\\p{{N}}]{{1,40}}{number:05}$": {{}}"#);
        }
        schema += "}}";
        Descriptor { settings_schema: schema, ..descriptor() }
    }
}
