//! What the catalogs offer: the package of an Operator, its channels and its bundles.
//!
//! ```text
//! package ─▶ its bundles in every catalog ─▶ in the channel ─▶ in the range ─┬─▶ none: OL1-10
//!        └─▶ catalogs that offer it, or one of the bundles ──────────────────┴─▶ several: OL1-11
//! ```

use std::collections::BTreeSet;

use opgate_sdk::cluster::{Match, Query, ReadError};
use opgate_sdk::go::quote;
use opgate_sdk::{Document, Report, Review, Shape, rule, rules};
use opgate_upstream::version::Version;

use crate::operator::{CHANNEL, PACKAGE};
use crate::reads::PACKAGES;
use crate::targets::OPERATOR;
use crate::version::{VERSION, Written};

rules![OL1_10, OL1_11];

const NEEDED: &str = "packages of catalogs";
/// Bundles of an Operator whose catalogs are asked for. Each is a question.
const MOST: usize = 1_024;

rule! {
    /// the catalogs offer what an Operator of OLM 1.0 asks for
    ///
    /// One of the catalogs in the context has the package `spec.packageName`, with a bundle that is
    /// in the channel `spec.channel` and whose version satisfies `spec.version`, as far as these
    /// are set. The rule is off by default, and is evaluated by `opgate check --cluster-state`,
    /// with the folders of the catalogs (file-based catalogs) in the context: no API server shows
    /// what is in them. Constraints that OLM does not read are left to OL1-03. The rule evaluates
    /// an UPDATE only if it changes one of the three fields.
    ///
    /// # Gap
    ///
    /// With a live cluster the rule is not evaluated. operator-controller decides when it resolves
    /// the Operator, and reports it in the status.
    ///
    /// # Why
    ///
    /// OLM 1.0 does not resolve the Operator and reports this message (operator-controller v0.8.0
    /// `internal/resolution/variablesources/required_package.go`).
    ///
    /// # Repair
    ///
    /// Look into the catalog for the names and versions that it has.
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
        on: [OPERATOR: Create | Update],
        reads: [PACKAGES],
        off_until: [],
        may_skip: true,
        source: "OCP 4.15 L21343-21391; operator-controller v0.8.0 internal/resolution/variablesources/required_package.go",
    }
}

rule! {
    /// one catalog only offers the package of an Operator of OLM 1.0
    ///
    /// Of the catalogs in the context, one has the package `spec.packageName`, and none but this
    /// has a bundle with the name of one that the Operator selects: in the channel `spec.channel`,
    /// with a version that satisfies `spec.version`. The rule is off by default, and is evaluated
    /// as OL1-10. The rule evaluates an UPDATE only if it changes one of the three fields.
    ///
    /// # Gap
    ///
    /// With a live cluster the rule is not evaluated. operator-controller chooses a catalog.
    ///
    /// # Why
    ///
    /// OLM 1.0 does not know which of the catalogs is meant: names of packages and bundles must be
    /// unique (OpenShift 4.15, Operators, *Limitations of OLM 1.0*).
    ///
    /// # Repair
    ///
    /// Remove one of the Catalogs, or filter the package out of it.
    ///
    /// # Accepted
    ///
    /// Only `redhat-operators` offers the package.
    ///
    /// # Rejected
    ///
    /// `community-operators` offers it, too.
    ///
    /// `message: package "openshift-pipelines-operator-rh" is offered by catalogs
    /// [community-operators redhat-operators]; OLM 1.0 requires unique package and bundle names`
    OL1_11: Deny {
        on: [OPERATOR: Create | Update],
        reads: [PACKAGES],
        off_until: [],
        may_skip: true,
        source: "OCP 4.15 L20172-20177, L20313-20316, L20891-20896",
    }
}

pub(crate) fn judge(review: &Review<'_>, operator: &Document, report: &mut Report<'_>) {
    let touches = |pointer: &&str| review.touches(operator, pointer, &Shape::Scalar);
    let name = operator.text_or_empty(PACKAGE);
    if !(report.is_on(&OL1_10) || report.is_on(&OL1_11))
        || name.is_empty()
        || ![PACKAGE, CHANNEL, VERSION].iter().any(touches)
    {
        return;
    }
    let found = Selected::of(operator, &name);
    let Some(found) = report.answer(&[&OL1_10, &OL1_11], NEEDED, found) else { return };
    let Some(found) = found else {
        for rule in [&OL1_10, &OL1_11] {
            report.skip(rule, "spec.packageName", "the context has no catalogs");
        }
        return;
    };
    if !found.has_bundles {
        report.add(&OL1_10, "spec.packageName", not_found(operator, &name));
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

/// Upstream's text.
fn not_found(operator: &Document, name: &str) -> String {
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

/// What an Operator selects of the catalogs.
struct Selected {
    has_bundles: bool,
    /// Those that offer the package, or a bundle with the name of one that is selected.
    catalogs: BTreeSet<String>,
}

impl Selected {
    /// None if there are no catalogs.
    fn of(operator: &Document, name: &str) -> Result<Option<Self>, ReadError> {
        if !PACKAGES.any(Query::default())? {
            return Ok(None);
        }
        let channel = operator.text(CHANNEL).filter(|channel| !channel.is_empty());
        let range = Written::of(operator);
        let is_any = operator.text_or_empty(VERSION).is_empty();
        let mut catalogs = BTreeSet::new();
        let mut bundles = BTreeSet::new();
        let values = [name.to_owned()];
        let matches = [Match { index: "package", values: &values, absent: false }];
        PACKAGES.each(Query { matches: &matches, ..Query::default() }, |package| {
            catalogs.insert(package.text_or_empty("/metadata/namespace"));
            let entries = channel.as_deref().map(|channel| entries(&package, channel));
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
        // A constraint that OLM does not read selects nothing, which another rule says.
        let has_bundles = !bundles.is_empty() || range.is_none() && !is_any;
        let bundles: Vec<String> = bundles.into_iter().take(MOST).collect();
        let matches = [Match { index: "bundle", values: &bundles, absent: false }];
        if !bundles.is_empty() {
            let named = PACKAGES.names(Query { matches: &matches, ..Query::default() })?;
            catalogs.extend(named.into_iter().map(|package| package.namespace));
        }
        Ok(Some(Self { has_bundles, catalogs }))
    }
}

/// The bundles of a channel.
fn entries(package: &Document, channel: &str) -> BTreeSet<String> {
    let channels = package.rows("/channels", &["/name"]);
    let index = channels.iter().position(|row| row.text(0) == Some(channel));
    let names = |index| {
        let rows = package.rows(&format!("/channels/{index}/entries"), &[""]);
        rows.iter().filter_map(|row| row.text(0)).map(str::to_owned).collect()
    };
    index.map(names).unwrap_or_default()
}
