//! `cargo xtask dist`: the files of a release, an archive for each platform, and packages with the same programs.
//!
//! ```text
//! cargo zigbuild ─▶ program ──────┐
//! cargo tree ─▶ SBOM, notices ────┼─▶ archive ─┬─▶ Homebrew, krew, Nix: address and digest
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
mod program;
mod version;
mod wheel;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use self::archive::{Content, Documents};
use self::platform::{Os, PLATFORMS, Platform};
use self::program::Requirements;
use crate::image::{ImageMetadata, digest, notices, sbom};

/// Directory of the files, below the root of the workspace.
const DEFAULT_OUTPUT_DIR: &str = "target/release-files";
/// Name of the file with the digests. A directory with other files, and without it, is not written to.
const SUMS: &str = "SHA256SUMS";

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
    /// Packs programs that need a newer glibc than those of releases; their packages name it.
    pub(crate) any_glibc: bool,
}

/// A release.
#[derive(Debug)]
struct Release<'a> {
    version: &'a str,
    description: &'a str,
    licenses: &'a str,
    /// Address of the source, if there is one.
    homepage: Option<&'a str>,
    /// As Unix time.
    time: i64,
}

impl Release<'_> {
    /// Returns `package.json` with what all packages have, and more.
    fn npm_manifest(&self, name: &str, mut more: Value) -> Value {
        let mut manifest = json!({
            "name": name,
            "version": self.version,
            "description": self.description,
            "license": self.licenses,
        });
        if let (Some(members), Some(more)) = (manifest.as_object_mut(), more.as_object_mut()) {
            members.extend(self.homepage.map(|homepage| ("homepage".to_owned(), homepage.into())));
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
    let url = archives_url(options, &metadata)?;
    let mut notes = Vec::new();
    let mut programs = Vec::new();
    for platform in platforms {
        let given = options.programs.iter().find(|(triple, _)| *triple == platform.triple);
        let program = match given {
            Some((_, path)) => fs::read(path).with_context(|| (*path).to_owned())?,
            None => build::program(root, &metadata, platform)?,
        };
        let requirements = platform.check(&program, options.any_glibc)?;
        if let Some(glibc) = requirements.glibc.filter(|glibc| Some(*glibc) > platform.oldest()) {
            let triple = platform.triple;
            notes.push(format!(
                "packages for {triple} name glibc {glibc}, which their program needs"
            ));
        }
        programs.push((platform, program, requirements));
    }
    let documents = documents(&programs)?;
    let read = |name: &str| fs::read(root.join(name)).with_context(|| name.to_owned());
    let (licence, readme) = (read("LICENSE")?, read("README.md")?);
    let mut contents = Vec::new();
    for (platform, program, requirements) in programs {
        let libraries = libraries(platform);
        let sbom = sbom::of_program(root, &metadata, platform.triple, &libraries)?;
        let notices = notices::of(root, platform.triple, &[], &libraries)?;
        let (licence, readme) = (licence.clone(), readme.clone());
        let documents = documents.clone();
        let content = Content { program, requirements, sbom, licence, notices, readme, documents };
        contents.push((platform, content));
    }
    let release = Release {
        version: &metadata.version,
        description: &metadata.description,
        licenses: &metadata.licenses,
        homepage: metadata.repository.as_deref(),
        time: metadata.time.unix_timestamp(),
    };
    let files = files(&release, &contents, url.as_deref())?;
    if let Some(url) = &url {
        notes.push(format!("packages name archives at {url}"));
        if release.homepage.is_none() {
            notes.push("packages name no source: Cargo.toml has no `repository`".to_owned());
        }
    }
    if let Some(revision) = metadata.revision.filter(|revision| revision.ends_with("-dirty")) {
        notes.push(format!("files differ from the commit: {revision}"));
    }
    let mut text = write(&output, &files)?;
    text.extend(notes.into_iter().map(|note| format!("\nnote: {note}")));
    Ok(text)
}

/// Returns the address of the directory with the archives, if packages are wanted, which name it.
fn archives_url(options: &DistOptions<'_>, metadata: &ImageMetadata) -> Result<Option<String>> {
    if !options.packages {
        return Ok(None);
    }
    let given = options.url.map(str::to_owned);
    let version = &metadata.version;
    let of_repository =
        || Some(format!("{}/releases/download/v{version}", metadata.repository.as_ref()?));
    given.or_else(of_repository).map(Some).context(
        "--packages needs --url, the address where the archives will be: Cargo.toml has no `repository`",
    )
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
fn documents(programs: &[(&Platform, Vec<u8>, Requirements)]) -> Result<Documents> {
    let native = programs.iter().find(|(platform, ..)| platform.is_native());
    let Some((platform, program, _)) = native else {
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

/// All files of a release; with packages, if there is an address of archives for them.
fn files(
    release: &Release<'_>,
    contents: &[(&'static Platform, Content)],
    url: Option<&str>,
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
    if let Some(url) = url {
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
        files.extend(manifests::all(release, &archives, url));
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
    let mut text = format!("wrote {}", output.display());
    for Package { path, bytes } in files {
        let full = output.join(path);
        if let Some(directory) = full.parent() {
            fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
        }
        fs::write(&full, bytes).with_context(|| full.display().to_string())?;
        // Writing to a text does not fail.
        let _ = write!(text, "\n{path}: {:.1} MB", megabytes(bytes.len()));
    }
    fs::write(output.join(SUMS), sums(files))?;
    Ok(text)
}

/// The digests, as `sha256sum --check` reads them.
fn sums(files: &[Package]) -> String {
    let line = |Package { path, bytes }: &Package| {
        format!("{}  {path}\n", digest(bytes).trim_start_matches("sha256:"))
    };
    files.iter().map(line).collect()
}

#[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "printed with one decimal")]
fn megabytes(bytes: usize) -> f64 {
    bytes as f64 / 1e6
}

#[cfg(test)]
mod sample_programs;
#[cfg(test)]
mod script_tests;
#[cfg(test)]
mod tests;
