//! The page that evaluates the built-in policies in a browser: a directory of static files.
//!
//! ```text
//! guest/policies, host/browser ─▶ components ─▶ jco (node) ─▶ scripts and core modules ─┬▶ OUT
//! host/browser/page ────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! The components are those of the normal build. jco and what it needs are installed from `package-lock.json`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::policies;

/// The sources of the page.
const PAGE: &str = "host/browser/page";
/// The component that the page loads first, and its package.
const HOST: &str = "browser";
const HOST_PACKAGE: &str = "opgate-browser";
/// Files of npm that determine what is installed.
const NPM_FILES: [&str; 2] = ["package.json", "package-lock.json"];
/// The contents of these files at the last complete installation.
const STAMP: &str = "node_modules/.opgate-installed";
/// Level of compression for the size that a server sends.
const COMPRESSION_LEVEL: u8 = 6;

/// What to write.
#[derive(Debug, Default)]
pub(crate) struct BrowserOptions<'a> {
    pub(crate) out: &'a str,
    /// A directory in which jco is installed; by default it is installed below `target`.
    pub(crate) jco: Option<&'a str>,
}

/// Writes the directory, and returns its contents and their sizes.
pub(crate) fn run(root: &Path, options: &BrowserOptions<'_>) -> Result<String> {
    let work = root.join("target/browser");
    let components = build_components(root, &work.join("components"))?;
    let jco = match options.jco {
        Some(directory) => PathBuf::from(directory),
        None => install(&root.join(PAGE), &work.join("jco"))?,
    };
    let out = std::path::absolute(options.out)?;
    let mut node = Command::new("node");
    node.arg(root.join(PAGE).join("build.mjs"));
    node.args([&components, &root.join("guest/policies"), &std::path::absolute(jco)?, &out]);
    let status = node.status().context("node: install Node.js 20.19 or later")?;
    ensure!(status.success(), "node {PAGE}/build.mjs: {status}");
    report(&out)
}

/// Builds the components into a directory.
fn build_components(root: &Path, directory: &Path) -> Result<PathBuf> {
    let named = || directory.display().to_string();
    if directory.exists() {
        // Components of policies that do not exist any more.
        fs::remove_dir_all(directory).with_context(named)?;
    }
    fs::create_dir_all(directory).with_context(named)?;
    let guests = root.join("target/guest");
    let policies = policies::POLICIES.iter().map(|name| (*name, format!("opgate-{name}")));
    for (name, package) in policies.chain([(HOST, HOST_PACKAGE.to_owned())]) {
        let component = opgate_pack::build_component(root, &guests, &package)?;
        let path = directory.join(name).with_extension("wasm");
        fs::write(&path, component).with_context(|| path.display().to_string())?;
    }
    Ok(directory.to_owned())
}

/// Installs jco with npm, unless it is there.
fn install(page: &Path, directory: &Path) -> Result<PathBuf> {
    let mut wanted = Vec::new();
    for name in NPM_FILES {
        wanted.extend(fs::read(page.join(name)).with_context(|| name.to_owned())?);
    }
    let stamp = directory.join(STAMP);
    if fs::read(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(directory.to_owned());
    }
    fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    for name in NPM_FILES {
        fs::copy(page.join(name), directory.join(name)).with_context(|| name.to_owned())?;
    }
    let mut npm = Command::new("npm");
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]);
    let status =
        npm.current_dir(directory).status().context("npm: install Node.js 20.19 or later")?;
    ensure!(status.success(), "npm ci in {}: {status}", directory.display());
    fs::write(&stamp, wanted).with_context(|| stamp.display().to_string())?;
    Ok(directory.to_owned())
}

/// Bytes of files, and of the same files compressed.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    plain: usize,
    compressed: usize,
}

/// Returns the sizes of the files in a directory and below it.
fn size_of(directory: &Path) -> Result<Size> {
    let mut size = Size::default();
    for entry in fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let path = entry?.path();
        let part = if path.is_dir() {
            size_of(&path)?
        } else {
            let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
            let compressed = miniz_oxide::deflate::compress_to_vec(&bytes, COMPRESSION_LEVEL);
            Size { plain: bytes.len(), compressed: compressed.len() }
        };
        size.plain += part.plain;
        size.compressed += part.compressed;
    }
    Ok(size)
}

/// Describes what was written.
fn report(out: &Path) -> Result<String> {
    let mut lines = Vec::new();
    let line = |name: &str, Size { plain, compressed }: Size| {
        format!("{name:<26} {:>6} KiB, {:>6} KiB compressed", plain >> 10, compressed >> 10)
    };
    lines.push(line("host", size_of(&out.join("host"))?));
    for policy in policies::POLICIES {
        lines.push(line(policy, size_of(&out.join("policies").join(policy))?));
    }
    lines.push(line("all files", size_of(out)?));
    Ok(format!("{}\nwrote {}: serve it with any web server", lines.join("\n"), out.display()))
}
