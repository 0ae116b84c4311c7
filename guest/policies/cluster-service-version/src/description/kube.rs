//! The Kubernetes version that an Operator needs.

use opgate_compat::version::Version;
use opgate_sdk::corrections::{self, ScalarText};
use opgate_sdk::{InputType, Shape, rule, rules};

use super::MAX_VERSION_BYTES;
use crate::csv::Csv;
use crate::kubernetes_version;
use crate::targets::{CATALOG, CSV};

rules![CSV_21, CSV_22];

const MIN_KUBE: &str = "/spec/minKubeVersion";

rule! {
    /// spec.minKubeVersion is set
    ///
    /// `spec.minKubeVersion` is set and not blank. Copies that OLM makes are exempt. An UPDATE is
    /// evaluated only if it changes the field.
    ///
    /// # Why
    ///
    /// Without it, OLM installs the Operator on every cluster, including clusters whose Kubernetes
    /// version is too old for it. The validators of operator-framework/api also warn.
    ///
    /// # Remediation
    ///
    /// Set the oldest version of Kubernetes that you test with, as `MAJOR.MINOR.PATCH`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {minKubeVersion: 1.25.0}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {displayName: etcd}
    /// ```
    ///
    /// `message: csv.Spec.minKubeVersion is not informed. It is recommended you provide this
    /// information. Otherwise, it would mean that your operator project can be distributed and
    /// installed in any cluster version available, which is not necessarily the case for all
    /// projects.`
    CSV_21: Warn {
        name: "csv-has-min-kube-version",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["api pkg/validation/internal/csv.go, pkg/validation/internal/operatorhub.go"],
    }
}

rule! {
    /// spec.minKubeVersion is a strict semantic version
    ///
    /// `spec.minKubeVersion`, if not blank, is `MAJOR.MINOR.PATCH` with an optional pre-release and
    /// optional build metadata, without spaces. In a bundle it is strict, without a `v` before it
    /// and without leading zeros, as `operator-sdk bundle validate` requires. At admission, in
    /// catalogs and in single manifests OLM must be able to read it: OLM removes one `v`, and
    /// tolerates leading zeros. Copies that OLM makes are exempt. An UPDATE is evaluated only if it
    /// changes the field.
    ///
    /// # Why
    ///
    /// OLM compares the version with that of the cluster. If OLM cannot read the version, it does
    /// not install the ClusterServiceVersion. The validators of operator-framework/api reject the
    /// bundle.
    ///
    /// # Remediation
    ///
    /// Write all three numbers, without a `v` before them: `1.21.0` for `1.21` and for `v1.21.0`.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {minKubeVersion: 1.21.0}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {minKubeVersion: "1.21"}
    /// ```
    ///
    /// `message: csv.Spec.MinKubeVersion has an invalid value: 1.21`
    ///
    /// In a bundle, for `v1.21.0`: `message: csv.Spec.MinKubeVersion has an invalid value: v1.21.0;
    /// remove the v`
    CSV_22: Deny {
        name: "strict-semver-min-kube-version",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["api pkg/validation/internal/csv.go, pkg/validation/internal/csv_test.go"],
    }
}

pub(crate) fn check(csv: &mut Csv<'_, '_>) {
    const UNSET_MESSAGE: &str = "csv.Spec.minKubeVersion is not informed. It is recommended you provide this information. Otherwise, it would mean that your operator project can be distributed and installed in any cluster version available, which is not necessarily the case for all projects.";
    if !csv.touches(MIN_KUBE, &Shape::Scalar) {
        return;
    }
    let (text, is_text) = match csv.object.text(MIN_KUBE) {
        Some(text) => (text, true),
        None if csv.object.is_blank(MIN_KUBE) => (String::new(), true),
        // Most likely a number, which cannot be decoded.
        None => {
            let raw = csv.object.raw(MIN_KUBE).unwrap_or_default();
            (String::from_utf8_lossy(&raw).into_owned(), false)
        }
    };
    if text.trim().is_empty() {
        csv.add(&CSV_21, "spec.minKubeVersion", UNSET_MESSAGE);
    } else if !is_text
        || text.len() > MAX_VERSION_BYTES
        || !is_validated(csv.review.input_type(), &text)
    {
        let has_v = text.strip_prefix('v').is_some_and(|rest| Version::parse(rest).is_ok());
        let hint = if has_v { "; remove the v" } else { "" };
        let message = format!("csv.Spec.MinKubeVersion has an invalid value: {text}{hint}");
        csv.add(&CSV_22, "spec.minKubeVersion", message);
        let object = csv.object;
        csv.fix(&CSV_22, || {
            let strict = corrections::version(&text)?;
            match ScalarText::read(object, MIN_KUBE) {
                Some(scalar) => Some(ScalarText { text: strict, ..scalar }.fix(MIN_KUBE)),
                None => is_text.then(|| corrections::write(MIN_KUBE, &strict)),
            }
        });
    }
}

/// Whether the program that reads the object accepts the version: operator-sdk for a bundle, OLM
/// otherwise.
fn is_validated(input: InputType, version: &str) -> bool {
    match input {
        InputType::Bundle => Version::parse(version).is_ok(),
        _ => kubernetes_version::is_read_by_olm(version),
    }
}
