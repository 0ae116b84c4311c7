//! A `CustomResourceDefinition` of `apiextensions.k8s.io/v1beta1`, rewritten for `apiextensions.k8s.io/v1`, as a [`Fix`].
//!
//! ```text
//! spec.version, spec.versions ────────────────────────▶ spec.versions[]
//! spec.validation, subresources, columns ─────────────▶ of each version
//! JSONPath ───────────────────────────────────────────▶ jsonPath
//! conversion.webhookClientConfig, conversionReviewVersions ▶ conversion.webhook
//! preserveUnknownFields: false ───────────────────────▶ the default
//! ```
//!
//! Only a CRD with a schema for each version is rewritten. A CRD that keeps unknown fields prunes them in `v1`:
//! that fix needs a review, and a schema with an object of which it tells nothing needs its author.

use crate::{Document, Fix, Kind, escape, json_string};

/// Maximum size of the values that are moved, in bytes.
const MAX_MOVED_BYTES: usize = 32 << 10;
/// Maximum number of edits of a fix.
const MAX_EDITS: usize = 16;
const API_VERSION: &str = "apiextensions.k8s.io/v1";
/// Members of the spec that are members of each version in `v1`, with their names there.
const SHARED: [(&str, &str); 3] = [
    ("validation", "schema"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
];
/// Members of the conversion that are members of its webhook in `v1`, with their names there.
const WEBHOOK: [(&str, &str); 2] = [
    ("webhookClientConfig", "clientConfig"),
    ("conversionReviewVersions", "conversionReviewVersions"),
];

/// Returns the fix; none if the CRD cannot be rewritten without a decision of its author.
pub fn to_v1(crd: &Document) -> Option<Fix> {
    let is_pruned = crd.boolean("/spec/preserveUnknownFields") == Some(false);
    let title = "rewrite the CRD for apiextensions.k8s.io/v1";
    let fix = if is_pruned { Fix::safe(title) } else { Fix::needs_review(title) };
    let mut edits = Edits { crd, fix, count: 0, moved: 0 };
    edits.set("/apiVersion", json_string(API_VERSION))?;
    if crd.has("/spec/preserveUnknownFields") {
        edits.remove("/spec/preserveUnknownFields")?;
    }
    let versions =
        crd.length("/spec/versions").filter(|_| crd.kind("/spec/versions") == Kind::List);
    match versions.unwrap_or_default() {
        0 => edits.write_version()?,
        count => edits.move_to_versions(count)?,
    }
    edits.move_conversion()?;
    (is_pruned || edits.has_complete_schemas()).then_some(edits.fix)
}

/// The edits so far.
struct Edits<'d> {
    crd: &'d Document,
    fix: Fix,
    count: usize,
    moved: usize,
}

impl Edits<'_> {
    fn edit(&mut self, edit: impl FnOnce(Fix) -> Fix) {
        let fix = std::mem::replace(&mut self.fix, Fix::safe(""));
        self.fix = edit(fix);
    }

    fn count_edit(&mut self) -> Option<()> {
        self.count = self.count.saturating_add(1);
        (self.count <= MAX_EDITS).then_some(())
    }

    fn set(&mut self, pointer: &str, json: String) -> Option<()> {
        self.count_edit()?;
        self.moved = self.moved.saturating_add(json.len());
        self.edit(|fix| fix.set(pointer, json));
        (self.moved <= MAX_MOVED_BYTES).then_some(())
    }

    fn remove(&mut self, pointer: &str) -> Option<()> {
        self.count_edit()?;
        self.edit(|fix| fix.remove(pointer));
        Some(())
    }

    /// The JSON of a shared member as a member of a version, empty if the CRD does not have it. None if it cannot be
    /// moved.
    fn shared(&self, member: &str) -> Option<String> {
        let pointer = format!("/spec/{member}");
        if !self.crd.has(&pointer) {
            return Some(String::new());
        }
        let size = self.crd.size(&pointer).and_then(|size| usize::try_from(size).ok())?;
        if size > MAX_MOVED_BYTES {
            return None;
        }
        if member.ends_with("Columns") {
            self.columns(&pointer)
        } else {
            String::from_utf8(self.crd.raw(&pointer)?).ok()
        }
    }

    /// The JSON of printer columns, with the name that their paths have in `v1`.
    fn columns(&self, columns: &str) -> Option<String> {
        let count = self.crd.length(columns).filter(|_| self.crd.kind(columns) == Kind::List)?;
        let columns = (0..count).map(|index| self.column(&format!("{columns}/{index}")));
        let columns: Vec<String> = columns.collect::<Option<_>>()?;
        Some(format!("[{}]", columns.join(",")))
    }

    fn column(&self, column: &str) -> Option<String> {
        if self.crd.kind(column) != Kind::Object || self.crd.has(&format!("{column}/jsonPath")) {
            return None;
        }
        let member = |key: &String| {
            let value = self.crd.raw(&format!("{column}/{}", escape(key)))?;
            let name = if key == "JSONPath" { "jsonPath" } else { key };
            Some(format!("{}:{}", json_string(name), String::from_utf8(value).ok()?))
        };
        let members: Vec<String> =
            self.crd.keys(column).iter().map(member).collect::<Option<_>>()?;
        Some(format!("{{{}}}", members.join(",")))
    }

    /// Writes `spec.version` as the only version.
    fn write_version(&mut self) -> Option<()> {
        let name = self.crd.text("/spec/version").filter(|name| !name.is_empty())?;
        let mut version =
            format!("{{\"name\":{},\"served\":true,\"storage\":true", json_string(&name));
        for (member, name) in SHARED {
            let json = self.shared(member)?;
            if !json.is_empty() {
                version.extend([",\"", name, "\":", &json]);
                self.remove(&format!("/spec/{member}"))?;
            } else if member == "validation" {
                return None;
            }
        }
        version.push('}');
        self.set("/spec/versions", format!("[{version}]"))?;
        self.remove("/spec/version")
    }

    /// Moves the shared members to each version.
    fn move_to_versions(&mut self, count: u32) -> Option<()> {
        if self.crd.has("/spec/version") {
            self.remove("/spec/version")?;
        }
        for (member, name) in SHARED {
            let shared = Some(self.shared(member)?).filter(|json| !json.is_empty());
            let mut is_used = false;
            for index in 0..count {
                let own = format!("/spec/versions/{index}/{name}");
                if self.crd.has(&own) {
                    self.rename_columns(&own)?;
                } else if let Some(json) = &shared {
                    self.set(&own, json.clone())?;
                    is_used = true;
                } else if member == "validation" {
                    return None;
                }
            }
            if is_used || self.crd.has(&format!("/spec/{member}")) {
                self.remove(&format!("/spec/{member}"))?;
            }
        }
        Some(())
    }

    /// Renames the paths of a version's printer columns.
    fn rename_columns(&mut self, columns: &str) -> Option<()> {
        if !columns.ends_with("Columns") {
            return Some(());
        }
        for index in 0..self.crd.length(columns).unwrap_or_default() {
            let path = format!("{columns}/{index}/JSONPath");
            if self.crd.has(&path) {
                self.count_edit()?;
                self.edit(|fix| fix.rename_key(path, "jsonPath"));
            }
        }
        Some(())
    }

    /// Whether the schemas describe the members of each object: `v1` prunes others.
    fn has_complete_schemas(&self) -> bool {
        let versions = self.crd.length("/spec/versions").unwrap_or_default();
        let own = (0..versions).map(|index| format!("/spec/versions/{index}/schema"));
        let shared = std::iter::once("/spec/validation".to_owned());
        let mut nodes = 0;
        shared.chain(own).all(|at| {
            let schema = format!("{at}/openAPIV3Schema");
            self.crd.at(&schema).is_none_or(|schema| is_complete(&schema, true, &mut nodes))
        })
    }

    fn move_conversion(&mut self) -> Option<()> {
        let is_converted = self.crd.has("/spec/conversion/webhookClientConfig");
        if is_converted && !self.crd.has("/spec/conversion/conversionReviewVersions") {
            // The default of v1beta1.
            let versions = "/spec/conversion/webhook/conversionReviewVersions";
            self.set(versions, "[\"v1beta1\"]".to_owned())?;
        }
        for (member, name) in WEBHOOK {
            let old = format!("/spec/conversion/{member}");
            if let Some(raw) = self.crd.raw(&old).filter(|_| self.crd.has(&old)) {
                let json = String::from_utf8(raw).ok()?;
                self.set(&format!("/spec/conversion/webhook/{name}"), json)?;
                self.remove(&old)?;
            }
        }
        Some(())
    }
}

/// Maximum number of schemas that are searched. A fix for more of them needs a review in any case.
const MAX_SCHEMAS: usize = 4_000;
/// Members of an object schema that tell what it contains.
const CONTENT: [&str; 3] =
    ["/properties", "/additionalProperties", "/x-kubernetes-preserve-unknown-fields"];

/// Whether each object in a schema has members.
fn is_complete(schema: &Document, is_root: bool, count: &mut usize) -> bool {
    *count = count.saturating_add(1);
    if *count > MAX_SCHEMAS {
        return true;
    }
    let is_object = schema.text("/type").is_some_and(|of| of == "object");
    if is_object && !CONTENT.iter().any(|member| schema.has(member)) {
        return false;
    }
    let properties = schema.keys("/properties");
    // The API server knows the metadata.
    let properties = properties.iter().filter(|name| !is_root || *name != "metadata");
    let pointers = properties.map(|name| format!("/properties/{}", escape(name)));
    let others = ["/items", "/additionalProperties"].map(str::to_owned);
    pointers.chain(others).all(|pointer| {
        let inner = schema.at(&pointer).filter(|inner| inner.kind("") == Kind::Object);
        inner.is_none_or(|inner| is_complete(&inner, false, count))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bindings::opgate::policy::types;

    fn edits(json: &str) -> Option<(bool, Vec<String>)> {
        let fix: types::Fix = to_v1(&Document::parse(json).unwrap())?.into();
        let edits = fix.edits.into_iter().map(|edit| match edit {
            types::Edit::Set(edit) => format!("{}={}", edit.pointer, edit.value),
            types::Edit::Remove(pointer) => format!("-{pointer}"),
            types::Edit::RenameKey(edit) => format!("{}>{}", edit.pointer, edit.name),
            other => panic!("{other:?}"),
        });
        Some((fix.safety == types::FixSafety::Safe, edits.collect()))
    }

    #[test]
    fn crds_with_schemas_are_rewritten() {
        let api_version = r#"/apiVersion="apiextensions.k8s.io/v1""#;
        for (json, expected) in [
            (
                r#"{"spec":{"version":"v1","preserveUnknownFields":false,"validation":{"openAPIV3Schema":{}},"additionalPrinterColumns":[{"JSONPath":".a"}]}}"#,
                Some((
                    true,
                    vec![
                        api_version,
                        "-/spec/preserveUnknownFields",
                        "-/spec/validation",
                        "-/spec/additionalPrinterColumns",
                        r#"/spec/versions=[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{}},"additionalPrinterColumns":[{"jsonPath":".a"}]}]"#,
                        "-/spec/version",
                    ],
                )),
            ),
            (
                r#"{"spec":{"version":"v1","versions":[{"name":"v1","additionalPrinterColumns":[{"JSONPath":".a"}]}],"validation":{"openAPIV3Schema":{}},"conversion":{"webhookClientConfig":{"url":"u"}}}}"#,
                Some((
                    false,
                    vec![
                        api_version,
                        "-/spec/version",
                        r#"/spec/versions/0/schema={"openAPIV3Schema":{}}"#,
                        "-/spec/validation",
                        "/spec/versions/0/additionalPrinterColumns/0/JSONPath>jsonPath",
                        r#"/spec/conversion/webhook/conversionReviewVersions=["v1beta1"]"#,
                        r#"/spec/conversion/webhook/clientConfig={"url":"u"}"#,
                        "-/spec/conversion/webhookClientConfig",
                    ],
                )),
            ),
            // A property of the schema, and a text.
            (
                r#"{"spec":{"version":"v1","preserveUnknownFields":false,"validation":{"openAPIV3Schema":{"properties":{"JSONPath":{}}}},"additionalPrinterColumns":[{"name":"\"JSONPath\":","JSONPath":".a"}]}}"#,
                Some((
                    true,
                    vec![
                        api_version,
                        "-/spec/preserveUnknownFields",
                        "-/spec/validation",
                        "-/spec/additionalPrinterColumns",
                        r#"/spec/versions=[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"properties":{"JSONPath":{}}}},"additionalPrinterColumns":[{"jsonPath":".a","name":"\"JSONPath\":"}]}]"#,
                        "-/spec/version",
                    ],
                )),
            ),
            // Unknown fields of the spec would be pruned.
            (
                r#"{"spec":{"version":"v1","validation":{"openAPIV3Schema":{"type":"object","properties":{"metadata":{"type":"object"},"spec":{"type":"object"}}}}}}"#,
                None,
            ),
            (
                r#"{"spec":{"version":"v1","validation":{"openAPIV3Schema":{"type":"object","properties":{"metadata":{"type":"object"},"spec":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}}"#,
                Some((
                    false,
                    vec![
                        api_version,
                        "-/spec/validation",
                        r#"/spec/versions=[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"metadata":{"type":"object"},"spec":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}]"#,
                        "-/spec/version",
                    ],
                )),
            ),
            // There is no schema.
            (r#"{"spec":{"version":"v1"}}"#, None),
            (r#"{"spec":{"versions":[{"name":"v1"}]}}"#, None),
        ] {
            let expected = expected.map(|(is_safe, edits)| {
                (is_safe, edits.into_iter().map(str::to_owned).collect::<Vec<_>>())
            });
            assert_eq!(edits(json), expected, "{json}");
        }
    }
}
