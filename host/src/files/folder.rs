//! What is below a folder: regular files, folders and links, each in byte order of its path.

use std::fs;
use std::path::{Path, PathBuf};

/// Files, folders and links together.
const MAX_ENTRIES: usize = 100_000;

/// A folder, walked.
#[derive(Debug, Default)]
pub(crate) struct Folder {
    /// Regular files.
    pub(crate) files: Vec<Entry>,
    /// Folders, relative, with `/`.
    pub(crate) directories: Vec<String>,
    /// Links, likewise. They are not followed: they could lead anywhere.
    pub(crate) links: Vec<String>,
}

/// A regular file.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Relative to the folder, with `/`.
    pub(crate) path: String,
    /// To open it.
    pub(crate) full: PathBuf,
}

/// Walks a folder. What is neither file, folder nor link (a pipe, a device) is left out, as is `.git`.
///
/// # Errors
/// Where a folder cannot be read, or there is too much in it.
pub(crate) fn walk(root: &Path) -> anyhow::Result<Folder> {
    let mut folder = Folder::default();
    let mut todo = vec![(root.to_path_buf(), String::new())];
    let mut count = 0usize;
    while let Some((full, prefix)) = todo.pop() {
        let at = |e: std::io::Error| anyhow::anyhow!("{}: {e}", full.display());
        for entry in fs::read_dir(&full).map_err(at)? {
            let entry = entry.map_err(at)?;
            let name = entry.file_name();
            if name == ".git" {
                continue;
            }
            count += 1;
            anyhow::ensure!(
                count <= MAX_ENTRIES,
                "{}: more than {MAX_ENTRIES} files and folders: name a smaller folder",
                root.display()
            );
            let path = format!("{prefix}{}", name.to_string_lossy());
            let found = entry.metadata().map_err(at)?;
            if found.is_symlink() {
                folder.links.push(path);
            } else if found.is_dir() {
                todo.push((entry.path(), format!("{path}/")));
                folder.directories.push(path);
            } else if found.is_file() {
                folder.files.push(Entry { path, full: entry.path() });
            }
        }
    }
    folder.files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    folder.directories.sort_unstable();
    folder.links.sort_unstable();
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::super::testing::Temporary;
    use super::*;

    #[test]
    fn files_come_in_byte_order_and_links_are_noted() {
        let folder = Temporary::new(&[
            ("b/x.yaml", "a: 1\n"),
            ("b.yaml", ""),
            ("a/z", "z"),
            (".git/config", ""),
            (".hidden", ""),
        ]);
        std::os::unix::fs::symlink("/etc", folder.path().join("a/link")).unwrap();
        let walked = walk(folder.path()).unwrap();
        let paths: Vec<_> = walked.files.iter().map(|f| f.path.as_str()).collect();
        assert_eq!(paths, [".hidden", "a/z", "b.yaml", "b/x.yaml"]);
        assert_eq!(walked.directories, ["a", "b"]);
        assert_eq!(walked.links, ["a/link"]);
        let missing = walk(&folder.path().join("missing")).unwrap_err();
        assert!(missing.to_string().contains("missing: No such file"), "{missing}");
    }
}
