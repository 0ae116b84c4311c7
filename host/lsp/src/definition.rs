//! What a name in a file refers to.

use crate::cursor::ends_with;
use crate::names::{Declaration, NameKind};
use crate::outline::{Key, Outline};
use crate::paths::FileKind;

/// Annotations of a bundle that name a package, or channels.
const PACKAGE_ANNOTATION: &str = "operators.operatorframework.io.bundle.package.v1";
const CHANNEL_ANNOTATIONS: [&str; 2] = [
    "operators.operatorframework.io.bundle.channels.v1",
    "operators.operatorframework.io.bundle.channel.default.v1",
];

/// A reference to something with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    kinds: Vec<NameKind>,
    name: String,
    /// The package of a channel or bundle; empty if it can be any.
    package: String,
}

impl Reference {
    fn new(kinds: &[NameKind], name: String) -> Self {
        Self { kinds: kinds.to_vec(), name, package: String::new() }
    }

    /// Returns whether it refers to a declaration.
    #[must_use]
    pub fn is_to(&self, declared: &Declaration) -> bool {
        let is_package = self.package.is_empty()
            || declared.package.is_empty()
            || self.package == declared.package;
        self.kinds.contains(&declared.kind) && self.name == declared.name && is_package
    }
}

/// Returns the reference at an offset of a text.
#[must_use]
pub fn reference_at(
    kind: FileKind,
    text: &str,
    outline: &Outline,
    offset: usize,
) -> Option<Reference> {
    let node = outline.node_at(offset)?;
    let (document, path) = outline.path(node);
    let value = outline.text_of(text, node);
    match kind {
        FileKind::Catalog => catalog_reference(text, outline, document, &path, value?),
        FileKind::BundleAnnotations => {
            let [section, Key::Name(key)] = path.as_slice() else { return None };
            if !section.is("annotations") {
                return None;
            }
            if key == PACKAGE_ANNOTATION {
                return Some(Reference::new(&[NameKind::Package], value?));
            }
            let is_channel = CHANNEL_ANNOTATIONS.contains(&key.as_str());
            let (start, value) = (outline.nodes().get(node)?.value.start, value?);
            let name = list_item(&value, offset.saturating_sub(start));
            let package = outline.text_at(text, document, &["annotations", PACKAGE_ANNOTATION]);
            is_channel.then(|| Reference {
                package: package.unwrap_or_default(),
                ..Reference::new(&[NameKind::Channel], name)
            })
        }
        FileKind::Objects => {
            let owner = outline.text_at(text, document, &["kind"])?;
            if owner == "ClusterServiceVersion" {
                csv_reference(text, outline, document, &path, value)
            } else {
                None
            }
        }
        FileKind::Configuration | FileKind::Waivers | FileKind::Cases => None,
    }
}

/// The element of a list with commas around a byte.
fn list_item(list: &str, at: usize) -> String {
    let before = list.get(..at.min(list.len())).unwrap_or_default();
    let index = before.matches(',').count();
    list.split(',').nth(index).unwrap_or_default().trim().to_owned()
}

fn csv_reference(
    text: &str,
    outline: &Outline,
    document: usize,
    path: &[Key],
    value: Option<String>,
) -> Option<Reference> {
    const VERSIONS: &[NameKind] = &[NameKind::ClusterServiceVersion, NameKind::Bundle];
    if ends_with(path, &["spec", "replaces"])
        || ends_with(path, &["spec", "skips", "*"])
        || ends_with(path, &["metadata", "annotations", "olm.substitutesFor"])
    {
        return Some(Reference::new(VERSIONS, value?));
    }
    let (entry, key) = path.split_at_checked(4)?;
    let [key] = key else { return None };
    if !["name", "kind", "version"].iter().any(|name| key.is(name)) {
        return None;
    }
    let is_owned = ends_with(entry, &["spec", "customresourcedefinitions", "owned", "*"])
        || ends_with(entry, &["spec", "customresourcedefinitions", "required", "*"]);
    let name = outline.text_at(text, outline.find(document, entry)?, &["name"])?;
    is_owned.then(|| Reference::new(&[NameKind::CustomResourceDefinition], name))
}

fn catalog_reference(
    text: &str,
    outline: &Outline,
    document: usize,
    path: &[Key],
    value: String,
) -> Option<Reference> {
    let text_at = |name: &str| outline.text_at(text, document, &[name]).unwrap_or_default();
    let (schema, package) = (text_at("schema"), text_at("package"));
    let is_at = |names: &[&str]| ends_with(path, names);
    let (kind, package) = match schema.as_str() {
        "olm.package" if is_at(&["defaultChannel"]) => (NameKind::Channel, text_at("name")),
        "olm.channel" | "olm.bundle" if is_at(&["package"]) => (NameKind::Package, String::new()),
        "olm.channel"
            if is_at(&["entries", "*", "name"])
                || is_at(&["entries", "*", "replaces"])
                || is_at(&["entries", "*", "skips", "*"]) =>
        {
            (NameKind::Bundle, package)
        }
        _ => return None,
    };
    Some(Reference { package, ..Reference::new(&[kind], value) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(kind: FileKind, marked: &str) -> Option<(Vec<NameKind>, String, String)> {
        let offset = marked.find('^').unwrap();
        let text = marked.replace('^', "");
        let found = reference_at(kind, &text, &Outline::of(&text), offset)?;
        Some((found.kinds, found.name, found.package))
    }

    #[test]
    fn references_name_their_targets() {
        let csv = |rest: &str| format!("kind: ClusterServiceVersion\nspec:\n{rest}");
        let versions = vec![NameKind::ClusterServiceVersion, NameKind::Bundle];
        let crd = vec![NameKind::CustomResourceDefinition];
        let catalog = "schema: olm.channel\npackage: etcd\nname: a\nentries:\n- {name: etcd.v2, replaces: etcd^.v1}\n";
        let annotations = "annotations:\n  operators.operatorframework.io.bundle.package.v1: etcd\n  operators.operatorframework.io.bundle.channels.v1: alpha,be^ta\n";
        for (kind, text, expected) in [
            (FileKind::Objects, csv("  replaces: a^.v1\n"), Some((versions.clone(), "a.v1", ""))),
            (FileKind::Objects, csv("  skips:\n  - a.v^1\n"), Some((versions, "a.v1", ""))),
            (
                FileKind::Objects,
                csv(
                    "  customresourcedefinitions:\n    owned:\n    - kind: A^\n      name: a.b.c\n",
                ),
                Some((crd, "a.b.c", "")),
            ),
            (FileKind::Objects, csv("  version: 1^\n"), None),
            (
                FileKind::Objects,
                csv(
                    "  customresourcedefinitions:\n    owned:\n    - name: a.b.c\n      displayName: A^\n",
                ),
                None,
            ),
            (FileKind::Objects, "kind: Pod\nspec:\n  replaces: a^\n".to_owned(), None),
            (
                FileKind::Catalog,
                catalog.to_owned(),
                Some((vec![NameKind::Bundle], "etcd.v1", "etcd")),
            ),
            (
                FileKind::Catalog,
                "schema: olm.package\nname: etcd\ndefaultChannel: sta^ble\n".to_owned(),
                Some((vec![NameKind::Channel], "stable", "etcd")),
            ),
            (
                FileKind::BundleAnnotations,
                annotations.to_owned(),
                Some((vec![NameKind::Channel], "beta", "etcd")),
            ),
        ] {
            let expected =
                expected.map(|(kinds, name, package)| (kinds, name.to_owned(), package.to_owned()));
            assert_eq!(reference(kind, &text), expected, "{text}");
        }
    }
}
