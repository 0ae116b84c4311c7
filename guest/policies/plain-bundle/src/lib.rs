//! Policy `plain-bundle`: plain+v0 bundles as files.
//!
//! ```text
//! PlainBundle ─▶ manifests ─┬─ the directory and what is in it      PBF-01 to 04
//!                           └─ objects, lists taken apart           PBF-05
//! ```
//!
//! The host builds the document from a folder; fields are paths into it, which the host turns into
//! places in files. The texts are RukPak's where it has one. What each rule says, and where it is
//! written, is in [`rules`].

mod findings;
mod manifests;
mod objects;
pub mod rules;

use opgate_sdk::{Descriptor, Document, MatchRule, Operation, Policy, Request, Verdict};

use findings::Findings;

/// The policy.
#[derive(Debug)]
pub struct PlainBundle;

opgate_sdk::export!(PlainBundle);

impl Policy for PlainBundle {
    fn describe() -> Descriptor {
        Descriptor {
            name: "plain-bundle",
            version: env!("CARGO_PKG_VERSION"),
            title: "plain+v0 bundles hold manifests that can be applied, and nothing else",
            rules: rules::RULES,
            matches: &[MatchRule {
                groups: &["opgate.dev"],
                versions: &["v1alpha1"],
                resources: &["plainbundles"],
                operations: rules::OPERATIONS,
                ..MatchRule::EMPTY
            }],
            settings_schema: include_str!("settings.schema.json"),
            ..Descriptor::EMPTY
        }
    }

    fn validate(
        request: &Request,
        object: Option<&Document>,
        _: Option<&Document>,
        settings: &Document,
    ) -> Verdict {
        let mut findings = Findings::default();
        if let Some(object) = object.filter(|_| request.operation != Operation::Delete) {
            manifests::judge(object, &mut findings);
        }
        findings.finish(settings)
    }
}
