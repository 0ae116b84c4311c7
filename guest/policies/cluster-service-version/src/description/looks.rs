//! The maturity, the icon and the label selector of an Operator.

use opgate_compat::json::{self, Child};
use opgate_sdk::corrections;
use opgate_sdk::go::{base64, quote};
use opgate_sdk::{Fix, Kind, Selector, SelectorError, Shape, names, rule, rules};

use super::MAX_ELEMENTS;
use crate::csv::Csv;
use crate::targets::{CATALOG, CSV};

rules![CSV_17, CSV_19, CSV_20];

const MATURITY: &str = "/spec/maturity";
const ICON: &str = "/spec/icon";
const SELECTOR: &str = "/spec/selector";

const MATURITY_LEVELS: [&str; 8] =
    ["planning", "pre-alpha", "alpha", "beta", "stable", "mature", "inactive", "deprecated"];
const MEDIA_TYPES: [&str; 4] = ["image/gif", "image/jpeg", "image/png", "image/svg+xml"];

/// Go writes both fields of an icon, with or without a value.
const ICON_MEMBERS: &[(&str, Shape)] =
    &[("base64data", Shape::Scalar), ("mediatype", Shape::Scalar)];

pub(crate) fn check(csv: &mut Csv<'_, '_>) {
    if csv.touches(MATURITY, &Shape::Scalar) {
        check_maturity(csv);
    }
    if csv.touches(ICON, &Shape::List(&Shape::Struct(ICON_MEMBERS))) {
        check_icon(csv);
    }
    if csv.object.has(SELECTOR) && csv.touches_json(SELECTOR) {
        check_selector(csv);
    }
}

rule! {
    /// spec.maturity is one of the documented levels
    ///
    /// `spec.maturity`, if set, is `planning`, `pre-alpha`, `alpha`, `beta`, `stable`, `mature`,
    /// `inactive` or `deprecated`. Copies that OLM makes are exempt. An UPDATE is evaluated only if
    /// it changes the field.
    ///
    /// # Why
    ///
    /// The documents list these levels (OpenShift 4.12, Operators, *Manually-defined CSV fields*).
    /// Users compare Operators by these levels. OLM does not read the field.
    ///
    /// # Remediation
    ///
    /// Choose the level that fits this version, or remove the field.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {maturity: alpha}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {maturity: ga}
    /// ```
    ///
    /// `message: spec.maturity "ga" is not one of planning, pre-alpha, alpha, beta, stable, mature,
    /// inactive, deprecated`
    CSV_17: Warn {
        name: "known-maturity",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L19336-19340", "OCP 4.15 L14300"],
    }
}

fn check_maturity(csv: &mut Csv<'_, '_>) {
    let level = csv.object.text_or_empty(MATURITY);
    if !level.is_empty() && !MATURITY_LEVELS.contains(&level.as_str()) {
        let message =
            format!("spec.maturity {} is not one of {}", quote(&level), MATURITY_LEVELS.join(", "));
        csv.add(&CSV_17, "spec.maturity", message);
        csv.fix(&CSV_17, || corrections::spelling(MATURITY, &level, &MATURITY_LEVELS));
    }
}

rule! {
    /// spec.icon is one image
    ///
    /// `spec.icon`, if set, has one element. Its `base64data` is not empty and valid base64, and
    /// its `mediatype` is `image/gif`, `image/jpeg`, `image/png` or `image/svg+xml`. If there are
    /// several icons, the rule evaluates the first one. Copies that OLM makes are exempt. An UPDATE
    /// is evaluated only if it changes the icon.
    ///
    /// # Why
    ///
    /// The console shows the icon (OpenShift 4.12, Operators, *Manually-defined CSV fields*). It
    /// cannot show an icon that it cannot decode, and OperatorHub does not accept such an icon.
    ///
    /// # Remediation
    ///
    /// Encode one image with `base64 -w0`, and name its type.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {icon: [{base64data: aGVsbG8=, mediatype: image/png}]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {icon: [{base64data: "%%%", mediatype: image/png}]}
    /// ```
    ///
    /// `message: csv.Spec.Icon elements should contain both data and mediatype`
    ///
    /// For `mediatype: image/webp`: `message: csv.Spec.Icon image/webp does not have a valid
    /// mediatype`. For two icons: `message: csv.Spec.Icon should only have one element`
    CSV_19: Warn {
        name: "one-valid-icon",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L19327-19331", "OCP 4.15 L14299", "api pkg/validation/internal/operatorhub.go, crds/operators.coreos.com_clusterserviceversions.yaml"],
    }
}

fn check_icon(csv: &mut Csv<'_, '_>) {
    const INCOMPLETE_ICON: &str = "csv.Spec.Icon elements should contain both data and mediatype";
    if csv.object.kind(ICON) != Kind::List {
        return;
    }
    let count = csv.object.length(ICON).unwrap_or_default();
    if count != 1 {
        csv.add(&CSV_19, "spec.icon", "csv.Spec.Icon should only have one element");
    }
    if count == 0 {
        return;
    }
    let media_type = csv.object.text_or_empty("/spec/icon/0/mediatype");
    let data = csv.object.text_or_empty("/spec/icon/0/base64data");
    let set_media_type = || {
        let media_type = corrections::media_type(&data)?;
        let fix = Fix::safe(format!("set the media type of the image, {media_type}"));
        Some(fix.set_text("/spec/icon/0/mediatype", media_type))
    };
    if media_type.is_empty() || data.is_empty() {
        csv.add(&CSV_19, "spec.icon[0]", INCOMPLETE_ICON);
        csv.fix(&CSV_19, set_media_type);
    } else if csv.is_on(&CSV_19) && base64::decode(&data, &mut Vec::new()).is_err() {
        csv.add(&CSV_19, "spec.icon[0].base64data", INCOMPLETE_ICON);
    }
    if !media_type.is_empty() && !MEDIA_TYPES.contains(&media_type.as_str()) {
        let message = format!("csv.Spec.Icon {media_type} does not have a valid mediatype");
        csv.add(&CSV_19, "spec.icon[0].mediatype", message);
        csv.fix(&CSV_19, set_media_type);
    }
}

rule! {
    /// spec.selector is a label selector
    ///
    /// `spec.selector`, if set, is a label selector that Kubernetes accepts: keys and values of
    /// labels are valid, operators are `In`, `NotIn`, `Exists` or `DoesNotExist`, and only `In` and
    /// `NotIn` have values. The first error is reported. Copies that OLM makes are exempt. An
    /// UPDATE is evaluated only if it changes the selector.
    ///
    /// # Why
    ///
    /// The Operator finds its resources with the selector (OpenShift 4.12, Operators,
    /// *Manually-defined CSV fields*). An unreadable selector selects nothing.
    ///
    /// # Remediation
    ///
    /// Correct the key, the operator or the value that the message names.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {selector: {matchLabels: {alm-owner-etcd: etcdoperator}}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {selector: {matchExpressions: [{key: a, operator: Equals}]}}
    /// ```
    ///
    /// `message: spec.selector is not a valid label selector: "Equals" is not a valid label
    /// selector operator`
    CSV_20: Warn {
        name: "valid-csv-selector",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L19318-19322", "OCP 4.15 L14298"],
    }
}

fn check_selector(csv: &mut Csv<'_, '_>) {
    // Read in one call: a selector can have very many labels.
    let json = csv.object.raw(SELECTOR).unwrap_or_default();
    if let Some((place, why)) = selector_error(&json) {
        let message = format!("spec.selector is not a valid label selector: {why}");
        csv.add(&CSV_20, &format!("spec.selector{place}"), message);
    }
}

/// The first error in a selector, and its location.
fn selector_error(selector: &[u8]) -> Option<(String, String)> {
    let mut found = None;
    let mut find = |place: &dyn Fn() -> String, error: Option<SelectorError>| {
        if found.is_none()
            && let Some(why) = error
        {
            found = Some((place(), why.to_string()));
        }
    };
    if json::kind(selector) != Some(json::Kind::Object) {
        let kind = json::kind(selector).map_or("value", json::Kind::go_name);
        return Some((String::new(), format!("it is a {kind}")));
    }
    for_each_child(selector, |member| {
        if member.is_named("matchLabels") {
            for_each_child(member.raw, |label| {
                let key = label.key.map(json::decode_text).unwrap_or_default();
                find(&|| format!(".matchLabels[{key}]"), label_error(&key, label));
            });
        } else if member.is_named("matchExpressions") {
            let mut index = 0;
            for_each_child(member.raw, |expression| {
                let place = || format!(".matchExpressions[{index}]");
                if index < MAX_ELEMENTS {
                    find(&place, expression_error(expression.raw));
                }
                index += 1;
            });
        }
    });
    found
}

/// The text was read before, so it is JSON.
fn for_each_child<'j>(value: &'j [u8], visit: impl FnMut(Child<'j>)) {
    let _ = json::each_child(value, visit);
}

fn decode_text(child: Child<'_>) -> Option<String> {
    (child.kind == json::Kind::Text).then(|| json::text(child.raw))
}

fn label_error(key: &str, label: Child<'_>) -> Option<SelectorError> {
    let value = json::decode_text(label.raw);
    let is_valid = label.kind == json::Kind::Text
        && names::label_key_error(key).is_none()
        && names::label_value_error(&value).is_none();
    if is_valid { None } else { Selector::default().add_match_label(key, &value).err() }
}

fn expression_error(expression: &[u8]) -> Option<SelectorError> {
    let (mut key, mut operator, mut values) = (None, None, Vec::new());
    for_each_child(expression, |member| {
        if member.is_named("key") {
            key = decode_text(member);
        } else if member.is_named("operator") {
            operator = decode_text(member);
        } else if member.is_named("values") {
            values.clear();
            let mut remaining = MAX_ELEMENTS;
            for_each_child(member.raw, |value| {
                if remaining > 0 {
                    values.extend(decode_text(value));
                    remaining -= 1;
                }
            });
        }
    });
    let (key, operator) = (key.unwrap_or_default(), operator.unwrap_or_default());
    Selector::default()
        .add_match_expression(&key, &operator, values.iter().map(String::as_str))
        .err()
}
