//! Policy `bundle-immutability`: the documented rules of RukPak's Bundles and BundleDeployments, and of
//! the ConfigMaps that they refer to.
//!
//! ```text
//! request ─┬─ Bundle            → bundle      immutability, then the source
//!          ├─ BundleDeployment  → deployment  who may write, names, template or source
//!          │                         both use → source   (what a `spec.source` must look like)
//!          └─ ConfigMap         → config_map  what Bundles refer to stays as it is
//!                                     all use → context  (the cluster's ConfigMaps and Bundles)
//! ```
//!
//! The texts are upstream's, byte for byte. What each rule says, and where it is written, is in
//! [`rules`].

mod bundle;
mod config_map;
mod context;
mod deployment;
mod findings;
pub mod rules;
mod source;

use opgate_sdk::conventions::{Conventions, is_terminating};
use opgate_sdk::{Descriptor, Document, MatchRule, Operation, Policy, Request, Shape, Verdict};

/// The policy.
#[derive(Debug)]
pub struct BundleImmutability;

opgate_sdk::export!(BundleImmutability);

const GROUP: &str = "core.rukpak.io";

const fn deployments(operations: &'static [Operation]) -> MatchRule {
    MatchRule {
        groups: &[GROUP],
        versions: &["v1alpha1", "v1alpha2"],
        resources: &["bundledeployments"],
        operations,
        ..MatchRule::EMPTY
    }
}

const fn config_maps(operations: &'static [Operation]) -> MatchRule {
    MatchRule {
        groups: &[""],
        versions: &["v1"],
        resources: &["configmaps"],
        operations,
        namespace: Some(context::SYSTEM_NAMESPACE),
        ..MatchRule::EMPTY
    }
}

/// The requests, and which rules look at them.
const MATCHES: &[MatchRule] = &[
    MatchRule {
        groups: &[GROUP],
        versions: &["v1alpha1"],
        resources: &["bundles"],
        operations: &[Operation::Create],
        rules: &[
            "RPK-02", "RPK-03", "RPK-04", "RPK-05", "RPK-06", "RPK-07", "RPK-08", "RPK-09",
            "RPK-10", "RPK-11", "RPK-12", "RPK-13", "RPK-14", "RPK-16", "RPK-17", "RPK-18",
            "RPK-21",
        ],
        ..MatchRule::EMPTY
    },
    MatchRule {
        groups: &[GROUP],
        versions: &["v1alpha1"],
        resources: &["bundles"],
        operations: &[Operation::Update],
        rules: &[
            "RPK-01", "RPK-02", "RPK-03", "RPK-04", "RPK-05", "RPK-06", "RPK-07", "RPK-09",
            "RPK-10", "RPK-11", "RPK-12", "RPK-13", "RPK-16", "RPK-17",
        ],
        ..MatchRule::EMPTY
    },
    MatchRule {
        rules: &[
            "RPK-12", "RPK-13", "RPK-15", "RPK-16", "RPK-17", "RPK-22", "RPK-23", "RPK-24",
            "RPK-25",
        ],
        ..deployments(&[Operation::Create])
    },
    MatchRule {
        rules: &["RPK-12", "RPK-13", "RPK-16", "RPK-17", "RPK-22", "RPK-23", "RPK-24", "RPK-25"],
        ..deployments(&[Operation::Update])
    },
    MatchRule { rules: &["RPK-24"], ..deployments(&[Operation::Delete]) },
    MatchRule { rules: &["RPK-19"], ..config_maps(&[Operation::Create]) },
    MatchRule { rules: &["RPK-20"], ..config_maps(&[Operation::Delete]) },
];

impl Policy for BundleImmutability {
    fn describe() -> Descriptor {
        Descriptor {
            name: "bundle-immutability",
            version: env!("CARGO_PKG_VERSION"),
            title: "RukPak Bundles do not change, and what they refer to is sound",
            rules: rules::RULES,
            matches: MATCHES,
            reads: &[context::CONFIG_MAPS, context::BUNDLES],
            settings_schema: include_str!("settings.schema.json"),
        }
    }

    fn validate(
        request: &Request,
        object: Option<&Document>,
        old_object: Option<&Document>,
        settings: &Document,
    ) -> Verdict {
        if !request.sub_resource.is_empty() {
            return Verdict::default();
        }
        let conventions = Conventions(settings);
        let object = object.filter(|_| request.operation != Operation::Delete);
        let review = Review { request, object, old: old_object, settings, conventions };
        let resource = &request.resource;
        let verdict = match (resource.group.as_str(), resource.resource.as_str()) {
            (GROUP, "bundles") => bundle::judge(&review),
            (GROUP, "bundledeployments") => deployment::judge(&review),
            ("", "configmaps") => config_map::judge(&review),
            _ => Verdict::default(),
        };
        conventions.finish(verdict)
    }
}

/// One request with everything that the rules ask about.
struct Review<'r> {
    request: &'r Request,
    object: Option<&'r Document>,
    old: Option<&'r Document>,
    settings: &'r Document,
    conventions: Conventions<'r>,
}

impl Review<'_> {
    /// What an UPDATE starts from.
    fn updates_from(&self) -> Option<&Document> {
        self.old.filter(|_| self.request.operation == Operation::Update)
    }

    /// Whether a rule that looks at what is at the pointer has anything to say: always on CREATE,
    /// on UPDATE only where it changed. Values of one meaning are the same: a controller that
    /// writes an object back spells out what its author left out.
    fn touches(&self, object: &Document, pointer: &str, shape: &Shape) -> bool {
        self.spares(object).is_none_or(|old| !shape.equal(object, old, pointer))
    }

    /// What an UPDATE starts from, where a finding about what did not change is left out.
    fn spares(&self, object: &Document) -> Option<&Document> {
        self.conventions.spares(self.request, object, self.old)
    }

    /// Whether the webhook's checks of a source run where it did not change, as upstream (decision
    /// A-5). What is on its way out must be able to go.
    fn rechecks_sources(&self, object: &Document) -> bool {
        self.settings.boolean("/rukpak/recheckUnchanged") == Some(true) && !is_terminating(object)
    }
}
