//! Policy `constraint-limits`: what Operators ask of others, wherever it is written down.
//!
//! ```text
//! request ─┬─ ClusterServiceVersion ─▶ annotations ────────────────┐
//!          ├─ InstallPlan (status) ──▶ install_plan ─▶ annotations ─┤
//!          ├─ ConfigMap ─────────────▶ config_map ─┬─▶ annotations ─┼─▶ crate constraints
//!          │                gzip, base64, YAML ◀───┘                │
//!          ├─ RegistryBundle ────────▶ files ─▶ dependencies ───────┤
//!          └─ FileBasedCatalog ──────▶ files ─▶ dependencies ───────┘
//! ```
//!
//! Reading, checking and upstream's texts are in the crate `constraints`, which knows nothing of
//! requests. Here is where constraints are found, and what is exempt. What each rule says, and where
//! it is written, is in [`rules`].

mod annotations;
mod config_map;
mod dependencies;
mod encoding;
mod files;
mod findings;
mod install_plan;
pub mod rules;

use opgate_sdk::conventions::Conventions;
use opgate_sdk::{Descriptor, Document, MatchRule, Operation, Policy, Request, Verdict};

use findings::Findings;

/// The policy.
#[derive(Debug)]
pub struct ConstraintLimits;

opgate_sdk::export!(ConstraintLimits);

const OLM: &str = "operators.coreos.com";
const FILES: &str = "opgate.dev";
const WRITES: &[Operation] = &[Operation::Create, Operation::Update];

/// Rules about what ClusterServiceVersions, `InstallPlans` and ConfigMaps can carry.
const CONSTRAINTS: &[&str] = &[
    "CON-01", "CON-02", "CON-03", "CON-04", "CON-05", "CON-06", "CON-07", "CON-08", "CON-09",
    "CON-10", "CON-11", "CON-12", "CON-13", "CON-14", "CON-15", "CON-16", "CON-17", "CON-18",
    "CON-22",
];

impl Policy for ConstraintLimits {
    fn describe() -> Descriptor {
        Descriptor {
            name: "constraint-limits",
            version: env!("CARGO_PKG_VERSION"),
            title: "constraints, dependencies and properties of Operators are small and mean what they say",
            rules: rules::RULES,
            matches: &[
                MatchRule {
                    groups: &[OLM],
                    versions: &["v1alpha1"],
                    resources: &["clusterserviceversions", "installplans", "installplans/status"],
                    operations: WRITES,
                    rules: CONSTRAINTS,
                    ..MatchRule::EMPTY
                },
                MatchRule {
                    groups: &[""],
                    versions: &["v1"],
                    resources: &["configmaps"],
                    operations: WRITES,
                    // Controllers write ConfigMaps all the time, and what OLM makes of one is
                    // judged as a ClusterServiceVersion.
                    rules: CONSTRAINTS,
                    advisory: true,
                    ..MatchRule::EMPTY
                },
                MatchRule {
                    groups: &[FILES],
                    versions: &["v1alpha1"],
                    resources: &["registrybundles", "filebasedcatalogs"],
                    operations: WRITES,
                    ..MatchRule::EMPTY
                },
            ],
            settings_schema: include_str!("settings.schema.json"),
            ..Descriptor::EMPTY
        }
    }

    fn validate(
        request: &Request,
        object: Option<&Document>,
        old_object: Option<&Document>,
        settings: &Document,
    ) -> Verdict {
        let conventions = Conventions(settings);
        let writes = matches!(request.operation, Operation::Create | Operation::Update);
        let Some(object) = object.filter(|_| writes && !conventions.exempts(request)) else {
            return Verdict::default();
        };
        let old = conventions.spares(request, object, old_object);
        let mut findings = Findings::new(settings);
        let resource = &request.resource;
        match (resource.group.as_str(), resource.resource.as_str(), request.sub_resource.as_str()) {
            (OLM, "clusterserviceversions", "") => {
                annotations::judge(request, object, old, &mut findings);
            }
            (OLM, "installplans", "" | "status") => install_plan::judge(object, old, &mut findings),
            ("", "configmaps", "") => config_map::judge(object, old, &mut findings),
            (FILES, "registrybundles", "") => files::bundle(object, &mut findings),
            (FILES, "filebasedcatalogs", "") => files::catalog(object, &mut findings),
            _ => {}
        }
        findings.finish()
    }
}
