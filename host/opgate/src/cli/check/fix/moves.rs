//! Files that a fix moves in the directory of a bundle, and documents that it moves to files of their own.
//!
//! The list of the files changes, so that the bundle is evaluated as a copy in a temporary directory.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use opgate_edit::Edit;
use opgate_files::directory;
use opgate_input::read::{ReadPurpose, Reader};
use opgate_platform::files::display_path;

use super::unit::{FileTexts, Texts, UnitSource};
use crate::cli::check::units::UnitResult;
use crate::cli::report::fix::FileEdit;

/// Returns the texts after a move of the file with this real path.
///
/// # Errors
/// The reason why the file is not moved.
pub(super) fn apply(
    texts: &Texts,
    edit: &FileEdit,
    real: &Path,
    file: &FileTexts,
) -> Result<Texts, String> {
    let Edit::MoveFile { path: target, .. } = &edit.edit else {
        return Err("it is no edit of a file".to_owned());
    };
    if edit.path.is_symlink() {
        return Err("the file is a symbolic link: move it manually".to_owned());
    }
    let directory = edit.directory.as_deref().ok_or("it is not in the directory of a bundle")?;
    let shown = directory.join(target);
    let target = real_target(directory, Path::new(target))?;
    if texts.get(&target).is_some_and(|file| file.new.is_some()) {
        return Err(format!("there is already a file {}", display_path(&shown)));
    }
    let name = edit.path.file_name().unwrap_or_default().to_string_lossy();
    let text = file.new.clone().ok_or("the file is moved by another fix")?;
    let (rest, moved) = match edit.document {
        None => (None, text),
        Some(document) => {
            let split = opgate_fix::split_document(&text, &name, document);
            let split = split.map_err(|refusal| refusal.to_string())?;
            (Some(split.rest.into()), split.moved.into())
        }
    };
    let mut texts = texts.clone();
    texts.insert(real.to_owned(), FileTexts { new: rest, ..file.clone() });
    let source = file.source.clone().or_else(|| Some(real.to_owned()));
    let moved = FileTexts { path: shown, original: None, new: Some(moved), source };
    texts.insert(target, moved);
    Ok(texts)
}

/// Returns the real path of a new file. It is free, and no link leads to it.
///
/// # Errors
/// One line with the path.
pub(in crate::cli) fn real_target(directory: &Path, target: &Path) -> Result<PathBuf, String> {
    let shown = |why: &str| format!("{}: {why}", display_path(&directory.join(target)));
    let real = directory.canonicalize().map_err(|error| shown(&error.to_string()))?;
    let mut at = real.clone();
    for component in target.components() {
        let Component::Normal(name) = component else {
            return Err(shown("outside of the directory"));
        };
        at.push(name);
        match fs::symlink_metadata(&at) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err(shown("there is already something of this name")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(real.join(target)),
            Err(error) => return Err(shown(&error.to_string())),
        }
    }
    Err(shown("it is a directory"))
}

/// Reports whether files are moved.
pub(super) fn has_moves(texts: &Texts) -> bool {
    texts.values().any(|file| file.original.is_none() || file.new.is_none())
}

/// Evaluates a bundle with other files. Its violations name the files of the bundle itself.
///
/// # Errors
/// The reason why it cannot be copied.
pub(super) fn evaluate(unit: &UnitSource<'_>, texts: &Texts) -> Result<UnitResult, String> {
    let shown = |error: &dyn std::fmt::Display| format!("the bundle cannot be copied: {error}");
    let root = &unit.input.path;
    let home = tempfile::tempdir().map_err(|error| shown(&error))?;
    // The name of the directory is that of the bundle.
    let real = root.canonicalize().map_err(|error| shown(&error))?;
    let copy = home.path().join(real.file_name().unwrap_or("bundle".as_ref()));
    copy_files(&real, &copy, unit.reader, texts).map_err(|error| shown(&error))?;
    let mut input = unit.input.clone();
    input.path.clone_from(&copy);
    let mut result = (unit.evaluate)(&input, &unit.reader.with_full_budget());
    result.move_paths(&copy, root);
    Ok(result)
}

fn copy_files(root: &Path, copy: &Path, reader: &Reader, texts: &Texts) -> anyhow::Result<()> {
    let reader = reader.with_full_budget();
    fs::create_dir_all(copy)?;
    let listing = directory::walk(root)?;
    for directory in &listing.directories {
        fs::create_dir_all(copy.join(directory))?;
    }
    for entry in listing.files.iter().filter(|entry| entry.rejection.is_none()) {
        // The copy has no links.
        let real = root.join(entry.link_target.as_deref().unwrap_or(Path::new(&entry.path)));
        let target = copy.join(&entry.path);
        match texts.get(&real) {
            Some(FileTexts { new: Some(text), .. }) => write(&target, text.as_bytes())?,
            Some(_) => {}
            None => {
                let opened = entry.file_path(&listing).open()?;
                write(&target, &reader.read(opened, false, ReadPurpose::Scan)?)?;
            }
        }
    }
    for (path, file) in texts.iter().filter(|(_, file)| file.original.is_none()) {
        if let (Ok(inside), Some(text)) = (path.strip_prefix(root), &file.new) {
            write(&copy.join(inside), text.as_bytes())?;
        }
    }
    Ok(())
}

fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, content)
}
