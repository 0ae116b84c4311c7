//! Declares a policy: its rules, the requests that they match, and the functions that evaluate them.
//!
//! ```text
//! rule! { docs, level, on, reads, … } ─┐
//!                                      ├─▶ policy! ─▶ POLICY ─▶ descriptor, matches, reads, settings
//! target (kind of object) ─▶ function ─┘
//! ```
//!
//! The host learns everything about a policy from this declaration, see [`crate::describe`].

use crate::{Document, Report, Review, Rule, SettingsError, Target};

/// The function that evaluates requests for one kind of object.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    /// The kind. The rules that match it determine the operations.
    pub on: &'static Target,
    /// Evaluates a request and adds violations to the report.
    pub evaluate: fn(&Review<'_>, &mut Report<'_>),
}

/// A policy, declared with [`policy!`](crate::policy!).
#[derive(Debug)]
pub struct Policy {
    /// Lower case letters, digits and `-`.
    pub name: &'static str,
    /// The version, for display.
    pub version: &'static str,
    /// One sentence about the policy.
    pub title: &'static str,
    /// Its rules, module by module.
    pub rules: &'static [&'static [&'static Rule]],
    /// The functions that evaluate requests. At most 64.
    pub routes: &'static [Route],
    /// JSON object with the schemas of its specific settings, by name; empty for none. The settings that all
    /// policies have in common are added.
    pub settings: &'static str,
    /// Checks what the schema cannot express. Called once, when the policy is loaded.
    pub check_settings: fn(&Document) -> Result<(), Vec<SettingsError>>,
}

/// Declares the policy of this crate as `POLICY`, and creates the exports of the component.
///
/// `rules` are the `RULES` of the modules. A route `KIND => evaluate` names the function that
/// evaluates requests for a kind. `settings` and `check_settings` can follow.
#[macro_export]
macro_rules! policy {
    {
        name: $name:literal,
        title: $title:literal,
        rules: [$($rules:expr),+ $(,)?],
        routes: [$($target:path => $evaluate:path),+ $(,)?]
        $(, settings: $settings:expr)?
        $(, check_settings: $check:path)? $(,)?
    } => {
        /// The policy.
        pub static POLICY: $crate::Policy = $crate::Policy {
            name: $name,
            version: env!("CARGO_PKG_VERSION"),
            title: $title,
            rules: &[$($rules),+],
            routes: &[$($crate::Route { on: &$target, evaluate: $evaluate }),+],
            settings: $crate::policy!(@or "" $(, $settings)?),
            check_settings: $crate::policy!(@or $crate::any_settings $(, $check)?),
        };

        #[cfg(target_arch = "wasm32")]
        struct OpgateExported;
        #[cfg(target_arch = "wasm32")]
        impl $crate::exports::ExportedPolicy for OpgateExported {
            const POLICY: &'static $crate::Policy = &POLICY;
        }
        #[cfg(target_arch = "wasm32")]
        type OpgateExportedPolicy = $crate::exports::PolicyExports<OpgateExported>;
        #[cfg(target_arch = "wasm32")]
        $crate::bindings::export!(OpgateExportedPolicy with_types_in $crate::bindings);
    };
    (@or $default:expr) => { $default };
    (@or $default:expr, $given:expr) => { $given };
}

/// Accepts all settings that the schema accepts.
///
/// # Errors
/// Never.
#[doc(hidden)]
pub fn any_settings(_: &Document) -> Result<(), Vec<SettingsError>> {
    Ok(())
}
