//! Version changes that OLM 1.0 does not make by itself.

use opgate_compat::masterminds::UpperBound;
use opgate_compat::version::Version;
use opgate_sdk::go::quote;
use opgate_sdk::{Document, Report, Review, Shape, rule, rules};

use crate::operator::{PACKAGE, POLICY, ignores_constraints};
use crate::targets::OPERATOR;
use crate::version::{FIELD, VERSION, VersionConstraint};

rules![OL1_05, OL1_06, OL1_07];

pub(crate) fn check(review: &Review<'_>, operator: &Document, report: &mut Report<'_>) {
    if ignores_constraints(operator) {
        return;
    }
    let Some(new) = VersionConstraint::of(operator) else { return };
    // Versions of different packages are not comparable.
    let before = review.old_of_update().filter(|old| old.equal(PACKAGE, operator, PACKAGE));
    let old = before.and_then(VersionConstraint::of);
    if let (Some(before), Some(to)) = (before, new.constraint.exact_version()) {
        match old
            .as_ref()
            .and_then(|old| Some((old.text.clone(), old.constraint.exact_version()?.clone())))
        {
            Some((text, from)) => check_exact(&text, &from, &new, to, report),
            // Intermediate updates may have a range, or no version.
            None => check_since_installed(review, before, &new, to, report),
        }
    }
    if new.constraint.exact_version().is_none() {
        check_range(review, operator, &new, report);
    }
    if let Some(old) = &old {
        check_between(old, &new, report);
    }
}

rule! {
    /// an update of OLM 1.0 stays in its major version and does not go back
    ///
    /// If an UPDATE changes `spec.version` from one exact version to another, the new one has no
    /// higher major number and is not lower, unless `spec.upgradeConstraintPolicy` is `Ignore`.
    /// Versions with all three numbers are exact, with `=` or without. If there was no exact
    /// version before, the installed version counts, if the tag of the image in
    /// `status.installedBundleResource` is a version (`v1.12.1`). If the installed version is not
    /// known, the rule accepts the UPDATE, or denies it with the setting
    /// `olmv1.incomparableVersions: deny`, unless operator-controller has not processed the
    /// Operator yet (no `status.conditions`). Versions of another package are not comparable: the
    /// rule does not evaluate an UPDATE that changes `spec.packageName`.
    ///
    /// # Gap
    ///
    /// If the image of the bundle has a digest and no version as its tag, the installed version is
    /// not known. operator-controller enforces its own upgrade constraints when it resolves the
    /// Operator.
    ///
    /// # Why
    ///
    /// OLM 1.0 does not support automatic updates to the next major version, nor rollbacks
    /// (OpenShift 4.15, Operators, *Forcing an update or rollback*): the Operator stays at the old
    /// version and reports a failure of the resolution.
    ///
    /// # Remediation
    ///
    /// Verify the update manually, and set `spec.upgradeConstraintPolicy: Ignore` to force it.
    ///
    /// # Accepted
    ///
    /// `version: 1.11.1` becomes `version: 1.12.1`.
    ///
    /// # Rejected
    ///
    /// `version: 1.12.1` becomes `version: 2.0.0`.
    ///
    /// `message: OLM 1.0 does not support automatic updates to the next major version or rollbacks:
    /// 1.12.1 -> 2.0.0 requires spec.upgradeConstraintPolicy Ignore`
    OL1_05: Deny {
        name: "no-olm-v1-major-upgrade-or-rollback",
        on: [OPERATOR: Update],
        source: ["OCP 4.15 L21411-21413, L21586-21623"],
    }
}

rule! {
    /// an update of OLM 1.0 within major version zero stays in its minor version
    ///
    /// If an UPDATE changes `spec.version` from one exact version of major version zero to another,
    /// the minor number stays the same and is not zero, unless `spec.upgradeConstraintPolicy` is
    /// `Ignore`. If there was no exact version before, the installed version counts, as for OL1-05.
    /// The rule accepts updates to another patch of `0.y`, with y above zero. It does not evaluate
    /// an UPDATE that changes `spec.packageName`.
    ///
    /// # Why
    ///
    /// In major version zero every minor version can be a breaking change, and with minor version
    /// zero every patch. OLM 1.0 does not apply such updates by itself (OpenShift 4.15, Operators,
    /// *Major version zero releases*).
    ///
    /// # Remediation
    ///
    /// Verify the update manually, and set `spec.upgradeConstraintPolicy: Ignore` to force it.
    ///
    /// # Accepted
    ///
    /// `version: 0.1.0` becomes `version: 0.1.1`.
    ///
    /// # Rejected
    ///
    /// `version: 0.1.0` becomes `version: 0.2.0`.
    ///
    /// `message: OLM 1.0 does not automatically update 0.1.0 -> 0.2.0 within major version zero; set
    /// spec.upgradeConstraintPolicy to Ignore`
    OL1_06: Deny {
        name: "no-olm-v1-minor-upgrade-below-one",
        on: [OPERATOR: Update],
        source: ["OCP 4.15 L21415-21425"],
    }
}

/// The image that operator-controller v0.8 has installed.
const INSTALLED: &str = "/status/installedBundleResource";

/// OL1-05 and OL1-06 for an Operator without an exact version before.
fn check_since_installed(
    review: &Review<'_>,
    before: &Document,
    new: &VersionConstraint,
    to: &Version,
    report: &mut Report<'_>,
) {
    let image = before.text_or_empty(INSTALLED);
    if let Some((tag, from)) = image_version(&image) {
        // A tag may have more parts after the numbers than the version has.
        if [from.major, from.minor, from.patch] != [to.major, to.minor, to.patch] {
            check_exact(tag, &from, new, to, report);
        }
    } else if review.settings.text_or_empty("/olmv1/incomparableVersions") == "deny"
        && before.has("/status/conditions")
    {
        let new = &new.text;
        let message = format!(
            "OLM 1.0 does not support automatic updates to the next major version or rollbacks: which version is installed is not known, and {new} requires spec.upgradeConstraintPolicy Ignore"
        );
        report.add(&OL1_05, FIELD, message);
    }
}

/// The tag of an image, if it is a version with three numbers. Parts after them are ignored.
fn image_version(image: &str) -> Option<(&str, Version)> {
    let name = image.split('@').next().unwrap_or_default();
    let (_, last) = name.rsplit_once('/').unwrap_or(("", name));
    let (_, tag) = last.rsplit_once(':')?;
    let numbers = tag.strip_prefix('v').unwrap_or(tag);
    let numbers = numbers.split(['-', '_']).next().unwrap_or_default();
    Some((tag, Version::parse(numbers).ok()?))
}

fn check_exact(
    old: &str,
    from: &Version,
    new: &VersionConstraint,
    to: &Version,
    report: &mut Report<'_>,
) {
    if to.cmp(from).is_eq() {
        return;
    }
    let new = &new.text;
    if to.major > from.major || to < from {
        let message = format!(
            "OLM 1.0 does not support automatic updates to the next major version or rollbacks: {old} -> {new} requires spec.upgradeConstraintPolicy Ignore"
        );
        report.add(&OL1_05, FIELD, message);
    }
    if from.major == 0 && to.major == 0 && (from.minor != to.minor || to.minor == 0) {
        let message = format!(
            "OLM 1.0 does not automatically update {old} -> {new} within major version zero; set spec.upgradeConstraintPolicy to Ignore"
        );
        report.add(&OL1_06, FIELD, message);
    }
}

rule! {
    /// OLM 1.0 can update within the range of an Operator
    ///
    /// Unless `spec.upgradeConstraintPolicy` is `Ignore`, a range in `spec.version` is not entirely
    /// within `0.0.*`. If an UPDATE of the same package changes a range, or changes to a range, the
    /// highest major number of the new range or version is not lower than that of the old one: the
    /// installed version is not known. The rule accepts ranges that span several major versions,
    /// such as `>1.11.1`, and a first `spec.version`. It evaluates an UPDATE only if it changes
    /// `spec.version` or the policy.
    ///
    /// # Why
    ///
    /// With major and minor version zero every release can be a breaking change, and OLM 1.0 makes
    /// no rollbacks (OpenShift 4.15, Operators, *Major version zero releases* and *Forcing an
    /// update or rollback*).
    ///
    /// # Remediation
    ///
    /// Choose the version yourself, and force it with `spec.upgradeConstraintPolicy: Ignore`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {packageName: a, version: '>=0.1.0 <0.2.0'}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {packageName: a, version: '>=0.0.1 <0.1.0'}
    /// ```
    ///
    /// `message: automatic updates are not applied within ">=0.0.1 <0.1.0"; set
    /// spec.upgradeConstraintPolicy to Ignore to force`
    OL1_07: Warn {
        name: "olm-v1-version-range-allows-updates",
        on: [OPERATOR: Create | Update],
        source: ["OCP 4.15 L19838, L21411-21425"],
    }
}

fn check_outside_range(new: &VersionConstraint, report: &mut Report<'_>) {
    let message = format!(
        "automatic updates are not applied within {}; set spec.upgradeConstraintPolicy to Ignore to force",
        quote(&new.text)
    );
    report.add(&OL1_07, FIELD, message);
}

fn check_range(
    review: &Review<'_>,
    operator: &Document,
    new: &VersionConstraint,
    report: &mut Report<'_>,
) {
    let is_zero = new.constraint.upper_bound().is_some_and(|above| above <= [0, 1, 0]);
    let touches = |pointer| review.touches(operator, pointer, &Shape::Scalar);
    if is_zero && (touches(VERSION) || touches(POLICY)) {
        check_outside_range(new, report);
    }
}

fn check_between(old: &VersionConstraint, new: &VersionConstraint, report: &mut Report<'_>) {
    let are_exact = [old, new].iter().all(|one| one.constraint.exact_version().is_some());
    let [from, to] = [old, new].map(|one| max_major(one.constraint.upper_bound()));
    // A range within 0.0.* is already reported.
    if !are_exact && to < from && new.constraint.upper_bound() > Some([0, 1, 0]) {
        check_outside_range(new, report);
    }
}

/// The highest major number below an upper bound.
fn max_major(above: Option<UpperBound>) -> u64 {
    match above {
        None => u64::MAX,
        Some([major, 0, 0]) => major.saturating_sub(1),
        Some([major, ..]) => major,
    }
}

#[cfg(test)]
mod tests {
    use super::image_version;

    #[test]
    fn tags_that_are_versions_are_read() {
        for (image, expected) in [
            ("quay.io/a/b:v1.12.1", Some(("v1.12.1", [1, 12, 1]))),
            ("quay.io:5000/a/b:0.1.0", Some(("0.1.0", [0, 1, 0]))),
            ("b:1.2.3@sha256:00", Some(("1.2.3", [1, 2, 3]))),
            (
                "quay.io/a/b:v0.47.0--20220413T184225",
                Some(("v0.47.0--20220413T184225", [0, 47, 0])),
            ),
            ("quay.io/a/b@sha256:00", None),
            ("quay.io:5000/a/b", None),
            ("quay.io/a/b:latest", None),
            ("quay.io/a/b:v1.12", None),
            ("", None),
        ] {
            let found = image_version(image);
            let found = found.map(|(tag, v)| (tag, [v.major, v.minor, v.patch]));
            assert_eq!(found, expected, "{image}");
        }
    }
}
