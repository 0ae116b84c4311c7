//! A settings schema whose references would take for ever to follow.

use opgate_hostile::{Hostile, descriptor};
use opgate_sdk::bindings::opgate::policy::types::Descriptor;

/// The policy.
#[derive(Debug)]
pub struct Refers;

opgate_hostile::export!(Refers);

impl Hostile for Refers {
    fn describe() -> Descriptor {
        Descriptor {
            settings_schema: r##"{"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}, {"$ref": "#/$defs/b"}]}, "b": {}}}"##.into(),
            ..descriptor()
        }
    }
}
