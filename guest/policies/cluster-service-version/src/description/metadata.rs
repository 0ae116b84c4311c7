//! Annotations that describe a ClusterServiceVersion.

use std::collections::BTreeSet;

use opgate_compat::range::Range;
use opgate_sdk::corrections;
use opgate_sdk::go::quote;
use opgate_sdk::{Fix, InputType, rule, rules};

use super::{MAX_VERSION_BYTES, add_all, is_selected, quote_start};
use crate::csv::{Csv, annotation};
use crate::targets::{CATALOG, CSV};

rules![CSV_15, CSV_16, CSV_25, CSV_26, CSV_28];

const CAPABILITIES: &str = "capabilities";
const CATEGORIES: &str = "categories";
const PROPERTIES: &str = "olm.properties";
const SKIP_RANGE: &str = "olm.skipRange";
/// The setting with categories that replace the standard ones.
const CUSTOM_CATEGORIES: &str = "/csv/categories";

/// Maximum size of all annotations together that Kubernetes accepts, in bytes. An object with
/// larger annotations cannot be created.
const MAX_ANNOTATIONS_BYTES: usize = 256 << 10;

const CAPABILITY_LEVELS: [&str; 5] =
    ["Basic Install", "Seamless Upgrades", "Full Lifecycle", "Deep Insights", "Auto Pilot"];

/// Maximum number of categories that a fix corrects.
const MAX_CORRECTED: usize = 64;

const STANDARD_CATEGORIES: [&str; 16] = [
    "AI/Machine Learning",
    "Application Runtime",
    "Big Data",
    "Cloud Provider",
    "Developer Tools",
    "Database",
    "Integration & Delivery",
    "Logging & Tracing",
    "Monitoring",
    "Modernization & Migration",
    "Networking",
    "OpenShift Optional",
    "Security",
    "Storage",
    "Streaming & Messaging",
    "Observability",
];

/// Names of annotations that OLM reads in exactly this case.
const CASE_SENSITIVE_ANNOTATIONS: [&str; 5] = [
    "olm.operatorGroup",
    "olm.operatorNamespace",
    "olm.targetNamespaces",
    "olm.providedAPIs",
    SKIP_RANGE,
];

pub(crate) fn check(csv: &mut Csv<'_, '_>) {
    if csv.touches_annotation(CAPABILITIES) {
        check_capabilities(csv);
    }
    if csv.has_annotation(CATEGORIES)
        && (csv.is_on(&CSV_16) && csv.review.settings.has(CUSTOM_CATEGORIES)
            || is_selected(csv, &CSV_16, &["operatorhub"]))
        && csv.touches_annotation(CATEGORIES)
    {
        check_categories(csv);
    }
    check_spelling(csv);
    if csv.has_annotation(PROPERTIES) && csv.is_on(&CSV_26) && csv.touches_annotation(PROPERTIES) {
        let message = "found olm.properties annotation, please define these properties in metadata/properties.yaml instead";
        csv.add(&CSV_26, &field(PROPERTIES), message);
    }
    // In a catalog, OLM reads the range of the channel entry.
    if csv.review.input_type() != InputType::Catalog
        && csv.has_annotation(SKIP_RANGE)
        && csv.touches_annotation(SKIP_RANGE)
    {
        check_skip_range(csv);
    }
}

fn field(annotation: &str) -> String {
    format!("metadata.annotations[{annotation}]")
}

rule! {
    /// the annotation capabilities is a level of the Operator maturity model
    ///
    /// The annotation `capabilities` is set to `Basic Install`, `Seamless Upgrades`, `Full
    /// Lifecycle`, `Deep Insights` or `Auto Pilot`. The documents call it `metadata.capabilities`.
    /// The setting `csv.requiredFields: deny` makes this rule deny. Copies that OLM makes are
    /// exempt. An UPDATE is evaluated only if it changes the annotation.
    ///
    /// # Why
    ///
    /// The documents list the level as required (OpenShift 4.12, Operators, *Manually-defined CSV
    /// fields*). The console shows it and filters by it; the validators of operator-framework/api
    /// reject other values.
    ///
    /// # Remediation
    ///
    /// Set the level that the Operator has reached, exactly as written above.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// metadata: {annotations: {capabilities: Full Lifecycle}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// metadata: {annotations: {capabilities: Level 5}}
    /// ```
    ///
    /// `message: csv.Metadata.Annotations.Capabilities "Level 5" is not a valid capabilities level`
    ///
    /// Without the annotation: `message: csv.Metadata.Annotations.Capabilities is absent: set the
    /// annotation capabilities to Basic Install, Seamless Upgrades, Full Lifecycle, Deep Insights or
    /// Auto Pilot`
    CSV_15: Warn {
        name: "known-capability-level",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        denies_with: ["/csv/requiredFields"],
        source: ["OCP 4.12 L19202-19206", "OCP 4.15 L14281", "OCP 4.5 L6246-6250", "api pkg/validation/internal/standardcapabilities.go"],
    }
}

fn check_capabilities(csv: &mut Csv<'_, '_>) {
    let Some(level) = csv.annotation(CAPABILITIES) else {
        let message = "csv.Metadata.Annotations.Capabilities is absent: set the annotation capabilities to Basic Install, Seamless Upgrades, Full Lifecycle, Deep Insights or Auto Pilot";
        return csv.add(&CSV_15, &field(CAPABILITIES), message);
    };
    if !CAPABILITY_LEVELS.contains(&level.as_str()) {
        let shown = quote(&level);
        let message = format!(
            "csv.Metadata.Annotations.Capabilities {shown} is not a valid capabilities level"
        );
        csv.add(&CSV_15, &field(CAPABILITIES), message);
        csv.fix(&CSV_15, || {
            corrections::spelling(&annotation(CAPABILITIES), &level, &CAPABILITY_LEVELS)
        });
    }
}

rule! {
    /// the annotation categories lists standard categories
    ///
    /// The annotation `categories`, split at commas and trimmed, lists categories of OperatorHub:
    /// AI/Machine Learning, Application Runtime, Big Data, Cloud Provider, Database, Developer
    /// Tools, Integration & Delivery, Logging & Tracing, Modernization & Migration, Monitoring,
    /// Networking, Observability, OpenShift Optional, Security, Storage, and Streaming & Messaging.
    /// The rule is off by default. A configured level turns it on, or `operatorhub` (or
    /// `suite=operatorframework`) in the setting `bundle.optional`, or the setting
    /// `csv.categories`, which replaces the list. Copies that OLM makes are exempt. An UPDATE is
    /// evaluated only if it changes the annotation.
    ///
    /// # Why
    ///
    /// OperatorHub has these categories, and its validator rejects others. In your own catalog, any
    /// text is a category.
    ///
    /// # Remediation
    ///
    /// Use one of the categories above, or list your own in `csv.categories`.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// metadata: {annotations: {categories: "Database,Storage"}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// metadata: {annotations: {categories: Games}}
    /// ```
    ///
    /// `message: csv.Metadata.Annotations["categories"] value "Games" is not in the set of standard
    /// categories`
    CSV_16: Warn {
        name: "known-categories",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        enabled_by: ["/bundle/optional", "/csv/categories"],
        source: ["api pkg/validation/internal/standardcategories.go"],
    }
}

fn check_categories(csv: &mut Csv<'_, '_>) {
    let categories = csv.annotation(CATEGORIES).filter(|text| text.len() <= MAX_ANNOTATIONS_BYTES);
    let Some(categories) = categories else { return };
    let settings = csv.review.settings;
    let own = settings.has(CUSTOM_CATEGORIES).then(|| settings.texts(CUSTOM_CATEGORIES));
    let is_known = |category: &str| match &own {
        Some(own) => own.iter().any(|known| known == category),
        None => STANDARD_CATEGORIES.contains(&category),
    };
    // The text before trimming, as upstream prints it.
    let unknown = categories.split(',').filter(|category| !is_known(category.trim()));
    add_all(csv, &CSV_16, unknown, |category| {
        let category = quote(category);
        let message = format!(
            "csv.Metadata.Annotations[\"categories\"] value {category} is not in the set of standard categories"
        );
        (field(CATEGORIES), message)
    });
    csv.fix(&CSV_16, || {
        let own: Vec<&str> = own.iter().flatten().map(String::as_str).collect();
        let known = if own.is_empty() { &STANDARD_CATEGORIES[..] } else { &own };
        let (mut seen, mut corrected) = (BTreeSet::new(), Vec::new());
        let mut is_other = false;
        for part in categories.split(',').take(MAX_CORRECTED) {
            let category = part.trim();
            let meant = if is_known(category) { None } else { corrections::word(category, known) };
            is_other |= meant.is_some();
            // A corrected one can be there already.
            if seen.insert(meant.unwrap_or(category)) || !is_other {
                corrected.push(
                    meant.map_or_else(|| part.to_owned(), |it| part.replacen(category, it, 1)),
                );
            }
        }
        let is_whole = categories.split(',').nth(MAX_CORRECTED).is_none();
        let text = corrected.join(",");
        (is_other && is_whole).then(|| corrections::write(annotation(CATEGORIES), &text))
    });
}

rule! {
    /// names of OLM's annotations have the exact case
    ///
    /// No annotation differs from `olm.operatorGroup`, `olm.operatorNamespace`,
    /// `olm.targetNamespaces`, `olm.providedAPIs` or `olm.skipRange` in the case of its letters
    /// only. Copies that OLM makes are exempt. On UPDATE, the rule evaluates only annotations that
    /// the request adds or changes.
    ///
    /// # Why
    ///
    /// OLM reads the exact name. An annotation with another name has no effect, and no program
    /// reports it: with `olm.skiprange`, for example, no update skips a version. The validators of
    /// operator-framework/api reject it.
    ///
    /// # Remediation
    ///
    /// Write the name that the message shows.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// metadata: {annotations: {olm.skipRange: ">=4.1.0 <4.1.2"}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// metadata: {annotations: {olm.skiprange: ">=4.1.0 <4.1.2"}}
    /// ```
    ///
    /// `message: provided annotation olm.skiprange uses wrong case and should be olm.skipRange
    /// instead`
    CSV_25: Deny {
        name: "exact-olm-annotation-case",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        denies_in: [Bundle, Manifest],
        source: ["api pkg/validation/internal/csv.go, pkg/validation/internal/csv_test.go"],
    }
}

fn check_spelling(csv: &mut Csv<'_, '_>) {
    let mut found = Vec::new();
    // No other characters fold to these letters.
    let may_be_olm =
        |name: &&String| name.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("olm."));
    for name in csv.annotations().iter().filter(may_be_olm) {
        let known =
            CASE_SENSITIVE_ANNOTATIONS.iter().find(|known| is_same_in_lower_case(name, known));
        if let Some(known) = known.filter(|known| *known != name)
            && csv.touches_annotation(name)
        {
            found.push((name.clone(), *known));
        }
    }
    for (name, known) in found {
        let message =
            format!("provided annotation {name} uses wrong case and should be {known} instead");
        csv.add(&CSV_25, &field(&name), message);
        let is_there = csv.has_annotation(known);
        let range = csv.annotation(&name).filter(|_| known == SKIP_RANGE);
        csv.fix(&CSV_25, || {
            let is_valid =
                range.is_none_or(|range| range.is_empty() || Range::parse(&range).is_ok());
            let fix = Fix::safe(format!("rename the annotation to {known}"));
            (!is_there && is_valid).then(|| fix.rename_key(annotation(&name), known))
        });
    }
}

/// Whether both names are equal in lower case. Like `strings.ToLower`, maps each character to one
/// character.
fn is_same_in_lower_case(name: &str, known: &str) -> bool {
    // Names that are equal in lower case have the same length, unless a character is one of the few
    // that fold to ASCII.
    if name.len() != known.len() && name.is_ascii() {
        return false;
    }
    let lower = |c: char| c.to_lowercase().next().unwrap_or(c);
    name.chars().map(lower).eq(known.chars().map(lower))
}

rule! {
    /// properties are in metadata/properties.yaml
    ///
    /// The annotation `olm.properties` is absent. The rule is off by default: the documents tell
    /// authors to set the annotation for `olm.maxOpenShiftVersion` (OpenShift 4.12, Operators,
    /// *Controlling Operator compatibility with OpenShift Container Platform versions*). A
    /// configured level turns it on. Copies that OLM makes are exempt. An UPDATE is evaluated only
    /// if it changes the annotation.
    ///
    /// # Why
    ///
    /// Tools that build catalogs read properties from `metadata/properties.yaml` of a bundle. The
    /// validators of operator-framework/api warn of the annotation.
    ///
    /// # Remediation
    ///
    /// Remove the annotation, and write each element of its list below `properties` in
    /// `metadata/properties.yaml` of the bundle. CSV-80 evaluates `olm.maxOpenShiftVersion` there, too.
    ///
    /// ```yaml
    /// properties:
    /// - {type: olm.maxOpenShiftVersion, value: "4.9"}
    /// ```
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// metadata: {annotations: {capabilities: Full Lifecycle}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// metadata: {annotations: {olm.properties: "[]"}}
    /// ```
    ///
    /// `message: found olm.properties annotation, please define these properties in
    /// metadata/properties.yaml instead`
    CSV_26: Warn {
        name: "properties-in-metadata-file",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        enabled_by: [],
        source: ["OCP 4.12 L21700-21721", "api pkg/validation/internal/annotations.go"],
    }
}

rule! {
    /// the annotation olm.skipRange is a range of versions
    ///
    /// The annotation `olm.skipRange`, if set and not empty, is a range that the library
    /// `blang/semver` parses: comparators such as `>=4.1.0 <4.1.2`, and alternatives between `||`.
    /// CON-10 warns of ambiguous ranges. A ClusterServiceVersion in a catalog is not evaluated:
    /// there the entry of the channel has the range (FBC-22). Copies that OLM makes are exempt. An
    /// UPDATE is evaluated only if it changes the annotation.
    ///
    /// # Why
    ///
    /// OLM updates every version in the range directly to this one (OpenShift 4.12, Operators,
    /// *Skipping multiple Operators*). OLM ignores a range that it cannot parse: the Operator is
    /// installed, but skips nothing.
    ///
    /// # Remediation
    ///
    /// Write versions with three numbers, each after an operator and without a `v`: `<1.4.0` for
    /// `<v1.4.0`.
    ///
    /// `opgate check --fix --unsafe-fixes` proposes a correction.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// metadata: {annotations: {olm.skipRange: ">=4.1.0 <4.1.2"}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// metadata: {annotations: {olm.skipRange: 4.1.x to 4.1.2}}
    /// ```
    ///
    /// `message: invalid olm.skipRange "4.1.x to 4.1.2": Could not get version from string: "to"`
    ///
    /// For `<v1.4.0`: `message: invalid olm.skipRange "<v1.4.0": Could not parse Range "<v1.4.0": Could
    /// not parse comparator "<v" in "<v1.4.0"; remove the v`
    CSV_28: Warn {
        name: "valid-skip-range",
        on: [CSV: Create | Update],
        source: ["OCP 4.12 L2478-2482, L2508-2514", "OCP 4.15 L1742-1850"],
    }
}

fn check_skip_range(csv: &mut Csv<'_, '_>) {
    let range = csv.annotation(SKIP_RANGE).unwrap_or_default();
    if range.is_empty() {
        return;
    }
    if range.len() > MAX_VERSION_BYTES {
        let message = format!(
            "invalid olm.skipRange {}: more than {MAX_VERSION_BYTES} bytes",
            quote_start(&range)
        );
        return csv.add(&CSV_28, &field(SKIP_RANGE), message);
    }
    if let Err(why) = Range::parse(&range) {
        let is_readable = Range::parse(&corrections::without_v(&range)).is_ok();
        let hint = if is_readable { "; remove the v" } else { "" };
        let message = format!("invalid olm.skipRange {}: {why}{hint}", quote(&range));
        csv.add(&CSV_28, &field(SKIP_RANGE), message);
        csv.fix(&CSV_28, || {
            let corrected = corrections::version_range(&range)?;
            // OLM ignores an invalid range.
            Some(corrections::propose(annotation(SKIP_RANGE), &corrected))
        });
    }
}
