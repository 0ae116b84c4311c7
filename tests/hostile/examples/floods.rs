//! Answers more than a verdict may hold. Goes around the SDK, which would cut it.
#![cfg(target_arch = "wasm32")]

use opgate_hostile::DESCRIPTOR;
use opgate_sdk::Document;
use opgate_sdk::bindings::Guest;
use opgate_sdk::bindings::opgate::policy::types::{
    Descriptor, Level, Request, SettingsError, Verdict, Violation,
};

struct Floods;

opgate_sdk::bindings::export!(Floods with_types_in opgate_sdk::bindings);

impl Guest for Floods {
    fn describe() -> Descriptor {
        DESCRIPTOR.into()
    }

    fn validate_settings(_: &Document) -> Result<(), Vec<SettingsError>> {
        Ok(())
    }

    fn validate(
        _: Request,
        _: Option<&Document>,
        _: Option<&Document>,
        settings: &Document,
    ) -> Verdict {
        let number = |pointer: &str| {
            usize::try_from(settings.integer(pointer).unwrap_or_default()).unwrap_or_default()
        };
        let violation = Violation {
            rule: "EVIL-1".into(),
            level: Level::Deny,
            field: "spec".into(),
            message: "x".repeat(number("/length")),
        };
        let violations = vec![violation; number("/number")];
        Verdict { violations, reason: None, audit_annotations: Vec::new() }
    }
}
