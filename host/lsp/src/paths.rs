//! The kind of a file, by its path and its text.

use std::path::Path;

use crate::outline::Outline;

/// The meaning of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// `opgate.yaml`.
    Configuration,
    /// `.opgate.yaml`.
    Waivers,
    /// Cases of a rule, in a directory `cases`.
    Cases,
    /// `metadata/annotations.yaml` of a bundle.
    BundleAnnotations,
    /// Blobs of a catalog.
    Catalog,
    /// Anything else: objects, or files that are not checked.
    Objects,
}

/// Maximum bytes of a file that is described and evaluated while it is open.
pub const MAX_OPEN_BYTES: usize = 16 << 20;
/// Maximum bytes of all such files together.
pub const MAX_ALL_OPEN_BYTES: usize = 64 << 20;

/// Returns the kind of a file.
#[must_use]
pub fn file_kind(path: &Path, text: &str, outline: &Outline) -> FileKind {
    let name = path.file_name().unwrap_or_default();
    let is_in = |directory: &str| {
        path.parent().and_then(Path::file_name).is_some_and(|parent| parent == directory)
    };
    if name == ".opgate.yaml" {
        return FileKind::Waivers;
    }
    let first = outline.documents().next();
    let text_at =
        |names: &[&str]| first.and_then(|document| outline.text_at(text, document, names));
    let is_ours =
        text_at(&["apiVersion"]).is_some_and(|version| version.starts_with("opgate.dev/"));
    if is_ours && text_at(&["kind"]).as_deref() == Some("Configuration") || name == "opgate.yaml" {
        return FileKind::Configuration;
    }
    let has = |names: &[&str]| first.is_some_and(|document| outline.get(document, names).is_some());
    if is_in("cases") && (has(&["rule"]) || name == "objects.yaml") {
        return FileKind::Cases;
    }
    if is_in("metadata") && has(&["annotations"]) && !has(&["kind"]) {
        return FileKind::BundleAnnotations;
    }
    let is_blob = |document| outline.get(document, &["schema"]).is_some();
    if outline.documents().any(is_blob) {
        return FileKind::Catalog;
    }
    FileKind::Objects
}

/// Returns whether a text has objects or blobs of a catalog, also if the rest of it is half-written.
#[must_use]
pub fn has_subjects(text: &str, outline: &Outline) -> bool {
    outline.documents().any(|document| {
        let text_at = |name: &str| outline.text_at(text, document, &[name]);
        text_at("apiVersion").is_some() && text_at("kind").is_some()
            || text_at("schema").is_some_and(|schema| schema.starts_with("olm."))
    })
}

/// Returns whether a file can be checked, by its name.
#[must_use]
pub fn is_document(path: &Path) -> bool {
    let ending = path.extension().unwrap_or_default().to_ascii_lowercase();
    ["yaml", "yml", "json"].iter().any(|known| ending == *known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_written_objects_are_subjects() {
        for (text, expected) in [
            ("apiVersion: v1\nkind: Pod\nmetadata: {name: [}\n", true),
            ("a: 1\n---\nschema: olm.channel\nentries: [\n", true),
            ("{\"apiVersion\": \"v1\", \"kind\": \"Pod\", ", true),
            ("values:\n  apiVersion: v1\n  kind: [\n", false),
            ("schema: https://example.com\na: [\n", false),
            ("", false),
        ] {
            assert_eq!(has_subjects(text, &Outline::of(text)), expected, "{text}");
        }
    }

    #[test]
    fn kind_follows_from_path_and_text() {
        for (path, text, expected) in [
            ("a/.opgate.yaml", "", FileKind::Waivers),
            ("opgate.yaml", "", FileKind::Configuration),
            (
                "x.yaml",
                "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\n",
                FileKind::Configuration,
            ),
            ("cases/A-1.yaml", "rule: A-1\n", FileKind::Cases),
            ("cases/pod.yaml", "kind: Pod\n", FileKind::Objects),
            ("b/metadata/annotations.yaml", "annotations:\n  a: b\n", FileKind::BundleAnnotations),
            ("c.json", "{\"schema\": \"olm.package\"}", FileKind::Catalog),
            ("c.yaml", "---\nname: x\n---\nschema: olm.channel\n", FileKind::Catalog),
            ("x.yaml", "kind: Pod\n", FileKind::Objects),
        ] {
            assert_eq!(file_kind(Path::new(path), text, &Outline::of(text)), expected, "{path}");
        }
        assert!(is_document(Path::new("a.YAML")) && !is_document(Path::new("a.md")));
    }
}
