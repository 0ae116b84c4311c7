//! The ClusterServiceVersion under evaluation, from any source.
//!
//! ```text
//! request, manifest ──────────────────▶ Source::Object ───┐
//! olm.bundle.object of a catalog ─────▶ Source::Object ───┼─▶ Csv ─▶ groups of rules ─▶ Report
//! olm.csv.metadata of a catalog ──────▶ Source::Metadata ─┘
//! ```
//!
//! Rules evaluate the object and name fields of it. If the object is part of a catalog, the fields
//! of violations become fields of the catalog. Members that `olm.csv.metadata` omits are unknown: a
//! rule that reports a missing member calls [`Csv::has_member_set`] first.

use opgate_sdk::{Document, Fix, Kind, Level, Report, Review, Rule, Shape, escape};

use crate::object::Object;

const ANNOTATIONS: &str = "/metadata/annotations";
const LABELS: &str = "/metadata/labels";

/// The source of the ClusterServiceVersion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// An object. The text is the prefix of its fields: empty for a request, and the location of
    /// the property in a catalog.
    Object(String),
    /// The value of a property `olm.csv.metadata`, with the locations of the blob and of the value.
    Metadata {
        /// The blob of the bundle.
        blob: String,
        /// The value of the property.
        value: String,
    },
}

/// Members of `spec` that a property `olm.csv.metadata` also has, with their names in the property.
/// Its `labels` are the labels of the metadata, and the version is in the property `olm.package`.
pub(crate) const IN_METADATA: [(&str, &str); 12] = [
    ("apiservicedefinitions", "apiServiceDefinitions"),
    ("customresourcedefinitions", "crdDescriptions"),
    ("description", "description"),
    ("displayName", "displayName"),
    ("installModes", "installModes"),
    ("keywords", "keywords"),
    ("links", "links"),
    ("maintainers", "maintainers"),
    ("maturity", "maturity"),
    ("minKubeVersion", "minKubeVersion"),
    ("nativeAPIs", "nativeAPIs"),
    ("provider", "provider"),
];

/// A rule that a mistake violates, and the function that makes the field and the message.
pub(crate) type LazyViolation<'t> = (&'static Rule, &'t dyn Fn() -> [String; 2]);

/// A ClusterServiceVersion and the report of its evaluation.
pub(crate) struct Csv<'a, 'r> {
    /// The request. Its old object is one that was evaluated before.
    pub(crate) review: &'a Review<'a>,
    /// The object.
    pub(crate) object: &'a Object<'a>,
    /// Its name; empty if a file has none.
    pub(crate) name: String,
    /// The report of the evaluation.
    pub(crate) report: &'a mut Report<'r>,
    source: Source,
    /// Names of the annotations, in byte order.
    annotations: Vec<String>,
    /// Names of the labels, in byte order.
    labels: Vec<String>,
    /// Values that an UPDATE does not change, as pointers.
    unchanged: Vec<&'static str>,
    /// [`Review::ratchet_base`].
    ratchet_base: Option<&'a Document>,
    /// Whether the catalog itself has the property `olm.maxOpenShiftVersion`.
    has_catalog_maximum: bool,
}

impl<'a, 'r> Csv<'a, 'r> {
    /// The object of a review.
    pub(crate) fn of(
        review: &'a Review<'a>,
        object: &'a Object<'a>,
        source: Source,
        report: &'a mut Report<'r>,
    ) -> Self {
        Self {
            review,
            object,
            name: object.text("/metadata/name").unwrap_or_else(|| review.request.name().to_owned()),
            report,
            source,
            annotations: object.keys(ANNOTATIONS),
            labels: object.keys(LABELS),
            unchanged: Vec::new(),
            ratchet_base: review.ratchet_base(),
            has_catalog_maximum: false,
        }
    }

    /// Records that the catalog has the property `olm.maxOpenShiftVersion`, which is copied from an
    /// annotation.
    pub(crate) fn set_catalog_maximum(&mut self) {
        self.has_catalog_maximum = true;
    }

    /// Whether the catalog has the property `olm.maxOpenShiftVersion`.
    pub(crate) fn has_catalog_maximum(&self) -> bool {
        self.has_catalog_maximum
    }

    /// Sets the values that an UPDATE does not change. Their content is not queried again.
    pub(crate) fn set_unchanged(&mut self, pointers: Vec<&'static str>) {
        self.unchanged = pointers;
    }

    /// The object before an UPDATE, if violations in unchanged fields are omitted.
    pub(crate) fn ratchet_base(&self) -> Option<&'a Document> {
        self.ratchet_base
    }

    /// Whether a value is known to be inside an unchanged one.
    pub(crate) fn is_unchanged(&self, pointer: &str) -> bool {
        let is_in = |whole: &&str| {
            pointer
                .strip_prefix(*whole)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.unchanged.iter().any(is_in)
    }

    /// Adds a violation for a field of the object.
    pub(crate) fn add(&mut self, rule: &'static Rule, field: &str, message: impl Into<String>) {
        let field = self.field(field);
        self.report.add(rule, field, message);
    }

    /// Adds one violation for a mistake that violates several rules, see [`Report::add_once`]. The
    /// field and the message of a rule are used if the violation is reported for that rule.
    pub(crate) fn add_once(&mut self, violations: &[LazyViolation<'_>]) {
        let is_on = |(rule, _): &&LazyViolation<'_>| self.report.is_on(rule);
        let denies = |(rule, _): &&LazyViolation<'_>| self.report.denies(rule);
        let strictest = violations.iter().filter(is_on).find(denies);
        let Some((rule, texts)) = strictest.or_else(|| violations.iter().find(is_on)) else {
            return;
        };
        if self.report.is_full(rule) {
            return self.report.add_count(rule, 1);
        }
        let [field, message] = texts();
        let others = violations.iter().filter(|(other, _)| !std::ptr::eq(*other, *rule));
        let others = others.map(|(other, _)| (*other, String::new()));
        let field = self.field(&field);
        self.report.add_once(field, std::iter::once((*rule, message)).chain(others));
    }

    /// Gives a fix to the violation that was added last, if it is one of the rule. Pointers are relative to the
    /// ClusterServiceVersion. An object in a catalog has no fixes: it is a copy of the object in the bundle.
    pub(crate) fn fix(&mut self, rule: &Rule, fix: impl FnOnce() -> Option<Fix>) {
        let Source::Object(place) = &self.source else { return };
        if let Some(base) = object_pointer(place) {
            let object = self.object;
            // The fix of RBF-34 renames the misspelt member.
            let fix = || fix().filter(|fix| !fix.adds_other_spelling(object));
            self.report.set_fix(rule, || fix().map(|fix| fix.below(&base)));
        }
    }

    /// [`Csv::fix`] by a function of the ClusterServiceVersion.
    pub(crate) fn fix_with(&mut self, rule: &Rule, fix: impl FnOnce(&Self) -> Option<Fix>) {
        // Only a violation of the report needs a fix.
        let mut is_wanted = false;
        self.fix(rule, || {
            is_wanted = true;
            None
        });
        if is_wanted {
            let fix = fix(self);
            self.fix(rule, || fix);
        }
    }

    /// [`Csv::add`] with another level than the rule's, if none is configured.
    pub(crate) fn add_as(
        &mut self,
        level: Level,
        rule: &'static Rule,
        field: &str,
        message: impl Into<String>,
    ) {
        let field = self.field(field);
        self.report.add_as(level, rule, field, message);
    }

    /// Whether a rule is on. Call this before expensive work.
    pub(crate) fn is_on(&self, rule: &Rule) -> bool {
        self.report.is_on(rule)
    }

    /// Translates a field of the ClusterServiceVersion to a field of the object under review.
    pub(crate) fn field(&self, field: &str) -> String {
        match &self.source {
            Source::Object(place) if place.is_empty() => field.to_owned(),
            Source::Object(place) => format!("{place}.{field}"),
            Source::Metadata { blob, value } => {
                if field == "metadata.name" {
                    return format!("{blob}.name");
                }
                if let Some(rest) = field.strip_prefix("metadata.") {
                    return format!("{value}.{rest}");
                }
                let Some(rest) = field.strip_prefix("spec.") else { return value.clone() };
                let end = rest.find(['.', '[']).unwrap_or(rest.len());
                let (member, inner) = rest.split_at(end);
                let known = IN_METADATA.iter().find(|(name, _)| *name == member);
                known.map_or(value.clone(), |(_, name)| format!("{value}.{name}{inner}"))
            }
        }
    }

    /// Whether the source contains `/spec/<member>`. A property of a catalog never contains
    /// deployments, so none of them counts as missing.
    pub(crate) fn has_member_set(&self, member: &str) -> bool {
        match &self.source {
            Source::Object(_) => true,
            Source::Metadata { .. } => IN_METADATA.iter().any(|(name, _)| *name == member),
        }
    }

    /// Whether a rule must evaluate the value at the pointer, see [`Review::touches`].
    pub(crate) fn touches(&self, pointer: &str, shape: &Shape) -> bool {
        !self.is_unchanged(pointer)
            && self.ratchet_base.is_none_or(|old| !shape.equal(self.object, old, pointer))
    }

    /// [`Csv::touches`] for a map or any other value that is compared as JSON.
    pub(crate) fn touches_json(&self, pointer: &str) -> bool {
        !self.is_unchanged(pointer)
            && self.ratchet_base.is_none_or(|old| !self.object.equal(pointer, old, pointer))
    }

    /// Whether a rule must evaluate an annotation: it exists or existed, and differs.
    pub(crate) fn touches_annotation(&self, name: &str) -> bool {
        self.touches_json(&annotation(name))
    }

    /// Names of all annotations, in byte order.
    pub(crate) fn annotations(&self) -> &[String] {
        &self.annotations
    }

    /// Names of all labels, in byte order.
    pub(crate) fn labels(&self) -> &[String] {
        &self.labels
    }

    /// Whether there is an annotation of this name.
    pub(crate) fn has_annotation(&self, name: &str) -> bool {
        self.annotations.binary_search_by(|known| known.as_str().cmp(name)).is_ok()
    }

    /// The text of an annotation. In a file it can be written as a list or an object: its JSON
    /// counts then, because documents print such annotations (MSC-20 warns). `null` counts as no
    /// annotation.
    pub(crate) fn annotation(&self, name: &str) -> Option<String> {
        if !self.has_annotation(name) {
            return None;
        }
        let pointer = annotation(name);
        // Nearly always the value is a text.
        if let Some(text) = self.object.text(&pointer) {
            return Some(text);
        }
        match self.object.kind(&pointer) {
            Kind::Missing | Kind::Null => None,
            _ => self.object.raw(&pointer).and_then(|json| String::from_utf8(json).ok()),
        }
    }
}

/// The pointer of an object that is the whole document, or a document of a bundle.
pub(crate) fn object_pointer(place: &str) -> Option<String> {
    if place.is_empty() {
        return Some(String::new());
    }
    let file = place.strip_prefix("spec.files[")?.strip_suffix("].documents[0]")?;
    Some(format!("/spec/files/{file}/documents/0"))
}

/// The pointer of an annotation.
pub(crate) fn annotation(name: &str) -> String {
    format!("{ANNOTATIONS}/{}", escape(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use opgate_sdk::{Request, RequestParts};

    #[test]
    fn fields_of_a_property_are_those_of_the_catalog() {
        let object = Document::parse("{}").unwrap();
        let settings = Document::parse("{}").unwrap();
        let request = Request::from(RequestParts::default());
        let review =
            Review { request: &request, object: Some(&object), old: None, settings: &settings };
        let metadata = Source::Metadata { blob: "spec.blobs[1].value".into(), value: "V".into() };
        for (source, field, expected) in [
            (Source::Object(String::new()), "spec.version", "spec.version"),
            (Source::Object("D".into()), "spec.version", "D.spec.version"),
            (metadata.clone(), "metadata.name", "spec.blobs[1].value.name"),
            (metadata.clone(), "metadata.annotations[a]", "V.annotations[a]"),
            (metadata.clone(), "spec.links[0].url", "V.links[0].url"),
            (
                metadata.clone(),
                "spec.customresourcedefinitions.owned[2].name",
                "V.crdDescriptions.owned[2].name",
            ),
            (metadata, "spec.install.spec.deployments", "V"),
        ] {
            let mut report = Report::new(review);
            let known = Object::of(&object);
            let csv = Csv::of(&review, &known, source, &mut report);
            assert_eq!(csv.field(field), expected);
        }
    }
}
