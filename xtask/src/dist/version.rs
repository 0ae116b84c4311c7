//! The version of a release, as package managers write it. It is unchanged for npm, Homebrew, krew and Nix.

use anyhow::{Context as _, Result, ensure};

/// Pre-releases: as in Cargo, and in Python.
const PRE_RELEASES: [(&str, &str); 3] = [("alpha", "a"), ("beta", "b"), ("rc", "rc")];

/// Returns the version for Python: `0.2.0rc1` for `0.2.0-rc.1`.
pub(super) fn python(version: &str) -> Result<String> {
    let Some((release, pre)) = version.split_once('-') else { return Ok(version.to_owned()) };
    let problem = || {
        format!(
            "{version} is no version for Python: end it with -alpha.N, -beta.N or -rc.N, or with nothing"
        )
    };
    let (name, number) = pre.split_once('.').with_context(problem)?;
    let found = PRE_RELEASES.iter().find(|(of_cargo, _)| *of_cargo == name);
    let (_, of_python) = found.with_context(problem)?;
    ensure!(number.parse::<u32>().is_ok(), "{}", problem());
    Ok(format!("{release}{of_python}{number}"))
}

/// Returns the version for Debian: what follows `~` comes before the release.
pub(super) fn debian(version: &str) -> String {
    version.replacen('-', "~", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pre_releases_are_written_as_each_package_manager_has_them() {
        for (version, of_python, of_debian) in [
            ("0.1.0", "0.1.0", "0.1.0"),
            ("0.2.0-rc.1", "0.2.0rc1", "0.2.0~rc.1"),
            ("1.0.0-alpha.12", "1.0.0a12", "1.0.0~alpha.12"),
            ("1.0.0-beta.0", "1.0.0b0", "1.0.0~beta.0"),
        ] {
            assert_eq!(python(version).unwrap(), of_python);
            assert_eq!(debian(version), of_debian);
        }
        for version in ["0.2.0-rc", "0.2.0-rc1", "0.2.0-preview.1", "0.2.0-rc.1.2", "0.2.0-rc.x"] {
            let error = python(version).unwrap_err().to_string();
            assert!(error.starts_with(version) && error.contains("-rc.N"), "{error}");
        }
    }
}
