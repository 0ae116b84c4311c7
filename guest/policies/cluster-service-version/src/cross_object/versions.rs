//! Instances of the same Operator in other namespaces.
//!
//! ```text
//! CSVS by the words of names and labels ─▶ other namespace, same stem or package ─▶ version, versions
//! of owned CRDs
//! ```

use std::collections::BTreeSet;

use opgate_compat::version::Version;
use opgate_sdk::cluster::{IndexMatch, ObjectName, Query, ReadError};
use opgate_sdk::{Document, Operation, Row, escape, rule, rules};

use super::conversion::previous_versions;
use crate::csv::Csv;
use crate::entries::{Entries, RuleViolations};
use crate::reads::CSVS;
use crate::targets::CSV;

rules![CSV_99];

/// OLM labels the objects of a package with `operators.coreos.com/<package>.<namespace>`.
const COMPONENT: &str = "operators.coreos.com/";
/// The word of such a label in which the package begins, as the index of labels has it.
const LABEL_WORD: &str = "com/";
/// Maximum number of CSVs that are compared with a new one. Each takes 2 µs.
const MAX_COMPARED_CSVS: usize = 4_096;
/// Maximum length of a name in Kubernetes.
const MAX_NAME_BYTES: usize = 253;

rule! {
    /// all instances of an Operator in the cluster have the same version
    ///
    /// The CSVs of the same Operator in other namespaces have the same `spec.version` as a new CSV,
    /// and own the same versions of the same CRDs. CSVs are of the same Operator if their names are
    /// equal up to the version (`etcdoperator` of `etcdoperator.v0.9.4`), or if both have a label
    /// `operators.coreos.com/<package>.<namespace>` with their namespace and the same package. A
    /// CSV does not count if it is a copy (label `olm.copiedFrom`), or if one of the two names the
    /// other in `spec.replaces` or `spec.skips`: an upgrade is running. There is one violation for
    /// each such CSV. The rule reads CSVs.
    ///
    /// # Why
    ///
    /// All instances share the CRDs, which exist once. An older instance cannot be installed once
    /// the CRDs are newer, and the data of different instances is at risk (OpenShift 4.12,
    /// Operators, *Operators in multitenant clusters*).
    ///
    /// # Remediation
    ///
    /// Install the version that the other namespaces have, or upgrade all of them.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// # In the namespaces team1-operator and team2-operator:
    /// metadata: {name: etcdoperator.v1.1.0}
    /// spec: {version: 1.1.0}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # team1-operator has etcdoperator.v1.0.0.
    /// metadata: {name: etcdoperator.v1.1.0, namespace: team2-operator}
    /// spec: {version: 1.1.0}
    /// ```
    ///
    /// `message: all instances of the same Operator must be the same version:
    /// team1-operator/etcdoperator.v1.0.0 has version 1.0.0`
    CSV_99: Warn {
        name: "same-operator-version-across-namespaces",
        on: [CSV: Create],
        reads: [CSVS],
        source: ["OCP 4.12 L3985-4005, L4750, L4762-4768, L6411", "OCP 4.15 L2946-2979, L4478-4545"],
    }
}

pub(super) fn check(csv: &mut Csv<'_, '_>) {
    if csv.review.operation() != Operation::Create || !csv.is_on(&CSV_99) {
        return;
    }
    let others = other_instances(csv);
    let Some((others, is_all)) = csv.report.or_skip(&[&CSV_99], "ClusterServiceVersions", others)
    else {
        return;
    };
    if !is_all {
        let why = format!("only {MAX_COMPARED_CSVS} ClusterServiceVersions are compared");
        csv.report.skip_part(&CSV_99, "spec.version", &why);
    }
    let mut violations = RuleViolations::of(&CSV_99);
    for (namespace, name, version) in others {
        violations.add(csv, || {
            let message = format!(
                "all instances of the same Operator must be the same version: {namespace}/{name} has version {version}"
            );
            ["spec.version".to_owned(), message]
        });
    }
}

/// Namespace, name and version.
type Instance = (String, String, String);

/// Instances in other namespaces that differ, and whether all were compared.
fn other_instances(csv: &Csv<'_, '_>) -> Result<(Vec<Instance>, bool), ReadError> {
    let own = csv.review.namespace();
    let stem = stem(&csv.name);
    let packages: Vec<&str> = csv.labels().iter().filter_map(|label| package(label, own)).collect();
    let (version, resources) = (csv.object.text_or_empty("/spec/version"), resources(csv.object));
    let linked = previous_versions(csv.object);
    let mut found = Vec::new();
    let mut looked_at = 0;
    for other in candidates(&csv.name, stem, &packages)? {
        if other.namespace == own || linked.contains(&other.name) {
            continue;
        }
        looked_at += 1;
        if looked_at > MAX_COMPARED_CSVS {
            return Ok((found, false));
        }
        let Some(instance) = CSVS.get(&other.namespace, &other.name)? else { continue };
        let has = |package: &&str| {
            let label = escape(&format!("{COMPONENT}{package}.{}", other.namespace));
            instance.has(&format!("/metadata/labels/{label}"))
        };
        if !is_same_operator(&other.name, stem) && !packages.iter().any(has)
            || previous_versions(&instance).contains(&csv.name)
        {
            continue;
        }
        let its_version = instance.text_or_empty("/spec/version");
        let differs = |its: BTreeSet<_>| resources.as_ref().is_some_and(|own| its != *own);
        if its_version != version || self::resources(&instance).is_some_and(differs) {
            found.push((other.namespace, other.name, its_version));
        }
    }
    Ok((found, true))
}

/// CSVs of the same name up to the version, and those that may be of one of the packages.
fn candidates(
    name: &str,
    stem: &str,
    packages: &[&str],
) -> Result<impl Iterator<Item = ObjectName> + use<>, ReadError> {
    // With a dot before the version, the first word of the names is the same. Otherwise all names
    // are compared: 10,000 of them take a millisecond.
    let is_dotted = ["", "."].contains(&name.get(stem.len()..=stem.len()).unwrap_or_default());
    let word = [first_word(stem).to_owned()];
    let by_word = [IndexMatch { index: "word", values: &word, include_missing: false }];
    let matches: &[_] = if is_dotted { &by_word } else { &[] };
    let mut names = CSVS.names(Query { matches, ..Query::default() })?;
    names.retain(|other| is_same_operator(&other.name, stem));
    if !packages.is_empty() {
        let values: Vec<String> =
            packages.iter().map(|package| format!("{LABEL_WORD}{}", first_word(package))).collect();
        let by_label =
            [IndexMatch { index: "label-word", values: &values, include_missing: false }];
        names.extend(CSVS.names(Query { matches: &by_label, ..Query::default() })?);
    }
    // In byte order, each once.
    names.sort_unstable();
    names.dedup();
    Ok(names.into_iter())
}

/// The text before the first dot.
fn first_word(text: &str) -> &str {
    text.split('.').next().unwrap_or_default()
}

/// Whether a CSV is one of the Operator with this name.
fn is_same_operator(name: &str, stem: &str) -> bool {
    name.starts_with(stem) && self::stem(name) == stem
}

/// The package in a label of OLM.
fn package<'l>(label: &'l str, namespace: &str) -> Option<&'l str> {
    label.strip_prefix(COMPONENT)?.strip_suffix(namespace)?.strip_suffix('.')
}

/// Owned CRDs, name and version; none if there are too many to compare.
fn resources(csv: &Document) -> Option<BTreeSet<[String; 2]>> {
    let owned = "/spec/customresourcedefinitions/owned";
    let entries = Entries::read_first(csv, owned, &["/name", "/version"]);
    let resource = |row: Row<'_>| [0, 1].map(|at| row.text_or_empty(at).to_owned());
    entries.is_complete().then(|| entries.iter().map(|(_, row)| resource(row)).collect())
}

/// The name of an Operator in that of a version: `etcdoperator` of `etcdoperator.v0.9.4`. A name
/// without a version is that of the Operator.
fn stem(name: &str) -> &str {
    if name.len() > MAX_NAME_BYTES {
        return name;
    }
    for (at, separator) in name.match_indices(['.', '-', '_']) {
        let rest = name.get(at + separator.len()..).unwrap_or_default();
        let rest = rest.strip_prefix('v').unwrap_or(rest);
        if rest.starts_with(|c: char| c.is_ascii_digit()) && Version::parse(rest).is_ok() {
            return name.get(..at).unwrap_or(name);
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stem_is_the_name_without_its_version() {
        for (name, expected) in [
            ("etcdoperator.v0.9.4", "etcdoperator"),
            ("etcdoperator.v0.9.4-1+a.b", "etcdoperator"),
            ("foo-operator-1.2.3", "foo-operator"),
            ("foo-2.operator.v1.0.0", "foo-2.operator"),
            ("foo.v1", "foo.v1"),
            ("foo", "foo"),
            ("", ""),
        ] {
            assert_eq!(stem(name), expected);
        }
    }

    #[test]
    fn the_label_names_the_package_and_the_namespace() {
        assert_eq!(package("operators.coreos.com/etcd.team1", "team1"), Some("etcd"));
        assert_eq!(package("operators.coreos.com/etcd.team1", "team2"), None);
        assert_eq!(package("operators.coreos.com/a.b.team1", "team1"), Some("a.b"));
        assert_eq!(package("olm.owner", "team1"), None);
    }
}
