//! Annotations of any object: those of custom resources that Ansible Operators read, and values
//! that are not strings.
//!
//! ```text
//! files ───────────────▶ in_files ────┬▶ reconcile period, artifacts, verbosity
//! requests, if a ──────▶ in_requests ─┘
//! setting names kinds   in_files ──────▶ values of annotations and labels
//! ```

use opgate_compat::go::duration;
use opgate_compat::json::{self, Kind};
use opgate_sdk::go::{quote, shorten};
use opgate_sdk::{Document, Report, Review, corrections, escape, rule, rules};

use crate::targets::{CUSTOM_RESOURCE, MANIFEST};

rules![MSC_10, MSC_11, MSC_20];

/// Maximum bytes of a value in a message.
const MAX_SHOWN_BYTES: usize = 256;
const RECONCILE_PERIOD: &str = "ansible.operator-sdk/reconcile-period";
const NUMERIC_ANNOTATIONS: [&str; 2] =
    ["ansible.operator-sdk/max-runner-artifacts", "ansible.sdk.operatorframework.io/verbosity"];

/// An object in files.
pub(crate) fn check_in_files(review: &Review<'_>, report: &mut Report<'_>) {
    // A document that represents files is not a manifest.
    if review.request.resource().group == "opgate.dev" {
        return;
    }
    let Some(object) = review.subject() else { return };
    check_ansible(review, object, report);
    for map in ["annotations", "labels"] {
        check_values(review, object, map, report);
    }
}

/// A custom resource of a kind that the settings name.
pub(crate) fn check_in_requests(review: &Review<'_>, report: &mut Report<'_>) {
    // Another target covers every object in files.
    if review.settings.boolean("/files") == Some(true) {
        return;
    }
    let Some(object) = review.subject() else { return };
    let requested = review.request.resource();
    let is_named = |kind: &String| {
        let named = kind.split_once('/');
        named.is_some_and(|(group, resource)| {
            group == requested.group && (resource == "*" || resource == requested.resource)
        })
    };
    if review.settings.texts("/misc/customResources").iter().any(is_named) {
        check_ansible(review, object, report);
    }
}

/// The value of an annotation that the rules evaluate.
fn changed_text(review: &Review<'_>, object: &Document, annotation: &str) -> Option<String> {
    let pointer = format!("/metadata/annotations/{}", escape(annotation));
    let value = object.text(&pointer)?;
    review.touches_json(object, &pointer).then_some(value)
}

fn check_ansible(review: &Review<'_>, object: &Document, report: &mut Report<'_>) {
    if let Some(period) = changed_text(review, object, RECONCILE_PERIOD)
        && !is_period(&period)
    {
        let value = quote(&shorten(&period, MAX_SHOWN_BYTES));
        let message = format!("annotation {RECONCILE_PERIOD} {value} is not a duration");
        report.add(&MSC_10, format!("metadata.annotations[{RECONCILE_PERIOD}]"), message);
        report.set_fix(&MSC_10, || {
            let pointer = format!("/metadata/annotations/{}", escape(RECONCILE_PERIOD));
            Some(corrections::write(pointer, &corrections::go_duration(&period)?))
        });
    }
    for name in NUMERIC_ANNOTATIONS {
        if let Some(number) = changed_text(review, object, name)
            && !number.parse::<i64>().is_ok_and(|number| number >= 0)
        {
            let value = quote(&shorten(&number, MAX_SHOWN_BYTES));
            let message = format!("annotation {name} {value} is not a non-negative integer");
            report.add(&MSC_11, format!("metadata.annotations[{name}]"), message);
        }
    }
}

rule! {
    /// the reconcile period of a custom resource is a duration
    ///
    /// The annotation `ansible.operator-sdk/reconcile-period` is a Go duration, such as `30s` or
    /// `1h30m`, or a number of seconds. The rule ignores a block `annotations` outside of
    /// `metadata`, which has no effect. `opgate check` evaluates every object in files. The webhook
    /// gets requests for the rule only if the setting `misc.customResources` names kinds, such as
    /// `cache.example.com/memcacheds`. The rule evaluates an UPDATE only if it changes the
    /// annotation.
    ///
    /// # Why
    ///
    /// An Ansible Operator that cannot parse the period reports an error and does not reconcile the
    /// object (OpenShift 4.12, Operators, *Custom resource files* of Ansible-based Operators).
    ///
    /// # Remediation
    ///
    /// Write a number with a unit: `ns`, `us`, `ms`, `s`, `m` or `h`. Quote it, because the value
    /// of an annotation is a string.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// metadata: {annotations: {ansible.operator-sdk/reconcile-period: "30s"}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// metadata: {annotations: {ansible.operator-sdk/reconcile-period: "soon"}}
    /// ```
    ///
    /// `message: annotation ansible.operator-sdk/reconcile-period "soon" is not a duration`
    MSC_10: Warn {
        name: "valid-reconcile-period-annotation",
        on: [MANIFEST: Create | Update, CUSTOM_RESOURCE: Create | Update],
        source: ["OCP 4.12 L14207-14227, L14368-14376, L14802-14822", "OCP 4.15 L10739-10805"],
    }
}

fn is_period(text: &str) -> bool {
    let is_number = !text.is_empty()
        && text
            .strip_prefix(['-', '+'])
            .unwrap_or(text)
            .bytes()
            .all(|b| b == b'.' || b.is_ascii_digit());
    duration::check(text).is_ok() || is_number && duration::check(&format!("{text}s")).is_ok()
}

rule! {
    /// the number of artifacts and the verbosity of a custom resource are numbers
    ///
    /// The annotations `ansible.operator-sdk/max-runner-artifacts` and
    /// `ansible.sdk.operatorframework.io/verbosity` are whole numbers that are not negative.
    /// `opgate check` evaluates every object in files. The webhook gets requests for the rule only
    /// if the setting `misc.customResources` names kinds. On UPDATE, the rule evaluates only the
    /// annotations that the request changes.
    ///
    /// # Why
    ///
    /// An Ansible Operator ignores another value, and uses that of `watches.yaml` or the default
    /// (OpenShift 4.12, Operators, *Advanced options* and *Enabling verbose debugging in logs*).
    ///
    /// # Remediation
    ///
    /// Write a number. Quote it, because the value of an annotation is a string.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// metadata: {annotations: {ansible.sdk.operatorframework.io/verbosity: "4"}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// metadata: {annotations: {ansible.operator-sdk/max-runner-artifacts: "-1"}}
    /// ```
    ///
    /// `message: annotation ansible.operator-sdk/max-runner-artifacts "-1" is not a non-negative
    /// integer`
    MSC_11: Warn {
        name: "numeric-ansible-operator-annotations",
        on: [MANIFEST: Create | Update, CUSTOM_RESOURCE: Create | Update],
        source: ["OCP 4.12 L14432-14448, L15099-15108"],
    }
}

rule! {
    /// values of annotations and labels are strings
    ///
    /// In every manifest, no value in `metadata.annotations` and `metadata.labels` is a list, an
    /// object, a number or a boolean. `null` counts as an empty string. The rule evaluates files
    /// only: an API server accepts no such object. Other rules read a list in an annotation as its
    /// JSON text.
    ///
    /// # Why
    ///
    /// An API server rejects the object. Examples of the documents have lost quotes in some
    /// editions (OpenShift 4.15, Operators, *Operator metadata annotations*), and YAML reads `true`
    /// and `1` as a boolean and a number.
    ///
    /// # Remediation
    ///
    /// Put the value in quotes.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// operators.openshift.io/infrastructure-features: '["disconnected", "proxy-aware"]'
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// operators.openshift.io/infrastructure-features: ["disconnected", "proxy-aware"]
    /// ```
    ///
    /// `message: metadata.annotations[operators.openshift.io/infrastructure-features] must be a
    /// string`
    MSC_20: Warn {
        name: "string-annotation-and-label-values",
        on: [MANIFEST: Create | Update],
        may_skip: true,
        source: ["OCP 4.12 L19465-19490, L20803, L21715", "OCP 4.15 L14344, L14394, L14420, L15843"],
    }
}

/// Maximum bytes of a map. A result of a host call holds 4 MiB.
const MAX_MAP_BYTES: u32 = 3 << 20;

fn check_values(review: &Review<'_>, object: &Document, map: &str, report: &mut Report<'_>) {
    let pointer = format!("/metadata/{map}");
    let Some(length) = object.length(&pointer).filter(|length| *length > 0) else { return };
    if !review.touches_json(object, &pointer) {
        return;
    }
    let field = format!("metadata.{map}");
    if object.size(&pointer).is_some_and(|size| size > MAX_MAP_BYTES) {
        let why = format!("{length} {map} are too large to be evaluated");
        return report.skip_part(&MSC_20, &field, &why);
    }
    let raw = object.raw(&pointer).unwrap_or_default();
    let mut wrong = Vec::new();
    let mut more = 0_usize;
    // The host has checked that it is JSON.
    let _ = json::each_child(&raw, |value| {
        let Some(key) = value.key.filter(|_| !matches!(value.kind, Kind::Text | Kind::Null)) else {
            return;
        };
        if wrong.len() < Report::MAX_VIOLATIONS {
            wrong.push(shorten(&json::decode_text(key), MAX_SHOWN_BYTES));
        } else {
            more = more.saturating_add(1);
        }
    });
    for key in wrong {
        let field = format!("{field}[{key}]");
        report.add(&MSC_20, &field, format!("{field} must be a string"));
        report.set_fix(&MSC_20, || {
            let value = format!("{pointer}/{}", escape(&key));
            corrections::string_fix(object, &value, map == "annotations")
        });
    }
    report.add_count(&MSC_20, more);
}
