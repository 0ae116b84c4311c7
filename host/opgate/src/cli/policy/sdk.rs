//! The source of the SDK of a new policy.
//!
//! ```text
//! --sdk DIR, or the directories above this program ─▶ Checkout ─┐
//! --sdk packages, or a release with published SDKs ─▶ Packages ─┴▶ what the build file of the policy names
//! ```

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};

use super::language::Language;
use crate::cli::exit::CommandError;

/// The SDKs that the templates use. Their minor version is that of the contract.
pub(super) const SDK_VERSION: &str = "0.7.0";

/// Whether the registries of the languages have the SDKs of this version: set it with the first release.
const ARE_PACKAGES_PUBLISHED: bool = false;

/// The value of `--sdk` for published packages.
const PACKAGES: &str = "packages";

/// Directories of the SDKs in a checkout.
const RUST: &str = "guest/sdk";
const RUST_TESTING: &str = "guest/sdk-testing";
const JAVASCRIPT: &str = "guest/javascript";
const PYTHON: &str = "guest/python";
const C: &str = "guest/c";

/// The source of the SDK.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sdk {
    /// The directory of a checkout of opgate, absolute.
    Checkout(PathBuf),
    /// crates.io, npm, `PyPI`, and an archive for C.
    Packages,
}

impl Sdk {
    /// Returns the source that a user names, or else the one that works with this program.
    pub(super) fn find(named: Option<&Path>) -> Result<Self, CommandError> {
        if named == Some(Path::new(PACKAGES)) {
            return Ok(Self::Packages);
        }
        if let Some(directory) = named {
            let whole =
                directory.canonicalize().with_context(|| directory.display().to_string())?;
            if !is_checkout(&whole) {
                let directory = directory.display();
                let text = format!("{directory}: is no checkout of opgate: it has no {RUST}");
                return Err(CommandError::usage(anyhow!(text)));
            }
            return Ok(Self::Checkout(whole));
        }
        if ARE_PACKAGES_PUBLISHED {
            return Ok(Self::Packages);
        }
        let own = std::env::current_exe().and_then(|path| path.canonicalize()).ok();
        let checkout = own.as_deref().and_then(checkout_above);
        checkout.map(Self::Checkout).ok_or_else(|| {
            CommandError::usage(anyhow!(
                "the packages of the SDK are not published yet: name a checkout of opgate with --sdk DIR"
            ))
        })
    }

    /// Returns the text that the build file of a language has for the SDK.
    pub(super) fn dependency(&self, language: Language) -> anyhow::Result<String> {
        let Self::Checkout(checkout) = self else {
            return Ok(match language {
                Language::Python => format!("opgate-policy[cases]=={SDK_VERSION}"),
                Language::C => format!("opgate-policy-c-{SDK_VERSION}"),
                _ => SDK_VERSION.to_owned(),
            });
        };
        Ok(match language {
            Language::Rust => SDK_VERSION.to_owned(),
            Language::Typescript | Language::Javascript => {
                let path = text(&checkout.join(JAVASCRIPT))?;
                let quoted = json_text(&format!("file:{path}"))?;
                quoted.trim_matches('"').to_owned()
            }
            Language::Python => {
                let path = text(&checkout.join(PYTHON))?;
                format!("opgate-policy[cases] @ file://{}", url_path(&path))
            }
            Language::C => {
                let path = text(&checkout.join(C))?;
                if path.contains([' ', '\t', '#', '$', ':', '%']) {
                    return Err(anyhow!("{path}: make accepts no such path: move the checkout"));
                }
                path
            }
        })
    }

    /// Returns the section of `Cargo.toml` with the crates of a checkout; empty for published ones.
    pub(super) fn patch(&self, language: Language) -> anyhow::Result<String> {
        let Self::Checkout(checkout) = self else { return Ok(String::new()) };
        if language != Language::Rust {
            return Ok(String::new());
        }
        let mut lines = vec![
            String::new(),
            "# The SDK is not published yet: these are its crates in a checkout of opgate."
                .to_owned(),
            "[patch.crates-io]".to_owned(),
        ];
        for (name, directory) in [("opgate-sdk", RUST), ("opgate-sdk-testing", RUST_TESTING)] {
            // A text of JSON is one of TOML, too.
            let path = json_text(&text(&checkout.join(directory))?)?;
            lines.push(format!("{name} = {{ path = {path} }}"));
        }
        lines.push(String::new());
        Ok(lines.join("\n"))
    }

    /// Returns the configuration of npm that installs the packages of a directory with their dependencies, as
    /// from a registry. By default, npm only links the directory.
    pub(super) fn npm_configuration(&self, language: Language) -> Option<&'static str> {
        let is_node = matches!(language, Language::Typescript | Language::Javascript);
        (is_node && *self != Self::Packages).then_some("install-links=true\n")
    }

    /// Returns the archive with the SDK for C, if it has to be unpacked.
    pub(super) fn archive(&self) -> Option<String> {
        (*self == Self::Packages).then(|| format!("opgate-policy-c-{SDK_VERSION}.tar.gz"))
    }
}

fn is_checkout(directory: &Path) -> bool {
    [RUST, JAVASCRIPT, PYTHON, C].iter().all(|inside| directory.join(inside).is_dir())
}

/// Returns the checkout that a program is in: `target/release` is below it.
fn checkout_above(program: &Path) -> Option<PathBuf> {
    program.ancestors().skip(1).find(|directory| is_checkout(directory)).map(Path::to_owned)
}

fn text(path: &Path) -> anyhow::Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| anyhow!("{}: the path is not UTF-8: move the checkout", path.display()))
}

fn json_text(text: &str) -> anyhow::Result<String> {
    Ok(serde_json::to_string(text)?)
}

/// Returns a path in a URL: bytes other than letters, digits and `-._~/` are escaped.
fn url_path(path: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let escaped = path.bytes().map(|byte| match byte {
        byte if is_plain(byte) => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    escaped.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sdk_version_matches_the_contract() {
        let wit = include_str!("../../../../../wit/policy.wit");
        let version = wit.lines().find_map(|line| line.strip_prefix("package opgate:policy@"));
        let minor = |version: &str| version.rsplit_once('.').unwrap().0.to_owned();
        assert_eq!(minor(version.unwrap()), minor(SDK_VERSION));
    }

    #[test]
    fn build_files_name_the_sdk_of_a_checkout_in_any_directory() {
        let sdk = Sdk::Checkout(PathBuf::from("/a \"b\"/c"));
        assert_eq!(
            sdk.dependency(Language::Javascript).unwrap(),
            r#"file:/a \"b\"/c/guest/javascript"#
        );
        assert_eq!(
            sdk.dependency(Language::Python).unwrap(),
            "opgate-policy[cases] @ file:///a%20%22b%22/c/guest/python"
        );
        let patch = sdk.patch(Language::Rust).unwrap();
        assert!(patch.contains(r#"opgate-sdk = { path = "/a \"b\"/c/guest/sdk" }"#), "{patch}");
        assert!(sdk.dependency(Language::C).is_err());
        assert_eq!(sdk.patch(Language::C).unwrap(), "");
    }

    #[test]
    fn build_files_name_the_version_of_published_packages() {
        let versions = [
            (Language::Rust, SDK_VERSION.to_owned()),
            (Language::Typescript, SDK_VERSION.to_owned()),
            (Language::Python, format!("opgate-policy[cases]=={SDK_VERSION}")),
            (Language::C, format!("opgate-policy-c-{SDK_VERSION}")),
        ];
        for (language, version) in versions {
            assert_eq!(Sdk::Packages.dependency(language).unwrap(), version);
            assert_eq!(Sdk::Packages.patch(language).unwrap(), "");
        }
    }
}
