//! The strict part of upgrade safety: differences between served versions, and changes without a
//! separate check.

use std::collections::BTreeMap;

use opgate_sdk::{Report, rule};

use super::change::Change;
use super::place::Location;
use super::walk::{self, Visitor};
use super::{Definition, Version, field};
use crate::targets::CRD;

rule! {
    /// served versions have the same schema, and each change of a schema has a check
    ///
    /// The rule is off unless the configuration sets a level. The checks of CRD-20 to CRD-25 apply
    /// to every pair of served versions of the new CRD, from the older to the newer by the order of
    /// Kubernetes (`v1alpha1`, `v1beta1`, `v1`, `v2`). A schema that is missing in the newer
    /// version is compared with an empty schema. Differences that the old CRD has between the same
    /// versions are not reported. With `spec.conversion.strategy: Webhook` in the new CRD, versions
    /// are not compared.
    ///
    /// Within a version and between served versions, any other difference of a schema is a
    /// violation: `format`, `oneOf`, `x-kubernetes-validations` and so on. Only `description` can
    /// differ. A difference in `additionalProperties`, `allOf`, `anyOf`, `oneOf` or `not` is also a
    /// difference of the schema around it. If a CRD has too many versions to compare all pairs, the
    /// rule is evaluated in part.
    ///
    /// # Why
    ///
    /// Without a webhook, the API server converts objects by changing only `apiVersion`. Clients of
    /// a served version fail on values that only another version accepts.
    ///
    /// # Remediation
    ///
    /// Give both versions the same schema, or convert with a webhook.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// conversion: {strategy: Webhook}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// conversion: {strategy: None} # and extraField is a boolean in v1, a string in v2
    /// # message: 'v1 -> v2: ^.spec.extraField: type: type changed : "boolean" -> "string"'
    /// ```
    pub(crate) CRD_26: Warn {
        name: "crd-served-schemas-identical",
        on: [CRD: Update],
        enabled_by: [],
        may_skip: true,
        source: ["operator-controller internal/operator-controller/rukpak/preflights/crdupgradesafety/crdupgradesafety_test.go"],
    }
}

/// The maximum number of schemas that are visited for all pairs of a review.
const MAX_SCHEMAS: usize = 100_000;

/// The served versions, from the oldest to the newest.
fn served_by_age(versions: &[Version]) -> Vec<&Version> {
    let mut served: Vec<_> = versions.iter().filter(|version| version.is_served).collect();
    served.sort_by_cached_key(|version| VersionAge::of(&version.name));
    served
}

/// A served version of the new CRD.
struct ServedVersion<'v> {
    version: &'v Version,
    /// This version in the old CRD, if it is served there.
    old: Option<&'v Version>,
    /// Whether the version in the old CRD has the same schema.
    is_same: bool,
}

/// Compares all pairs of served versions.
pub(super) fn check_served_versions<'v>(
    report: &mut Report<'_>,
    new: &'v Definition<'_>,
    old: &'v Definition<'_>,
) {
    let (news, olds) = (&new.versions, &old.versions);
    let (new, old) = (new.document, old.document);
    if new.text_or_empty("/spec/conversion/strategy") == "Webhook" {
        return;
    }
    let olds: BTreeMap<&str, &Version> =
        served_by_age(olds).into_iter().map(|version| (version.name.as_str(), version)).collect();
    let of = |version: &'v Version| {
        let before = olds.get(version.name.as_str()).copied();
        let is_same = before.is_some_and(|before| version.is_as(new, before, old));
        ServedVersion { version, old: before, is_same }
    };
    let news: Vec<_> = served_by_age(news).into_iter().map(of).collect();
    let mut remaining = MAX_SCHEMAS;
    let mut known = Vec::new();
    'pairs: for (place, newer) in news.iter().enumerate() {
        for older in news.iter().take(place) {
            if remaining == 0 {
                break 'pairs;
            }
            remaining -= 1;
            // Both versions are unchanged, so the old CRD has the same differences.
            if older.is_same && newer.is_same {
                continue;
            }
            let Some(tree) = older.version.tree(new) else { continue };
            known.clear();
            if let (Some(older), Some(newer)) = (older.old, newer.old)
                && let Some(tree) = older.tree(old)
            {
                let at = Location::new(String::new());
                remaining = walk::compare(
                    tree,
                    newer.tree(old),
                    at,
                    remaining,
                    &mut ChangeRecorder(&mut known),
                );
                known.sort_unstable();
            }
            if remaining > 0 {
                let (newer_tree, at) = (newer.version.tree(new), newer.version.location());
                let pair = format!("{} -> {}", older.version.name, newer.version.name);
                let mut added = NewChangeReporter { report, pair: &pair, known: &known };
                remaining = walk::compare(tree, newer_tree, at, remaining, &mut added);
            }
        }
    }
    if remaining == 0 {
        let why = "the CRD has too many served versions to compare all of their schemas";
        report.skip_part(&CRD_26, "spec.versions", why);
    }
}

/// Records the differences of the old CRD.
struct ChangeRecorder<'k>(&'k mut Vec<u64>);

impl Visitor for ChangeRecorder<'_> {
    const NEEDS_HASHES: bool = true;

    fn visit_removed(&mut self, _: &Location) -> bool {
        true
    }

    fn visit_changed(&mut self, at: &Location, change: &Change<'_>, _: bool) {
        self.0.push(at.hash_with(change));
    }
}

/// Reports the differences that the old CRD does not have.
struct NewChangeReporter<'a, 'r> {
    report: &'a mut Report<'r>,
    pair: &'a str,
    known: &'a [u64],
}

impl Visitor for NewChangeReporter<'_, '_> {
    const NEEDS_HASHES: bool = true;

    fn visit_removed(&mut self, _: &Location) -> bool {
        true
    }

    fn visit_changed(&mut self, at: &Location, change: &Change<'_>, has_keyword: bool) {
        if self.known.binary_search(&at.hash_with(change)).is_ok() {
            return;
        }
        if self.report.is_full(&CRD_26) {
            self.report.add_count(&CRD_26, 1);
        } else {
            let message = format!("{}: {}: {change}", self.pair, at.path());
            self.report.add(&CRD_26, field(at, change, has_keyword), message);
        }
    }
}

/// The order of versions from the oldest to the newest, like `CompareKubeAwareVersionStrings`.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum VersionAge {
    /// Not such a version: a name that is later in byte order is older.
    Other(std::cmp::Reverse<String>),
    /// Alpha, beta, or generally available; the major number, and the number after alpha or beta.
    KubeAware(Stage, u64, u64),
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Alpha,
    Beta,
    Available,
}

impl VersionAge {
    fn of(version: &str) -> Self {
        Self::parse(version).unwrap_or_else(|| Self::Other(std::cmp::Reverse(version.to_owned())))
    }

    /// `v1`, `v2beta1`
    fn parse(version: &str) -> Option<Self> {
        let rest = version.strip_prefix('v')?;
        let number = |text: &str| {
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let number = text.parse().ok().filter(|&number| i64::try_from(number).is_ok());
            number.filter(|_| is_number)
        };
        let known = |major: &str, stage, minor: &str| {
            Some(Self::KubeAware(stage, number(major)?, number(minor)?))
        };
        if let Some((major, minor)) = rest.split_once("alpha") {
            known(major, Stage::Alpha, minor)
        } else if let Some((major, minor)) = rest.split_once("beta") {
            known(major, Stage::Beta, minor)
        } else {
            known(rest, Stage::Available, "0")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_in_the_order_of_kubernetes() {
        // Descending, as in the documentation of Kubernetes.
        let descending = [
            "v10",
            "v2",
            "v1",
            "v11beta2",
            "v10beta3",
            "v3beta1",
            "v12alpha1",
            "v11alpha2",
            "foo1",
            "foo10",
            "v",
            "v1alpha",
            "v1gamma1",
            "v9223372036854775808",
        ];
        for pair in descending.windows(2) {
            assert_eq!(
                VersionAge::of(pair[0]).cmp(&VersionAge::of(pair[1])),
                std::cmp::Ordering::Greater,
                "{pair:?}"
            );
        }
        assert_eq!(VersionAge::of("v1"), VersionAge::of("v01"));
    }
}
