//! The static binary for a platform.
//!
//! The image must not contain a path of this machine: the compiler replaces the directories of the workspace,
//! of the target and of cargo. The same flags apply to the policies, whose build reads them from here
//! (`host/pack`). Flags and profiles of the environment are ignored.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context as _, Result, ensure};

use super::platform::Arch;
use super::{ImageMetadata, cargo, command_output};

/// Variables that would change the program, or where it goes.
const FOREIGN_VARIABLES: [&str; 3] = ["RUSTFLAGS", "CARGO_BUILD_RUSTFLAGS", "CARGO_BUILD_TARGET"];
const FOREIGN_PREFIXES: [&str; 5] =
    ["CARGO_PROFILE_", "CARGO_TARGET_", "CFLAGS", "CXXFLAGS", "LDFLAGS"];

/// Builds it.
pub(super) fn binary(root: &Path, metadata: &ImageMetadata, arch: Arch) -> Result<Vec<u8>> {
    arch.libc()?;
    ensure_target(arch.triple())?;
    eprintln!("building opgate for {arch}");
    let triple = arch.triple();
    let mut cargo = cargo(root);
    cargo.args(["build", "--release", "--locked", "--package", "opgate", "--bin", "opgate"]);
    cargo.args(["--target", triple]).arg("--target-dir").arg(&metadata.target);
    if let Some(feature) = arch.feature() {
        cargo.args(["--features", feature]);
    }
    remove_foreign_variables(&mut cargo);
    let directories = path_remaps(root, metadata)?;
    cargo.env("CARGO_ENCODED_RUSTFLAGS", remap_flags(&directories).join("\u{1f}"));
    cargo.env("CARGO_INCREMENTAL", "0");
    cargo.env("OPGATE_COMMIT", metadata.revision.as_deref().unwrap_or_default());
    let of_triple = triple.replace('-', "_");
    // C files name themselves in errors and assertions.
    let maps = directories.iter().map(|(from, to)| format!("-ffile-prefix-map={from}={to}"));
    cargo.env(format!("CFLAGS_{of_triple}"), maps.collect::<Vec<_>>().join(" "));
    if !arch.is_native() {
        cargo.env(format!("CARGO_TARGET_{}_LINKER", of_triple.to_uppercase()), arch.compiler());
        cargo.env(format!("CC_{of_triple}"), arch.compiler());
    }
    let status = cargo.status().context("cargo")?;
    ensure!(status.success(), "building opgate for {arch} failed: {status}");
    let path = metadata.target.join(triple).join("release/opgate");
    fs::read(&path).with_context(|| path.display().to_string())
}

/// Removes the flags and profiles of the environment.
pub(crate) fn remove_foreign_variables(cargo: &mut Command) {
    let is_foreign = |name: &str| {
        FOREIGN_VARIABLES.contains(&name)
            || FOREIGN_PREFIXES.iter().any(|start| name.starts_with(start))
    };
    for (name, _) in env::vars_os() {
        if is_foreign(&name.to_string_lossy()) {
            cargo.env_remove(name);
        }
    }
}

/// Folders of this machine, and what stands for each in the program. The last one that fits counts.
pub(crate) fn path_remaps(
    root: &Path,
    metadata: &ImageMetadata,
) -> Result<Vec<(String, &'static str)>> {
    let directories = [
        (cargo_home()?, "/cargo"),
        (root.to_owned(), "/opgate"),
        (metadata.target.clone(), "/opgate/target"),
    ];
    let named = |(from, to): (PathBuf, &'static str)| {
        let from = from.to_str().context("a directory whose name is not UTF-8")?;
        // Flags for C are separated by spaces.
        ensure!(
            !from.contains(' '),
            "the program cannot be built below a directory with a space: {from}"
        );
        Ok((from.to_owned(), to))
    };
    directories.into_iter().map(named).collect()
}

fn remap_flags(directories: &[(String, &'static str)]) -> Vec<String> {
    let mut flags = vec![
        "-Ctarget-feature=+crt-static".to_owned(),
        // A static program cannot look the function up by its name, and would read /dev/urandom.
        "--cfg=getrandom_backend=\"linux_getrandom\"".to_owned(),
    ];
    flags.extend(directories.iter().map(|(from, to)| format!("--remap-path-prefix={from}={to}")));
    flags
}

fn cargo_home() -> Result<PathBuf> {
    let set = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = || env::home_dir().map(|home| home.join(".cargo"));
    set.or_else(home).context("no home directory, and CARGO_HOME is not set")
}

/// Adds the standard library for the platform where it is missing.
pub(crate) fn ensure_target(triple: &str) -> Result<()> {
    let mut rustc = Command::new("rustc");
    let directory = command_output(rustc.args(["--print", "target-libdir", "--target", triple]))?;
    if Path::new(directory.trim()).is_dir() {
        return Ok(());
    }
    command_output(Command::new("rustup").args(["target", "add", triple]))
        .with_context(|| format!("the target {triple} is missing"))?;
    Ok(())
}

/// Checks that a program is built for this platform, and needs neither a loader nor libraries: the image has
/// none.
pub(super) fn check(arch: Arch, program: &[u8]) -> Result<()> {
    const INTERPRETER: u32 = 3;
    let broken = || format!("the program for {arch} is no ELF file of 64 bits");
    ensure!(program.starts_with(b"\x7fELF\x02\x01"), "{}", broken());
    let machine = u16::from_le_bytes(bytes(program, 18).with_context(broken)?);
    ensure!(
        machine == arch.machine(),
        "the program for {arch} is for another processor: {machine}"
    );
    let offset = usize::try_from(u64::from_le_bytes(bytes(program, 32).with_context(broken)?))?;
    let size = usize::from(u16::from_le_bytes(bytes(program, 54).with_context(broken)?));
    let count = usize::from(u16::from_le_bytes(bytes(program, 56).with_context(broken)?));
    for number in 0..count {
        let header = offset.saturating_add(number.saturating_mul(size));
        let kind = u32::from_le_bytes(bytes(program, header).with_context(broken)?);
        ensure!(kind != INTERPRETER, "the program for {arch} is linked dynamically");
    }
    Ok(())
}

fn bytes<const N: usize>(program: &[u8], at: usize) -> Option<[u8; N]> {
    program.get(at..)?.first_chunk().copied()
}
