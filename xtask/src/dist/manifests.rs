//! Texts that name the archives of a release by their addresses and digests: a formula for Homebrew, a manifest for krew,
//! and a flake for Nix.

use std::fmt::Write as _;

use super::platform::{Os, Platform};
use super::{Archive, Package, Release, archive};
use crate::image::{digest, notices};

/// Returns all of them; the archives are at `url`.
pub(super) fn all(release: &Release<'_>, archives: &[Archive], url: &str) -> Vec<Package> {
    let address = |archive: &Archive| {
        format!("{url}/{}", archive::file_name(release.version, archive.platform))
    };
    [
        ("homebrew/opgate.rb", formula(release, archives, address)),
        ("krew/opgate.yaml", krew(release, archives, address)),
        ("nix/flake.nix", flake(release, archives, address)),
    ]
    .map(|(path, text)| Package { path: path.to_owned(), bytes: text.into_bytes() })
    .into()
}

fn sha256(archive: &Archive) -> String {
    digest(&archive.bytes).trim_start_matches("sha256:").to_owned()
}

/// The archives that run anywhere: on Linux, those that are linked statically, if there are such.
fn portable(archives: &[Archive], os: Os) -> impl Iterator<Item = &Archive> {
    let has_musl = archives.iter().any(|archive| archive.platform.os == Os::LinuxMusl);
    let wanted = if os == Os::LinuxMusl && !has_musl { Os::LinuxGnu } else { os };
    archives.iter().filter(move |archive| archive.platform.os == wanted)
}

/// A line with the address of the source, if there is one.
fn line(release: &Release<'_>, format: impl Fn(&str) -> String) -> String {
    release.homepage.map(format).unwrap_or_default()
}

fn formula(
    release: &Release<'_>,
    archives: &[Archive],
    address: impl Fn(&Archive) -> String,
) -> String {
    let homepage = line(release, |homepage| format!("  homepage \"{homepage}\"\n"));
    let mut text = format!(
        "class Opgate < Formula\n  desc \"{}\"\n{homepage}  version \"{}\"\n  license \"{}\"\n",
        release.description, release.version, release.licenses
    );
    for (block, os) in [("on_macos", Os::Mac), ("on_linux", Os::LinuxMusl)] {
        let mut found = portable(archives, os).peekable();
        if found.peek().is_none() {
            continue;
        }
        // Writing to a text does not fail.
        let _ = write!(text, "\n  {block} do\n");
        for archive in found {
            let processor = if archive.platform.processor == "aarch64" { "arm" } else { "intel" };
            let _ = write!(
                text,
                "    on_{processor} do\n      url \"{}\"\n      sha256 \"{}\"\n    end\n",
                address(archive),
                sha256(archive)
            );
        }
        text.push_str("  end\n");
    }
    text.push_str(
        r##"
  def install
    bin.install "opgate"
    doc.install "THIRD-PARTY-NOTICES.txt"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/opgate.bash" => "opgate"
    zsh_completion.install "completions/_opgate"
    fish_completion.install "completions/opgate.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/opgate version")
  end
end
"##,
    );
    text
}

fn krew(
    release: &Release<'_>,
    archives: &[Archive],
    address: impl Fn(&Archive) -> String,
) -> String {
    let Release { version, description, .. } = release;
    let homepage = line(release, |homepage| format!("  homepage: {homepage}\n"));
    let mut text = format!(
        "apiVersion: krew.googlecontainertools.github.com/v1alpha2\nkind: Plugin\nmetadata:\n  name: opgate\nspec:\n  \
         version: v{version}\n{homepage}  shortDescription: Evaluate Operators against documented rules\n  \
         description: |\n    {description}.\n    `kubectl opgate check --cluster` evaluates the stored objects of a cluster.\n  platforms:\n"
    );
    for os in [Os::LinuxMusl, Os::Mac, Os::Windows] {
        for archive in portable(archives, os) {
            let Platform { processor, .. } = archive.platform;
            let processor = if *processor == "aarch64" { "arm64" } else { "amd64" };
            let name = match os {
                Os::LinuxGnu | Os::LinuxMusl => "linux",
                Os::Mac => "darwin",
                Os::Windows => "windows",
            };
            let _ = write!(
                text,
                "    - selector:\n        matchLabels:\n          os: {name}\n          arch: {processor}\n      \
                 uri: {}\n      sha256: {}\n      bin: {}\n      files:\n        - from: opgate-*/{2}\n          to: .\n        \
                 - from: opgate-*/LICENSE\n          to: .\n        - from: opgate-*/{}\n          to: .\n",
                address(archive),
                sha256(archive),
                archive.platform.program_name(),
                notices::FILE_NAME
            );
        }
    }
    text
}

fn flake(
    release: &Release<'_>,
    archives: &[Archive],
    address: impl Fn(&Archive) -> String,
) -> String {
    let Release { version, description, .. } = release;
    let homepage = line(release, |homepage| format!("            homepage = \"{homepage}\";\n"));
    let mut sources = String::new();
    for archive in portable(archives, Os::LinuxMusl).chain(portable(archives, Os::Mac)) {
        let system = if archive.platform.os == Os::Mac { "darwin" } else { "linux" };
        let _ = write!(
            sources,
            "        {}-{system} = {{\n          url = \"{}\";\n          sha256 = \"{}\";\n        }};\n",
            archive.platform.processor,
            address(archive),
            sha256(archive)
        );
    }
    include_str!("templates/flake.nix")
        .replace("@version@", version)
        .replace("@description@", description)
        .replace("@homepage@\n", &homepage)
        .replace("@sources@\n", &sources)
}
