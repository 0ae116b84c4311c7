//! Describes a settings schema of regular expressions that are large in memory.

use opgate_hostile::{Hostile, descriptor};
use opgate_sdk::bindings::opgate::policy::types::Descriptor;

/// The policy.
#[derive(Debug)]
pub struct Explodes;

opgate_hostile::export!(Explodes);

/// Below all limits of structure: few patterns, each of which has many thousands of states.
const SCHEMA: &str = concat!(
    r#"{"type": "object", "patternProperties": {"#,
    r#""^[\\p{L}\\p{N}]{1,500}a[\\p{L}\\p{N}]{1,500}$": {}, "#,
    r#""^[\\p{L}\\p{N}]{1,500}b[\\p{L}\\p{N}]{1,500}$": {}, "#,
    r#""^[\\p{L}\\p{N}]{1,500}c[\\p{L}\\p{N}]{1,500}$": {}, "#,
    r#""^[\\p{L}\\p{N}]{1,500}d[\\p{L}\\p{N}]{1,500}$": {}, "#,
    r#""^[\\p{L}\\p{N}]{1,500}e[\\p{L}\\p{N}]{1,500}$": {}, "#,
    r#""^((a{1,50}){1,50}){1,50}$": {}}}"#,
);

impl Hostile for Explodes {
    fn describe() -> Descriptor {
        Descriptor { settings_schema: SCHEMA.into(), ..descriptor() }
    }
}
