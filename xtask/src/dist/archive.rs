//! The archive of a platform: the program, completions, man pages, licences and the SBOM.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use anyhow::{Context as _, Result};

use super::platform::{Os, Platform};
use super::program::Requirements;
use crate::archive::{Entry, gzip, tar, zip};
use crate::image::{command_output, notices};

/// Shells, and how they name the files of completions.
const SHELLS: [(&str, &str); 5] = [
    ("bash", "opgate.bash"),
    ("zsh", "_opgate"),
    ("fish", "opgate.fish"),
    ("powershell", "_opgate.ps1"),
    ("elvish", "opgate.elv"),
];

/// Completions and man pages, which the program itself writes. They are those of all platforms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Documents {
    /// By name.
    pub(super) completions: Vec<(String, Vec<u8>)>,
    pub(super) man_pages: Vec<(String, Vec<u8>)>,
}

impl Documents {
    /// Asks a program that runs on this machine.
    ///
    /// # Errors
    /// If it does not run.
    pub(super) fn of(program: &Path) -> Result<Self> {
        let opgate = || {
            let mut command = Command::new(program);
            command.env_clear().envs(env::var_os("SystemRoot").map(|root| ("SystemRoot", root)));
            command
        };
        let mut completions = Vec::new();
        for (shell, file) in SHELLS {
            let text = command_output(opgate().args(["completions", shell]))?;
            completions.push((file.to_owned(), text.into_bytes()));
        }
        let directory = tempfile::tempdir()?;
        command_output(opgate().arg("man").arg(directory.path()))?;
        Ok(Self { completions, man_pages: read_directory(directory.path())? })
    }
}

/// The files of a directory by name.
fn read_directory(directory: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).context("a name in UTF-8")?;
        files.push((name.to_owned(), fs::read(&path)?));
    }
    files.sort();
    Ok(files)
}

/// What is in an archive.
#[derive(Debug, Clone)]
pub(super) struct Content {
    pub(super) program: Vec<u8>,
    pub(super) requirements: Requirements,
    pub(super) sbom: Vec<u8>,
    pub(super) licence: Vec<u8>,
    pub(super) notices: Vec<u8>,
    pub(super) readme: Vec<u8>,
    pub(super) documents: Documents,
}

/// Returns the name of the archive, without its extension: that of the directory in it.
pub(super) fn stem(version: &str, platform: &Platform) -> String {
    format!("opgate-{version}-{}", platform.triple)
}

/// Returns the name of the archive.
pub(super) fn file_name(version: &str, platform: &Platform) -> String {
    format!("{}.{}", stem(version, platform), platform.archive_extension())
}

/// Packs the archive.
pub(super) fn pack(
    version: &str,
    platform: &Platform,
    content: &Content,
    time: i64,
) -> Result<Vec<u8>> {
    let top = stem(version, platform);
    let mut entries = vec![Entry::directory(format!("{top}/"), 0o755)];
    let mut file = |path: &str, mode, bytes: &[u8]| {
        entries.push(Entry::file(format!("{top}/{path}"), mode, bytes));
    };
    file(platform.program_name(), 0o755, &content.program);
    file("LICENSE", 0o644, &content.licence);
    file(notices::FILE_NAME, 0o644, &content.notices);
    file("README.md", 0o644, &content.readme);
    file("opgate.cdx.json", 0o644, &content.sbom);
    for (name, bytes) in &content.documents.completions {
        file(&format!("completions/{name}"), 0o644, bytes);
    }
    for (name, bytes) in &content.documents.man_pages {
        file(&format!("man/{name}"), 0o644, bytes);
    }
    match platform.os {
        Os::Windows => zip(&entries),
        Os::LinuxGnu | Os::LinuxMusl | Os::Mac => gzip(&tar(&entries, time)?),
    }
}
