//! The content of a directory: files and directories, each in byte order of its path.
//!
//! ```text
//! directory ─▶ entries ─┬▶ file, directory
//!                       ├▶ link: to a file inside the directory it is that file, otherwise refused
//!                       └▶ unreadable directory: refused
//! ```
//!
//! Refused entries are among the files, with the reason. They are reported like an unreadable
//! file, and the other files are checked in any case.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::content::{Content, File, Origin, ParseMode, ReadError};
use super::waivers;
use opgate_input::read::{self, FilePath, Reader, RootDirectory};

/// Maximum number of files, directories and links together, of a bundle or a catalog.
pub const MAX_ENTRIES: usize = 100_000;
/// The maximum for a directory that is searched for bundles, catalogs and manifests. Their names take 150
/// bytes each.
pub const MAX_SEARCHED_ENTRIES: usize = 1_000_000;

/// Maximum bytes of the files that links lead to, together: thousands of links to one large file
/// are small.
const MAX_LINKED_BYTES: u64 = 1 << 30;

/// Returns the name of a directory, also for `.`.
pub(super) fn directory_name(root: &Path) -> anyhow::Result<String> {
    let full = root.canonicalize().with_context(|| root.display().to_string())?;
    Ok(full.file_name().unwrap_or_default().to_string_lossy().into_owned())
}

/// Returns the path of a file as messages name it.
pub(super) fn display_path(root: &Path, path: &str) -> String {
    opgate_platform::files::display_path(&root.join(path))
}

/// The content of a directory.
#[derive(Debug)]
pub struct DirectoryListing {
    /// The directory from which the files are opened.
    pub root: RootDirectory,
    /// Regular files, and refused entries.
    pub files: Vec<Entry>,
    /// Folders, relative, with `/`.
    pub directories: Vec<String>,
    /// Refused links, likewise.
    pub rejected_links: Vec<String>,
}

/// A regular file, or a refused entry.
#[derive(Debug)]
pub struct Entry {
    /// Relative to the directory, with `/`.
    pub path: String,
    /// The path to open it from the directory, if it is not `path`: the target of a link.
    pub link_target: Option<PathBuf>,
    /// The reason why it is refused, if it is.
    pub rejection: Option<Rejection>,
}

/// The reason why an entry is refused.
#[derive(Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The type of the entry, and what to do.
    pub message: String,
    /// Whether there could be files in it.
    pub can_be_directory: bool,
    /// Whether it is a link to a target inside the directory.
    pub points_inside: bool,
}

impl Rejection {
    fn link(what: &str, is_directory: bool) -> Self {
        let instead = if is_directory { "directory" } else { "file" };
        let why = format!("a symbolic link {what}: put the {instead} itself there");
        Self { message: why, can_be_directory: is_directory, points_inside: false }
    }

    fn unreadable(error: &io::Error) -> Self {
        Self { message: error.to_string(), can_be_directory: true, points_inside: false }
    }
}

impl Entry {
    fn new_rejected(path: String, why: Rejection) -> Self {
        Self { path, link_target: None, rejection: Some(why) }
    }

    /// Its path.
    pub fn file_path<'f>(&'f self, directory: &'f DirectoryListing) -> FilePath<'f> {
        FilePath::Below(
            &directory.root,
            self.link_target.as_deref().unwrap_or(Path::new(&self.path)),
        )
    }

    /// Its content.
    pub fn read(&self, directory: &DirectoryListing, expect: ParseMode, reader: &Reader) -> File {
        let (path, shown) = (self.path.clone(), display_path(directory.root.path(), &self.path));
        match &self.rejection {
            None => File::read(self.file_path(directory), path, shown, expect, reader),
            Some(Rejection { message: why, .. }) => {
                let why = why.clone();
                let content =
                    Content::Unreadable(ReadError { line: 1, column: 1, message: why, text: None });
                File::new_part(path, shown, content, Origin::Whole)
            }
        }
    }
}

/// Lists a directory. An entry that is not a file, a directory or a link (a pipe, a device) is refused.
/// `.git`, the waivers of the directory and the directories behind the links of a mounted volume are skipped.
///
/// # Errors
/// Fails if the directory itself is unreadable, or has too many entries.
pub fn walk(root: &Path) -> anyhow::Result<DirectoryListing> {
    walk_up_to(root, MAX_ENTRIES)
}

/// [`walk`] with another maximum number of entries.
///
/// # Errors
/// Lists a directory as [`walk`] does.
pub fn walk_up_to(root: &Path, max: usize) -> anyhow::Result<DirectoryListing> {
    let opened = RootDirectory::open(root)
        .map_err(|error| anyhow::anyhow!("{}: {error}", root.display()))?;
    let mut directory = DirectoryListing {
        root: opened,
        files: Vec::new(),
        directories: Vec::new(),
        rejected_links: Vec::new(),
    };
    let mut links = Vec::new();
    let mut todo = vec![(root.to_path_buf(), String::new())];
    let mut count = 0usize;
    while let Some((full, path)) = todo.pop() {
        let listed = fs::read_dir(&full);
        let listed =
            listed.and_then(|list| list.take(max.saturating_add(1)).collect::<Result<_, _>>());
        let entries: Vec<fs::DirEntry> = match listed {
            Ok(entries) => entries,
            Err(error) if path.is_empty() => anyhow::bail!("{}: {error}", root.display()),
            Err(error) => {
                directory.files.push(Entry::new_rejected(path, Rejection::unreadable(&error)));
                continue;
            }
        };
        count = count.saturating_add(entries.len());
        anyhow::ensure!(
            count <= max,
            "{}: more than {max} files and directories: name a smaller directory",
            root.display()
        );
        let slash = if path.is_empty() { "" } else { "/" };
        for entry in entries {
            let (name, full) = (entry.file_name(), entry.path());
            if name == ".git" {
                continue;
            }
            // The waivers of the directory are not part of it. A directory of this name is refused there, and
            // searched here.
            let is_root = path.is_empty();
            if is_root && name == waivers::FILE_NAME && !entry.file_type().is_ok_and(|t| t.is_dir())
            {
                continue;
            }
            let path = format!("{path}{slash}{}", name.to_string_lossy());
            match entry.metadata() {
                Err(error) => {
                    directory.files.push(Entry::new_rejected(path, Rejection::unreadable(&error)));
                }
                Ok(found) if found.is_file() => {
                    // A name that is not UTF-8 is opened unchanged.
                    let place = full.strip_prefix(root).unwrap_or(&full);
                    let place = (place != Path::new(&path)).then(|| place.to_path_buf());
                    directory.files.push(Entry { path, link_target: place, rejection: None });
                }
                // `..data`, and its target directory.
                Ok(_) if name.as_encoded_bytes().starts_with(b"..") => {}
                Ok(found) if found.is_symlink() => links.push((path, full)),
                Ok(found) if found.is_dir() => todo.push((full, path)),
                // A pipe or a device is neither opened nor ignored.
                Ok(_) => {
                    let why = match read::open_named(&full) {
                        Err(error) => error.to_string(),
                        Ok(_) => "it is replaced meanwhile".to_owned(),
                    };
                    let refused =
                        Rejection { message: why, can_be_directory: false, points_inside: false };
                    directory.files.push(Entry::new_rejected(path, refused));
                }
            }
        }
        if !path.is_empty() {
            directory.directories.push(path);
        }
    }
    links.sort_unstable();
    follow_links(root, links, &mut directory)?;
    directory.files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    directory.directories.sort_unstable();
    Ok(directory)
}

/// Returns one entry directly in a directory, as [`walk`] finds it, with the directory that it is opened
/// from. None if there is no file of this name.
///
/// # Errors
/// Fails if the directory itself is unreadable.
pub fn find_entry(root: &Path, name: &str) -> anyhow::Result<Option<(DirectoryListing, Entry)>> {
    let opened = RootDirectory::open(root)
        .map_err(|error| anyhow::anyhow!("{}: {error}", root.display()))?;
    let mut directory = DirectoryListing {
        root: opened,
        files: Vec::new(),
        directories: Vec::new(),
        rejected_links: Vec::new(),
    };
    let (path, full) = (name.to_owned(), root.join(name));
    match fs::symlink_metadata(&full) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => {
            directory.files.push(Entry::new_rejected(path, Rejection::unreadable(&error)));
        }
        Ok(found) if found.is_dir() => {}
        Ok(found) if found.is_symlink() => follow_links(root, vec![(path, full)], &mut directory)?,
        // An entry that is no regular file is an error when it is opened.
        Ok(_) => directory.files.push(Entry { path, link_target: None, rejection: None }),
    }
    let entry = directory.files.pop();
    Ok(entry.map(|entry| (directory, entry)))
}

/// Adds the targets of links. Links to directories are not followed: they could be circular, and a directory
/// inside the directory is listed already.
fn follow_links(
    root: &Path,
    links: Vec<(String, PathBuf)>,
    directory: &mut DirectoryListing,
) -> anyhow::Result<()> {
    if links.is_empty() {
        return Ok(());
    }
    let root =
        root.canonicalize().map_err(|error| anyhow::anyhow!("{}: {error}", root.display()))?;
    let mut left = MAX_LINKED_BYTES;
    for (path, full) in links {
        directory.files.push(match resolve_link(&root, &full, &mut left) {
            Ok(place) => Entry { path, link_target: Some(place), rejection: None },
            Err(why) => {
                directory.rejected_links.push(path.clone());
                Entry::new_rejected(path, why)
            }
        });
    }
    Ok(())
}

/// Returns the target of a link in the directory. `left` is the remaining size of such targets. The target is
/// opened without following links.
fn resolve_link(root: &Path, link: &Path, left: &mut u64) -> Result<PathBuf, Rejection> {
    let found = link.canonicalize().and_then(|target| Ok((fs::metadata(&target)?, target)));
    let (found, target) = match found {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Rejection::link("that leads nowhere", false));
        }
        Err(error) => {
            return Err(Rejection::link(&format!("that cannot be followed ({error})"), false));
        }
    };
    let Ok(place) = target.strip_prefix(root) else {
        return Err(Rejection::link("that leads out of the directory", found.is_dir()));
    };
    if found.is_dir() {
        return Err(Rejection { points_inside: true, ..Rejection::link("to a directory", true) });
    }
    if !found.is_file() {
        return Err(Rejection::link("to what is no file", false));
    }
    let too_much = || Rejection::link("that leads, with the others, to more than 1 GiB", false);
    *left = left.checked_sub(found.len()).ok_or_else(too_much)?;
    Ok(place.to_path_buf())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::testing::TempDirectory;

    #[test]
    fn files_come_in_byte_order() {
        let directory = TempDirectory::new(&[
            ("b/x.yaml", "a: 1\n"),
            ("b.yaml", ""),
            ("a/z", "z"),
            (".git/config", ""),
            (".hidden", ""),
        ]);
        let walked = walk(directory.path()).unwrap();
        let paths: Vec<_> = walked.files.iter().map(|f| f.path.as_str()).collect();
        assert_eq!(paths, [".hidden", "a/z", "b.yaml", "b/x.yaml"]);
        assert_eq!(walked.directories, ["a", "b"]);
        let missing = walk(&directory.path().join("missing")).unwrap_err();
        assert!(missing.to_string().contains("missing: No such file"), "{missing}");
    }

    /// Only as a file at the top: anything else with the name could hide what others read.
    #[test]
    fn waiver_file_is_not_content_of_the_directory() {
        let directory =
            TempDirectory::new(&[(".opgate.yaml", ""), ("a/.opgate.yaml", ""), ("b", "")]);
        let paths = |directory: &TempDirectory| {
            let walked = walk(directory.path()).unwrap();
            walked.files.iter().map(|f| f.path.clone()).collect::<Vec<_>>()
        };
        assert_eq!(paths(&directory), ["a/.opgate.yaml", "b"]);
        let directory = TempDirectory::new(&[(".opgate.yaml/a", ""), ("b", "")]);
        assert_eq!(paths(&directory), [".opgate.yaml/a", "b"]);
    }

    #[test]
    fn links_are_followed_only_inside_the_directory() {
        let outside = TempDirectory::new(&[("secret", "hunter2")]);
        let directory = TempDirectory::new(&[("a/file.yaml", "a: 1\n")]);
        let (out, secret) = (outside.path(), outside.path().join("secret"));
        let cases: [(&str, &Path, Option<&str>); 8] = [
            ("inside.yaml", Path::new("a/file.yaml"), None),
            ("a/twice.yaml", Path::new("../inside.yaml"), None),
            ("a/circle", Path::new(".."), Some("to a directory: put the directory itself")),
            ("dangling", Path::new("b"), Some("that leads nowhere: put the file itself")),
            ("loop", Path::new("loop"), Some("that cannot be followed (")),
            ("out", out, Some("that leads out of the directory: put the directory itself")),
            ("out.yaml", &secret, Some("that leads out of the directory: put the file itself")),
            ("null", Path::new("/dev/null"), Some("that leads out of the directory")),
        ];
        for (at, to, _) in cases {
            symlink(to, directory.path().join(at)).unwrap();
        }
        let walked = walk(directory.path()).unwrap();
        assert_eq!(walked.files.len(), cases.len() + 1);
        for (at, _, expected) in cases {
            let entry = walked.files.iter().find(|entry| entry.path == at).unwrap();
            let file = entry.read(&walked, ParseMode::AllFiles, &Reader::default());
            match expected {
                None => assert_eq!(file.text(), Some("a: 1\n"), "{at}"),
                Some(why) => {
                    let broken = &file.read_error().unwrap().message;
                    assert!(broken.contains(why), "{at}: {broken}");
                    assert!(entry.file_path(&walked).open().is_err(), "{at}");
                }
            }
            assert_eq!(
                walked.rejected_links.iter().any(|link| link == at),
                expected.is_some(),
                "{at}"
            );
        }
    }

    /// Checks that a single entry equals the listed one, without reading other entries.
    #[test]
    fn single_entry_equals_the_one_of_a_walk() {
        let outside = TempDirectory::new(&[("secret", "hunter2")]);
        let directory = TempDirectory::new(&[("file.yaml", "a: 1\n"), ("folder/x", "")]);
        let secret = outside.path().join("secret");
        symlink("file.yaml", directory.path().join("in.yaml")).unwrap();
        symlink(secret, directory.path().join("out.yaml")).unwrap();
        let walked = walk(directory.path()).unwrap();
        for name in ["file.yaml", "in.yaml", "out.yaml"] {
            let (single, entry) = find_entry(directory.path(), name).unwrap().unwrap();
            let among = walked.files.iter().find(|entry| entry.path == name).unwrap();
            assert_eq!(
                (&entry.link_target, &entry.rejection),
                (&among.link_target, &among.rejection),
                "{name}"
            );
            let file = entry.read(&single, ParseMode::AllFiles, &Reader::default());
            assert_eq!(file.text().is_some(), name != "out.yaml", "{name}");
        }
        for name in ["folder", "missing"] {
            assert!(find_entry(directory.path(), name).unwrap().is_none(), "{name}");
        }
        assert!(find_entry(&directory.path().join("missing"), "a").is_err());
    }

    /// A ConfigMap mounted in a pod.
    #[test]
    fn a_mounted_volume_has_each_file_once() {
        let directory = TempDirectory::new(&[("..2024_11_20/a.yaml", "a: 1\n")]);
        symlink("..2024_11_20", directory.path().join("..data")).unwrap();
        symlink("..data/a.yaml", directory.path().join("a.yaml")).unwrap();
        let walked = walk(directory.path()).unwrap();
        let paths: Vec<_> = walked.files.iter().map(|f| f.path.as_str()).collect();
        assert_eq!((paths, walked.rejected_links.len()), (vec!["a.yaml"], 0));
        let file = walked.files[0].read(&walked, ParseMode::AllFiles, &Reader::default());
        assert_eq!(file.text(), Some("a: 1\n"));
    }

    #[test]
    fn bytes_of_linked_files_are_limited() {
        let directory = TempDirectory::new(&[("large", "")]);
        let large = fs::File::options().write(true).open(directory.path().join("large")).unwrap();
        large.set_len(MAX_LINKED_BYTES / 2).unwrap();
        for at in ["a", "b", "c"] {
            symlink("large", directory.path().join(at)).unwrap();
        }
        assert_eq!(walk(directory.path()).unwrap().rejected_links, ["c"]);
    }

    /// A path that is too long is unreadable for every user, unlike one without permission.
    #[test]
    fn unreadable_directories_are_reported() {
        let directory = TempDirectory::new(&[("file", "")]);
        directory.create_deep("deep");
        let walked = walk(directory.path()).unwrap();
        let refused: Vec<_> = walked.files.iter().filter(|f| f.rejection.is_some()).collect();
        assert_eq!((refused.len(), walked.files.len()), (1, 2));
        assert!(refused[0].path.starts_with("deep/") && refused[0].path.len() > 3_000);
        let file = refused[0].read(&walked, ParseMode::AllFiles, &Reader::default());
        assert!(file.read_error().unwrap().message.contains("File name too long"));
    }
}
