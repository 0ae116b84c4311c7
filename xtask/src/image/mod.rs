//! `cargo xtask image`: an OCI layout with the image of opgate, without a daemon.
//!
//! ```text
//! cargo build (static) ─▶ binary ─┐
//! cargo tree ─▶ SBOM, notices ────┼─▶ files ─▶ tar ─▶ gzip ─▶ layer ─┐
//! webpki-root-certs ─▶ CA bundle ─┘                                  ├─▶ manifest ─▶ index ─▶ oci-layout
//! Cargo.toml, last commit ─▶ labels, time ─▶ configuration ──────────┘       ▲
//!                                              SBOM ─▶ artifact (subject) ───┘
//! ```
//!
//! The image is a function of the commit and the compilers: times are that of the last commit, owners are
//! root, names are sorted, and the binary contains no path of this machine. A build of the same commit with
//! the same compilers therefore has the same digest.

pub(crate) mod build;
mod check;
mod files;
mod layout;
pub(crate) mod notices;
mod platform;
pub(crate) mod sbom;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use files::Layer;
use layout::Layout;
use platform::Arch;

/// Directory of the layout, below the root of the workspace.
const DEFAULT_OUTPUT_DIR: &str = "target/image";
/// Most bytes of an image for one platform, compressed: what a node pulls.
const MAX_COMPRESSED_BYTES: usize = 30_000_000;

/// Options of the command line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ImageOptions<'a> {
    /// Architectures; none for all that can be built here.
    pub(crate) arches: Vec<&'a str>,
    pub(crate) output: Option<&'a str>,
    /// Name of the image in the layout; the version, if there is none.
    pub(crate) tag: Option<&'a str>,
    /// Builds a clone, too, and compares.
    pub(crate) verify_reproducible: bool,
}

/// Metadata of the image.
#[derive(Debug, Clone)]
pub(crate) struct ImageMetadata {
    pub(crate) version: String,
    pub(crate) description: String,
    pub(crate) licenses: String,
    /// URL of the sources, if the workspace names it.
    pub(crate) repository: Option<String>,
    /// The last commit, if there is one; with `-dirty` if files differ from it.
    pub(crate) revision: Option<String>,
    /// Time of the last commit, or `SOURCE_DATE_EPOCH`: the time of all files in the image.
    pub(crate) time: OffsetDateTime,
    /// Target directory of cargo.
    pub(crate) target: PathBuf,
}

impl ImageMetadata {
    pub(crate) fn of(root: &Path) -> Result<Self> {
        let mut cargo = cargo(root);
        cargo.args(["metadata", "--no-deps", "--format-version", "1", "--locked"]);
        let metadata: Value = serde_json::from_str(&command_output(&mut cargo)?)?;
        let packages = metadata.get("packages").and_then(Value::as_array);
        let packages = packages.context("cargo metadata has no packages")?;
        let is_opgate = |package: &&Value| package.get("name").is_some_and(|name| name == "opgate");
        let opgate = packages.iter().find(is_opgate);
        let opgate = opgate.context("the workspace has no package opgate")?;
        let text = |name: &str| opgate.get(name)?.as_str().map(str::to_owned);
        let target = metadata.get("target_directory").and_then(Value::as_str);
        let target = target.context("cargo metadata has no target_directory")?;
        let (revision, commit_time) = commit(root)?.unzip();
        let time = match env::var("SOURCE_DATE_EPOCH") {
            Ok(set) => set.trim().parse().context("SOURCE_DATE_EPOCH")?,
            Err(_) => commit_time.unwrap_or(0),
        };
        Ok(Self {
            version: text("version").context("opgate has no version")?,
            description: text("description").context("opgate has no description")?,
            licenses: text("license").context("opgate has no license")?,
            repository: text("repository"),
            revision,
            time: OffsetDateTime::from_unix_timestamp(time)?,
            target: target.into(),
        })
    }

    fn created(&self) -> Result<String> {
        Ok(self.time.format(&Rfc3339)?)
    }

    /// Labels of the configuration, which are also the annotations of manifests and index.
    fn labels(&self) -> Result<Vec<(String, String)>> {
        let mut labels = vec![
            ("created", self.created()?),
            ("description", self.description.clone()),
            ("licenses", self.licenses.clone()),
            ("title", "opgate".to_owned()),
            ("version", self.version.clone()),
        ];
        if let Some(revision) = &self.revision {
            labels.push(("revision", revision.clone()));
        }
        if let Some(repository) = &self.repository {
            labels.push(("source", repository.clone()));
        }
        labels.sort();
        let full = |(name, value)| (format!("org.opencontainers.image.{name}"), value);
        Ok(labels.into_iter().map(full).collect())
    }
}

/// Returns the last commit and its time in seconds; none outside of a clone.
fn commit(root: &Path) -> Result<Option<(String, i64)>> {
    let git =
        |arguments: &[&str]| command_output(Command::new("git").current_dir(root).args(arguments));
    let Ok(head) = git(&["log", "-1", "--format=%H %ct"]) else { return Ok(None) };
    let (revision, time) = head.trim().split_once(' ').context("git log says nothing")?;
    let dirty = if git(&["status", "--porcelain"])?.trim().is_empty() { "" } else { "-dirty" };
    Ok(Some((format!("{revision}{dirty}"), time.parse()?)))
}

/// Image of one platform, before it is part of a layout.
struct Image {
    arch: Arch,
    layer: Layer,
    sbom: Vec<u8>,
}

/// Builds the image; gives what to say.
pub(crate) fn run(root: &Path, options: &ImageOptions<'_>) -> Result<String> {
    let arches = platform::select(&options.arches)?;
    let output = options.output.map_or_else(|| root.join(DEFAULT_OUTPUT_DIR), PathBuf::from);
    layout::check_output(&output)?;
    if options.verify_reproducible {
        check::ensure_clean(root)?;
    }
    let about = ImageMetadata::of(root)?;
    let layout = build_layout(root, &about, &arches, options.tag)?;
    layout.write(&output)?;
    let mut text = format!("wrote {}, tag {}\n", output.display(), layout.tag);
    for (arch, size) in &layout.sizes {
        // Writing to a text does not fail.
        let _ = writeln!(text, "linux/{arch}: {} MB compressed", megabytes(*size));
    }
    let _ = write!(text, "digest: {}", layout.digest);
    if options.verify_reproducible {
        let other = check::digest_of_clone(root, &arches, options.tag)?;
        ensure!(
            other == layout.digest,
            "the image of a clone has another digest: {other} instead of {}; both are kept: compare {} with {}",
            layout.digest,
            output.display(),
            check::clone_directory(root).display(),
        );
        check::remove_clone(root)?;
        text.push_str("\nchecked: a clone in another directory has the same digest");
    }
    Ok(text)
}

fn build_layout(
    root: &Path,
    about: &ImageMetadata,
    arches: &[Arch],
    tag: Option<&str>,
) -> Result<Layout> {
    let mut images = Vec::new();
    for &arch in arches {
        let binary = build::binary(root, about, arch)?;
        let sbom = sbom::of(root, about, arch)?;
        let (data, libraries) = ([sbom::CA_CERTIFICATES_CRATE], [sbom::libc_component(arch)?]);
        let notices = notices::of(root, arch.triple(), &data, &libraries)?;
        images.push(image(root, about, arch, &binary, sbom, &notices)?);
    }
    layout(about, &images, tag)
}

fn image(
    root: &Path,
    about: &ImageMetadata,
    arch: Arch,
    binary: &[u8],
    sbom: Vec<u8>,
    notices: &[u8],
) -> Result<Image> {
    build::check(arch, binary)?;
    let licence = fs::read(root.join("LICENSE")).context("LICENSE")?;
    let files = files::files(binary, &sbom, &licence, notices);
    let layer = files::layer(&files, about.time.unix_timestamp())?;
    Ok(Image { arch, layer, sbom })
}

fn layout(about: &ImageMetadata, images: &[Image], tag: Option<&str>) -> Result<Layout> {
    let layout = Layout::of(about, images, tag)?;
    for (arch, size) in &layout.sizes {
        ensure!(
            *size < MAX_COMPRESSED_BYTES,
            "the image for {arch} has {} MB compressed: the bound is {} MB",
            megabytes(*size),
            megabytes(MAX_COMPRESSED_BYTES)
        );
    }
    Ok(layout)
}

/// Returns `sha256:…`.
pub(crate) fn digest(bytes: &[u8]) -> String {
    let hex = Sha256::digest(bytes).into_iter().map(|byte| format!("{byte:02x}"));
    std::iter::once("sha256:".to_owned()).chain(hex).collect()
}

/// With one decimal, rounded up.
fn megabytes(bytes: usize) -> String {
    let tenths = bytes.div_ceil(100_000);
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// Returns the cargo that runs this.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root);
    cargo
}

/// Returns the output of a command, if it succeeds.
pub(crate) fn command_output(command: &mut Command) -> Result<String> {
    let shown = format!("{command:?}");
    let output = command.output().with_context(|| shown.clone())?;
    ensure!(
        output.status.success(),
        "{shown}: {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    String::from_utf8(output.stdout).with_context(|| shown)
}

#[cfg(test)]
mod tests;
