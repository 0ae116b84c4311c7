//! Policy `operator-group`: OperatorGroups and the ClusterServiceVersions that are their members.
//!
//! ```text
//! request ─┬─ OperatorGroup ─────────▶ access   who writes it
//!          │                           fields   what it says
//!          │                           group    what else there is in the cluster ──┐
//!          ├─ Role, binding ─────────▶ grants   what they let ServiceAccounts do ──▶ rbac
//!          └─ ClusterServiceVersion ─▶ csv      the group of its namespace ─────────┼─▶ rivals
//!                                      copies   what only claims to be a copy       │
//!                                      owners   who else owns the same APIs         │
//!                                                     targets  (Namespaces by label) ◀──┘
//! ```
//!
//! What OLM computes is ported in modules that know nothing of requests: [`namespaces`], [`apis`],
//! [`install_modes`], [`groups`] and [`duration`]. What is asked of the cluster is in [`reads`]. The
//! texts are upstream's, byte for byte; what each rule says, and where it is written, is in
//! [`rules`].

mod access;
pub mod apis;
mod copies;
mod csv;
pub mod duration;
mod fields;
mod findings;
mod grants;
mod group;
pub mod groups;
pub mod install_modes;
pub mod namespaces;
mod owners;
mod rbac;
pub mod reads;
mod rivals;
pub mod rules;
mod targets;
mod texts;

use opgate_sdk::conventions::Conventions;
use opgate_sdk::{Descriptor, Document, MatchRule, Operation, Policy, Request, Shape, Verdict};

use findings::Findings;

/// The policy.
#[derive(Debug)]
pub struct OperatorGroup;

opgate_sdk::export!(OperatorGroup);

const OLM: &str = "operators.coreos.com";
const RBAC: &str = "rbac.authorization.k8s.io";
const WRITES: &[Operation] = &[Operation::Create, Operation::Update];

impl Policy for OperatorGroup {
    fn describe() -> Descriptor {
        Descriptor {
            name: "operator-group",
            version: env!("CARGO_PKG_VERSION"),
            title: "OperatorGroups do not collide, and their members fit into them",
            rules: rules::RULES,
            matches: &[
                MatchRule {
                    groups: &[OLM],
                    versions: &["v1", "v1alpha2"],
                    resources: &["operatorgroups"],
                    operations: &[Operation::Create],
                    rules: &[
                        "OPG-01", "OPG-02", "OPG-03", "OPG-04", "OPG-05", "OPG-06", "OPG-07",
                        "OPG-08", "OPG-09", "OPG-10", "OPG-11", "OPG-12", "OPG-13", "OPG-14",
                        "OPG-15", "OPG-17", "OPG-18", "OPG-32", "OPG-34", "OPG-35", "OPG-38",
                    ],
                    ..MatchRule::EMPTY
                },
                MatchRule {
                    groups: &[OLM],
                    versions: &["v1", "v1alpha2"],
                    resources: &["operatorgroups"],
                    operations: &[Operation::Update],
                    rules: &[
                        "OPG-04", "OPG-05", "OPG-06", "OPG-07", "OPG-08", "OPG-09", "OPG-10",
                        "OPG-11", "OPG-12", "OPG-13", "OPG-14", "OPG-15", "OPG-16", "OPG-18",
                        "OPG-19", "OPG-32", "OPG-34", "OPG-35", "OPG-38",
                    ],
                    ..MatchRule::EMPTY
                },
                MatchRule {
                    groups: &[OLM],
                    versions: &["v1", "v1alpha2"],
                    resources: &["operatorgroups"],
                    operations: &[Operation::Delete],
                    rules: &["OPG-35"],
                    ..MatchRule::EMPTY
                },
                MatchRule {
                    groups: &[OLM],
                    versions: &["v1alpha1"],
                    resources: &["clusterserviceversions"],
                    operations: WRITES,
                    rules: &[
                        "OPG-20", "OPG-21", "OPG-22", "OPG-23", "OPG-24", "OPG-25", "OPG-26",
                        "OPG-27", "OPG-28", "OPG-29", "OPG-30", "OPG-31", "OPG-37",
                    ],
                    ..MatchRule::EMPTY
                },
                MatchRule {
                    groups: &[RBAC],
                    versions: &["v1"],
                    resources: &["clusterrolebindings"],
                    operations: WRITES,
                    rules: &["OPG-33"],
                    advisory: true,
                    ..MatchRule::EMPTY
                },
                MatchRule {
                    groups: &[RBAC],
                    versions: &["v1"],
                    resources: &["clusterroles"],
                    operations: WRITES,
                    rules: &["OPG-33", "OPG-36"],
                    advisory: true,
                    ..MatchRule::EMPTY
                },
                MatchRule {
                    groups: &[RBAC],
                    versions: &["v1"],
                    resources: &["roles"],
                    operations: WRITES,
                    rules: &["OPG-36"],
                    advisory: true,
                    ..MatchRule::EMPTY
                },
            ],
            reads: reads::READS,
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
        let mut findings = Findings::new(settings);
        match (request.resource.group.as_str(), request.resource.resource.as_str()) {
            (OLM, "operatorgroups") => {
                access::judge(&review, &mut findings);
                if let Some(object) = review.subject() {
                    fields::judge(&review, object, &mut findings);
                    group::judge(&review, object, &mut findings);
                    grants::group(&review, object, &mut findings);
                }
            }
            (OLM, "clusterserviceversions") => {
                if let Some(object) = review.subject() {
                    csv::judge(&review, object, &mut findings);
                }
            }
            (RBAC, "clusterrolebindings") => {
                if let Some(object) = review.subject() {
                    grants::binding(&review, object, &mut findings);
                }
            }
            (RBAC, "clusterroles" | "roles") => {
                if let Some(object) = review.subject() {
                    grants::role(&review, object, &mut findings);
                }
            }
            _ => {}
        }
        findings.finish()
    }
}

/// One request with everything that the rules ask about.
#[derive(Clone, Copy)]
struct Review<'r> {
    request: &'r Request,
    object: Option<&'r Document>,
    old: Option<&'r Document>,
    settings: &'r Document,
    conventions: Conventions<'r>,
}

impl<'r> Review<'r> {
    /// The object, unless who sends it is exempt.
    fn subject(&self) -> Option<&'r Document> {
        self.object.filter(|_| !self.conventions.exempts(self.request))
    }

    /// Whether there is nothing that the object was before.
    fn creates(&self) -> bool {
        self.updates_from().is_none()
    }

    /// What an UPDATE starts from.
    fn updates_from(&self) -> Option<&'r Document> {
        self.old.filter(|_| self.request.operation == Operation::Update)
    }

    /// What an UPDATE starts from, where a finding about what did not change is left out.
    fn spares(&self) -> Option<&'r Document> {
        let object = self.object?;
        self.conventions.spares(self.request, object, self.old)
    }

    /// Whether a rule that looks at what is at the pointer has anything to say: always on CREATE,
    /// on UPDATE only where it changed. Values of one meaning are the same: a controller that
    /// writes an object back spells out what its author left out.
    fn touches(&self, object: &Document, pointer: &str, shape: &Shape) -> bool {
        self.spares().is_none_or(|old| !shape.equal(object, old, pointer))
    }

    /// [`Review::touches`] for a map or anything else of which the JSON decides.
    fn touches_json(&self, object: &Document, pointer: &str) -> bool {
        self.spares().is_none_or(|old| !object.equal(pointer, old, pointer))
    }

    /// Name of the object.
    fn name(&self, object: &Document) -> String {
        object.text("/metadata/name").unwrap_or_else(|| self.request.name.clone())
    }

    /// Whether OLM sends it.
    fn is_olms(&self) -> bool {
        self.conventions.identities().is_olm(self.request)
    }

    /// Namespace of the object.
    fn namespace(&self) -> &'r str {
        &self.request.namespace
    }
}
