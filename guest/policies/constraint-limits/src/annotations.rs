//! Properties in annotations of ClusterServiceVersions, and the range of versions that one skips.

use opgate_constraint::constraint;
use opgate_constraint::properties::{self, Form};
use opgate_constraint::range::Range;
use opgate_sdk::copies::Marks;
use opgate_sdk::{Document, Request, escape};

use crate::findings::Findings;

/// OLM's own, and the one that bundles carry.
pub(crate) const PROPERTIES: [(&str, Form); 2] =
    [("operatorframework.io/properties", Form::Wrapped), ("olm.properties", Form::Bare)];
const SKIP_RANGE: &str = "olm.skipRange";
pub(crate) const ANNOTATIONS: &str = "/metadata/annotations";

/// Looks at the annotations of a CSV; at those alone that differ from the old object's, where
/// there is one.
///
/// A copy says what its original says, so that nothing is lost by judging it: only OLM's own are left
/// out. What drops or changes a mark of a copy is judged as a whole.
pub(crate) fn judge(
    request: &Request,
    csv: &Document,
    old: Option<&Document>,
    findings: &mut Findings<'_>,
) {
    let marks_of = |csv: &Document| Marks::of(csv, &request.namespace);
    let marks = marks_of(csv);
    let old = old.filter(|old| marks.lasted(&marks_of(old)));
    let is_same =
        |old: &Document| marks_of(old) == marks && csv.equal(ANNOTATIONS, old, ANNOTATIONS);
    if marks.claim() && findings.spares_copy(request, old.is_none_or(|old| !is_same(old))) {
        return;
    }
    each(csv, old, ANNOTATIONS, "metadata.annotations", findings);
}

/// Looks at the annotations at a pointer, whose field is `at`.
pub(crate) fn each(
    object: &Document,
    old: Option<&Document>,
    annotations: &str,
    at: &str,
    findings: &mut Findings<'_>,
) {
    let names = PROPERTIES.map(|(name, form)| (name, Some(form)));
    for (name, form) in names.into_iter().chain([(SKIP_RANGE, None)]) {
        let pointer = format!("{annotations}/{}", escape(name));
        // Not its kind: that would read it.
        if object.size(&pointer).is_none() {
            continue;
        }
        let field = format!("{at}[{name}]");
        let is_old = old.is_some_and(|old| object.equal(&pointer, old, &pointer));
        if is_old || !findings.admits(object, &pointer, &field) {
            continue;
        }
        match (object.text(&pointer), form) {
            (Some(text), Some(form)) => list(&text, form, &field, true, findings),
            (Some(text), None) => skip_range(&text, || field, findings),
            (None, _) => {}
        }
    }
}

/// CON-10 for a range of versions to skip. Whether it can be read at all is for other rules.
pub(crate) fn skip_range(text: &str, field: impl FnOnce() -> String, findings: &mut Findings<'_>) {
    let surprise = Range::parse(text).ok().and_then(|range| constraint::surprise(text, &range));
    if let Some(message) = surprise {
        findings.add("CON-10", &field(), message);
    }
}

/// A list of properties as JSON text. `certain` says that the text is what OLM will read.
pub(crate) fn list(
    json: &str,
    form: Form,
    field: &str,
    certain: bool,
    findings: &mut Findings<'_>,
) {
    let options = findings.options;
    let place = if form == Form::Wrapped { ".properties" } else { "" };
    let read = properties::each(json.as_bytes(), form, |property| {
        if findings.is_settled() {
            return;
        }
        let found = properties::check(property, &options);
        if !found.is_empty() {
            findings.extend(&format!("{field}{place}[{}].value", property.index), found);
        }
    });
    if let Err(error) = read
        && certain
    {
        findings.add(
            "CON-17",
            field,
            format!("failed to unmarshal properties annotation: {error}"),
        );
    }
}
