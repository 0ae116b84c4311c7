//! `cargo xtask dist`: the files of a release, an archive for each platform, and packages with the same programs.
//!
//! ```text
//! cargo zigbuild ─▶ program ──────┐
//! cargo tree, Cargo.lock ─▶ SBOM ─┼─▶ archive ─┬─▶ Homebrew, krew, Nix: address and digest
//! program ─▶ completions, man ────┘            └─▶ SHA256SUMS
//!                                 └─▶ npm, wheel, deb
//! ```
//!
//! All files are functions of the programs and of the commit: times are that of the last commit, owners are root.

mod archive;
mod build;
mod deb;
mod manifests;
mod npm;
mod platform;
mod wheel;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use self::archive::{Content, Documents};
use self::platform::{Os, PLATFORMS, Platform};
use crate::image::{ImageMetadata, digest, sbom};

/// Directory of the files, below the root of the workspace.
const DEFAULT_OUTPUT_DIR: &str = "target/release-files";
/// Name of the file with the digests. A directory with other files, and without it, is not written to.
const SUMS: &str = "SHA256SUMS";
/// Address of a source that has none yet.
const DEFAULT_HOMEPAGE: &str = "https://git.example.com/opgate/opgate";

/// Options of the command line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct DistOptions<'a> {
    /// Triples; none for all platforms.
    pub(crate) targets: Vec<&'a str>,
    /// Programs that are built already: a triple and a file.
    pub(crate) programs: Vec<(&'a str, &'a str)>,
    pub(crate) output: Option<&'a str>,
    /// Address of the directory with the archives.
    pub(crate) url: Option<&'a str>,
    /// Also makes packages.
    pub(crate) packages: bool,
}

/// A release.
#[derive(Debug)]
struct Release<'a> {
    version: &'a str,
    description: &'a str,
    licenses: &'a str,
    homepage: String,
    url: String,
    /// As Unix time.
    time: i64,
}

impl Release<'_> {
    /// Address of an archive.
    fn address(&self, archive: &Archive) -> String {
        format!("{}/{}", self.url, archive::file_name(self.version, archive.platform))
    }

    /// Returns `package.json` with what all packages have, and more.
    fn npm_manifest(&self, name: &str, mut more: Value) -> Value {
        let mut manifest = json!({
            "name": name,
            "version": self.version,
            "description": self.description,
            "license": self.licenses,
            "homepage": self.homepage,
        });
        if let (Some(members), Some(more)) = (manifest.as_object_mut(), more.as_object_mut()) {
            members.append(more);
        }
        manifest
    }
}

/// The archive of a platform.
#[derive(Debug)]
struct Archive {
    platform: &'static Platform,
    bytes: Vec<u8>,
}

/// A file of a release, by its path in the output.
#[derive(Debug, PartialEq, Eq)]
struct Package {
    path: String,
    bytes: Vec<u8>,
}

/// Makes the files; returns what to say.
pub(crate) fn run(root: &Path, options: &DistOptions<'_>) -> Result<String> {
    let platforms = select(options)?;
    let output = options.output.map_or_else(|| root.join(DEFAULT_OUTPUT_DIR), PathBuf::from);
    ensure_own(&output)?;
    let mut metadata = ImageMetadata::of(root)?;
    metadata.target = metadata.target.join("dist");
    let mut programs = Vec::new();
    for platform in platforms {
        let given = options.programs.iter().find(|(triple, _)| *triple == platform.triple);
        let program = match given {
            Some((_, path)) => fs::read(path).with_context(|| (*path).to_owned())?,
            None => build::program(root, &metadata, platform)?,
        };
        platform.check(&program)?;
        programs.push((platform, program));
    }
    let documents = documents(&programs)?;
    let read = |name: &str| fs::read(root.join(name)).with_context(|| name.to_owned());
    let (licence, readme) = (read("LICENSE")?, read("README.md")?);
    let mut contents = Vec::new();
    for (platform, program) in programs {
        let libraries = libraries(platform);
        let sbom = sbom::of_program(root, &metadata, platform.triple, &libraries)?;
        let (licence, readme) = (licence.clone(), readme.clone());
        let documents = documents.clone();
        contents.push((platform, Content { program, sbom, licence, readme, documents }));
    }
    let homepage = metadata.repository.clone().unwrap_or_else(|| DEFAULT_HOMEPAGE.to_owned());
    let url = options.url.map(str::to_owned);
    let url = url.unwrap_or_else(|| format!("{homepage}/releases/download/v{}", metadata.version));
    let release = Release {
        version: &metadata.version,
        description: &metadata.description,
        licenses: &metadata.licenses,
        homepage,
        url,
        time: metadata.time.unix_timestamp(),
    };
    let files = files(&release, &contents, options.packages)?;
    write(&output, &files)
}

/// Returns the platforms of these options.
fn select(options: &DistOptions<'_>) -> Result<Vec<&'static Platform>> {
    let named: Vec<&str> = options.targets.iter().flat_map(|names| names.split(',')).collect();
    let given = options.programs.iter().map(|(triple, _)| *triple);
    let mut all: Vec<&str> = named.into_iter().chain(given).collect();
    if all.is_empty() {
        return Ok(PLATFORMS.iter().collect());
    }
    all.sort_unstable();
    all.dedup();
    all.into_iter().map(platform::find).collect()
}

/// Completions and man pages of the first program that runs here.
fn documents(programs: &[(&Platform, Vec<u8>)]) -> Result<Documents> {
    let native = programs.iter().find(|(platform, _)| platform.is_native());
    let Some((platform, program)) = native else {
        bail!(
            "completions and man pages need a program that runs here: also name a --target of this machine"
        );
    };
    // Of this user only: another one could replace the program before it runs.
    let directory = tempfile::tempdir()?;
    let path = directory.path().join(platform.program_name());
    fs::write(&path, program)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    }
    Documents::of(&path)
}

/// Libraries in the program that are no crates.
fn libraries(platform: &Platform) -> Vec<Value> {
    if platform.os != Os::LinuxMusl {
        return Vec::new();
    }
    // That of the Rust target.
    vec![json!({
        "type": "library",
        "bom-ref": "musl",
        "name": "musl",
        "licenses": [{"expression": "MIT"}],
    })]
}

/// All files of a release.
fn files(
    release: &Release<'_>,
    contents: &[(&'static Platform, Content)],
    with_packages: bool,
) -> Result<Vec<Package>> {
    let (mut files, mut archives) = (Vec::new(), Vec::new());
    for (platform, content) in contents {
        let bytes = archive::pack(release.version, platform, content, release.time)?;
        files.push(Package {
            path: archive::file_name(release.version, platform),
            bytes: bytes.clone(),
        });
        archives.push(Archive { platform, bytes });
    }
    if with_packages {
        for (platform, content) in contents {
            files.push(npm::platform_package(release, platform, content)?);
            files.push(wheel::package(release, platform, content)?);
            if platform.os == Os::LinuxGnu {
                files.push(deb::package(release, platform, content)?);
            }
        }
        if let Some((_, content)) = contents.first() {
            files.push(npm::main_package(release, content)?);
        }
        files.extend(manifests::all(release, &archives));
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// Fails if a directory has files that no earlier run wrote.
fn ensure_own(output: &Path) -> Result<()> {
    let is_used = output.read_dir().is_ok_and(|mut entries| entries.next().is_some());
    ensure!(
        !is_used || output.join(SUMS).is_file(),
        "{} has other files: name an empty directory",
        output.display()
    );
    Ok(())
}

/// Writes the files and their digests; returns what to say.
fn write(output: &Path, files: &[Package]) -> Result<String> {
    if output.exists() {
        fs::remove_dir_all(output).with_context(|| output.display().to_string())?;
    }
    let (mut sums, mut text) = (String::new(), format!("wrote {}", output.display()));
    for Package { path, bytes } in files {
        let full = output.join(path);
        if let Some(directory) = full.parent() {
            fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
        }
        fs::write(&full, bytes).with_context(|| full.display().to_string())?;
        // Writing to a text does not fail.
        let _ = writeln!(sums, "{}  {path}", digest(bytes).trim_start_matches("sha256:"));
        let _ = write!(text, "\n{path}: {:.1} MB", megabytes(bytes.len()));
    }
    fs::write(output.join(SUMS), sums)?;
    Ok(text)
}

#[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "printed with one decimal")]
fn megabytes(bytes: usize) -> f64 {
    bytes as f64 / 1e6
}

#[cfg(test)]
mod tests;
