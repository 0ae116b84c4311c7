//! A settings schema whose references would take for ever to follow.

use opgate_sdk::{Descriptor, Document, Policy, Request, Verdict};

/// The policy.
#[derive(Debug)]
pub struct Refers;

opgate_sdk::export!(Refers);

impl Policy for Refers {
    fn describe() -> Descriptor {
        Descriptor {
            settings_schema: r##"{"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}, {"$ref": "#/$defs/b"}]}, "b": {}}}"##,
            ..opgate_hostile::DESCRIPTOR
        }
    }

    fn validate(_: &Request, _: Option<&Document>, _: Option<&Document>, _: &Document) -> Verdict {
        Verdict::default()
    }
}
