//! Annotations about the infrastructure that an Operator supports: the list of the older editions,
//! and one annotation for each feature.

use opgate_compat::json::Kind;
use opgate_sdk::go::{quote, shorten};
use opgate_sdk::{Document, Fix, corrections, json_string, rule, rules};

use super::lists;
use super::{AnnotationViolations, MAX_SHOWN_BYTES, field};
use crate::csv::{Csv, annotation};
use crate::images;
use crate::targets::{CATALOG, CSV};

rules![CSV_62, CSV_63, CSV_64, CSV_65, CSV_66];

const INFRASTRUCTURE: &str = "operators.openshift.io/infrastructure-features";
const INFRASTRUCTURE_FEATURES: [&str; 6] =
    ["disconnected", "cnf", "cni", "csi", "fips", "proxy-aware"];

/// The prefix of the name of each feature's annotation.
const FEATURE_PREFIX: &str = "features.operators.openshift.io/";
const FEATURES: [&str; 10] = [
    "disconnected",
    "fips-compliant",
    "proxy-aware",
    "tls-profiles",
    "token-auth-aws",
    "token-auth-azure",
    "token-auth-gcp",
    "cnf",
    "cni",
    "csi",
];

/// Maximum number of invalid values of a list that a message names.
const MAX_SHOWN_VALUES: usize = 16;
/// Maximum size of each of them, in bytes.
const MAX_VALUE_BYTES: usize = 128;

pub(super) fn check(csv: &mut Csv<'_, '_>) {
    check_infrastructure_features(csv);
    check_feature_annotations(csv);
}

rule! {
    /// infrastructure features have the documented values
    ///
    /// The annotation `operators.openshift.io/infrastructure-features` is a JSON array, and each
    /// element is exactly one of the strings `disconnected`, `cnf`, `cni`, `csi`, `fips` and
    /// `proxy-aware`. The violation names all other values. CSV-63 reports values that differ from
    /// one of these only in case. If there are other invalid values, the violation of this rule
    /// names them, too. Copies are exempt. An UPDATE is evaluated only if it changes the
    /// annotation.
    ///
    /// # Why
    ///
    /// The console filters Operators by these values. The console does not find an Operator with
    /// another value, for example in a search for Operators that work in a disconnected cluster.
    /// Only the console reads the annotation, and it ignores unknown values, so the rule warns.
    ///
    /// # Remediation
    ///
    /// Write a JSON array of the listed strings, and remove other values.
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
    /// operators.openshift.io/infrastructure-features: '["disconnected","foo"]'
    /// ```
    ///
    /// `message: operators.openshift.io/infrastructure-features: Unsupported value: "foo": valid,
    /// case-sensitive values are disconnected, cnf, cni, csi, fips, proxy-aware`
    CSV_62: Warn {
        name: "known-infrastructure-features",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L19401-19433, L19465, L19489, L19785", "OCP 4.15 L14375-14394"],
    }
}

rule! {
    /// infrastructure features are written in lower case
    ///
    /// No element of the annotation `operators.openshift.io/infrastructure-features` equals a valid
    /// value only if case is ignored. One violation names all such values. This is a warning
    /// because the documentation of OpenShift 4.5 prints `Disconnected`. Copies are exempt. An
    /// UPDATE is evaluated only if it changes the annotation.
    ///
    /// # Why
    ///
    /// The values are case-sensitive: the console does not find the Operator by this feature.
    ///
    /// # Remediation
    ///
    /// Write each value as the message shows it.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// operators.openshift.io/infrastructure-features: '["disconnected"]'
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// operators.openshift.io/infrastructure-features: '["Disconnected"]'
    /// ```
    ///
    /// `message: operators.openshift.io/infrastructure-features value "Disconnected" must be
    /// written "disconnected" (case-sensitive)`
    CSV_63: Warn {
        name: "lowercase-infrastructure-features",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L19405", "OCP 4.5 L6438-6443"],
    }
}

rule! {
    /// each infrastructure feature has a separate annotation
    ///
    /// The annotation `operators.openshift.io/infrastructure-features` is absent, or each feature
    /// that it lists has an annotation `features.operators.openshift.io/…` as well
    /// (`fips-compliant` for `fips`): both kinds may be used together. The rule is off unless the
    /// configuration names the profile `ocp-4.15` or a level of the rule. Copies are exempt. An
    /// UPDATE is evaluated only if it changes the older annotation.
    ///
    /// # Why
    ///
    /// OpenShift 4.14 deprecated the annotation in favour of `features.operators.openshift.io/…`,
    /// and a later version may no longer read it.
    ///
    /// # Remediation
    ///
    /// Write an annotation for each feature of the list. Keep the list while the Operator also
    /// supports older versions of OpenShift. Otherwise remove it.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// features.operators.openshift.io/disconnected: "true"
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// operators.openshift.io/infrastructure-features: '["fips"]'
    /// ```
    ///
    /// `message: operators.openshift.io/infrastructure-features is deprecated; use the
    /// features.operators.openshift.io annotations`
    CSV_64: Warn {
        name: "one-annotation-per-feature",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        enabled_by: ["/profile"],
        source: ["OCP 4.15 L14326, L14369-14394"],
    }
}

fn check_infrastructure_features(csv: &mut Csv<'_, '_>) {
    let Some(text) = csv.annotation(INFRASTRUCTURE) else { return };
    if !csv.touches_annotation(INFRASTRUCTURE) {
        return;
    }
    let at = field(INFRASTRUCTURE);
    let deprecated = "operators.openshift.io/infrastructure-features is deprecated; use the \
                      features.operators.openshift.io annotations";
    let profile = csv.review.settings.text_or_empty("/profile");
    let is_applicable = profile == "ocp-4.15" || csv.report.is_configured(&CSV_64);
    let unsupported = |values: &str| {
        let valid = INFRASTRUCTURE_FEATURES.join(", ");
        format!(
            "{INFRASTRUCTURE}: Unsupported value: {values}: valid, case-sensitive values are {valid}"
        )
    };
    let (mut unknown, mut other_case) = (WrongValues::default(), WrongValues::default());
    let mut lacks_own = false;
    let kind = lists::for_each_element(&text, [], |element| {
        let value = element.part.text(&text);
        let known = |value: &str| {
            INFRASTRUCTURE_FEATURES.iter().find(|known| known.eq_ignore_ascii_case(value))
        };
        let known = value.as_deref().and_then(known);
        lacks_own |= known.is_none_or(|known| !csv.has_annotation(&own_annotation(known)));
        match (known, value.as_deref()) {
            (Some(known), Some(value)) if *known == value => {}
            (Some(known), Some(value)) => {
                let shown = || format!("value {} must be written {}", quote(value), quote(known));
                other_case.push(element.index, shown);
            }
            (_, value) => {
                let value = value.unwrap_or_else(|| element.part.raw(&text));
                unknown.push(element.index, || quote(&shorten(value, MAX_VALUE_BYTES)));
            }
        }
    });
    if is_applicable && (lacks_own || kind != Ok(Kind::List)) {
        csv.add(&CSV_64, &at, deprecated);
        let is_there = INFRASTRUCTURE_FEATURES.map(|f| csv.has_annotation(&own_annotation(f)));
        csv.fix(&CSV_64, || add_own_annotations(&text, is_there));
    }
    if kind != Ok(Kind::List) {
        let value = quote(&shorten(&text, MAX_SHOWN_BYTES));
        csv.add(&CSV_62, &at, unsupported(&value));
        return csv.fix_with(&CSV_62, |csv| write_features(csv, &text));
    }
    let other = (!other_case.is_empty())
        .then(|| format!("{INFRASTRUCTURE} {} (case-sensitive)", other_case.list()));
    if unknown.is_empty() {
        let Some(message) = other else { return };
        csv.add(&CSV_63, &other_case.field(&at), message);
        csv.fix_with(&CSV_63, |csv| write_features(csv, &text));
    } else {
        let mut message = unsupported(&unknown.list());
        let Some(other) = other else {
            csv.add(&CSV_62, &unknown.field(&at), message);
            return csv.fix_with(&CSV_62, |csv| write_features(csv, &text));
        };
        if csv.is_on(&CSV_63) {
            message = format!("{message}; {}", other_case.list());
        }
        csv.add_once(&[
            (&CSV_62, &|| [at.clone(), message.clone()]),
            (&CSV_63, &|| [at.clone(), other.clone()]),
        ]);
        csv.fix_with(&CSV_62, |csv| write_features(csv, &text));
    }
}

/// The words in the annotation: the elements of a list of texts, a text, or words with commas between them.
fn feature_words(text: &str) -> Option<Vec<String>> {
    if text.len() > MAX_SHOWN_BYTES {
        return None;
    }
    let plain = || text.split(',').map(|word| word.trim().to_owned()).collect();
    let Ok(document) = Document::parse(text) else { return Some(plain()) };
    match document.kind("") {
        opgate_sdk::Kind::Text => Some(vec![document.text_or_empty("")]),
        opgate_sdk::Kind::List => document.items("").map(|word| word.text("")).collect(),
        _ => None,
    }
}

/// The list of the documented features that the words mean, if all of them mean one, and the object satisfies the
/// rules for them.
fn write_features(csv: &Csv<'_, '_>, text: &str) -> Option<Fix> {
    let mut features = Vec::new();
    // The text with its own spaces and line breaks.
    let mut respelled = text.to_owned();
    for word in feature_words(text)? {
        let feature = corrections::word(&word, &INFRASTRUCTURE_FEATURES)?;
        respelled = respelled.replacen(&json_string(&word), &json_string(feature), 1);
        if !features.contains(&feature) {
            features.push(feature);
        }
    }
    let is_whole = Document::parse(&respelled).is_ok_and(|list| list.texts("") == features);
    let list = if is_whole {
        respelled
    } else {
        let list = features.iter().map(|feature| json_string(feature)).collect::<Vec<_>>();
        format!("[{}]", list.join(", "))
    };
    let fix = corrections::write(annotation(INFRASTRUCTURE), &list);
    features.iter().try_fold(fix, |fix, feature| images::claim(csv, feature, fix))
}

/// The annotation of each feature that the list names; none if the list has other values.
fn add_own_annotations(text: &str, is_there: [bool; 6]) -> Option<Fix> {
    let words = feature_words(text).filter(|_| text.trim_start().starts_with('['))?;
    let known = |word: &String| {
        INFRASTRUCTURE_FEATURES.iter().position(|known| known.eq_ignore_ascii_case(word))
    };
    let features: Option<Vec<usize>> = words.iter().map(known).collect();
    let mut fix = Fix::safe("add the annotation of each feature");
    let mut is_empty = true;
    for (at, feature) in INFRASTRUCTURE_FEATURES.iter().enumerate() {
        let is_listed = features.as_ref()?.contains(&at);
        if is_listed && is_there.get(at) == Some(&false) {
            fix = fix.set_text(annotation(&own_annotation(feature)), "true");
            is_empty = false;
        }
    }
    (!is_empty).then_some(fix)
}

/// The annotation of a feature of the list.
fn own_annotation(value: &str) -> String {
    let feature = if value == "fips" { "fips-compliant" } else { value };
    format!("{FEATURE_PREFIX}{feature}")
}

/// Invalid values of one list, the first ones with their texts.
#[derive(Default)]
struct WrongValues {
    texts: Vec<String>,
    index: usize,
    count: usize,
}

impl WrongValues {
    fn push(&mut self, index: usize, text: impl FnOnce() -> String) {
        if self.count == 0 {
            self.index = index;
        }
        self.count = self.count.saturating_add(1);
        if self.texts.len() < MAX_SHOWN_VALUES {
            self.texts.push(text());
        }
    }

    fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// `"a", "b" and 3 more`
    fn list(&self) -> String {
        let texts = self.texts.join(", ");
        match self.count.saturating_sub(self.texts.len()) {
            0 => texts,
            more => format!("{texts} and {more} more"),
        }
    }

    /// The field of the only value, or of the list.
    fn field(&self, list: &str) -> String {
        if self.count == 1 { format!("{list}[{}]", self.index) } else { list.to_owned() }
    }
}

rule! {
    /// feature annotations are true or false
    ///
    /// The annotations `features.operators.openshift.io/disconnected`, `fips-compliant`,
    /// `proxy-aware`, `tls-profiles`, `token-auth-aws`, `token-auth-azure`, `token-auth-gcp`,
    /// `cnf`, `cni` and `csi` are exactly `true` or `false`. Copies are exempt. An UPDATE is
    /// evaluated only if it changes the annotation.
    ///
    /// # Why
    ///
    /// The console compares the value with these two words. An Operator with `yes` is not listed
    /// among the Operators that support the feature. Only the console reads the annotation, and it
    /// ignores other values, so the rule warns.
    ///
    /// # Remediation
    ///
    /// Write `"true"` or `"false"`, with quotes.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// features.operators.openshift.io/fips-compliant: "false"
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// features.operators.openshift.io/disconnected: "yes"
    /// ```
    ///
    /// `message: features.operators.openshift.io/disconnected: Unsupported value: "yes": supported
    /// values: "true", "false"`
    CSV_65: Warn {
        name: "boolean-feature-annotations",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.15 L14318-14360"],
    }
}

rule! {
    /// feature annotations are documented
    ///
    /// Each annotation that starts with `features.operators.openshift.io/` ends with one of the
    /// names that CSV-65 lists, or with one of the setting `csv.features`. The rule is off unless a
    /// level is configured for it, because the documentation does not forbid others. Copies are
    /// exempt. An UPDATE is evaluated only if it changes the annotation.
    ///
    /// # Why
    ///
    /// A misspelled annotation has no effect: the Operator appears not to support the feature.
    ///
    /// # Remediation
    ///
    /// Correct the name. If it belongs to a newer OpenShift version, add it to `csv.features`.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// features.operators.openshift.io/cnf: "true"
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// features.operators.openshift.io/gpu: "true"
    /// ```
    ///
    /// `message: features.operators.openshift.io/gpu is not a documented feature annotation`
    CSV_66: Warn {
        name: "known-feature-annotations",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        enabled_by: [],
        source: ["OCP 4.15 L14328-14342"],
    }
}

fn check_feature_annotations(csv: &mut Csv<'_, '_>) {
    let names = csv.annotations();
    let start = names.partition_point(|name| name.as_str() < FEATURE_PREFIX);
    let found = names.get(start..).unwrap_or_default();
    let found = found.iter().take_while(|name| name.starts_with(FEATURE_PREFIX));
    let found: Vec<String> = found.filter(|name| csv.touches_annotation(name)).cloned().collect();
    let is_strict = csv.is_on(&CSV_66);
    let more = if is_strict { csv.review.settings.texts("/csv/features") } else { Vec::new() };
    let mut undocumented = AnnotationViolations::of(&CSV_66);
    for name in found {
        let feature = name.strip_prefix(FEATURE_PREFIX).unwrap_or_default();
        if FEATURES.contains(&feature) {
            check_feature_value(csv, &name);
        } else if is_strict && !more.iter().any(|known| known == feature) {
            undocumented.add(csv, || {
                let shown = shorten(&name, MAX_SHOWN_BYTES);
                (field(&name), format!("{shown} is not a documented feature annotation"))
            });
            csv.fix_with(&CSV_66, |csv| rename_feature(csv, &name, feature));
        }
    }
    undocumented.finish(csv);
}

/// The documented name of a misspelled annotation.
fn rename_feature(csv: &Csv<'_, '_>, name: &str, feature: &str) -> Option<Fix> {
    let same = corrections::word(feature, &FEATURES);
    let meant = same.or_else(|| corrections::nearest(feature, &FEATURES))?;
    let title = format!("rename the annotation to {FEATURE_PREFIX}{meant}");
    let fix = if same.is_some() { Fix::safe(title) } else { Fix::needs_review(title) };
    let is_free = !csv.has_annotation(&format!("{FEATURE_PREFIX}{meant}"));
    is_free.then(|| fix.rename_key(annotation(name), format!("{FEATURE_PREFIX}{meant}")))
}

fn check_feature_value(csv: &mut Csv<'_, '_>, name: &str) {
    let Some(value) = csv.annotation(name) else { return };
    if !matches!(value.as_str(), "true" | "false") {
        let shown = quote(&shorten(&value, MAX_SHOWN_BYTES));
        let message =
            format!("{name}: Unsupported value: {shown}: supported values: \"true\", \"false\"");
        csv.add(&CSV_65, &field(name), message);
        csv.fix_with(&CSV_65, |csv| {
            let meant = corrections::boolean(&value)?;
            let fix = corrections::write(annotation(name), &meant.to_string());
            let feature = name.strip_prefix(FEATURE_PREFIX)?;
            if meant { images::claim(csv, feature, fix) } else { Some(fix) }
        });
    }
}
