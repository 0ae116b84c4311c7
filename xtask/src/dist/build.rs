//! The program for a platform, cross compiled with zig (`cargo zigbuild`), which has the C libraries of all of
//! them.
//!
//! zig has no frameworks of macOS. `templates/frameworks.txt` names the symbols of them that the program uses; of
//! these, stubs for the linker are written (`.tbd`, as in an SDK). macOS has the frameworks themselves.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::platform::{Os, Platform};
use crate::image::build::{ensure_target, path_remaps, remove_foreign_variables};
use crate::image::{ImageMetadata, cargo};

/// What the symbols of frameworks are: `Framework symbol`, one a line.
const FRAMEWORKS: &str = include_str!("templates/frameworks.txt");

/// Builds the program.
pub(super) fn program(
    root: &Path,
    metadata: &ImageMetadata,
    platform: &Platform,
) -> Result<Vec<u8>> {
    let triple = platform.triple;
    ensure_target(triple)?;
    eprintln!("building opgate for {triple}");
    let mut cargo = cargo(root);
    cargo.args(["zigbuild", "--release", "--locked", "--package", "opgate", "--bin", "opgate"]);
    // The suffix is the oldest glibc.
    let oldest = platform.oldest().filter(|_| platform.os == Os::LinuxGnu);
    let suffix = oldest.map(|version| format!(".{version}")).unwrap_or_default();
    cargo.arg("--target").arg(format!("{triple}{suffix}"));
    cargo.arg("--target-dir").arg(&metadata.target);
    if let Some(feature) = platform.feature() {
        cargo.args(["--features", &feature]);
    }
    remove_foreign_variables(&mut cargo);
    let remaps = path_remaps(root, metadata)?;
    let mut flags: Vec<String> =
        remaps.iter().map(|(from, to)| format!("--remap-path-prefix={from}={to}")).collect();
    let maps = remaps.iter().map(|(from, to)| format!("-ffile-prefix-map={from}={to}"));
    cargo.env(format!("CFLAGS_{}", triple.replace('-', "_")), maps.collect::<Vec<_>>().join(" "));
    match platform.os {
        Os::Mac => {
            // As the tag of the wheel has it; zig would take its own.
            let oldest = platform.oldest().map(|version| version.to_string());
            cargo.env("MACOSX_DEPLOYMENT_TARGET", oldest.unwrap_or_default());
            let stubs = write_frameworks(&metadata.target)?;
            flags.push(format!("-Clink-arg=-F{}", stubs.display()));
        }
        Os::LinuxMusl => {
            // A static program cannot look the function up by its name, and would read /dev/urandom.
            flags.push("--cfg=getrandom_backend=\"linux_getrandom\"".to_owned());
        }
        Os::LinuxGnu | Os::Windows => {}
    }
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    cargo.env("CARGO_INCREMENTAL", "0");
    cargo.env("OPGATE_COMMIT", metadata.revision.as_deref().unwrap_or_default());
    let status = cargo.status().context("cargo")?;
    ensure!(
        status.success(),
        "building opgate for {triple} failed: {status}; it needs `pip install -r xtask/src/dist/requirements.txt`"
    );
    let path = metadata.target.join(triple).join("release").join(platform.program_name());
    fs::read(&path).with_context(|| path.display().to_string())
}

/// Writes stubs of the frameworks; returns their directory.
fn write_frameworks(target: &Path) -> Result<PathBuf> {
    let directory = target.join("frameworks");
    for (name, text) in frameworks() {
        let framework = directory.join(format!("{name}.framework"));
        fs::create_dir_all(&framework).with_context(|| framework.display().to_string())?;
        fs::write(framework.join(format!("{name}.tbd")), text)?;
    }
    Ok(directory)
}

/// The stubs by the names of their frameworks.
fn frameworks() -> Vec<(&'static str, String)> {
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    let lines = FRAMEWORKS.lines().filter(|line| !line.starts_with('#'));
    for (name, symbol) in lines.filter_map(|line| line.split_once(' ')) {
        match found.iter_mut().find(|(known, _)| *known == name) {
            Some((_, symbols)) => symbols.push(symbol),
            None => found.push((name, vec![symbol])),
        }
    }
    found.into_iter().map(|(name, symbols)| (name, stub(name, &symbols))).collect()
}

fn stub(name: &str, symbols: &[&str]) -> String {
    let targets = "[ x86_64-macos, arm64-macos ]";
    let mut text = format!("--- !tapi-tbd\ntbd-version: 4\ntargets: {targets}\n");
    // Writing to a text does not fail.
    let _ = write!(
        text,
        "install-name: '/System/Library/Frameworks/{name}.framework/Versions/A/{name}'\n\
         exports:\n  - targets: {targets}\n    symbols: [ {} ]\n...\n",
        symbols.join(", ")
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stubs_name_the_symbols_of_each_framework() {
        let stubs = frameworks();
        let names: Vec<_> = stubs.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["CoreFoundation", "Security"]);
        for (name, text) in stubs {
            assert!(text.contains(&format!("/{name}.framework/Versions/A/{name}'")), "{text}");
            assert!(text.contains("symbols: [ _"), "{text}");
        }
    }
}
