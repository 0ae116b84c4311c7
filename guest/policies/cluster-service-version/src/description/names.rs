//! The name of a ClusterServiceVersion, and the names of the versions that it replaces.

use opgate_compat::version::Version;
use opgate_sdk::go::quote;
use opgate_sdk::{Kind, Shape, names, rule, rules};

use super::{add_all, is_selected, versions, visit_first};
use crate::csv::Csv;
use crate::targets::{CATALOG, CSV};

rules![CSV_01, CSV_02, CSV_03, CSV_04, CSV_05];

const NAME: &str = "/metadata/name";
const REPLACES: &str = "/spec/replaces";
const SKIPS: &str = "/spec/skips";

const NOT_A_LIST: &str = "spec.skips is not a list of names";

/// Maximum size of a name that is searched for a version, in bytes. CSV-01 denies longer names.
const MAX_NAME_BYTES: usize = 253;

pub(crate) fn check(csv: &mut Csv<'_, '_>) {
    // An object without a name in a file cannot be created, so there is no name to check.
    if !csv.name.is_empty() {
        check_own_name(csv);
        check_version_in_name(csv);
    }
    check_replaces(csv);
    check_skips(csv);
}

rule! {
    /// the name of a ClusterServiceVersion can be the value of a label
    ///
    /// `metadata.name` is a DNS-1123 subdomain and a valid value of a label: lower case letters,
    /// digits, `-` and `.`, and at most 63 bytes. A manifest without a name is not evaluated.
    /// Copies that OLM makes are exempt. The name of an object never changes, so an UPDATE of an
    /// evaluated object is not evaluated.
    ///
    /// # Why
    ///
    /// OLM writes the name of the version into the label `olm.owner` of every object that it
    /// creates for the version, and Kubernetes accepts 63 bytes there. The validators of
    /// operator-framework/api reject other names.
    ///
    /// # Remediation
    ///
    /// Shorten the name, or replace the characters that the message names. The usual pattern is
    /// `<operator>.v<version>`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// metadata: {name: my-operator-v1.2.3}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// metadata:
    ///   name: someoperatorwithanextremelylongnamethatmakenosensewhatsoever.v999.999.999
    /// ```
    ///
    /// `message: metadata.name
    /// "someoperatorwithanextremelylongnamethatmakenosensewhatsoever.v999.999.999" is invalid: must
    /// be no more than 63 bytes`
    CSV_01: Deny {
        name: "valid-csv-name",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L19193-19197, L20801", "api pkg/validation/internal/csv.go, pkg/validation/internal/csv_test.go"],
    }
}

fn check_own_name(csv: &mut Csv<'_, '_>) {
    if !csv.touches(NAME, &Shape::Scalar) {
        return;
    }
    if let Some(message) = name_error("metadata.name", &csv.name) {
        csv.add(&CSV_01, "metadata.name", message);
    }
    if is_selected(csv, &CSV_05, &["good-practices"]) {
        check_conventions(csv);
    }
}

/// The error of upstream for the name of a version.
fn name_error(field: &str, name: &str) -> Option<String> {
    let subdomain = names::subdomain_errors(name).into_iter().map(str::to_owned);
    let errors: Vec<_> = subdomain.chain(names::label_value_errors(name)).collect();
    (!errors.is_empty())
        .then(|| format!("{field} {} is invalid: {}", quote(name), errors.join(",")))
}

rule! {
    /// spec.replaces is the name of a ClusterServiceVersion
    ///
    /// `spec.replaces`, if not empty, is a DNS-1123 subdomain and a valid value of a label, as
    /// CSV-01 requires for `metadata.name`. A ClusterServiceVersion of that name does not have to
    /// exist. Copies that OLM makes are exempt. An UPDATE is evaluated only if it changes the
    /// field.
    ///
    /// # Why
    ///
    /// No ClusterServiceVersion can have an invalid name, so such a name replaces nothing: users of
    /// the previous version get no update. The validators of operator-framework/api reject it.
    ///
    /// # Remediation
    ///
    /// Write the `metadata.name` of the previous version. Remove the field from the first release.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {replaces: etcdoperator.v0.9.0}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {replaces: "etcd operator 0.9.0"}
    /// ```
    ///
    /// The message starts with `spec.replaces "etcd operator 0.9.0" is invalid: a lowercase RFC
    /// 1123 subdomain must consist of`.
    CSV_02: Deny {
        name: "valid-csv-replaces",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L2436-2447, L19300-19304", "api pkg/validation/internal/csv.go"],
    }
}

rule! {
    /// a ClusterServiceVersion does not replace or skip itself
    ///
    /// `spec.replaces` and the entries of `spec.skips` differ from `metadata.name`, and
    /// `spec.skips` is a list of strings that are not empty. Copies that OLM makes are exempt. On
    /// UPDATE, the rule evaluates only those of the two fields that the request changes.
    ///
    /// # Why
    ///
    /// The two fields name older versions, from which OLM updates to this one (OpenShift 4.12,
    /// Operators, *Operator Lifecycle Manager workflow*). A version that names itself is its own
    /// successor, which is useless to OLM.
    ///
    /// # Remediation
    ///
    /// Name the previous version in `replaces`, and the versions between the two in `skips`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// metadata: {name: etcdoperator.v0.9.2}
    /// spec: {replaces: etcdoperator.v0.9.0, skips: [etcdoperator.v0.9.1]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// metadata: {name: etcdoperator.v0.9.2}
    /// spec: {replaces: etcdoperator.v0.9.2}
    /// ```
    ///
    /// `message: spec.replaces names the CSV itself`
    CSV_03: Warn {
        name: "no-csv-self-replacement",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L2363, L2436-2447"],
    }
}

fn check_replaces(csv: &mut Csv<'_, '_>) {
    if !csv.touches(REPLACES, &Shape::Scalar) {
        return;
    }
    let replaces = csv.object.text_or_empty(REPLACES);
    if replaces.is_empty() {
        return;
    }
    if let Some(message) = name_error("spec.replaces", &replaces) {
        csv.add(&CSV_02, "spec.replaces", message);
    }
    if replaces == csv.name {
        csv.add(&CSV_03, "spec.replaces", "spec.replaces names the CSV itself");
    }
}

fn check_skips(csv: &mut Csv<'_, '_>) {
    if !csv.touches(SKIPS, &Shape::List(&Shape::Scalar)) {
        return;
    }
    match csv.object.kind(SKIPS) {
        Kind::Missing | Kind::Null => return,
        Kind::List => {}
        _ => return csv.add(&CSV_03, "spec.skips", NOT_A_LIST),
    }
    let mut found = Vec::new();
    visit_first(csv.object, SKIPS, &[""], |index, row| match row.text(0) {
        Some("") | None => found.push((index, NOT_A_LIST)),
        Some(name) if name != csv.name => {}
        Some(_) => found.push((index, "spec.skips names the CSV itself")),
    });
    add_all(csv, &CSV_03, found, |(index, message)| {
        (format!("spec.skips[{index}]"), message.to_owned())
    });
}

rule! {
    /// the name of a ClusterServiceVersion contains its version
    ///
    /// `metadata.name` contains `spec.version`, after any separator. A `v` before the version does
    /// not count. If the version has build metadata, which a name cannot contain unchanged, the
    /// version without it is sufficient. Without `spec.version` the rule reports no violation.
    /// Copies that OLM makes are exempt. An UPDATE is evaluated only if it changes the version.
    ///
    /// # Why
    ///
    /// Each version of an Operator is a separate ClusterServiceVersion in the same namespace, and
    /// the version makes their names differ (OpenShift 4.12, Operators, *Manually-defined CSV
    /// fields*).
    ///
    /// # Remediation
    ///
    /// Name the object `<operator>.v<version>`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// metadata: {name: app-operator.v0.1.1}
    /// spec: {version: 0.1.1}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// metadata: {name: app-operator}
    /// spec: {version: 0.1.1}
    /// ```
    ///
    /// `message: Operator version should be included in the name to ensure uniqueness:
    /// metadata.name "app-operator" does not contain "0.1.1"`
    CSV_04: Warn {
        name: "csv-name-contains-version",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L19197", "OCP 4.15 L14280", "OCP 4.5 L6164-6165, L6241-6244"],
    }
}

fn check_version_in_name(csv: &mut Csv<'_, '_>) {
    let version = csv.object.text_or_empty(versions::VERSION);
    let bare = version.trim();
    let bare = bare.strip_prefix('v').unwrap_or(bare);
    let plain = bare.split('+').next().unwrap_or(bare);
    if plain.is_empty() || csv.name.contains(plain) || !versions::is_touched(csv) {
        return;
    }
    let message = format!(
        "Operator version should be included in the name to ensure uniqueness: metadata.name {} does not contain {}",
        quote(&csv.name),
        quote(&version)
    );
    csv.add(&CSV_04, "metadata.name", message);
}

rule! {
    /// the name of a ClusterServiceVersion is operator.vMAJOR.MINOR.PATCH
    ///
    /// `metadata.name` ends in a semantic version, and `.v` occurs in it exactly once. The rule is
    /// off by default. It is the name check of upstream's optional validator for good practices. A
    /// configured level turns it on, or `good-practices` (or `suite=operatorframework`) in the
    /// setting `bundle.optional`. A manifest without a name is not evaluated. Copies that OLM makes
    /// are exempt.
    ///
    /// # Why
    ///
    /// Updates of Operators are easier to follow if all versions are named in the same way. OLM
    /// itself does not read the name.
    ///
    /// # Remediation
    ///
    /// Rename the ClusterServiceVersion before you publish it.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// metadata: {name: memcached-operator.v0.0.1}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// metadata: {name: my-operator-v1.2.3}
    /// ```
    ///
    /// `message: csv.metadata.Name my-operator-v1.2.3 is not following the recommended naming
    /// convention: <operator-name>.v<semver> e.g. memcached-operator.v0.0.1`
    CSV_05: Warn {
        name: "csv-naming-convention",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        enabled_by: ["/bundle/optional"],
        source: ["OCP 4.12 L22740", "api pkg/validation/internal/good_practices.go"],
    }
}

/// After `checkBundleName` of api `pkg/validation/internal/good_practices.go`.
fn check_conventions(csv: &mut Csv<'_, '_>) {
    let name = csv.name.clone();
    if name.len() > MAX_NAME_BYTES {
        return;
    }
    if version_at_end(&name).is_none_or(|version| Version::parse(version).is_err()) {
        let message = format!(
            "csv.metadata.Name {name} is not following the versioning convention (MAJOR.MINOR.PATCH e.g 0.0.1): https://semver.org/"
        );
        csv.add(&CSV_05, "metadata.name", message);
    }
    if name.split(".v").count() != 2 {
        let message = format!(
            "csv.metadata.Name {name} is not following the recommended naming convention: <operator-name>.v<semver> e.g. memcached-operator.v0.0.1"
        );
        csv.add(&CSV_05, "metadata.name", message);
    }
}

/// The longest end of a name with the structure of a version, possibly with too many zeros.
fn version_at_end(name: &str) -> Option<&str> {
    let starts = name.char_indices().filter(|(index, c)| {
        let before = name.get(..*index).and_then(|before| before.chars().next_back());
        c.is_ascii_digit() && !before.is_some_and(|c| c.is_ascii_digit())
    });
    starts.filter_map(|(index, _)| name.get(index..)).find(|end| is_version_like(end))
}

fn is_version_like(text: &str) -> bool {
    let mut rest = text;
    for part in 0..3 {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        rest = rest.get(digits..).unwrap_or_default();
        let after = if part < 2 { rest.strip_prefix('.') } else { Some(rest) };
        match after {
            Some(after) if digits > 0 => rest = after,
            _ => return false,
        }
    }
    let is_identifier = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    let (pre, build) = match rest.split_once('+') {
        Some((pre, build)) => (pre, Some(build)),
        None => (rest, None),
    };
    let has_pre = match pre.strip_prefix('-') {
        Some(pre) => pre.split('.').all(is_identifier),
        None => pre.is_empty(),
    };
    has_pre && build.is_none_or(is_identifier)
}
