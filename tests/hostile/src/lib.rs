//! What the hostile policies under `examples/` share. They go around the SDK's rules and report, which
//! would keep them from breaking the contract.

pub use opgate_sdk::bindings::opgate::policy::document::Document as Handle;
use opgate_sdk::bindings::opgate::policy::types::{
    Descriptor, MatchRule, NamePatterns, Rule, SettingsError,
};
use opgate_sdk::{DefaultLevel, Document, Level, Operation, Verdict, Violation};

/// A policy that does what it likes.
pub trait Hostile {
    /// What it says about itself.
    fn describe() -> Descriptor {
        descriptor()
    }

    /// Whether it likes its settings.
    ///
    /// # Errors
    /// Where it does not.
    fn validate_settings(_: &Document) -> Result<(), Vec<SettingsError>> {
        Ok(())
    }

    /// What it answers.
    fn validate(_: Option<&Document>, _: &Document) -> Verdict {
        verdict()
    }

    /// The same, for a host that uses fixes or not.
    fn validate_with_fixes(_: bool, object: Option<&Handle>, settings: &Handle) -> Verdict {
        Self::validate_handles(object, settings)
    }

    /// The same, by the functions of the contract, without what the SDK checks before.
    fn validate_handles(object: Option<&Handle>, settings: &Handle) -> Verdict {
        Self::validate(object.map(Document::of), Document::of(settings))
    }
}

/// Makes a [`Hostile`] the policy of the component.
#[macro_export]
macro_rules! export {
    ($policy:ty) => {
        #[cfg(target_arch = "wasm32")]
        mod exported {
            use super::*;
            use opgate_sdk::bindings::opgate::policy::{document, request, types};

            struct Exported;

            opgate_sdk::bindings::export!(Exported with_types_in opgate_sdk::bindings);

            impl opgate_sdk::bindings::Guest for Exported {
                fn describe() -> types::Descriptor {
                    opgate_sdk::exports::report_panics();
                    <$policy as $crate::Hostile>::describe()
                }

                fn validate_settings(
                    settings: &document::Document,
                ) -> Result<(), Vec<types::SettingsError>> {
                    opgate_sdk::exports::report_panics();
                    <$policy as $crate::Hostile>::validate_settings(
                        opgate_sdk::Document::of(settings),
                    )
                }

                fn validate(
                    _: types::Operation,
                    _: u64,
                    request: &request::Request,
                    object: Option<&document::Document>,
                    _: Option<&document::Document>,
                    settings: &document::Document,
                ) -> types::Verdict {
                    opgate_sdk::exports::report_panics();
                    let wants_fixes = request.wants_fixes();
                    <$policy as $crate::Hostile>::validate_with_fixes(wants_fixes, object, settings)
                }
            }
        }
    };
}

/// Every CREATE and UPDATE of a Bundle, one rule, any settings.
#[must_use]
pub fn descriptor() -> Descriptor {
    Descriptor {
        name: "hostile".into(),
        version: "0.0.1".into(),
        title: "misbehaves".into(),
        rules: vec![rule("EVIL-1", DefaultLevel::Deny)],
        matches: vec![MatchRule {
            groups: vec!["core.rukpak.io".into()],
            versions: vec!["*".into()],
            resources: vec!["bundles".into()],
            operations: vec![Operation::Create, Operation::Update],
            namespace: None,
            namespaces: all_names(),
            names: all_names(),
            rules: Vec::new(),
            advisory: false,
            match_conditions: Vec::new(),
            namespace_selector: String::new(),
            enabled_by: Vec::new(),
            route: 0,
        }],
        reads: Vec::new(),
        sampling_rules: Vec::new(),
        settings_schema: r#"{"type": "object"}"#.into(),
    }
}

/// Names of any kind.
#[must_use]
pub fn all_names() -> NamePatterns {
    NamePatterns { include: Vec::new(), exclude: Vec::new() }
}

/// A rule.
#[must_use]
pub fn rule(id: &str, default_level: DefaultLevel) -> Rule {
    Rule {
        id: id.into(),
        title: "the policy behaves".into(),
        default_level,
        enabled_by: Vec::new(),
        kinds: vec!["Bundle".into()],
        operations: vec![Operation::Create, Operation::Update],
        name: String::new(),
        sources: vec!["tests".into()],
    }
}

/// Nothing wrong.
#[must_use]
pub fn verdict() -> Verdict {
    Verdict {
        violations: Vec::new(),
        reason: None,
        audit_annotations: Vec::new(),
        skipped: Vec::new(),
    }
}

/// Adds a violation.
pub fn add(
    verdict: &mut Verdict,
    level: Level,
    rule: &str,
    field: &str,
    message: impl Into<String>,
) {
    let (rule, field, message) = (rule.into(), field.into(), message.into());
    verdict.violations.push(Violation {
        rule,
        level,
        field,
        message,
        logical_location: Vec::new(),
        fix: None,
    });
}

/// Adds a violation that denies.
pub fn deny(verdict: &mut Verdict, rule: &str, field: &str, message: impl Into<String>) {
    add(verdict, Level::Deny, rule, field, message);
}

/// Adds a violation that warns.
pub fn warn(verdict: &mut Verdict, rule: &str, field: &str, message: impl Into<String>) {
    add(verdict, Level::Warn, rule, field, message);
}

/// Goes on for ever, without the compiler noticing.
pub fn spin_forever() -> u64 {
    let mut x = 0u64;
    loop {
        x = std::hint::black_box(x.wrapping_mul(31).wrapping_add(1));
        if x == u64::MAX && std::hint::black_box(false) {
            return x;
        }
    }
}
