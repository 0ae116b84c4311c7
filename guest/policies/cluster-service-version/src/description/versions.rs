//! The version of an Operator, and its release.

use opgate_compat::json;
use opgate_compat::version::Version;
use opgate_sdk::corrections::{self, ScalarText};
use opgate_sdk::go::quote;
use opgate_sdk::{Document, Fix, Kind, Shape, rule, rules};

use super::{MAX_VERSION_BYTES, quote_start};
use crate::csv::Csv;
use crate::targets::{CATALOG, CSV};

rules![CSV_06, CSV_07, CSV_08, CSV_14, CSV_24];

pub(crate) const VERSION: &str = "/spec/version";
const RELEASE: &str = "/spec/release";

/// Maximum length of a release, in characters.
const MAX_RELEASE_CHARS: usize = 20;

pub(crate) fn check(csv: &mut Csv<'_, '_>) {
    if is_touched(csv) {
        check_version(csv);
        check_unchanged(csv);
    }
    if csv.touches(RELEASE, &Shape::Scalar) {
        check_release(csv);
    }
}

/// Whether the version must be evaluated. OLM normalizes the version when it writes the object:
/// `v1.0` becomes `1.0.0`, and a missing version becomes `0.0.0`.
pub(crate) fn is_touched(csv: &Csv<'_, '_>) -> bool {
    csv.ratchet_base().is_none_or(|old| !is_same(csv.object, old))
}

fn is_same(object: &Document, old: &Document) -> bool {
    object.equal(VERSION, old, VERSION) || {
        let (new, old) = (read_version(object), read_version(old));
        new.is_some() && new == old
    }
}

/// The version as OLM writes it; none if OLM cannot read it.
fn read_version(object: &Document) -> Option<String> {
    if object.kind(VERSION) == Kind::Missing {
        return Some("0.0.0".to_owned());
    }
    let text = object.text(VERSION).filter(|text| text.len() <= MAX_VERSION_BYTES)?;
    let Version { major, minor, patch, .. } = Version::parse_tolerant(&text).ok()?;
    let rest = text.trim().find(['-', '+']).and_then(|at| text.trim().get(at..));
    Some(format!("{major}.{minor}.{patch}{}", rest.unwrap_or_default()))
}

rule! {
    /// spec.version is a version that OLM can read
    ///
    /// `spec.version`, if set, is a string that OLM reads as a semantic version. OLM tolerates
    /// spaces around it, a `v` before it, missing minor and patch numbers, and leading zeros;
    /// CSV-07 warns of that. Copies that OLM makes are exempt. An UPDATE is evaluated only if it
    /// changes the version.
    ///
    /// # Why
    ///
    /// Every program that decodes the ClusterServiceVersion fails on the whole object: OLM, the
    /// validators of operator-framework/api and the tools that build catalogs
    /// (`pkg/lib/version/version.go`).
    ///
    /// # Remediation
    ///
    /// Write `MAJOR.MINOR.PATCH`. Quote a version in YAML that looks like a number.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {version: 1.0.0-rc.1+build.5}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {version: latest}
    /// ```
    ///
    /// `message: spec.version: Invalid value: "latest": Invalid character(s) found in major number
    /// "0latest"`
    CSV_06: Deny {
        name: "parsable-csv-version",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L19170, L19265-19269", "OCP 4.15 L14288", "api pkg/lib/version/version.go"],
    }
}

rule! {
    /// spec.version is a strict semantic version
    ///
    /// `spec.version`, if OLM can read it (CSV-06), is `MAJOR.MINOR.PATCH`, with an optional
    /// pre-release and optional build metadata, as semver.org defines it. Copies that OLM makes are
    /// exempt. An UPDATE is evaluated only if it changes the version.
    ///
    /// # Why
    ///
    /// OLM tolerates more, but other tools also read the version and must not guess. The documents
    /// require a semantic version (OpenShift 4.12, Operators, *Manually-defined CSV fields*).
    ///
    /// # Remediation
    ///
    /// Write all three numbers, without a `v` and without leading zeros.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {version: 0.1.1}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {version: "1.0"}
    /// ```
    ///
    /// `message: spec.version "1.0" is not a strict semantic version: No Major.Minor.Patch elements
    /// found`
    CSV_07: Warn {
        name: "strict-semver-csv-version",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L19265-19269"],
    }
}

rule! {
    /// spec.version is set
    ///
    /// `spec.version` is set and not `0.0.0`, which OLM writes for a missing version. The setting
    /// `csv.requiredFields: deny` makes this rule deny. Copies that OLM makes are exempt. An UPDATE
    /// is evaluated only if it changes the version.
    ///
    /// # Why
    ///
    /// The documents list the field as required (OpenShift 4.12, Operators, *Manually-defined CSV
    /// fields*). Dependencies on versions and `olm.skipRange` have no effect on an Operator without
    /// a version, and OperatorHub does not accept it.
    ///
    /// # Remediation
    ///
    /// Set the semantic version of the Operator.
    ///
    /// `opgate check --fix --unsafe-fixes` proposes a correction.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {version: 0.0.1}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {displayName: etcd}
    /// ```
    ///
    /// `message: csv.Spec.Version must be set`
    CSV_14: Warn {
        name: "csv-has-version",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        denies_with: ["/csv/requiredFields"],
        source: ["OCP 4.12 L19185, L19265-19269", "OCP 4.15 L14288", "api pkg/validation/internal/operatorhub.go"],
    }
}

fn check_version(csv: &mut Csv<'_, '_>) {
    const UNSET_MESSAGE: &str = "csv.Spec.Version must be set";
    let text = match csv.object.kind(VERSION) {
        Kind::Missing if !csv.has_member_set("version") => return,
        Kind::Missing => {
            csv.add(&CSV_14, "spec.version", UNSET_MESSAGE);
            return fix_unset(csv);
        }
        Kind::Null => String::new(),
        Kind::Text => csv.object.text_or_empty(VERSION),
        _ => {
            let raw = csv.object.raw(VERSION).unwrap_or_default();
            let word = json::kind(&raw).map_or("value", json::Kind::go_name);
            let message = format!(
                "spec.version: Invalid value: {}: json: cannot unmarshal {word} into Go value of type string",
                quote(&String::from_utf8_lossy(&raw))
            );
            csv.add(&CSV_06, "spec.version", message);
            let (object, name) = (csv.object, csv.name.clone());
            return csv.fix(&CSV_06, || {
                let scalar = ScalarText::read(object, VERSION)?;
                let text = corrections::version(&scalar.text).filter(|v| is_in_name(v, &name))?;
                Some(ScalarText { text, ..scalar }.fix(VERSION))
            });
        }
    };
    // A strict version is also tolerated, and has the same meaning.
    if text.len() > MAX_VERSION_BYTES {
        let message = format!(
            "spec.version: Invalid value: {}: more than {MAX_VERSION_BYTES} bytes",
            quote_start(&text)
        );
        return csv.add(&CSV_06, "spec.version", message);
    }
    let (version, slack) = match Version::parse(&text) {
        Ok(version) => (version, None),
        Err(why) => match Version::parse_tolerant(&text) {
            Ok(version) => (version, Some(why)),
            Err(why) => {
                let message = format!("spec.version: Invalid value: {}: {why}", quote(&text));
                return csv.add(&CSV_06, "spec.version", message);
            }
        },
    };
    if (version.major, version.minor, version.patch) == (0, 0, 0) && version.pre.is_empty() {
        csv.add(&CSV_14, "spec.version", UNSET_MESSAGE);
        fix_unset(csv);
    }
    if let Some(why) = slack {
        let message =
            format!("spec.version {} is not a strict semantic version: {why}", quote(&text));
        csv.add(&CSV_07, "spec.version", message);
        let name = csv.name.clone();
        csv.fix(&CSV_07, || {
            let strict = corrections::version(&text).filter(|strict| is_in_name(strict, &name))?;
            Some(corrections::write(VERSION, &strict))
        });
    }
}

/// Whether the name of the object allows the version: it contains the version, or there is none (CSV-04).
fn is_in_name(version: &str, name: &str) -> bool {
    let without_build = version.split('+').next().unwrap_or_default();
    name.is_empty() || name.contains(without_build)
}

/// The version that the name of the object has, `operator.v1.0.0`.
fn fix_unset(csv: &mut Csv<'_, '_>) {
    let name = csv.name.clone();
    let is_new = csv.review.old_of_update().is_none();
    csv.fix(&CSV_14, || {
        let (_, version) = name.split_once(".v")?;
        let parsed = Version::parse(version).ok()?;
        let is_set = is_new && (parsed.major, parsed.minor, parsed.patch) != (0, 0, 0);
        let fix = Fix::needs_review("set the version in the name of the ClusterServiceVersion");
        is_set.then(|| fix.set_text(VERSION, version))
    });
}

rule! {
    /// the version of a ClusterServiceVersion does not change
    ///
    /// An UPDATE does not change `spec.version`. The same version in another notation, for example
    /// `1.0.0` for `v1.0`, is no change. Adding a missing version is no change either. Copies that
    /// OLM makes are exempt.
    ///
    /// # Why
    ///
    /// A new version of an Operator is a new ClusterServiceVersion, which replaces the previous one
    /// (OpenShift 4.12, Operators, *Version management*). OLM does not notice another version in
    /// the same object: the catalog and the cluster differ from then on.
    ///
    /// # Remediation
    ///
    /// Create a ClusterServiceVersion with the new version in its name, and with `spec.replaces`.
    ///
    /// # Accepted
    ///
    /// An UPDATE that changes `spec.description` only:
    ///
    /// ```yaml
    /// spec: {version: 0.1.1, description: A better text}
    /// ```
    ///
    /// # Rejected
    ///
    /// An UPDATE from version 0.1.1:
    ///
    /// ```yaml
    /// spec: {version: 0.1.2}
    /// ```
    ///
    /// `message: spec.version changed from "0.1.1" to "0.1.2"; generate a new ClusterServiceVersion
    /// instead`
    CSV_08: Warn {
        name: "immutable-csv-version",
        on: [CSV: Update],
        source: ["OCP 4.12 L19173", "OCP 4.15 L14267"],
    }
}

fn check_unchanged(csv: &mut Csv<'_, '_>) {
    let Some(old) = csv.review.old_of_update().filter(|old| !is_same(csv.object, old)) else {
        return;
    };
    let (before, now) = (old.text_or_empty(VERSION), csv.object.text_or_empty(VERSION));
    if before.is_empty() || read_version(old).is_some_and(|version| version == "0.0.0") {
        return;
    }
    let message = format!(
        "spec.version changed from {} to {}; generate a new ClusterServiceVersion instead",
        quote(&before),
        quote(&now)
    );
    csv.add(&CSV_08, "spec.version", message);
}

rule! {
    /// spec.release has the syntax of a pre-release
    ///
    /// `spec.release`, if set, has at most 20 characters: identifiers of letters, digits and `-`,
    /// with dots between them. An identifier of digits only has no leading zero. Copies that OLM
    /// makes are exempt. An UPDATE is evaluated only if it changes the field.
    ///
    /// # Why
    ///
    /// The release distinguishes builds of one version, and is compared like a pre-release. The CRD
    /// of ClusterServiceVersions rejects other values, so a bundle with such a value cannot be
    /// installed.
    ///
    /// # Remediation
    ///
    /// Use a counter (`1`, `2`) or words with dots between them (`1.alpha`). Quote it in YAML.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {release: 1.alpha}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {release: "01"}
    /// ```
    ///
    /// `message: numeric identifiers in release version must not have leading zeros`
    ///
    /// For `1_2`: `message: release version must be composed of dot-separated identifiers
    /// containing only alphanumerics and hyphens`
    CSV_24: Deny {
        name: "valid-csv-release",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["api crds/operators.coreos.com_clusterserviceversions.yaml"],
    }
}

/// The checks of the CRD's schema. Its rules are not evaluated if the value is too long.
fn check_release(csv: &mut Csv<'_, '_>) {
    let kind = match csv.object.kind(RELEASE) {
        Kind::Missing => return,
        // Upstream reads `null` as an empty text.
        Kind::Text | Kind::Null => return check_release_text(csv),
        Kind::Boolean => "boolean",
        Kind::Number if csv.object.integer(RELEASE).is_some() => "integer",
        Kind::Number => "number",
        Kind::List => "array",
        Kind::Object => "object",
    };
    let message = format!(
        "spec.release: Invalid value: \"{kind}\": spec.release in body must be of type string: \"{kind}\""
    );
    csv.add(&CSV_24, "spec.release", message);
}

fn check_release_text(csv: &mut Csv<'_, '_>) {
    let text = csv.object.text_or_empty(RELEASE);
    if text.chars().nth(MAX_RELEASE_CHARS).is_some() {
        let message = format!("spec.release: Too long: may not be longer than {MAX_RELEASE_CHARS}");
        return csv.add(&CSV_24, "spec.release", message);
    }
    let is_identifier = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    if !text.split('.').all(is_identifier) {
        let message = "release version must be composed of dot-separated identifiers containing only alphanumerics and hyphens";
        csv.add(&CSV_24, "spec.release", message);
    }
    let has_zero = |part: &str| {
        part.len() > 1 && part.starts_with('0') && part.bytes().all(|b| b.is_ascii_digit())
    };
    if text.split('.').any(has_zero) {
        let message = "numeric identifiers in release version must not have leading zeros";
        csv.add(&CSV_24, "spec.release", message);
    }
}
