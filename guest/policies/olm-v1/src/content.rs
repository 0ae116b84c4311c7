//! The content of catalogs: the package of an Operator, its channels and its bundles.
//!
//! ```text
//! package ─▶ its bundles in every catalog ─▶ in the channel ─▶ in the range ─┬─▶ none: OL1-10
//!        └─▶ catalogs that have it, or one of the bundles  ──────────────────┴─▶ several: OL1-11
//! ```

use std::collections::BTreeSet;

use opgate_compat::version::Version;
use opgate_sdk::cluster::{IndexMatch, Query, ReadError};
use opgate_sdk::go::quote;
use opgate_sdk::{Document, Report, Review, Shape, rule, rules};

use crate::operator::{CHANNEL, PACKAGE};
use crate::reads::PACKAGES;
use crate::targets::OPERATOR;
use crate::version::{VERSION, VersionConstraint};

rules![OL1_10, OL1_11];

const REQUIRED_STATE: &str = "packages of catalogs";
/// Maximum number of bundles of an Operator to look up in catalogs. Each costs one query.
const MAX_BUNDLES: usize = 1_024;

rule! {
    /// a catalog has the package, channel and version of an Operator of OLM 1.0
    ///
    /// One of the catalogs in the cluster state has the package `spec.packageName`. It has a bundle
    /// in the channel `spec.channel` whose version satisfies `spec.version`, as far as these fields
    /// are set. The rule is off by default. `opgate check --cluster-state` evaluates it if the
    /// cluster state has the directories of the catalogs (file-based catalogs): no API server
    /// serves their content. OL1-03 covers constraints that OLM cannot parse. The rule evaluates an
    /// UPDATE only if it changes one of the three fields.
    ///
    /// # Gap
    ///
    /// With a live cluster the policy skips the rule. operator-controller decides when it resolves
    /// the Operator, and reports the result in the status.
    ///
    /// # Why
    ///
    /// OLM 1.0 does not resolve the Operator and reports this message (operator-controller v0.8.0
    /// `internal/resolution/variablesources/required_package.go`).
    ///
    /// # Remediation
    ///
    /// Search the catalog for the names and versions that it has.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// # A catalog has pipelines 1.11.1 in its channel latest.
    /// spec: {packageName: openshift-pipelines-operator-rh, channel: latest, version: 1.11.x}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {packageName: openshift-pipelines-operator-rh, channel: latest, version: 2.0.0}
    /// ```
    ///
    /// `message: no package "openshift-pipelines-operator-rh" matching version "2.0.0" found in
    /// channel "latest"`
    OL1_10: Deny {
        name: "olm-v1-package-available-in-catalog",
        on: [OPERATOR: Create | Update],
        reads: [PACKAGES],
        enabled_by: [],
        may_skip: true,
        source: ["OCP 4.15 L21343-21391", "operator-controller v0.8.0 internal/resolution/variablesources/required_package.go"],
    }
}

rule! {
    /// only one catalog has the package of an Operator of OLM 1.0
    ///
    /// One of the catalogs in the cluster state has the package `spec.packageName`. No other
    /// catalog has the package, or a bundle with the name of one that the Operator selects: in the
    /// channel `spec.channel`, with a version that satisfies `spec.version`. The rule is off by
    /// default, and is evaluated under the same conditions as OL1-10. The rule evaluates an UPDATE
    /// only if it changes one of the three fields.
    ///
    /// # Gap
    ///
    /// With a live cluster the policy skips the rule. operator-controller chooses a catalog.
    ///
    /// # Why
    ///
    /// OLM 1.0 cannot determine which catalog to use: names of packages and bundles must be unique
    /// (OpenShift 4.15, Operators, *Limitations of OLM 1.0*).
    ///
    /// # Remediation
    ///
    /// Remove one of the Catalogs, or filter the package out of it.
    ///
    /// # Accepted
    ///
    /// Only `redhat-operators` has the package.
    ///
    /// # Rejected
    ///
    /// `community-operators` has it, too.
    ///
    /// `message: package "openshift-pipelines-operator-rh" is offered by catalogs
    /// [community-operators redhat-operators]; OLM 1.0 requires unique package and bundle names`
    OL1_11: Deny {
        name: "one-olm-v1-catalog-per-package",
        on: [OPERATOR: Create | Update],
        reads: [PACKAGES],
        enabled_by: [],
        may_skip: true,
        source: ["OCP 4.15 L20172-20177, L20313-20316, L20891-20896"],
    }
}

pub(crate) fn check(review: &Review<'_>, operator: &Document, report: &mut Report<'_>) {
    let touches = |pointer: &&str| review.touches(operator, pointer, &Shape::Scalar);
    let name = operator.text_or_empty(PACKAGE);
    if !(report.is_on(&OL1_10) || report.is_on(&OL1_11))
        || name.is_empty()
        || ![PACKAGE, CHANNEL, VERSION].iter().any(touches)
    {
        return;
    }
    let found = SelectedBundles::of(operator, &name);
    let Some(found) = report.or_skip(&[&OL1_10, &OL1_11], REQUIRED_STATE, found) else { return };
    let Some(found) = found else {
        for rule in [&OL1_10, &OL1_11] {
            report.skip(rule, "spec.packageName", "the cluster state has no catalogs");
        }
        return;
    };
    if !found.has_bundles {
        report.add(&OL1_10, "spec.packageName", not_found_message(operator, &name));
    }
    if found.catalogs.len() > 1 {
        let catalogs = found.catalogs.into_iter().collect::<Vec<_>>().join(" ");
        let message = format!(
            "package {} is offered by catalogs [{catalogs}]; OLM 1.0 requires unique package and bundle names",
            quote(&name)
        );
        report.add(&OL1_11, "spec.packageName", message);
    }
}

/// Upstream message.
fn not_found_message(operator: &Document, name: &str) -> String {
    let name = quote(name);
    let of = |pointer: &str| operator.text(pointer).filter(|text| !text.is_empty());
    let (version, channel) = (of(VERSION), of(CHANNEL));
    match (version.as_deref().map(quote), channel.as_deref().map(quote)) {
        (Some(version), Some(channel)) => {
            format!("no package {name} matching version {version} found in channel {channel}")
        }
        (Some(version), None) => format!("no package {name} matching version {version} found"),
        (None, Some(channel)) => format!("no package {name} found in channel {channel}"),
        (None, None) => format!("no package {name} found"),
    }
}

/// The bundles of the catalogs that an Operator selects.
struct SelectedBundles {
    has_bundles: bool,
    /// Catalogs with the package, or with a bundle that has the name of a selected one.
    catalogs: BTreeSet<String>,
}

impl SelectedBundles {
    /// None if there are no catalogs.
    fn of(operator: &Document, name: &str) -> Result<Option<Self>, ReadError> {
        if !PACKAGES.any(Query::default())? {
            return Ok(None);
        }
        let channel = operator.text(CHANNEL).filter(|channel| !channel.is_empty());
        let range = VersionConstraint::of(operator);
        let is_any = operator.text_or_empty(VERSION).is_empty();
        let mut catalogs = BTreeSet::new();
        let mut bundles = BTreeSet::new();
        let values = [name.to_owned()];
        let matches = [IndexMatch { index: "package", values: &values, include_missing: false }];
        PACKAGES.each(Query { matches: &matches, ..Query::default() }, |package| {
            catalogs.insert(package.text_or_empty("/metadata/namespace"));
            let entries = channel.as_deref().map(|channel| channel_entries(&package, channel));
            for row in package.rows("/bundles", &["/name", "/version"]).iter() {
                let (bundle, version) = (row.text_or_empty(0), row.text_or_empty(1));
                let in_channel = entries.as_ref().is_none_or(|names| names.contains(bundle));
                let in_range = || match &range {
                    Some(range) => Version::parse(version)
                        .is_ok_and(|version| range.constraint.contains(&version)),
                    None => true,
                };
                if in_channel && in_range() {
                    bundles.insert(bundle.to_owned());
                }
            }
            true
        })?;
        // Another rule reports a constraint that OLM cannot parse. It selects nothing.
        let has_bundles = !bundles.is_empty() || range.is_none() && !is_any;
        let bundles: Vec<String> = bundles.into_iter().take(MAX_BUNDLES).collect();
        let matches = [IndexMatch { index: "bundle", values: &bundles, include_missing: false }];
        if !bundles.is_empty() {
            let named = PACKAGES.names(Query { matches: &matches, ..Query::default() })?;
            catalogs.extend(named.into_iter().map(|package| package.namespace));
        }
        Ok(Some(Self { has_bundles, catalogs }))
    }
}

/// The bundles of a channel.
fn channel_entries(package: &Document, channel: &str) -> BTreeSet<String> {
    let channels = package.rows("/channels", &["/name"]);
    let index = channels.iter().position(|row| row.text(0) == Some(channel));
    let names = |index| {
        let rows = package.rows(&format!("/channels/{index}/entries"), &[""]);
        rows.iter().filter_map(|row| row.text(0)).map(str::to_owned).collect()
    };
    index.map(names).unwrap_or_default()
}
