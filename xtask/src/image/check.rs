//! Checks that the image is reproducible: a clone of the last commit, in another directory and built from
//! scratch, must have the same digest.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::platform::Arch;
use super::{DEFAULT_OUTPUT_DIR, ImageMetadata, build_layout, command_output};

/// Returns the directory of the clone. Its depth deliberately differs from that of the workspace.
pub(super) fn clone_directory(root: &Path) -> PathBuf {
    root.join("target/image-check/a/clone")
}

/// Checks that the workspace equals a clone of it.
pub(super) fn ensure_clean(root: &Path) -> Result<()> {
    let changes =
        command_output(Command::new("git").current_dir(root).args(["status", "--porcelain"]))?;
    ensure!(
        changes.trim().is_empty(),
        "--check compares with a clone of the last commit: commit these changes first:\n{}",
        changes.trim_end()
    );
    Ok(())
}

/// Builds the image in a clone; leaves it there.
pub(super) fn digest_of_clone(root: &Path, arches: &[Arch], tag: Option<&str>) -> Result<String> {
    remove_clone(root)?;
    let clone = clone_directory(root);
    command_output(Command::new("git").args(["clone", "--quiet"]).args([root, &clone]))?;
    let mut about = ImageMetadata::of(&clone)?;
    // Nothing of the first build serves again.
    about.target = clone.join("target");
    let layout = build_layout(&clone, &about, arches, tag)?;
    layout.write(&clone.join(DEFAULT_OUTPUT_DIR))?;
    Ok(layout.digest)
}

/// Removes the clone.
pub(super) fn remove_clone(root: &Path) -> Result<()> {
    let directory = root.join("target/image-check");
    if directory.exists() {
        fs::remove_dir_all(&directory).with_context(|| directory.display().to_string())?;
    }
    Ok(())
}
