//! The last OpenShift version that an Operator works on: the property `olm.maxOpenShiftVersion`.
//!
//! OLM reads it from its own annotation, in which it writes the properties of the bundle; authors
//! write it into `olm.properties`. OLM counts 4.23 and 5.0 as one version.

use opgate_compat::json;
use opgate_compat::version::Version;
use opgate_sdk::go::shorten;
use opgate_sdk::{Document, Kind};

use super::lists::{self, Element};
use super::{MAX_SHOWN_BYTES, field};
use crate::csv::annotation;

/// The type of the property.
pub(super) const PROPERTY: &str = "olm.maxOpenShiftVersion";

/// The annotation that authors write: a list of properties.
pub(super) const AUTHOR_PROPERTIES: &str = "olm.properties";
/// The annotation that OLM writes and reads: an object with the list as [`OLM_PROPERTIES_MEMBER`].
pub(super) const OLM_PROPERTIES: &str = "operatorframework.io/properties";
/// The member of the annotation that OLM writes.
const OLM_PROPERTIES_MEMBER: &str = "properties";
/// The annotations, and where their list of properties is.
const ANNOTATIONS: [(&str, Option<&str>); 2] =
    [(AUTHOR_PROPERTIES, None), (OLM_PROPERTIES, Some(OLM_PROPERTIES_MEMBER))];

/// The members of a property.
pub(super) const MEMBERS: [&str; 2] = ["type", "value"];
/// The position of the type among them.
pub(super) const TYPE: usize = 0;
/// The position of the value among them.
pub(super) const VALUE: usize = 1;

/// Major and minor number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MinorVersion(u64, u64);

impl From<&Version> for MinorVersion {
    fn from(version: &Version) -> Self {
        match (version.major, version.minor) {
            (4, 23) => Self(5, 0),
            (major, minor) => Self(major, minor),
        }
    }
}

impl MinorVersion {
    /// Reads a version of a cluster, or the value of the property.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        // An empty text is not version 0.
        let version = Version::parse_tolerant(text).ok().filter(|_| !text.trim().is_empty())?;
        Some(Self::from(&version))
    }
}

/// The last version that is supported.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MaximumVersion {
    pub(crate) version: MinorVersion,
    /// The version as written.
    pub(crate) text: String,
    /// The annotation that has it.
    pub(crate) annotation: &'static str,
}

impl MaximumVersion {
    /// The field of the version.
    pub(crate) fn field(&self) -> String {
        field(self.annotation)
    }
}

/// Whether a property is `olm.maxOpenShiftVersion`.
pub(super) fn is_maximum(property: &Element<2>, text: &str) -> bool {
    property.text(TYPE, text).is_some_and(|name| name == PROPERTY)
}

/// The last version that a ClusterServiceVersion supports: the lowest of those that it names. A
/// value that is not a version has no effect.
pub(crate) fn maximum(csv: &Document) -> Option<MaximumVersion> {
    let mut lowest: Option<MaximumVersion> = None;
    for (annotation, member) in ANNOTATIONS {
        let Some(text) = text_of(csv, annotation) else { continue };
        // An escape could hide it.
        if !text.contains(PROPERTY) && !text.contains('\\') {
            continue;
        }
        let list = match member {
            Some(name) => member_of(&text, name),
            None => Some(text.as_str()),
        };
        let Some(list) = list else { continue };
        let visit = |property: Element<2>| {
            if !is_maximum(&property, list) {
                return;
            }
            // OLM reads `4.9` like `"4.9"`.
            let Some(part) = property.member(VALUE) else { return };
            let value = part.text(list).unwrap_or_else(|| part.raw(list).into());
            if let Some(minor) = MinorVersion::parse(&value)
                && lowest.as_ref().is_none_or(|lowest| minor < lowest.version)
            {
                lowest = Some(MaximumVersion {
                    version: minor,
                    text: shorten(&value, MAX_SHOWN_BYTES),
                    annotation,
                });
            }
        };
        // Properties before an error count: another rule denies the list.
        let _ = lists::for_each_element(list, MEMBERS, visit);
    }
    lowest
}

/// The list of properties in the annotation that OLM writes.
pub(super) fn olm_property_list(text: &str) -> Option<&str> {
    member_of(text, OLM_PROPERTIES_MEMBER)
}

/// The JSON of a member.
fn member_of<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let mut found = None;
    let read = json::each_child(text.as_bytes(), |child| {
        if child.is_named(name) {
            found = Some(child.offset..child.offset.saturating_add(child.raw.len()));
        }
    });
    found.filter(|_| read.is_ok()).and_then(|range| text.get(range))
}

/// In files, the list itself can replace its text.
fn text_of(csv: &Document, name: &str) -> Option<String> {
    let pointer = annotation(name);
    match csv.kind(&pointer) {
        Kind::Text => csv.text(&pointer),
        Kind::List | Kind::Object => {
            csv.raw(&pointer).and_then(|json| String::from_utf8(json).ok())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_maximum_counts() {
        let max = |value: &str| format!(r#"{{"type":"olm.maxOpenShiftVersion","value":{value}}}"#);
        let list = |values: &[&str]| {
            format!("[{}]", values.iter().map(|v| max(v)).collect::<Vec<_>>().join(","))
        };
        for (own, olms, expected) in [
            (list(&[r#""4.9""#]), None, Some("4.9")),
            (list(&["4.8"]), None, Some("4.8")),
            (list(&[r#""v4.10.0""#]), None, Some("v4.10.0")),
            (list(&[r#""4.10""#, r#""4.9""#]), None, Some("4.9")),
            (list(&[r#""four""#]), None, None),
            (list(&[r#""""#]), None, None),
            (list(&["null", "[]", r#""4.12""#]), None, Some("4.12")),
            ("not json".to_owned(), None, None),
            ("[]".to_owned(), Some(list(&[r#""4.11""#])), Some("4.11")),
            (list(&[r#""4.12""#]), Some(list(&[r#""4.11""#])), Some("4.11")),
            (
                r#"[{"type":"olm\u002emaxOpenShiftVersion","value":"4.7"}]"#.into(),
                None,
                Some("4.7"),
            ),
        ] {
            let mut annotations = serde_json::json!({"olm.properties": own});
            if let Some(olms) = &olms {
                let olms = format!(r#"{{"properties":{olms}}}"#);
                annotations["operatorframework.io/properties"] = olms.into();
            }
            let csv = serde_json::json!({"metadata": {"annotations": annotations}}).to_string();
            let found = maximum(&Document::parse(&csv).unwrap());
            assert_eq!(found.map(|found| found.text).as_deref(), expected, "{csv}");
        }
    }

    #[test]
    fn openshift_4_23_equals_5_0() {
        let ascending = ["4.9", "4.10.3", "4.22.0-rc1", "4.23", "5.1"];
        let minors: Vec<_> =
            ascending.iter().map(|text| MinorVersion::parse(text).unwrap()).collect();
        assert!(minors.is_sorted_by(|low, high| low < high));
        assert_eq!(MinorVersion::parse("4.23.7"), MinorVersion::parse("5.0"));
        assert_eq!(MinorVersion::parse(" "), None);
    }
}
