//! Packages for npm: one for each platform with its program, and `opgate`, which has all of them as optional
//! dependencies and runs the one that npm has installed.

use anyhow::Result;
use serde_json::{Value, json};

use super::archive::Content;
use super::platform::{PLATFORMS, Platform};
use super::{Package, Release};
use crate::archive::{Entry, gzip, tar};
use crate::image::notices;

const PROGRAM: &str = include_str!("templates/opgate.js");
/// The oldest Node.js that the program of the package runs with.
const NODE: &str = ">=18";

fn platform_package_name(platform: &Platform) -> String {
    format!("@opgate/cli-{}", platform.npm)
}

/// Packs `opgate`.
pub(super) fn main_package(release: &Release<'_>, content: &Content) -> Result<Package> {
    let dependencies: serde_json::Map<String, Value> = PLATFORMS
        .iter()
        .map(|platform| (platform_package_name(platform), release.version.into()))
        .collect();
    let manifest = release.npm_manifest(
        "opgate",
        json!({
            "bin": {"opgate": "bin/opgate.js"},
            "engines": {"node": NODE},
            "optionalDependencies": dependencies,
        }),
    );
    let files =
        [("bin/opgate.js", 0o755, PROGRAM.as_bytes()), ("README.md", 0o644, &content.readme)];
    pack(release, &format!("opgate-{}.tgz", release.version), &manifest, &files, content)
}

/// Packs the program of a platform.
pub(super) fn platform_package(
    release: &Release<'_>,
    platform: &Platform,
    content: &Content,
) -> Result<Package> {
    let (os, processor, libc) = platform.npm_fields();
    let mut fields = json!({"os": [os], "cpu": [processor]});
    if let (Some(libc), Some(fields)) = (libc, fields.as_object_mut()) {
        fields.insert("libc".to_owned(), json!([libc]));
    }
    let manifest = release.npm_manifest(&platform_package_name(platform), fields);
    // `npm pack` names scoped packages so.
    let name = format!("opgate-cli-{}-{}.tgz", platform.npm, release.version);
    let files = [
        (platform.program_name(), 0o755, content.program.as_slice()),
        (notices::FILE_NAME, 0o644, &content.notices),
        ("opgate.cdx.json", 0o644, &content.sbom),
    ];
    pack(release, &name, &manifest, &files, content)
}

fn pack(
    release: &Release<'_>,
    name: &str,
    manifest: &Value,
    files: &[(&str, u32, &[u8])],
    content: &Content,
) -> Result<Package> {
    let text = format!("{}\n", serde_json::to_string_pretty(manifest)?);
    let mut entries = vec![
        Entry::file("package/package.json", 0o644, text),
        Entry::file("package/LICENSE", 0o644, content.licence.as_slice()),
    ];
    let file = |(path, mode, bytes): &(&str, u32, &[u8])| {
        Entry::file(format!("package/{path}"), *mode, *bytes)
    };
    entries.extend(files.iter().map(file));
    Ok(Package { path: format!("npm/{name}"), bytes: gzip(&tar(&entries, release.time)?)? })
}
