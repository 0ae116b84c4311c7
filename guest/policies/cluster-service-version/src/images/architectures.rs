//! Labels that declare the architectures and operating systems on which an Operator manages
//! workloads.
//!
//! On UPDATE, a rule evaluates only labels that change, because OLM adds its own labels to the
//! object.

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Fix, Shape, corrections, escape, rule, rules};

use super::features;
use crate::csv::Csv;
use crate::targets::{CATALOG, CSV};

rules![CSV_73, CSV_74, CSV_75, CSV_76, CSV_77];

const ARCH_LABEL_PREFIX: &str = "operatorframework.io/arch.";
const OS_LABEL_PREFIX: &str = "operatorframework.io/os.";
const SUPPORTED: &str = "supported";

const KNOWN_ARCHES: [&str; 4] = ["amd64", "arm64", "ppc64le", "s390x"];
const KNOWN_SYSTEMS: [&str; 2] = ["linux", "zos"];
/// The architecture of a CSV without such labels.
const DEFAULT_ARCH: &str = "amd64";
const DEFAULT_OS: &str = "linux";
/// Architectures with cryptographic libraries that are validated.
const FIPS_ARCHES: [&str; 3] = ["amd64", "ppc64le", "s390x"];

rule! {
    /// labels of architectures and operating systems have the value supported
    ///
    /// The value of each label `operatorframework.io/arch.<arch>` and
    /// `operatorframework.io/os.<os>` is `supported`. On UPDATE, a label whose value does not
    /// change is not evaluated.
    ///
    /// # Why
    ///
    /// Operators are filtered by these labels with exactly this value (OpenShift 4.12, Operators,
    /// *Enabling your Operator for multiple architectures and operating systems*). With any other
    /// value the label has no effect.
    ///
    /// # Remediation
    ///
    /// Set the value to `supported`, or remove the label.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// labels: {operatorframework.io/arch.amd64: supported, operatorframework.io/os.linux: supported}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// labels: {operatorframework.io/arch.amd64: "true"}
    /// ```
    ///
    /// `message: label operatorframework.io/arch.amd64 must have the value supported`
    CSV_73: Warn {
        name: "valid-platform-label-value",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L19801-19813, L19850-19856", "OCP 4.15 L14635-14692"],
    }
}

rule! {
    /// labels of architectures name supported architectures
    ///
    /// `<arch>` of each label `operatorframework.io/arch.<arch>` is listed in the setting
    /// `csv.arches` (default: `amd64`, `arm64`, `ppc64le` and `s390x`). OpenShift before 4.15 does
    /// not list `arm64`; remove it from the setting for such clusters. On UPDATE, a label that the
    /// old object has is not evaluated.
    ///
    /// # Why
    ///
    /// Operators are filtered by these strings (OpenShift 4.12, Operators, *Architecture and
    /// operating system support for Operators*). `x86_64` or `aarch64` match no node.
    ///
    /// # Remediation
    ///
    /// Use the string for the architecture: `amd64` for x86-64, `ppc64le` for IBM Power, `s390x`
    /// for IBM Z.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// labels: {operatorframework.io/arch.ppc64le: supported, operatorframework.io/arch.amd64: supported}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// labels: {operatorframework.io/arch.x86_64: supported}
    /// ```
    ///
    /// `message: "x86_64" is not a supported architecture string`
    CSV_74: Warn {
        name: "known-architecture-labels",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L19808, L19878-19905, L19937", "OCP 4.15 L14700-14708, L14720", "OCP 4.5 L6499-6517"],
    }
}

rule! {
    /// labels of operating systems name supported operating systems
    ///
    /// `<os>` of each label `operatorframework.io/os.<os>` is listed in the setting `csv.oses`
    /// (default: `linux` and `zos`). On UPDATE, a label that the old object has is not evaluated.
    ///
    /// # Why
    ///
    /// Operators are filtered by these strings (OpenShift 4.12, Operators, *Architecture and
    /// operating system support for Operators*). A cluster has no nodes for other operating
    /// systems.
    ///
    /// # Remediation
    ///
    /// Use `linux` or `zos`, or add the operating system to the setting `csv.oses`.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// labels: {operatorframework.io/os.zos: supported, operatorframework.io/os.linux: supported}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// labels: {operatorframework.io/os.windows: supported}
    /// ```
    ///
    /// `message: "windows" is not a supported operating system string`
    CSV_75: Warn {
        name: "known-operating-system-labels",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L19813, L19912-19937", "OCP 4.15 L14710-14720", "OCP 4.5 L6519-6534"],
    }
}

rule! {
    /// a ClusterServiceVersion that adds a platform keeps the default ones
    ///
    /// If a label `operatorframework.io/arch.<arch>` names another architecture than `amd64`, or a
    /// label `operatorframework.io/os.<os>` another operating system than `linux`, both labels
    /// `operatorframework.io/os.linux` and `operatorframework.io/arch.amd64` are set. With the
    /// setting `csv.archDefaults: family`, another architecture needs only `arch.amd64`, and
    /// another operating system only `os.linux`. A CSV without such labels, or with the default
    /// ones only, is accepted. On UPDATE, the rule evaluates these labels only if they change.
    ///
    /// # Why
    ///
    /// OLM assumes the default platform only if there is no such label (OpenShift 4.12, Operators,
    /// *Enabling your Operator for multiple architectures and operating systems*). With the first
    /// label the Operator disappears from clusters with default nodes.
    ///
    /// # Remediation
    ///
    /// Add the label of the default platform. If the Operator does not support it, ignore the
    /// warning.
    ///
    /// `opgate check --fix --unsafe-fixes` proposes a correction.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// labels: {operatorframework.io/os.linux: supported}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// labels: {operatorframework.io/arch.s390x: supported}
    /// ```
    ///
    /// `message: after adding an architecture or operating system, include the default os.linux
    /// variant explicitly`, and the same for `arch.amd64`
    CSV_76: Warn {
        name: "keep-default-platforms",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L19824-19832, L19850-19859", "OCP 4.15 L14658-14692"],
    }
}

rule! {
    /// a ClusterServiceVersion that claims FIPS lists architectures that have FIPS libraries
    ///
    /// A CSV claims FIPS if the JSON list in its annotation
    /// `operators.openshift.io/infrastructure-features` has `fips`, or if its annotation
    /// `features.operators.openshift.io/fips-compliant` is `"true"`. Then no label
    /// `operatorframework.io/arch.<arch>` with the value `supported` names another architecture
    /// than `amd64` (x86-64), `ppc64le` and `s390x`. On UPDATE, a label that the old object has is
    /// not evaluated unless the claim is new.
    ///
    /// # Why
    ///
    /// OpenShift supports validated cryptographic libraries on these architectures only (OpenShift
    /// 4.12, Operators, *Infrastructure features*). The claim is wrong on nodes of other
    /// architectures.
    ///
    /// # Remediation
    ///
    /// Remove the label, or the claim.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// annotations: {features.operators.openshift.io/fips-compliant: "true"}
    /// labels: {operatorframework.io/arch.amd64: supported}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// annotations: {features.operators.openshift.io/fips-compliant: "true"}
    /// labels: {operatorframework.io/arch.arm64: supported}
    /// ```
    ///
    /// `message: FIPS libraries are only supported on x86_64, ppc64le and s390x; label
    /// operatorframework.io/arch.arm64 found`
    CSV_77: Warn {
        name: "fips-capable-architectures",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L19421-19428", "OCP 4.15 L14332, L14384"],
    }
}

fn claims_fips(csv: &Document) -> bool {
    features::claims_feature(csv, "fips", "fips-compliant")
}

/// Whether the labels of architectures allow a claim of FIPS.
pub(super) fn allow_fips(csv: &Csv<'_, '_>) -> bool {
    let mut arches = csv.labels().iter().filter_map(|label| label.strip_prefix(ARCH_LABEL_PREFIX));
    arches.all(|arch| FIPS_ARCHES.contains(&arch))
}

pub(super) fn check(csv: &mut Csv<'_, '_>) {
    let is_platform =
        |name: &&String| name.starts_with(ARCH_LABEL_PREFIX) || name.starts_with(OS_LABEL_PREFIX);
    let labels: Vec<String> = csv.labels().iter().filter(is_platform).cloned().collect();
    if labels.is_empty() {
        return;
    }
    let object = csv.object;
    let settings = csv.review.settings;
    let is_one_of = |pointer: &str, defaults: &[&str], name: &str| {
        if settings.has(pointer) {
            settings.texts(pointer).iter().any(|known| known == name)
        } else {
            defaults.contains(&name)
        }
    };
    let is_fips = claims_fips(object);
    let is_fips_new = is_fips && csv.ratchet_base().is_none_or(|old| !claims_fips(old));
    for label in &labels {
        let pointer = pointer(label);
        let field = format!("metadata.labels[{label}]");
        let is_new = csv.touches(&pointer, &Shape::Scalar);
        let is_supported = object.text(&pointer).is_some_and(|value| value == SUPPORTED);
        if is_new && !is_supported {
            csv.add(&CSV_73, &field, format!("label {label} must have the value supported"));
            csv.fix(&CSV_73, || {
                let value = object.text(&pointer)?;
                let is_meant = corrections::boolean(&value)
                    .or_else(|| corrections::word(&value, &[SUPPORTED]).map(|_| true))
                    .or_else(|| corrections::word(&value, &["unsupported"]).map(|_| false))?;
                Some(if is_meant {
                    corrections::write(pointer, SUPPORTED)
                } else {
                    let title = "remove the label of an unsupported platform";
                    Fix::needs_review(title).remove(pointer)
                })
            });
        }
        if let Some(arch) = label.strip_prefix(ARCH_LABEL_PREFIX) {
            if is_new && !is_one_of("/csv/arches", &KNOWN_ARCHES, arch) {
                let message = format!("{} is not a supported architecture string", quote(arch));
                csv.add(&CSV_74, &field, message);
                let meant =
                    arch_alias(arch).filter(|arch| is_one_of("/csv/arches", &KNOWN_ARCHES, arch));
                csv.fix(&CSV_74, || Some(rename_label(label, ARCH_LABEL_PREFIX, meant?, &labels)));
            }
            if (is_new || is_fips_new) && is_fips && is_supported && !FIPS_ARCHES.contains(&arch) {
                let message = format!(
                    "FIPS libraries are only supported on x86_64, ppc64le and s390x; label {label} found"
                );
                csv.add(&CSV_77, &field, message);
            }
        }
        if let Some(os) = label.strip_prefix(OS_LABEL_PREFIX)
            && is_new
            && !is_one_of("/csv/oses", &KNOWN_SYSTEMS, os)
        {
            let message = format!("{} is not a supported operating system string", quote(os));
            csv.add(&CSV_75, &field, message);
            let meant = corrections::word(os, &KNOWN_SYSTEMS)
                .filter(|os| is_one_of("/csv/oses", &KNOWN_SYSTEMS, os));
            csv.fix(&CSV_75, || Some(rename_label(label, OS_LABEL_PREFIX, meant?, &labels)));
        }
    }
    check_default_labels(csv, &labels);
}

/// The architecture with another name.
fn arch_alias(name: &str) -> Option<&'static str> {
    const ALIASES: [(&str, &str); 8] = [
        ("x86_64", "amd64"),
        ("x86-64", "amd64"),
        ("x64", "amd64"),
        ("aarch64", "arm64"),
        ("armv8", "arm64"),
        ("ppc64el", "ppc64le"),
        ("powerpc64le", "ppc64le"),
        ("s390", "s390x"),
    ];
    let alias = ALIASES.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(name));
    alias.map(|(_, arch)| *arch).or_else(|| corrections::word(name, &KNOWN_ARCHES))
}

/// The label with the name of a known platform, or without it if that label is there.
fn rename_label(label: &str, prefix: &str, meant: &str, labels: &[String]) -> Fix {
    let right = format!("{prefix}{meant}");
    if labels.contains(&right) {
        let title = format!("remove the label, {right} is there");
        return Fix::needs_review(title).remove(pointer(label));
    }
    Fix::safe(format!("rename the label to {right}")).rename_key(pointer(label), right)
}

/// CSV-76.
fn check_default_labels(csv: &mut Csv<'_, '_>, labels: &[String]) {
    let old = csv.ratchet_base();
    let before = old.map(|old| old.keys("/metadata/labels")).unwrap_or_default();
    let before = before
        .iter()
        .filter(|name| name.starts_with(ARCH_LABEL_PREFIX) || name.starts_with(OS_LABEL_PREFIX));
    if old.is_some() && before.eq(labels) {
        return;
    }
    let adds = |prefix: &str, default: &str| {
        labels.iter().filter_map(|label| label.strip_prefix(prefix)).any(|name| name != default)
    };
    let (arch, os) = (adds(ARCH_LABEL_PREFIX, DEFAULT_ARCH), adds(OS_LABEL_PREFIX, DEFAULT_OS));
    let is_literal = csv.review.settings.text_or_empty("/csv/archDefaults") != "family";
    let any = is_literal && (arch || os);
    for (is_needed, prefix, variant) in [
        (os || any, OS_LABEL_PREFIX, format!("os.{DEFAULT_OS}")),
        (arch || any, ARCH_LABEL_PREFIX, format!("arch.{DEFAULT_ARCH}")),
    ] {
        let name = variant.split_once('.').map_or("", |(_, name)| name);
        if is_needed && !labels.iter().any(|label| label.strip_prefix(prefix) == Some(name)) {
            let message = format!(
                "after adding an architecture or operating system, include the default {variant} variant explicitly"
            );
            csv.add(&CSV_76, "metadata.labels", message);
            // The fix of CSV-74 or CSV-75 renames a label that means it.
            let means_it = |label: &String| {
                label.strip_prefix(prefix).is_some_and(|other| {
                    arch_alias(other) == Some(name) || corrections::word(other, &[name]).is_some()
                })
            };
            if labels.iter().any(means_it) {
                continue;
            }
            csv.fix(&CSV_76, || {
                let fix = Fix::needs_review(format!("add the label of {variant}"));
                Some(fix.set_text(pointer(&format!("{prefix}{name}")), SUPPORTED))
            });
        }
    }
}

/// The pointer of a label.
fn pointer(label: &str) -> String {
    format!("/metadata/labels/{}", escape(label))
}
