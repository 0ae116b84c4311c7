//! What an OperatorGroup says, judged without a look at anything else: OPG-04 to OPG-10, OPG-12 to
//! OPG-14 and OPG-34.

use std::collections::HashSet;

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Kind, Selector, Shape, escape};

use crate::Review;
use crate::apis::Part;
use crate::duration;
use crate::findings::{Findings, MOST};
use crate::groups::{PROVIDED_APIS, SELECTOR, TARGETS, has_requirements};
use crate::texts;

const STRATEGY: &str = "/spec/upgradeStrategy";
const STRATEGIES: [&str; 2] = ["Default", "TechPreviewUnsafeFailForward"];

/// Annotations of OLM that are misspelled in case more easily than they are missed.
const ANNOTATIONS: [&str; 5] = [
    "olm.operatorGroup",
    "olm.operatorNamespace",
    "olm.targetNamespaces",
    "olm.providedAPIs",
    "olm.skipRange",
];

/// Annotations with times, and what upstream calls them.
const TIMES: [(&str, &str); 2] = [
    ("operatorframework.io/bundle-unpack-timeout", "timeout"),
    ("operatorframework.io/bundle-unpack-min-retry-interval", "retry"),
];

pub(crate) fn judge(review: &Review<'_>, object: &Document, findings: &mut Findings<'_>) {
    // Most updates are OLM's, which writes annotations.
    if review.touches_json(object, "/spec") {
        spec(review, object, findings);
    }
    if review.touches_json(object, "/metadata/annotations") {
        annotations(review, object, findings);
    }
}

fn spec(review: &Review<'_>, object: &Document, findings: &mut Findings<'_>) {
    let is_v1 = review.request.resource.version == "v1";
    let new_names = review.touches_json(object, TARGETS);
    let new_selector = review.touches_json(object, SELECTOR);
    let names = texts::of(object, TARGETS);
    if new_names {
        named_namespaces(&names, findings);
        if is_v1 {
            named_once(&names, findings);
        }
    }
    if new_selector && let Err(message) = selector(object) {
        findings.deny("OPG-05", "spec.selector", message);
    }
    if is_v1 && review.touches(object, STRATEGY, &Shape::Scalar) {
        strategy(object, findings);
    }
    if new_names || new_selector {
        selection(object, &names, findings);
        tenant(review, object, &names, findings);
    }
}

/// OPG-04: the empty name is not how to ask for all namespaces.
fn named_namespaces(names: &[String], findings: &mut Findings<'_>) {
    if names.iter().any(String::is_empty) {
        let message =
            format!("TargetNamespaces cannot contain NamespaceAll: [{}]", names.join(" "));
        findings.deny("OPG-04", "spec.targetNamespaces", message);
    }
}

/// OPG-06: the names are a set.
fn named_once(names: &[String], findings: &mut Findings<'_>) {
    let mut seen = HashSet::with_capacity(names.len());
    let twice = names.iter().enumerate().filter(|(_, name)| !seen.insert(name.as_str()));
    for (index, name) in twice.take(MOST) {
        let field = format!("spec.targetNamespaces[{index}]");
        let message = format!("{field}: Duplicate value: {}", quote(name));
        findings.deny("OPG-06", &field, message);
    }
}

/// OPG-05: what upstream says against the selector.
fn selector(object: &Document) -> Result<(), String> {
    let mut selector = Selector::default();
    for key in object.keys("/spec/selector/matchLabels") {
        let value = object.text_or_empty(&format!("/spec/selector/matchLabels/{}", escape(&key)));
        selector.label(&key, &value)?;
    }
    for expression in object.items("/spec/selector/matchExpressions") {
        let (key, operator) =
            (expression.text_or_empty("/key"), expression.text_or_empty("/operator"));
        let values = texts::of(&expression, "/values");
        selector.expression(&key, &operator, values.iter().map(String::as_str))?;
    }
    Ok(())
}

/// OPG-07: the upgrade strategy is a known one.
fn strategy(object: &Document, findings: &mut Findings<'_>) {
    if let Some(strategy) = object.text(STRATEGY)
        && !STRATEGIES.contains(&strategy.as_str())
    {
        let message = format!(
            "spec.upgradeStrategy: Unsupported value: {}: supported values: \"Default\", \"TechPreviewUnsafeFailForward\"",
            quote(&strategy)
        );
        findings.deny("OPG-07", "spec.upgradeStrategy", message);
    }
}

/// OPG-08, OPG-09 and OPG-10: how names and selector go together.
fn selection(object: &Document, names: &[String], findings: &mut Findings<'_>) {
    let selects = has_requirements(object);
    if names.len() > 1 || selects {
        let field = if selects { "spec.selector" } else { "spec.targetNamespaces" };
        let message = "listing multiple namespaces via spec.targetNamespaces or use of a label selector via spec.selector is not recommended, as the support for more than one target namespace in an Operator group will likely be removed in a future release";
        findings.warn("OPG-08", field, message);
    }
    if !names.is_empty() && selects {
        let message = "spec.selector is ignored because spec.targetNamespaces is set";
        findings.warn("OPG-09", "spec.selector", message);
    }
    if names.is_empty() && !selects && object.kind(SELECTOR) == Kind::Object {
        let message = "spec.selector has neither matchLabels nor matchExpressions: the Operator group selects all namespaces";
        findings.warn("OPG-10", "spec.selector", message);
    }
}

/// OPG-34: where tenants' Operators run, a group is for one other namespace.
fn tenant(review: &Review<'_>, object: &Document, names: &[String], findings: &mut Findings<'_>) {
    let setting = "/operatorGroup/tenantNamespaces";
    let own = review.namespace();
    let covers = |pattern: &String| match pattern.strip_suffix('*') {
        Some(prefix) => own.starts_with(prefix),
        None => own == pattern,
    };
    if !review.settings.has(setting) || !review.settings.texts(setting).iter().any(covers) {
        return;
    }
    let one_other = matches!(names, [name] if name != own && !name.is_empty());
    if !one_other || has_requirements(object) {
        let message = "tenant Operator group must define only the tenant's namespace in spec.targetNamespaces";
        findings.deny("OPG-34", "spec.targetNamespaces", message);
    }
}

fn annotations(review: &Review<'_>, object: &Document, findings: &mut Findings<'_>) {
    if review.touches(object, PROVIDED_APIS, &Shape::Scalar) {
        provided_apis(&object.text_or_empty(PROVIDED_APIS), findings);
    }
    for key in object.keys("/metadata/annotations") {
        let spelled = ANNOTATIONS.iter().find(|a| a.eq_ignore_ascii_case(&key) && **a != key);
        let pointer = format!("/metadata/annotations/{}", escape(&key));
        if let Some(spelled) = spelled
            && review.spares().is_none_or(|old| !old.has(&pointer))
        {
            let message = format!(
                "provided annotation {key} uses wrong case and should be {spelled} instead"
            );
            findings.deny("OPG-13", &format!("metadata.annotations[{key}]"), message);
        }
    }
    for (key, what) in TIMES {
        let pointer = format!("/metadata/annotations/{}", escape(key));
        if let Some(text) = object.text(&pointer)
            && review.touches_json(object, &pointer)
            && let Err(why) = duration::check(&text)
        {
            let message = format!("failed to parse unpack {what} annotation({key}: {text}): {why}");
            findings.deny("OPG-14", &format!("metadata.annotations[{key}]"), message);
        }
    }
}

/// OPG-12: items that OLM can read.
fn provided_apis(annotation: &str, findings: &mut Findings<'_>) {
    let text = annotation.replace(' ', "");
    let wrong = |item: &&str| {
        let good = |part: Part<'_>| {
            is_label(&part.kind.to_ascii_lowercase())
                && is_label(part.version)
                && part.group.split('.').all(is_name)
        };
        !item.is_empty() && !Part::of(item).is_some_and(good)
    };
    for item in text.split(',').filter(wrong).take(MOST) {
        let message = format!(
            "olm.providedAPIs entry {} is not of the form <kind>.<version>.<group> and is ignored",
            quote(item)
        );
        findings.warn("OPG-12", "metadata.annotations[olm.providedAPIs]", message);
    }
}

/// A name of lower case letters, digits and inner hyphens, as every part of a group is.
fn is_name(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !text.is_empty()
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// An RFC 1035 label, as versions and, but for their case, kinds are.
fn is_label(text: &str) -> bool {
    is_name(text) && text.starts_with(|c: char| c.is_ascii_lowercase())
}
