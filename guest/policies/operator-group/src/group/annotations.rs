//! The annotations of an OperatorGroup. These rules read nothing else.

use opgate_sdk::go::{duration, quote};
use opgate_sdk::{Document, Fix, Report, Review, Shape, corrections, escape, names, rule, rules};

use crate::apis::ApiParts;
use crate::group_surface::PROVIDED_APIS;
use crate::kinds::GROUP;

rules![OPG_12, OPG_13, OPG_14];

/// Annotations of OLM whose case is easily misspelled.
const KNOWN_ANNOTATIONS: [&str; 5] = [
    "olm.operatorGroup",
    "olm.operatorNamespace",
    "olm.targetNamespaces",
    "olm.providedAPIs",
    "olm.skipRange",
];

/// Annotations with durations, and upstream's names for them.
const DURATION_ANNOTATIONS: [(&str, &str); 2] = [
    ("operatorframework.io/bundle-unpack-timeout", "timeout"),
    ("operatorframework.io/bundle-unpack-min-retry-interval", "retry"),
];

pub(crate) fn check(review: &Review<'_>, object: &Document, report: &mut Report<'_>) {
    if review.touches(object, PROVIDED_APIS, &Shape::Scalar) {
        check_provided_apis(&object.text_or_empty(PROVIDED_APIS), report);
    }
    check_spelling(review, object, report);
    check_durations(review, object, report);
}

rule! {
    /// the items of olm.providedAPIs are <kind>.<version>.<group>
    ///
    /// Each item of the annotation `olm.providedAPIs` is `<kind>.<version>.<group>`; commas
    /// separate items, and spaces and empty items do not count. An item is split at its first two
    /// dots, so the group keeps its own dots. Kind, version and group are valid Kubernetes names;
    /// the kind may have upper case letters. The rule evaluates an UPDATE only if it changes the
    /// annotation.
    ///
    /// # Why
    ///
    /// OLM ignores an item without two dots, and one with invalid names equals no API. In both
    /// cases the group does not protect the API that its author intended (OpenShift 4.12,
    /// Operators, *Provided APIs annotation*; OLM
    /// `pkg/controller/registry/resolver/cache/operators.go`).
    ///
    /// # Remediation
    ///
    /// Write the item as kind, version and group with dots in between. If the group is not static,
    /// leave the annotation to OLM.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// metadata:
    ///   annotations: {olm.providedAPIs: PackageManifest.v1alpha1.packages.apps.redhat.com}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// metadata: {annotations: {olm.providedAPIs: Goose.v1alpha1}}
    /// ```
    ///
    /// `message: olm.providedAPIs entry "Goose.v1alpha1" is not of the form
    /// <kind>.<version>.<group> and is ignored`
    OPG_12: Warn {
        name: "valid-provided-apis-annotation",
        on: [GROUP: Create | Update],
        source: ["OCP 4.12 L3434-3443, L3838", "OLM pkg/controller/registry/resolver/cache/operators.go"],
    }
}

fn check_provided_apis(annotation: &str, report: &mut Report<'_>) {
    let text = annotation.replace(' ', "");
    let wrong = |item: &&str| {
        let good = |part: ApiParts<'_>| {
            is_rfc1035_label(&part.kind.to_ascii_lowercase())
                && is_rfc1035_label(part.version)
                && names::is_subdomain(part.group)
        };
        !item.is_empty() && !ApiParts::of(item).is_some_and(good)
    };
    let mut items = text.split(',').filter(wrong);
    for item in items.by_ref().take(Report::MAX_VIOLATIONS) {
        let message = format!(
            "olm.providedAPIs entry {} is not of the form <kind>.<version>.<group> and is ignored",
            quote(item)
        );
        report.add(&OPG_12, "metadata.annotations[olm.providedAPIs]", message);
    }
    report.add_count(&OPG_12, items.count());
}

/// Whether a text is an RFC 1035 label of any length. Versions are, and so are kinds in lower case.
fn is_rfc1035_label(text: &str) -> bool {
    names::is_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase())
}

rule! {
    /// OLM's annotations have the case that OLM reads
    ///
    /// No annotation key of an OperatorGroup differs only in case from `olm.operatorGroup`,
    /// `olm.operatorNamespace`, `olm.targetNamespaces`, `olm.providedAPIs` or `olm.skipRange`. The
    /// rule evaluates `v1` and `v1alpha2`. On UPDATE, it evaluates only new keys.
    ///
    /// # Why
    ///
    /// Annotation keys are case-sensitive: OLM does not read the misspelled annotation. The
    /// validation of the Operator Framework API rejects such keys
    /// (`pkg/validation/internal/annotations.go`).
    ///
    /// # Remediation
    ///
    /// Rename the annotation to the name in the message.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// metadata: {annotations: {olm.providedAPIs: Goose.v1alpha1.birds.com}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// metadata: {annotations: {olm.providedapis: Goose.v1alpha1.birds.com}}
    /// ```
    ///
    /// `message: provided annotation olm.providedapis uses wrong case and should be
    /// olm.providedAPIs instead`
    OPG_13: Deny {
        name: "known-operator-group-annotations",
        on: [GROUP: Create | Update],
        source: ["api pkg/validation/internal/annotations.go"],
    }
}

fn check_spelling(review: &Review<'_>, object: &Document, report: &mut Report<'_>) {
    for key in object.keys("/metadata/annotations") {
        let spelled = KNOWN_ANNOTATIONS.iter().find(|a| a.eq_ignore_ascii_case(&key) && **a != key);
        let pointer = format!("/metadata/annotations/{}", escape(&key));
        if let Some(spelled) = spelled
            && review.ratchet_base().is_none_or(|old| !old.has(&pointer))
        {
            let message = format!(
                "provided annotation {key} uses wrong case and should be {spelled} instead"
            );
            report.add(&OPG_13, format!("metadata.annotations[{key}]"), message);
            report.set_fix(&OPG_13, || {
                let is_there = object.has(&format!("/metadata/annotations/{spelled}"));
                let fix = Fix::safe(format!("rename the annotation to {spelled}"));
                (!is_there).then(|| fix.rename_key(pointer, *spelled))
            });
        }
    }
}

rule! {
    /// the annotations for bundle unpacking are Go durations
    ///
    /// The annotations `operatorframework.io/bundle-unpack-timeout` and
    /// `operatorframework.io/bundle-unpack-min-retry-interval`, if they are present, are Go
    /// durations: numbers with the units `ns`, `us`, `ms`, `s`, `m` or `h`, such as `10m` or
    /// `1h30m`. The rule denies an empty value. It evaluates an UPDATE only if it changes the
    /// annotation.
    ///
    /// # Why
    ///
    /// OLM reads both annotations when it unpacks bundles for the namespace. A value that it cannot
    /// parse is an error that stops the resolution for the whole namespace (OLM
    /// `pkg/controller/bundle/bundle_unpacker.go`, `pkg/controller/operators/catalog/operator.go`).
    ///
    /// # Remediation
    ///
    /// Write a number with its unit and without spaces, or remove the annotation.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// metadata: {annotations: {operatorframework.io/bundle-unpack-timeout: 10m}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// metadata: {annotations: {operatorframework.io/bundle-unpack-timeout: "10"}}
    /// ```
    ///
    /// `message: failed to parse unpack timeout
    /// annotation(operatorframework.io/bundle-unpack-timeout: 10): time: missing unit in duration
    /// "10"`
    ///
    /// For the other annotation the message starts with `failed to parse unpack retry annotation`.
    OPG_14: Deny {
        name: "valid-unpack-duration-annotations",
        on: [GROUP: Create | Update],
        source: ["OLM pkg/controller/bundle/bundle_unpacker.go, pkg/controller/operators/catalog/operator.go"],
    }
}

fn check_durations(review: &Review<'_>, object: &Document, report: &mut Report<'_>) {
    for (key, what) in DURATION_ANNOTATIONS {
        let pointer = format!("/metadata/annotations/{}", escape(key));
        if let Some(text) = object.text(&pointer)
            && review.touches_json(object, &pointer)
            && let Err(why) = duration::check(&text)
        {
            let message = format!("failed to parse unpack {what} annotation({key}: {text}): {why}");
            report.add(&OPG_14, format!("metadata.annotations[{key}]"), message);
            report.set_fix(&OPG_14, || {
                Some(corrections::write(pointer, &corrections::go_duration(&text)?))
            });
        }
    }
}
