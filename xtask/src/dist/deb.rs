//! Debian packages, for the platforms with glibc.

use std::collections::BTreeSet;

use anyhow::Result;

use super::archive::Content;
use super::platform::{LIBGCC, Platform};
use super::program::Requirements;
use super::{Package, Release, version};
use crate::archive::{Entry, ar, gzip, tar};
use crate::image::notices;

/// Completions, and where Debian's shells find them.
const COMPLETIONS: [(&str, &str); 3] = [
    ("opgate.bash", "usr/share/bash-completion/completions/opgate"),
    ("_opgate", "usr/share/zsh/vendor-completions/_opgate"),
    ("opgate.fish", "usr/share/fish/vendor_completions.d/opgate.fish"),
];

/// Packs a package.
pub(super) fn package(
    release: &Release<'_>,
    platform: &Platform,
    content: &Content,
) -> Result<Package> {
    let architecture = platform.debian_architecture();
    let files = files(release, content)?;
    let kibibytes = files.iter().map(|file| file.content.len().div_ceil(1_024)).sum::<usize>();
    let version = version::debian(release.version);
    let description = release.description;
    let homepage = release.homepage.map(|it| format!("Homepage: {it}\n")).unwrap_or_default();
    let depends = depends(&content.requirements);
    let control = format!(
        "Package: opgate\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: the authors of opgate <opgate@example.com>\n\
         Installed-Size: {kibibytes}\nDepends: {depends}\nSection: admin\nPriority: optional\n{homepage}\
         Description: {description}\n"
    );
    let control = [Entry::file("./control", 0o644, control)];
    let data = with_directories(files);
    let members = [
        Entry::file("debian-binary", 0o644, "2.0\n"),
        Entry::file("control.tar.gz", 0o644, gzip(&tar(&control, release.time)?)?),
        Entry::file("data.tar.gz", 0o644, gzip(&tar(&data, release.time)?)?),
    ];
    let path = format!("deb/opgate_{version}_{architecture}.deb");
    Ok(Package { path, bytes: ar(&members, release.time)? })
}

/// The packages with the libraries that the program needs.
fn depends(requirements: &Requirements) -> String {
    let glibc = requirements.glibc.map(|version| format!("libc6 (>= {version})"));
    let has_libgcc = requirements.libraries.iter().any(|library| library == LIBGCC);
    let libgcc = has_libgcc.then(|| "libgcc-s1".to_owned());
    glibc.into_iter().chain(libgcc).collect::<Vec<_>>().join(", ")
}

fn files(release: &Release<'_>, content: &Content) -> Result<Vec<Entry>> {
    let copyright = format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nFiles: *\nCopyright: the authors of opgate\nLicense: {}\n",
        release.licenses
    );
    let mut files = vec![
        Entry::file("usr/bin/opgate", 0o755, content.program.as_slice()),
        Entry::file("usr/share/doc/opgate/copyright", 0o644, copyright),
        Entry::file("usr/share/doc/opgate/LICENSE", 0o644, content.licence.as_slice()),
        Entry::file(
            format!("usr/share/doc/opgate/{}", notices::FILE_NAME),
            0o644,
            content.notices.as_slice(),
        ),
        Entry::file("usr/share/doc/opgate/opgate.cdx.json", 0o644, content.sbom.as_slice()),
    ];
    for (name, bytes) in &content.documents.completions {
        let found = COMPLETIONS.iter().find(|(file, _)| file == name);
        files.extend(found.map(|(_, path)| Entry::file(*path, 0o644, bytes.as_slice())));
    }
    for (name, bytes) in &content.documents.man_pages {
        files.push(Entry::file(format!("usr/share/man/man1/{name}.gz"), 0o644, gzip(bytes)?));
    }
    Ok(files)
}

/// With the directories above the files, and `./` before each name.
fn with_directories(files: Vec<Entry>) -> Vec<Entry> {
    let mut directories = BTreeSet::from(["./".to_owned()]);
    for file in &files {
        let ends = file.path.match_indices('/').filter_map(|(end, _)| file.path.get(..=end));
        directories.extend(ends.map(|directory| format!("./{directory}")));
    }
    let directories = directories.into_iter().map(|path| Entry::directory(path, 0o755));
    let dotted = |file: Entry| Entry { path: format!("./{}", file.path), ..file };
    directories.chain(files.into_iter().map(dotted)).collect()
}
