//! Wheels for Python: the program as a script of the environment, for each platform.

use std::fmt::Write as _;

use anyhow::Result;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use super::archive::Content;
use super::platform::Platform;
use super::{Package, Release, version};
use crate::archive::{Entry, zip};
use crate::image::notices;

const MAIN: &str = include_str!("templates/__main__.py");
/// The oldest Python that runs `python -m opgate`.
const PYTHON: &str = ">=3.10";

/// Packs a wheel.
pub(super) fn package(
    release: &Release<'_>,
    platform: &Platform,
    content: &Content,
) -> Result<Package> {
    let version = version::python(release.version)?;
    let tag = platform.wheel_tag(&content.requirements);
    let name = format!("opgate-{version}-py3-none-{tag}.whl");
    let information = format!("opgate-{version}.dist-info");
    let mut metadata = format!(
        "Metadata-Version: 2.4\nName: opgate\nVersion: {version}\nSummary: {}\nLicense-Expression: {}\n\
         License-File: LICENSE\nLicense-File: {}\nRequires-Python: {PYTHON}\n",
        release.description,
        release.licenses,
        notices::FILE_NAME
    );
    if let Some(homepage) = release.homepage {
        // Writing to a text does not fail.
        let _ = writeln!(metadata, "Project-URL: Source, {homepage}");
    }
    metadata.push_str("Description-Content-Type: text/markdown\n\n");
    metadata.push_str(&String::from_utf8_lossy(&content.readme));
    let wheel = format!(
        "Wheel-Version: 1.0\nGenerator: cargo xtask dist\nRoot-Is-Purelib: false\nTag: py3-none-{tag}\n"
    );
    let program = format!("opgate-{version}.data/scripts/{}", platform.program_name());
    let mut entries = vec![
        Entry::file("opgate/__init__.py", 0o644, ""),
        Entry::file("opgate/__main__.py", 0o644, MAIN),
        Entry::file(program, 0o755, content.program.as_slice()),
        Entry::file(format!("{information}/METADATA"), 0o644, metadata),
        Entry::file(format!("{information}/WHEEL"), 0o644, wheel),
        Entry::file(format!("{information}/licenses/LICENSE"), 0o644, content.licence.as_slice()),
        Entry::file(
            format!("{information}/licenses/{}", notices::FILE_NAME),
            0o644,
            content.notices.as_slice(),
        ),
        Entry::file(format!("{information}/sboms/opgate.cdx.json"), 0o644, content.sbom.as_slice()),
    ];
    let mut record = String::new();
    for Entry { path, content, .. } in &entries {
        let sum = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(content));
        let _ = writeln!(record, "{path},sha256={sum},{}", content.len());
    }
    let _ = writeln!(record, "{information}/RECORD,,");
    entries.push(Entry::file(format!("{information}/RECORD"), 0o644, record));
    Ok(Package { path: format!("pypi/{name}"), bytes: zip(&entries)? })
}
