//! The Go types of a ClusterServiceVersion, for [`RBF_12`](crate::manifests::RBF_12): upstream
//! decodes the manifest into them, and rejects a manifest in which a list is a string.
//!
//! ```text
//! JSON of the manifest, in one pass along its type ─▶ Mismatches: where, and what Go's decoder says
//! ```
//!
//! The policy for ClusterServiceVersions evaluates these types instead: the version (CSV-06),
//! install modes (CSV-29), the strategy (CSV-34), names of APIs (CSV-36, CSV-37, CSV-44, CSV-45)
//! and webhooks (CSV-83, CSV-84). Members that a type does not have are ignored, as by Go; RBF-34
//! reports them. Numbers instead of strings are rejected: not all of upstream's decoders accept
//! them, and no API server does.

use opgate_schema::{FieldPath, Kind, Mismatch, SchemaErrorSink, TypeId, quantity_error, walk};
use opgate_sdk::{Document, Fix, corrections};

use crate::manifests::CSV;

/// The maximum size of a readable manifest. A result of a host call has at most 4 MiB.
pub(crate) const MAX_MANIFEST_BYTES: u32 = 3 << 20;

/// The maximum size of an object that becomes the only element of a list.
const MAX_LISTED_BYTES: u32 = 16 << 10;

/// Values of the wrong type.
#[derive(Debug, Default)]
pub(super) struct Mismatches {
    /// The first values: the field, and the reason why Go does not decode it.
    pub(super) first: Vec<FoundMismatch>,
    /// The number of further values.
    pub(super) more: usize,
    max_shown: usize,
}

/// Fields that other rules evaluate, by the Go type that has them.
const EVALUATED_ELSEWHERE: [(&str, &[&str]); 7] = [
    ("v1alpha1.ClusterServiceVersion", &["apiVersion", "kind"]),
    ("v1alpha1.ClusterServiceVersionSpec", &["installModes", "version"]),
    ("v1alpha1.InstallMode", &["supported", "type"]),
    ("v1alpha1.NamedInstallStrategy", &["strategy"]),
    ("v1alpha1.CRDDescription", &["kind", "name", "version"]),
    ("v1alpha1.APIServiceDescription", &["kind", "name", "version"]),
    ("v1alpha1.WebhookDescription", &["containerPort", "type"]),
];
/// Metadata of the object itself: evaluated like the metadata of any object.
const METADATA_FIELDS: [&str; 4] = ["annotations", "finalizers", "labels", "ownerReferences"];

/// The values of a ClusterServiceVersion that upstream cannot decode; at most `room` of them are
/// named. `None` if the manifest is too large.
pub(super) fn find_mismatches(csv: &Document, max_shown: usize) -> Option<Mismatches> {
    let mut mismatches = Mismatches { max_shown, ..Mismatches::default() };
    // Upstream decodes it by its kind, regardless of its version.
    let of = TypeId::of_kind("operators.coreos.com/v1alpha1", CSV)?;
    if csv.size("")? > MAX_MANIFEST_BYTES {
        return None;
    }
    walk(&csv.raw("")?, of, &mut mismatches);
    Some(mismatches)
}

/// A value of another type.
#[derive(Debug)]
pub(super) struct FoundMismatch {
    pub(super) field: String,
    /// The words of Go's decoder.
    pub(super) why: String,
    pub(super) correction: Correction,
}

/// The location of a value of another type, and the type.
#[derive(Debug)]
pub(super) struct Correction {
    pointer: String,
    wanted: Option<Kind>,
    wants_texts: bool,
    wants_quantity: bool,
}

impl Correction {
    /// The fix, if the value can only mean one value of the type.
    pub(super) fn fix(&self, csv: &Document) -> Option<Fix> {
        let pointer = self.pointer.as_str();
        if self.wants_quantity {
            let quantity = quantity(&csv.text(pointer)?)?;
            return Some(corrections::write(pointer, &quantity));
        }
        match self.wanted? {
            Kind::Text => corrections::text_fix(csv, pointer),
            Kind::Boolean => corrections::boolean_fix(csv, pointer),
            Kind::Number => corrections::integer_fix(csv, pointer),
            Kind::List if self.wants_texts => text_list(pointer, &csv.text(pointer)?),
            Kind::List if csv.kind(pointer) == opgate_sdk::Kind::Object => {
                let size = csv.size(pointer).filter(|size| *size <= MAX_LISTED_BYTES);
                let object = String::from_utf8(size.and_then(|_| csv.raw(pointer))?).ok()?;
                let fix = Fix::needs_review("write a list of this one");
                Some(fix.set(pointer, format!("[{object}]")))
            }
            _ => None,
        }
    }
}

/// The list of the one text, or after a review of the names between commas.
fn text_list(pointer: &str, text: &str) -> Option<Fix> {
    let is_name = |name: &str| {
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_' | '.' | '/');
        name.starts_with(char::is_alphanumeric) && name.chars().all(is_part)
    };
    let names: Vec<&str> = text.split(',').map(str::trim).collect();
    let is_one = !text.is_empty() && !text.contains(|c: char| c == ',' || c.is_whitespace());
    let (fix, names) = match names.as_slice() {
        [_] if is_one => (Fix::safe("write a list"), vec![text]),
        [_, _, ..] if names.iter().all(|name| is_name(name)) => {
            (Fix::needs_review("write a list of the names between the commas"), names)
        }
        _ => return None,
    };
    let names: Vec<_> = names.into_iter().map(opgate_sdk::json_string).collect();
    Some(fix.set(pointer, format!("[{}]", names.join(","))))
}

/// The quantity without spaces before its suffix, and without the `B` for bytes.
fn quantity(text: &str) -> Option<String> {
    const SUFFIXES: [&str; 12] = ["k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let trimmed = text.trim();
    let end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, suffix) = trimmed.split_at(end);
    let suffix = suffix.trim_start();
    let suffix = suffix.strip_suffix('B').unwrap_or(suffix);
    let plain = format!("{number}{suffix}");
    let is_known = !number.is_empty() && SUFFIXES.contains(&suffix);
    (is_known && plain != text && quantity_error(&plain).is_none()).then_some(plain)
}

impl SchemaErrorSink for Mismatches {
    fn type_mismatch(&mut self, place: &FieldPath<'_>, mismatch: &Mismatch<'_>) {
        if is_evaluated(place) {
        } else if self.first.len() < self.max_shown {
            self.first.push(FoundMismatch {
                field: place.field(),
                why: mismatch.message(place),
                correction: Correction {
                    pointer: place.pointer(),
                    wanted: mismatch.wanted(),
                    wants_texts: mismatch.wants_texts(),
                    wants_quantity: mismatch.wants_quantity(),
                },
            });
        } else {
            self.more = self.more.saturating_add(1);
        }
    }
}

fn is_evaluated(place: &FieldPath<'_>) -> bool {
    let Some((of, field)) = place.innermost() else { return false };
    let known = EVALUATED_ELSEWHERE.iter().find(|(name, _)| *name == of.name());
    match known {
        Some((_, fields)) => fields.contains(&field.as_str()),
        // Metadata below a pod template is only decoded.
        None if matches!(of.name(), "v1.ObjectMeta" | "v1.OwnerReference") => {
            let path = place.field();
            let member = path.strip_prefix("metadata.").unwrap_or_default();
            let end = member.find(['.', '[']).unwrap_or(member.len());
            member.get(..end).is_some_and(|member| METADATA_FIELDS.contains(&member))
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(json: &str) -> Vec<String> {
        let document = Document::parse(json).unwrap();
        let found = find_mismatches(&document, 3).unwrap();
        let first = found.first.iter().map(|found| format!("{}: {}", found.field, found.why));
        first.chain((found.more > 0).then(|| format!("{} more", found.more))).collect()
    }

    #[test]
    fn values_of_other_types_are_named() {
        let json = |found: &str, field: &str, of: &str| {
            format!("json: cannot unmarshal {found} into Go struct field {field} of type {of}")
        };
        let spec = "ClusterServiceVersionSpec.spec";
        for (object, expected) in [
            ("{}", vec![]),
            (r#"{"spec":null,"unknown":[1]}"#, vec![]),
            (
                r#"{"spec":"x"}"#,
                vec![format!(
                    "spec: {}",
                    json(
                        "string",
                        "ClusterServiceVersion.spec",
                        "v1alpha1.ClusterServiceVersionSpec"
                    )
                )],
            ),
            (
                r#"{"spec":{"maintainers":"x","unknown":{"a":1}}}"#,
                vec![format!(
                    "spec.maintainers: {}",
                    json("string", &format!("{spec}.maintainers"), "[]v1alpha1.Maintainer")
                )],
            ),
            (
                r#"{"spec":{"keywords":["a",1,null],"version":1,"installModes":{"a":1}}}"#,
                vec![format!(
                    "spec.keywords[1]: {}",
                    json("number", &format!("{spec}.keywords"), "string")
                )],
            ),
            (r#"{"metadata":{"labels":{"a":1},"ownerReferences":[{"kind":1}]}}"#, vec![]),
            (
                r#"{"metadata":{"name":1}}"#,
                vec![format!(
                    "metadata.name: {}",
                    json("number", "ObjectMeta.metadata.name", "string")
                )],
            ),
            (
                r#"{"spec":{"cleanup":{"enabled":"true"},"icon":{"a":[{}]},"maturity":1.0,"links":5,"skips":[[]]}}"#,
                vec![
                    format!(
                        "spec.cleanup.enabled: {}",
                        json("string", "CleanupSpec.spec.cleanup.enabled", "bool")
                    ),
                    format!(
                        "spec.icon: {}",
                        json("object", &format!("{spec}.icon"), "[]v1alpha1.Icon")
                    ),
                    format!(
                        "spec.maturity: {}",
                        json("number", &format!("{spec}.maturity"), "string")
                    ),
                    "2 more".to_owned(),
                ],
            ),
        ] {
            assert_eq!(found(object), expected, "{object}");
        }
    }

    #[test]
    fn quantities_have_one_meaning_or_none() {
        for (text, expected) in [
            ("64 Mi", Some("64Mi")),
            ("64MiB", Some("64Mi")),
            ("1.5 GB", Some("1.5G")),
            ("64mB", None),
            ("0.5B", None),
            ("1 000", None),
            ("1 000Mi", None),
            ("100 m", None),
            ("64Mi", None),
            ("Mi", None),
        ] {
            assert_eq!(quantity(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn manifests_that_are_too_large_are_left_out() {
        let json = format!(r#"{{"spec":{{"description":"{}"}}}}"#, "x".repeat(3 << 20));
        assert!(find_mismatches(&Document::parse(&json).unwrap(), 3).is_none());
    }
}
