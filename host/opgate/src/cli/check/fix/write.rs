//! Reads and writes the files of fixes. A directory that is checked can be anyone's: no link is followed, and no file
//! outside of it is written.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use opgate_files::DetectedInput;
use opgate_input::read::{ReadPurpose, Reader, open_named};
use opgate_platform::files;

use super::unit::FileTexts;

/// Returns the text of a file.
///
/// # Errors
/// The reason why the file is not edited.
pub(super) fn read(
    path: &Path,
    input: &DetectedInput,
    reader: &Reader,
) -> Result<Arc<str>, String> {
    check_place(path, input)?;
    let opened = open_named(path).map_err(|error| error.to_string())?;
    let bytes = reader.with_full_budget().read(opened, false, ReadPurpose::Scan);
    let bytes = bytes.map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map(Arc::from).map_err(|_| "the file is not UTF-8".to_owned())
}

/// Checks that a file is a regular one, and in the directory that is checked.
fn check_place(path: &Path, input: &DetectedInput) -> Result<(), String> {
    let metadata = fs::symlink_metadata(path).map_err(|error| error.to_string())?;
    if metadata.is_symlink() {
        return Err("the file is a symbolic link: edit its target".to_owned());
    }
    if !metadata.is_file() {
        return Err("not a regular file".to_owned());
    }
    let root = match &input.directory {
        Some(directory) => directory.as_path(),
        None if input.path.is_dir() => &input.path,
        None => parent_of(&input.path),
    };
    let real = |path: &Path| path.canonicalize().map_err(|error| error.to_string());
    if real(parent_of(path))?.starts_with(real(root)?) {
        Ok(())
    } else {
        Err("the file is outside of the directory that is checked".to_owned())
    }
}

fn parent_of(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// Writes a file as a whole: a new file takes its place, with its permissions.
///
/// # Errors
/// One line that names the file. It is then unchanged.
pub(super) fn write(path: &Path, texts: &FileTexts) -> Result<(), String> {
    let shown = |error: &dyn std::fmt::Display| format!("{}: not fixed: {error}", path.display());
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
    let shown = |error: &dyn std::fmt::Display| format!("{}: not removed: {error}", path.display());
    let original = texts.original.as_deref().unwrap_or_default();
    unchanged_metadata(path, original).map_err(|error| shown(&error))?;
    fs::remove_file(path).map_err(|error| shown(&error))
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
    if fs::read(path).map_err(|error| error.to_string())? != original.as_bytes() {
        return Err("the file has changed since it was read: try again".to_owned());
    }
    Ok(metadata)
}

fn replace(
    path: &Path,
    temporary: &Path,
    mut file: fs::File,
    metadata: &fs::Metadata,
    text: &str,
) -> io::Result<()> {
    file.write_all(text.as_bytes())?;
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

    fn texts(original: &str, new: &str) -> FileTexts {
        FileTexts { original: Some(original.into()), new: Some(new.into()), source: None }
    }

    #[test]
    fn a_changed_or_missing_file_is_not_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.yaml");
        let error = write(&path, &texts("a", "b")).unwrap_err();
        assert!(error.contains("a.yaml: not fixed: "), "{error}");
        fs::write(&path, "c").unwrap();
        let error = write(&path, &texts("a", "b")).unwrap_err();
        assert!(error.ends_with("has changed since it was read: try again"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "c");
        write(&path, &texts("c", "d")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "d");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
