//! Builds guests in build scripts: the host's script embeds the built-in policies, and the tests'
//! script builds hostile ones.
//!
//! ```text
//! package names ─▶ cargo build --target wasm32-unknown-unknown ─▶ core modules ─▶ components
//! ```
//!
//! All guests share one target directory, `<target>/guest`, so that debug, release and clippy builds
//! do not each build them again.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

const WASM_TARGET: &str = "wasm32-unknown-unknown";

/// Layout of a guest's memory: 64 KiB of stack first, then data and heap inside 128 KiB of initial
/// memory: exactly the part that the host resets in place, so that a call which needs no more costs
/// no system call.
const DEFAULT_LINK_ARGS: [&str; 2] = ["-zstack-size=65536", "--initial-memory=131072"];

/// Guests whose data leaves room for 24 KiB of stack and some heap in 64 KiB: half as much is reset after
/// each call. A guest that needs more allocates memory, which costs system calls.
const SMALL_MEMORY_LINK_ARGS: [&str; 2] = ["-zstack-size=24576", "--initial-memory=65536"];
const SMALL_MEMORY_GUESTS: [&str; 2] = ["opgate-bundle-immutability", "opgate-plain-bundle"];

/// Guests that need more: 64 levels of CEL run out of 64 KiB of stack, and data with a reader of YAML
/// do not fit into the other 64 KiB.
const LARGE_STACK_LINK_ARGS: [&str; 2] = ["-zstack-size=458752", "--initial-memory=786432"];
const LARGE_STACK_GUESTS: [&str; 2] = ["opgate-constraint-limits", "opgate-file-based-catalog"];

/// Guests with many rules, whose texts and a reader of YAML take 93 KiB, or with the table of the fields of
/// Kubernetes, 54 KiB.
const LARGE_DATA_LINK_ARGS: [&str; 2] = ["-zstack-size=65536", "--initial-memory=262144"];
const LARGE_DATA_GUESTS: [&str; 3] =
    ["opgate-cluster-service-version", "opgate-crd-upgrade", "opgate-registry-bundle"];

/// The host of policies in a browser reads YAML and JSON of users, which can nest deep.
const BROWSER_LINK_ARGS: [&str; 2] = ["-zstack-size=1048576", "--initial-memory=2097152"];
const BROWSER_GUEST: &str = "opgate-browser";

/// The error of a failed build.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The Wasm target is missing and could not be added.
    #[error("the target {WASM_TARGET} is missing: run `rustup target add {WASM_TARGET}`")]
    Target,
    /// Cargo failed, and printed the reason.
    #[error("building the guests failed: {0}")]
    Cargo(String),
    /// A file could not be read, or a program could not be started.
    #[error("{what}: {source}")]
    Io {
        /// The file or program.
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// The module does not follow `wit/policy.wit`.
    #[error("{module} does not make a component: {why}")]
    Component {
        /// The module.
        module: String,
        /// The error of `wit-component`.
        why: EncodeError,
    },
}

/// The error of `wit-component`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EncodeError(String);

fn io_error(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    let what = what.into();
    |source| Error::Io { what, source }
}

/// The targets of a package to build.
#[derive(Debug, Clone, Copy)]
pub enum Guest<'a> {
    /// The library of the package.
    Package(&'a str),
    /// All examples of a package, each a separate guest.
    Examples {
        /// Name of the package.
        package: &'a str,
        /// Its directory in the workspace.
        directory: &'a str,
    },
}

/// Builds guests, and returns the name and component of each, in the order of the files' names.
///
/// Call it from a build script: it reads the variables that cargo sets there, and prints the inputs
/// for which cargo must run the script again.
///
/// # Errors
/// If the target is missing, cargo fails, or a module does not follow `wit/policy.wit`.
pub fn build_components(guest: Guest<'_>) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let workspace = find_workspace()?;
    for input in ["Cargo.toml", "Cargo.lock", "common", "guest", "wit"] {
        println!("cargo::rerun-if-changed={}", workspace.join(input).display());
    }
    let modules = build_modules(&workspace, &target_dir()?, guest)?;
    modules.iter().map(|module| encode_module(module)).collect()
}

/// Builds the guest of a package in a workspace, outside of a build script, and returns its component. The
/// directory is that of all guests, `<target>/guest`: what the build of the workspace has built is not built again.
///
/// # Errors
/// As for [`build_components`].
pub fn build_component(
    workspace: &Path,
    target_dir: &Path,
    package: &str,
) -> Result<Vec<u8>, Error> {
    let mut component = Vec::new();
    for module in build_modules(workspace, target_dir, Guest::Package(package))? {
        (_, component) = encode_module(&module)?;
    }
    Ok(component)
}

/// Builds guests, and returns the paths of their modules.
fn build_modules(
    workspace: &Path,
    target_dir: &Path,
    guest: Guest<'_>,
) -> Result<Vec<PathBuf>, Error> {
    ensure_target()?;
    let package = match guest {
        Guest::Package(package) | Guest::Examples { package, .. } => package,
    };
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(workspace);
    // `cargo rustc` for the one library: with `rlib` among its crate types there is no LTO.
    match guest {
        Guest::Package(_) => cargo.args(["rustc", "--lib", "--crate-type", "cdylib"]),
        Guest::Examples { .. } => cargo.args(["build", "--examples"]),
    };
    cargo.args(["--quiet", "--profile", "guest"]);
    cargo.args(["--target", WASM_TARGET, "--package", package, "--target-dir"]).arg(target_dir);
    if let Guest::Package(package) = guest {
        let layout = match package {
            deep if LARGE_STACK_GUESTS.contains(&deep) => LARGE_STACK_LINK_ARGS,
            wide if LARGE_DATA_GUESTS.contains(&wide) => LARGE_DATA_LINK_ARGS,
            small if SMALL_MEMORY_GUESTS.contains(&small) => SMALL_MEMORY_LINK_ARGS,
            BROWSER_GUEST => BROWSER_LINK_ARGS,
            _ => DEFAULT_LINK_ARGS,
        };
        cargo.arg("--").args(layout.map(|flag| format!("-Clink-arg={flag}")));
    }
    // These options of the outer build do not apply to the guests: wrappers of the compiler such as
    // clippy, and the host's target.
    for name in ["RUSTC_WORKSPACE_WRAPPER", "RUSTC_WRAPPER", "CLIPPY_ARGS", "CARGO_BUILD_TARGET"] {
        cargo.env_remove(name);
    }
    // All guests have the same flags, so that cargo builds their common crates once. Flags for the linker are
    // excluded: they would come after those of one guest, and the last value of a flag counts. Flags that
    // keep paths of this machine out of the code also apply to guests.
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    cargo.env("CARGO_ENCODED_RUSTFLAGS", path_remap_flags(&flags));
    let status = cargo.status().map_err(io_error("cargo"))?;
    if !status.success() {
        return Err(Error::Cargo(status.to_string()));
    }
    let built = target_dir.join(WASM_TARGET).join("guest");
    Ok(match guest {
        Guest::Package(name) => vec![built.join(format!("{}.wasm", name.replace('-', "_")))],
        Guest::Examples { directory, .. } => {
            let directory = workspace.join(directory);
            println!("cargo::rerun-if-changed={}", directory.display());
            find_examples(&directory, &built.join("examples"))?
        }
    })
}

/// Returns the flags that replace paths, in cargo's encoding.
fn path_remap_flags(flags: &str) -> String {
    let flags = flags.split('\u{1f}').filter(|flag| flag.starts_with("--remap-path-prefix="));
    flags.collect::<Vec<_>>().join("\u{1f}")
}

/// Returns the modules of the examples that a package has now (the directory may also have older ones).
fn find_examples(package: &Path, built: &Path) -> Result<Vec<PathBuf>, Error> {
    let sources = package.join("examples");
    let entries = fs::read_dir(&sources).map_err(io_error(sources.display().to_string()))?;
    let mut modules = Vec::new();
    for entry in entries {
        let path = entry.map_err(io_error(sources.display().to_string()))?.path();
        if let Some(stem) = path.file_stem().filter(|_| path.extension() == Some("rs".as_ref())) {
            let stem = stem.to_string_lossy().replace('-', "_");
            modules.push(built.join(stem).with_extension("wasm"));
        }
    }
    modules.sort();
    Ok(modules)
}

fn encode_module(module: &Path) -> Result<(String, Vec<u8>), Error> {
    let bytes = fs::read(module).map_err(io_error(module.display().to_string()))?;
    let name = module.file_stem().unwrap_or_default().to_string_lossy().replace('_', "-");
    let component = encode_component(&bytes)
        .map_err(|why| Error::Component { module: module.display().to_string(), why })?;
    Ok((name, component))
}

/// Makes a component of a core module that carries the bindings of `wit/policy.wit`.
///
/// # Errors
/// If `wit-component` rejects the module, its error.
pub fn encode_component(module: &[u8]) -> Result<Vec<u8>, EncodeError> {
    let encoder = wit_component::ComponentEncoder::default().module(module);
    encoder.and_then(|e| e.validate(true).encode()).map_err(|e| EncodeError(format!("{e:#}")))
}

/// Adds the Wasm target to the toolchain if it is missing.
fn ensure_target() -> Result<(), Error> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let printed = Command::new(rustc)
        .args(["--print", "target-libdir", "--target", WASM_TARGET])
        .output()
        .map_err(io_error("rustc"))?;
    let libraries = PathBuf::from(String::from_utf8_lossy(&printed.stdout).trim());
    if printed.status.success() && libraries.is_dir() {
        return Ok(());
    }
    let mut rustup = Command::new("rustup");
    rustup.args(["target", "add", WASM_TARGET]);
    if let Some(toolchain) = env::var_os("RUSTUP_TOOLCHAIN") {
        rustup.arg("--toolchain").arg(toolchain);
    }
    // Without rustup, the error names the missing target.
    let added = rustup.output().is_ok_and(|output| output.status.success());
    if added { Ok(()) } else { Err(Error::Target) }
}

/// Returns the workspace's root, a parent of the package that is being built.
fn find_workspace() -> Result<PathBuf, Error> {
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let found = package.ancestors().find(|directory| directory.join("wit/policy.wit").is_file());
    found.map(Path::to_path_buf).ok_or_else(|| Error::Io {
        what: format!("no wit/policy.wit above {}", package.display()),
        source: io::ErrorKind::NotFound.into(),
    })
}

/// Returns `<target>/guest`, where `<target>` is the directory that cargo marks with `CACHEDIR.TAG`. Cargo
/// does not mark a directory that already exists, such as a mounted volume: then `<target>` is the directory
/// that contains `<profile>/build/<package>/out`.
fn target_dir() -> Result<PathBuf, Error> {
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let marked = out.ancestors().find(|directory| directory.join("CACHEDIR.TAG").is_file());
    let directory = marked.or_else(|| out.ancestors().nth(4));
    directory.map(|directory| directory.join("guest")).ok_or_else(|| Error::Io {
        what: format!("no target directory above {}", out.display()),
        source: io::ErrorKind::NotFound.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::path_remap_flags;

    #[test]
    fn guests_get_flags_about_paths_and_no_others() {
        let flags = "-Ctarget-feature=+crt-static\u{1f}--remap-path-prefix=/a b=/c\u{1f}--cfg=x\u{1f}--remap-path-prefix=/d=/e";
        let expected = "--remap-path-prefix=/a b=/c\u{1f}--remap-path-prefix=/d=/e";
        assert_eq!(path_remap_flags(flags), expected);
        assert_eq!(path_remap_flags(""), "");
    }
}
