//! Semantic versions as `github.com/blang/semver/v4` reads them, with its texts.

use std::cmp::Ordering;

use crate::go::quote;

/// The reason why a text is no version, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct VersionError(String);

/// `MAJOR.MINOR.PATCH[-pre][+build]`. Build metadata is checked and dropped: it never counts, and
/// versions that differ in it alone are equal.
#[derive(Debug, Clone)]
pub struct Version {
    /// Major number.
    pub major: u64,
    /// Minor number.
    pub minor: u64,
    /// Patch number.
    pub patch: u64,
    /// Identifiers of a pre-release.
    pub pre: Vec<Identifier>,
    /// Whether there is build metadata.
    pub has_build: bool,
}

/// One identifier of a pre-release.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Identifier {
    /// Digits only; below every text.
    Number(u64),
    /// Anything else.
    Text(String),
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let numbers = |v: &Self| (v.major, v.minor, v.patch);
        numbers(self).cmp(&numbers(other)).then_with(|| {
            match (self.pre.is_empty(), other.pre.is_empty()) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => self.pre.cmp(&other.pre),
            }
        })
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Version {}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn is_numeric(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit())
}

fn is_identifier(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

fn has_leading_zeroes(text: &str) -> bool {
    text.len() > 1 && text.starts_with('0')
}

/// Returns `strconv.ParseUint` of digits.
fn parse_unsigned(text: &str) -> Result<u64, VersionError> {
    text.parse().map_err(|_| {
        let why = if text.is_empty() { "invalid syntax" } else { "value out of range" };
        VersionError(format!("strconv.ParseUint: parsing {}: {why}", quote(text)))
    })
}

fn parse_number(text: &str, lower: &str, upper: &str) -> Result<u64, VersionError> {
    if !is_numeric(text) {
        return Err(VersionError(format!(
            "Invalid character(s) found in {lower} number {}",
            quote(text)
        )));
    }
    if has_leading_zeroes(text) {
        return Err(VersionError(format!(
            "{upper} number must not contain leading zeroes {}",
            quote(text)
        )));
    }
    parse_unsigned(text)
}

impl Identifier {
    /// Parses one identifier of a pre-release, or of a release as `operator-registry` writes them.
    ///
    /// # Errors
    /// Upstream's text.
    pub fn parse(text: &str) -> Result<Self, VersionError> {
        if text.is_empty() {
            return Err(VersionError("Prerelease is empty".to_owned()));
        }
        if is_numeric(text) {
            if has_leading_zeroes(text) {
                let text = quote(text);
                return Err(VersionError(format!(
                    "Numeric PreRelease version must not contain leading zeroes {text}"
                )));
            }
            return parse_unsigned(text).map(Self::Number);
        }
        if is_identifier(text) {
            Ok(Self::Text(text.to_owned()))
        } else {
            Err(VersionError(format!("Invalid character(s) found in prerelease {}", quote(text))))
        }
    }
}

fn check_build(text: &str) -> Result<(), VersionError> {
    if text.is_empty() {
        return Err(VersionError("Build meta data is empty".to_owned()));
    }
    if is_identifier(text) {
        Ok(())
    } else {
        Err(VersionError(format!("Invalid character(s) found in build meta data {}", quote(text))))
    }
}

impl Version {
    /// Parses as `semver.Parse`.
    ///
    /// # Errors
    /// Upstream's text.
    pub fn parse(text: &str) -> Result<Self, VersionError> {
        if let Some(version) = Self::parse_plain(text.as_bytes()) {
            return Ok(version);
        }
        if text.is_empty() {
            return Err(VersionError("Version string empty".to_owned()));
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(VersionError("No Major.Minor.Patch elements found".to_owned()));
        };
        let major = parse_number(major, "major", "Major")?;
        let minor = parse_number(minor, "minor", "Minor")?;
        let (rest, metadata) = match rest.split_once('+') {
            Some((rest, metadata)) => (rest, Some(metadata)),
            None => (rest, None),
        };
        let (patch, pre) = match rest.split_once('-') {
            Some((patch, pre)) => (patch, Some(pre)),
            None => (rest, None),
        };
        let patch = parse_number(patch, "patch", "Patch")?;
        let pre = pre.into_iter().flat_map(|pre| pre.split('.'));
        let pre = pre.map(Identifier::parse).collect::<Result<_, _>>()?;
        metadata.into_iter().flat_map(|m| m.split('.')).try_for_each(check_build)?;
        Ok(Self { major, minor, patch, pre, has_build: metadata.is_some() })
    }

    /// Parses three short numbers and nothing else, which is the notation of nearly every version: a range is
    /// read four times as fast. `None` for all other texts, valid or not.
    fn parse_plain(text: &[u8]) -> Option<Self> {
        /// Digits that fit into 64 bits whatever they are.
        const DIGITS: usize = 19;
        let mut numbers = [0_u64; 3];
        let mut rest = text;
        for (place, number) in numbers.iter_mut().enumerate() {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let (part, after) = rest.split_at_checked(digits)?;
            if part.is_empty() || digits > DIGITS || digits > 1 && part.starts_with(b"0") {
                return None;
            }
            *number = part.iter().fold(0, |n, byte| n * 10 + u64::from(byte - b'0'));
            rest = if place < 2 { after.strip_prefix(b".")? } else { after };
        }
        let [major, minor, patch] = numbers;
        let plain = Self { major, minor, patch, pre: Vec::new(), has_build: false };
        rest.is_empty().then_some(plain)
    }

    /// Parses as `semver.ParseTolerant`: surrounding spaces, a leading `v`, missing numbers and leading
    /// zeroes are accepted.
    ///
    /// # Errors
    /// Upstream's text.
    pub fn parse_tolerant(text: &str) -> Result<Self, VersionError> {
        let text = text.trim();
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(without_zeroes).collect();
        if parts.len() < 3 {
            if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
                return Err(VersionError(
                    "Short version cannot contain PreRelease/Build meta data".to_owned(),
                ));
            }
            parts.resize(3, "0".to_owned());
        }
        Self::parse(&parts.join("."))
    }
}

/// Removes leading zeroes of one part, but keeps one if no digit follows.
fn without_zeroes(part: &str) -> String {
    if part.len() <= 1 {
        return part.to_owned();
    }
    let trimmed = part.trim_start_matches('0');
    if trimmed.starts_with(|c: char| c.is_ascii_digit()) {
        trimmed.to_owned()
    } else {
        format!("0{trimmed}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_match_those_of_upstream() {
        for (text, error) in [
            ("", "Version string empty"),
            ("1", "No Major.Minor.Patch elements found"),
            ("1.2", "No Major.Minor.Patch elements found"),
            ("v1.2.3", r#"Invalid character(s) found in major number "v1""#),
            ("1.b.3", r#"Invalid character(s) found in minor number "b""#),
            ("0.1.0.1", r#"Invalid character(s) found in patch number "0.1""#),
            ("01.2.3", r#"Major number must not contain leading zeroes "01""#),
            ("1.00.1", r#"Minor number must not contain leading zeroes "00""#),
            ("1.2.03", r#"Patch number must not contain leading zeroes "03""#),
            ("1.2.", r#"strconv.ParseUint: parsing "": invalid syntax"#),
            (".2.3", r#"strconv.ParseUint: parsing "": invalid syntax"#),
            (
                "99999999999999999999.0.0",
                r#"strconv.ParseUint: parsing "99999999999999999999": value out of range"#,
            ),
            ("1.2.3-", "Prerelease is empty"),
            ("1.2.3-a..b", "Prerelease is empty"),
            ("1.2.3-é", "Invalid character(s) found in prerelease \"é\""),
            ("1.2.3-01", r#"Numeric PreRelease version must not contain leading zeroes "01""#),
            ("1.2.3+", "Build meta data is empty"),
            ("1.2.3+a_b", r#"Invalid character(s) found in build meta data "a_b""#),
            ("1.2.3-a+b+c", r#"Invalid character(s) found in build meta data "b+c""#),
        ] {
            assert_eq!(Version::parse(text).unwrap_err().to_string(), error, "{text}");
        }
    }

    #[test]
    fn unusual_versions_are_read() {
        for text in ["0.1.0", "1.2.3-rc.1+build.5", "4.8.0-202205", "1.0.0--x", "1.0.0+-"] {
            assert!(Version::parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn order_matches_the_specification() {
        let ascending = [
            "0.0.1",
            "1.0.0-1",
            "1.0.0-2",
            "1.0.0-10",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-alpha.beta",
            "1.0.0-beta",
            "1.0.0-rc.1",
            "1.0.0",
            "1.0.1",
            "1.1.0",
            "2.0.0",
            "18446744073709551615.0.0",
        ];
        let versions: Vec<_> = ascending.iter().map(|t| Version::parse(t).unwrap()).collect();
        assert!(versions.is_sorted_by(|l, r| l < r));
        assert_eq!(Version::parse("1.0.0+a").unwrap(), Version::parse("1.0.0").unwrap());
        assert_eq!(Version::parse("1.0.0-0+a-b.0").unwrap().pre, [Identifier::Number(0)]);
    }

    #[test]
    fn build_metadata_is_detected() {
        for (text, expected) in [("1.0.0", false), ("1.0.0-a", false), ("1.0.0+-", true)] {
            assert_eq!(Version::parse(text).unwrap().has_build, expected, "{text}");
        }
    }

    #[test]
    fn tolerant_parsing_accepts_the_same_as_upstream() {
        for (text, meant) in [
            ("1.2.3", "1.2.3"),
            (" v1.2.3 ", "1.2.3"),
            ("1", "1.0.0"),
            ("v1.2", "1.2.0"),
            ("01.02.003", "1.2.3"),
            ("00.0.0", "0.0.0"),
            ("1.2.03-a", "1.2.3-a"),
            ("1.2.0-a", "1.2.0-a"),
        ] {
            assert_eq!(Version::parse_tolerant(text), Version::parse(meant), "{text}");
        }
        let short = "Short version cannot contain PreRelease/Build meta data";
        assert_eq!(Version::parse_tolerant("1.2-a").unwrap_err().to_string(), short);
        assert_eq!(Version::parse_tolerant("1+a").unwrap_err().to_string(), short);
        assert!(Version::parse_tolerant("").is_err());
        assert!(Version::parse_tolerant("vv1.0.0").is_err());
    }
}
