//! Reads and writes the files of fixes, by their real paths. A directory that is checked can be anyone's: no link is
//! followed.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use opgate_input::read::{FilePath, ReadPurpose, Reader, open_named};
use opgate_platform::files;

use super::unit::FileTexts;

/// Returns the text of a file that was found by a path: that of an editor, if it has the file open.
///
/// # Errors
/// The reason why the file is not edited.
pub(super) fn read(path: &Path, found: &Path, reader: &Reader) -> Result<Arc<str>, String> {
    let reader = reader.with_full_budget();
    let open = reader.unsaved_text(&FilePath::Named(found), ReadPurpose::Scan);
    if let Some(open) = open.map_err(|error| error.to_string())? {
        return text_of(open);
    }
    let metadata = fs::symlink_metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("not a regular file".to_owned());
    }
    let names = files::link_count(&metadata);
    if names > 1 {
        return Err(format!(
            "the file has {names} names (hard links), of which the others would keep the old text: replace it by a copy"
        ));
    }
    let opened = open_named(path).map_err(|error| error.to_string())?;
    let bytes = reader.read(opened, false, ReadPurpose::Scan);
    text_of(bytes.map_err(|error| error.to_string())?)
}

fn text_of(bytes: Vec<u8>) -> Result<Arc<str>, String> {
    String::from_utf8(bytes).map(Arc::from).map_err(|_| "the file is not UTF-8".to_owned())
}

/// Writes a file as a whole: a new file takes its place, with its permissions, owner and group.
///
/// # Errors
/// One line that names the file. It is then unchanged.
pub(super) fn write(path: &Path, texts: &FileTexts) -> Result<(), String> {
    let shown = |error: &dyn std::fmt::Display| not_fixed(texts, error);
    let Some(new) = &texts.new else { return Ok(()) };
    let metadata = match (&texts.original, &texts.source) {
        (Some(original), _) => unchanged_metadata(path, original).map_err(|error| shown(&error))?,
        (None, source) => {
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent).map_err(|error| shown(&error))?;
            }
            if fs::symlink_metadata(path).is_ok() {
                return Err(shown(&"there is a file of this name now"));
            }
            let source = source.as_deref().unwrap_or(path);
            fs::symlink_metadata(source).map_err(|error| shown(&error))?
        }
    };
    let (temporary, file) = create_beside(path).map_err(|error| shown(&error))?;
    let replaced = replace(path, &temporary, file, &metadata, new);
    if let Err(error) = replaced {
        // The error is reported, and this is best effort.
        let _ = fs::remove_file(&temporary);
        return Err(shown(&error));
    }
    Ok(())
}

/// Removes a file that was moved.
///
/// # Errors
/// One line that names the file.
pub(super) fn remove(path: &Path, texts: &FileTexts) -> Result<(), String> {
    let original = texts.original.as_deref().unwrap_or_default();
    unchanged_metadata(path, original).map_err(|error| not_fixed(texts, &error))?;
    fs::remove_file(path).map_err(|error| not_fixed(texts, &error))
}

/// Returns a line about a file that is not written.
pub(super) fn not_fixed(texts: &FileTexts, why: &dyn std::fmt::Display) -> String {
    format!("{}: not fixed: {why}", texts.path.display())
}

/// Returns the metadata of a file that still has its text.
fn unchanged_metadata(path: &Path, original: &str) -> Result<fs::Metadata, String> {
    let metadata = fs::symlink_metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("no regular file any more".to_owned());
    }
    if metadata.permissions().readonly() {
        return Err("the file is read-only: make it writable".to_owned());
    }
    let is_same = fs::read(path).map_err(|error| error.to_string())? == original.as_bytes();
    // A directory on the way can have become a link.
    let is_there = path.canonicalize().is_ok_and(|real| real == path);
    if is_same && is_there {
        return Ok(metadata);
    }
    Err("the file has changed since it was read: try again".to_owned())
}

fn replace(
    path: &Path,
    temporary: &Path,
    mut file: fs::File,
    metadata: &fs::Metadata,
    text: &str,
) -> io::Result<()> {
    file.write_all(text.as_bytes())?;
    // A change of the owner can reset permissions.
    files::copy_owner(&file, metadata);
    file.set_permissions(metadata.permissions())?;
    file.sync_all()?;
    fs::rename(temporary, path)
}

/// Creates a file in the directory of another one.
fn create_beside(path: &Path) -> io::Result<(PathBuf, fs::File)> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let process = std::process::id();
    for number in 0..=u8::MAX {
        let temporary = path.with_file_name(format!(".{name}.opgate-{process}-{number}"));
        match files::new_private_file().open(&temporary) {
            Ok(file) => return Ok((temporary, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(path: &Path, original: &str, new: &str) -> FileTexts {
        FileTexts {
            path: path.to_owned(),
            original: Some(original.into()),
            new: Some(new.into()),
            source: None,
        }
    }

    #[test]
    fn a_changed_or_missing_file_is_not_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap().join("a.yaml");
        let error = write(&path, &texts(&path, "a", "b")).unwrap_err();
        assert!(error.contains("a.yaml: not fixed: "), "{error}");
        fs::write(&path, "c").unwrap();
        let error = write(&path, &texts(&path, "a", "b")).unwrap_err();
        assert!(error.ends_with("has changed since it was read: try again"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "c");
        write(&path, &texts(&path, "c", "d")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "d");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
