//! Names that other files refer to: ClusterServiceVersions, CRDs and what catalogs contain.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::outline::Outline;

/// The kind of something with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NameKind {
    /// A ClusterServiceVersion.
    ClusterServiceVersion,
    /// A CRD.
    CustomResourceDefinition,
    /// `olm.package`.
    Package,
    /// `olm.channel`.
    Channel,
    /// `olm.bundle`.
    Bundle,
}

/// Something with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declaration {
    /// Its kind.
    pub kind: NameKind,
    /// Its name.
    pub name: String,
    /// The package of a channel or bundle; empty for others.
    pub package: String,
    /// The bytes of the name.
    pub range: Range<usize>,
}

/// A kind that a CRD defines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinedKind {
    /// Name of the CRD.
    pub name: String,
    /// The kind.
    pub kind: String,
    /// Its versions.
    pub versions: Vec<String>,
}

/// Returns whether a text can have declarations: a quick search before the structure is read.
#[must_use]
pub fn may_declare(text: &str) -> bool {
    ["ClusterServiceVersion", "CustomResourceDefinition", "olm."]
        .iter()
        .any(|word| memchr::memmem::find(text.as_bytes(), word.as_bytes()).is_some())
}

/// Returns the declarations of a text.
#[must_use]
pub fn declarations(text: &str, outline: &Outline) -> Vec<Declaration> {
    let declaration = |document: usize| {
        let text_at = |names: &[&str]| outline.text_at(text, document, names);
        let kind = match text_at(&["kind"]).as_deref() {
            Some("ClusterServiceVersion") => NameKind::ClusterServiceVersion,
            Some("CustomResourceDefinition") => NameKind::CustomResourceDefinition,
            _ => match text_at(&["schema"]).as_deref() {
                Some("olm.package") => NameKind::Package,
                Some("olm.channel") => NameKind::Channel,
                Some("olm.bundle") => NameKind::Bundle,
                _ => return None,
            },
        };
        let is_object =
            matches!(kind, NameKind::ClusterServiceVersion | NameKind::CustomResourceDefinition);
        let path: &[&str] = if is_object { &["metadata", "name"] } else { &["name"] };
        let node = outline.get(document, path)?;
        Some(Declaration {
            kind,
            name: outline.text_of(text, node)?,
            package: text_at(&["package"]).unwrap_or_default(),
            range: outline.nodes().get(node)?.value.clone(),
        })
    };
    outline.documents().filter_map(declaration).collect()
}

/// Returns the kinds that the CRDs of a text define.
#[must_use]
pub fn defined_kinds(text: &str, outline: &Outline) -> Vec<DefinedKind> {
    let defined = |document: usize| {
        let text_at = |names: &[&str]| outline.text_at(text, document, names);
        text_at(&["kind"]).filter(|kind| kind == "CustomResourceDefinition")?;
        let listed = outline.get(document, &["spec", "versions"]);
        let listed = listed.into_iter().flat_map(|list| outline.children(list));
        let mut versions: Vec<_> =
            listed.filter_map(|version| outline.text_at(text, version, &["name"])).collect();
        versions.extend(text_at(&["spec", "version"]).filter(|_| versions.is_empty()));
        Some(DefinedKind {
            name: text_at(&["metadata", "name"])?,
            kind: text_at(&["spec", "names", "kind"])?,
            versions,
        })
    };
    outline.documents().filter_map(defined).collect()
}

/// Maximum bytes of the declarations of all files. Those of further files are not found.
pub const MAX_INDEX_BYTES: usize = 32 << 20;

/// The declarations of all files of a workspace.
#[derive(Debug, Default)]
pub struct NameIndex {
    files: HashMap<PathBuf, Vec<Declaration>>,
    bytes: usize,
}

impl Declaration {
    fn size(&self) -> usize {
        size_of::<Self>().saturating_add(self.name.len()).saturating_add(self.package.len())
    }
}

/// Returns about how many bytes the declarations of a file have.
#[must_use]
pub fn size_of_file(path: &Path, declarations: &[Declaration]) -> usize {
    let names: usize = declarations.iter().map(Declaration::size).sum();
    names.saturating_add(path.as_os_str().len())
}

impl NameIndex {
    /// Replaces the declarations of a file.
    pub fn set(&mut self, path: &Path, declarations: Vec<Declaration>) {
        if let Some(old) = self.files.remove(path) {
            self.bytes = self.bytes.saturating_sub(size_of_file(path, &old));
        }
        let bytes = self.bytes.saturating_add(size_of_file(path, &declarations));
        if !declarations.is_empty() && bytes <= MAX_INDEX_BYTES {
            self.bytes = bytes;
            self.files.insert(path.to_owned(), declarations);
        }
    }

    /// Removes the declarations of files that are not wanted.
    pub fn retain(&mut self, is_wanted: impl Fn(&Path) -> bool) {
        self.files.retain(|path, _| is_wanted(path));
        self.bytes = self.files.iter().map(|(path, list)| size_of_file(path, list)).sum();
    }

    /// Returns the declarations that match, those nearest to a file first.
    pub fn find(
        &self,
        near: &Path,
        is_wanted: impl Fn(&Declaration) -> bool,
    ) -> Vec<(&Path, &Declaration)> {
        let all =
            self.files.iter().flat_map(|(path, list)| list.iter().map(|d| (path.as_path(), d)));
        let mut found: Vec<_> = all.filter(|(_, declaration)| is_wanted(declaration)).collect();
        let shared = |path: &Path| {
            path.components().zip(near.components()).take_while(|(a, b)| a == b).count()
        };
        found.sort_by_key(|(path, d)| (usize::MAX - shared(path), path.to_owned(), d.range.start));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_is_bounded_in_bytes() {
        let declaration = Declaration {
            kind: NameKind::Bundle,
            name: "x".repeat(1 << 20),
            package: String::new(),
            range: 0..1,
        };
        let mut index = NameIndex::default();
        for round in 0..2 {
            for file in 0..100 {
                index.set(Path::new(&format!("/{file}")), vec![declaration.clone()]);
            }
            let count = index.find(Path::new("/"), |_| true).len();
            assert!((20..32).contains(&count), "{round}: {count}");
        }
        // Files that are gone make room for others.
        let is_new = |path: &Path| path.ends_with("new");
        index.retain(is_new);
        index.set(Path::new("/new"), vec![declaration.clone()]);
        assert_eq!(index.find(Path::new("/"), |_| true).len(), 1);
        index.retain(is_new);
        assert_eq!(index.bytes, size_of_file(Path::new("/new"), &[declaration]));
        index.set(Path::new("/new"), Vec::new());
        (0..100).for_each(|file| index.set(Path::new(&format!("/{file}")), Vec::new()));
        assert_eq!(index.bytes, 0);
    }

    #[test]
    fn declarations_have_kind_name_and_package() {
        let text = "kind: ClusterServiceVersion\nmetadata:\n  name: etcd.v1\n---\nschema: olm.channel\npackage: etcd\nname: 'stable'\n---\nkind: Pod\nmetadata: {name: x}\n---\nkind: CustomResourceDefinition\nmetadata: {name: a.b.c}\nspec:\n  names: {kind: A}\n  versions:\n  - name: v1\n  - {name: v2}\n";
        let outline = Outline::of(text);
        let found = declarations(text, &outline);
        let found: Vec<_> = found
            .iter()
            .map(|d| (d.kind, &*d.name, &*d.package, text.get(d.range.clone()).unwrap()))
            .collect();
        assert_eq!(
            found,
            [
                (NameKind::ClusterServiceVersion, "etcd.v1", "", "etcd.v1"),
                (NameKind::Channel, "stable", "etcd", "'stable'"),
                (NameKind::CustomResourceDefinition, "a.b.c", "", "a.b.c"),
            ]
        );
        let kinds = defined_kinds(text, &outline);
        let expected = DefinedKind {
            name: "a.b.c".to_owned(),
            kind: "A".to_owned(),
            versions: vec!["v1".to_owned(), "v2".to_owned()],
        };
        assert_eq!(kinds, [expected]);
    }
}
