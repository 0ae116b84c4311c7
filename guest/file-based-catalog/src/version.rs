//! Versions and ranges of versions as OLM reads them (blang/semver v4.0.0), with its texts.
//!
//! ```text
//! "1.2.3-rc.1" ─▶ Version                       ordered as semver says; build metadata does not count
//! ">=1.2.0 <1.3.0 || 2.x" ─▶ Range ─┬▶ contains  whether a version is in it
//!                                   └▶ spans     the intervals that it consists of
//! ```
//!
//! The quirks are upstream's and kept: tokens of one character vanish, and wildcards are replaced by
//! text before anything is parsed.

use std::cmp::Ordering;

use opgate_sdk::go::quote;

/// One part of a prerelease; numbers come before texts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Digits only.
    Number(u64),
    /// Anything else.
    Text(String),
}

/// A strict semantic version.
#[derive(Debug, Clone)]
pub struct Version {
    numbers: [u64; 3],
    pre: Vec<Part>,
    has_build: bool,
}

impl Version {
    /// Reads `MAJOR.MINOR.PATCH[-pre][+build]`.
    ///
    /// # Errors
    /// What is wrong, in upstream's words.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (rest, build) = cut(rest, '+');
        let (patch, pre) = cut(rest, '-');
        let numbers = [number(major, "Major")?, number(minor, "Minor")?, number(patch, "Patch")?];
        let pre = pre.map(|pre| pre.split('.').map(part).collect()).transpose()?;
        for item in build.into_iter().flat_map(|build| build.split('.')) {
            if item.is_empty() {
                return Err("Build meta data is empty".to_owned());
            }
            if !item.bytes().all(is_identifier) {
                let item = quote(item);
                return Err(format!("Invalid character(s) found in build meta data {item}"));
            }
        }
        Ok(Self { numbers, pre: pre.unwrap_or_default(), has_build: build.is_some() })
    }

    /// Major and minor number.
    #[must_use]
    pub fn minor(&self) -> (u64, u64) {
        let [major, minor, _] = self.numbers;
        (major, minor)
    }

    /// Whether there is a prerelease.
    #[must_use]
    pub fn is_prerelease(&self) -> bool {
        !self.pre.is_empty()
    }

    /// Whether there is build metadata.
    #[must_use]
    pub fn has_build(&self) -> bool {
        self.has_build
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Version {}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_pre = || match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            _ => self.pre.cmp(&other.pre),
        };
        self.numbers.cmp(&other.numbers).then_with(by_pre)
    }
}

fn cut(text: &str, at: char) -> (&str, Option<&str>) {
    match text.split_once(at) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

fn is_identifier(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn has_leading_zero(text: &str) -> bool {
    text.len() > 1 && text.starts_with('0')
}

/// `strconv.ParseUint` of digits.
fn unsigned(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| {
        let why = if text.is_empty() { "invalid syntax" } else { "value out of range" };
        format!("strconv.ParseUint: parsing {}: {why}", quote(text))
    })
}

fn number(text: &str, which: &str) -> Result<u64, String> {
    if !is_number(text) {
        let which = which.to_lowercase();
        return Err(format!("Invalid character(s) found in {which} number {}", quote(text)));
    }
    if has_leading_zero(text) {
        return Err(format!("{which} number must not contain leading zeroes {}", quote(text)));
    }
    unsigned(text)
}

/// Reads one part of a prerelease, or of a release.
///
/// # Errors
/// What is wrong, in upstream's words.
pub fn part(text: &str) -> Result<Part, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if is_number(text) {
        if has_leading_zero(text) {
            return Err(format!(
                "Numeric PreRelease version must not contain leading zeroes {}",
                quote(text)
            ));
        }
        return unsigned(text).map(Part::Number);
    }
    if !text.bytes().all(is_identifier) {
        return Err(format!("Invalid character(s) found in prerelease {}", quote(text)));
    }
    Ok(Part::Text(text.to_owned()))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparator {
    Equal,
    Not,
    Above,
    From,
    Below,
    UpTo,
}

impl Comparator {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "" | "=" | "==" => Self::Equal,
            "!" | "!=" => Self::Not,
            ">" => Self::Above,
            ">=" => Self::From,
            "<" => Self::Below,
            "<=" => Self::UpTo,
            _ => return None,
        })
    }
}

/// An end of an interval: a version, and whether it belongs to the interval. None: no end.
pub type End<'r> = Option<(&'r Version, bool)>;

/// A range of versions.
#[derive(Debug, Clone)]
pub struct Range {
    /// One of these must hold; of each, all.
    groups: Vec<Vec<(Comparator, Version)>>,
}

impl Range {
    /// Reads a range.
    ///
    /// # Errors
    /// What is wrong, in upstream's words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let tokens = tokens(text);
        let mut groups = vec![Vec::with_capacity(tokens.len())];
        for (index, token) in tokens.iter().enumerate() {
            if token == "||" {
                if index == 0 {
                    return Err("First element in range is '||'".to_owned());
                }
                groups.push(Vec::new());
            } else if let Some(group) = groups.last_mut() {
                group.push(token);
            }
        }
        if tokens.last().is_none_or(|last| last == "||") {
            return Err("Last element in range is '||'".to_owned());
        }
        // What is asked for at once is not asked for piece by piece: a guest keeps every piece.
        let mut parsed = Vec::with_capacity(groups.len());
        for group in groups {
            let mut conditions = Vec::with_capacity(group.len());
            for token in group {
                if token.contains('x') {
                    for token in expand(token)? {
                        conditions.push(condition(&token)?);
                    }
                } else {
                    conditions.push(condition(token)?);
                }
            }
            parsed.push(conditions);
        }
        Ok(Self { groups: parsed })
    }

    /// Whether the version is in the range.
    #[must_use]
    pub fn contains(&self, version: &Version) -> bool {
        let holds = |(comparator, bound): &(Comparator, Version)| match comparator {
            Comparator::Equal => version == bound,
            Comparator::Not => version != bound,
            Comparator::Above => version > bound,
            Comparator::From => version >= bound,
            Comparator::Below => version < bound,
            Comparator::UpTo => version <= bound,
        };
        self.groups.iter().any(|group| !group.is_empty() && group.iter().all(holds))
    }

    /// The intervals that the range consists of; some may be empty, and they may overlap.
    #[must_use]
    pub fn spans(&self) -> Vec<(End<'_>, End<'_>)> {
        let mut spans = Vec::new();
        for group in self.groups.iter().filter(|group| !group.is_empty()) {
            let (mut low, mut high): (End<'_>, End<'_>) = (None, None);
            let mut holes = Vec::new();
            for (comparator, version) in group {
                match comparator {
                    Comparator::Equal => {
                        low = later(low, (version, true));
                        high = earlier(high, (version, true));
                    }
                    Comparator::Not => holes.push(version),
                    Comparator::Above => low = later(low, (version, false)),
                    Comparator::From => low = later(low, (version, true)),
                    Comparator::Below => high = earlier(high, (version, false)),
                    Comparator::UpTo => high = earlier(high, (version, true)),
                }
            }
            holes.sort();
            for hole in holes {
                spans.push((low, earlier(high, (hole, false))));
                low = later(low, (hole, false));
            }
            spans.push((low, high));
        }
        spans
    }
}

/// The stricter of two lower ends.
fn later<'r>(end: End<'r>, other: (&'r Version, bool)) -> End<'r> {
    match end {
        Some((version, included)) if version > other.0 || version == other.0 && !included => end,
        _ => Some(other),
    }
}

/// The stricter of two upper ends.
fn earlier<'r>(end: End<'r>, other: (&'r Version, bool)) -> End<'r> {
    match end {
        Some((version, included)) if version < other.0 || version == other.0 && !included => end,
        _ => Some(other),
    }
}

/// Splits at spaces, unless one stands after `>`, `<` or `=`. A token of one character is lost.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::with_capacity(text.split(' ').count());
    // What is read so far, with the spaces in it: they count for the length.
    let (mut token, mut length) = (String::with_capacity(text.len()), 0_usize);
    let mut last = ' ';
    for c in text.chars() {
        if c == ' ' && !matches!(last, '>' | '<' | '=') {
            if length > 1 {
                tokens.push(token.clone());
            }
            token.clear();
            length = 0;
            continue;
        }
        length += c.len_utf8();
        if c != ' ' {
            token.push(c);
            last = c;
        }
    }
    if length > 1 {
        tokens.push(token);
    }
    tokens
}

/// Comparator and version of a token.
fn split(token: &str) -> Result<(&str, &str), String> {
    let digit = token.find(|c: char| c.is_numeric());
    let parts = digit.and_then(|at| token.split_at_checked(at));
    parts.ok_or_else(|| format!("Could not get version from string: {}", quote(token)))
}

fn condition(token: &str) -> Result<(Comparator, Version), String> {
    let (comparator, version) = split(token)?;
    let wrong = |what: String| format!("Could not parse Range {}: {what}", quote(token));
    let parsed = Comparator::parse(comparator).ok_or_else(|| {
        wrong(format!("Could not parse comparator {} in {}", quote(comparator), quote(token)))
    })?;
    let version = Version::parse(version).map_err(|why| {
        wrong(format!("Could not parse version {} in {}: {why}", quote(version), quote(token)))
    })?;
    Ok((parsed, version))
}

/// Replaces a token with a wildcard by tokens without.
fn expand(token: &str) -> Result<Vec<String>, String> {
    let (comparator, version) = split(token)?;
    let parts: Vec<_> = version.split('.').collect();
    let raised = match (parts.last(), parts.len()) {
        (Some(&"x"), 2) => Some(0),
        (Some(&"x"), 3) => Some(1),
        _ => None,
    };
    let mut flat = version.replacen(".x.x", ".x", 1).replacen(".x", ".0", 1);
    if flat.split('.').count() == 2 {
        flat.push_str(".0");
    }
    // Without a wildcard at its end, a token has no next version, and fails later for that.
    let next = || match raised {
        Some(position) => increment(&flat, position),
        None => Ok(String::new()),
    };
    Ok(match comparator {
        ">" => vec![format!(">={}", next()?)],
        ">=" => vec![format!(">={flat}")],
        "<" => vec![format!("<{flat}")],
        "<=" => vec![format!("<{}", next()?)],
        "" | "=" | "==" => vec![format!(">={flat}"), format!("<{}", next()?)],
        "!" | "!=" => vec![format!("<{flat}"), format!(">={}", next()?)],
        _ => vec![flat],
    })
}

/// Adds one to a part of a version.
fn increment(version: &str, position: usize) -> Result<String, String> {
    let mut parts: Vec<_> = version.split('.').map(str::to_owned).collect();
    if let Some(part) = parts.get_mut(position) {
        let number: i64 = part
            .parse()
            .map_err(|_| format!("strconv.Atoi: parsing {}: invalid syntax", quote(part)))?;
        *part = number.saturating_add(1).to_string();
    }
    Ok(parts.join("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        Version::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"))
    }

    #[test]
    fn versions_are_strict_and_errors_are_upstreams() {
        for text in ["0.1.0", "1.2.3-rc.1+build.5", "4.8.0-202205", "1.0.0--x", "1.0.0+-"] {
            version(text);
        }
        for (text, why) in [
            ("", "Version string empty"),
            ("1.2", "No Major.Minor.Patch elements found"),
            ("0.1.0.1", "Invalid character(s) found in patch number \"0.1\""),
            ("v2.7.0", "Invalid character(s) found in major number \"v2\""),
            ("01.1.1", "Major number must not contain leading zeroes \"01\""),
            ("1.1.01", "Patch number must not contain leading zeroes \"01\""),
            ("1.2.", "strconv.ParseUint: parsing \"\": invalid syntax"),
            ("1.2.3-", "Prerelease is empty"),
            ("1.2.3-a_b", "Invalid character(s) found in prerelease \"a_b\""),
            ("1.2.3-01", "Numeric PreRelease version must not contain leading zeroes \"01\""),
            ("1.2.3+", "Build meta data is empty"),
            ("1.2.3+a_b", "Invalid character(s) found in build meta data \"a_b\""),
            (
                "99999999999999999999.0.0",
                "strconv.ParseUint: parsing \"99999999999999999999\": value out of range",
            ),
        ] {
            assert_eq!(Version::parse(text).map(|_| ()), Err(why.to_owned()), "{text}");
        }
    }

    #[test]
    fn versions_are_ordered() {
        let order = [
            "0.9.9",
            "1.0.0-1",
            "1.0.0-2",
            "1.0.0-10",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0",
            "1.0.1",
            "1.10.0",
        ];
        let versions: Vec<_> = order.iter().map(|text| version(text)).collect();
        assert!(versions.is_sorted_by(|left, right| left < right));
        assert_eq!(version("1.0.0+a"), version("1.0.0+b"));
    }

    #[test]
    fn ranges_hold() {
        for (range, inside, outside) in [
            (">=2.6.0 <2.7.1", vec!["2.6.0", "2.7.0"], vec!["2.7.1", "2.5.9"]),
            (">3.1.0", vec!["3.1.1"], vec!["3.1.0"]),
            ("1.0.0 || >=2.0.0 !=2.1.0", vec!["1.0.0", "2.0.0", "2.2.0"], vec!["1.0.1", "2.1.0"]),
            ("> 1.0.0", vec!["1.0.1"], vec!["1.0.0"]),
            ("1.x", vec!["1.0.0", "1.9.9"], vec!["2.0.0"]),
            ("1.2.x", vec!["1.2.9"], vec!["1.3.0"]),
            ("^1.2.x", vec!["1.2.0"], vec!["1.2.1"]),
            (">=1.0.0-fix", vec!["1.0.0"], vec!["0.9.0"]),
            ("<=1.x", vec!["1.9.9"], vec!["2.0.0"]),
        ] {
            let parsed = Range::parse(range).unwrap_or_else(|why| panic!("{range}: {why}"));
            let within = |version: &Version| {
                parsed.spans().iter().any(|(low, high)| {
                    low.is_none_or(|(low, included)| version > low || included && version == low)
                        && high.is_none_or(|(high, included)| {
                            version < high || included && version == high
                        })
                })
            };
            for (texts, expected) in [(inside, true), (outside, false)] {
                for text in texts {
                    assert_eq!(parsed.contains(&version(text)), expected, "{range} {text}");
                    assert_eq!(within(&version(text)), expected, "{range} {text}");
                }
            }
        }
    }

    #[test]
    fn ranges_fail_in_upstreams_words() {
        for (range, why) in [
            ("", "Last element in range is '||'"),
            ("1", "Last element in range is '||'"),
            ("|| 1.0.0", "First element in range is '||'"),
            (
                ">v0.1.0",
                "Could not parse Range \">v0.1.0\": Could not parse comparator \">v\" in \">v0.1.0\"",
            ),
            (
                ">1.00.1",
                "Could not parse Range \">1.00.1\": Could not parse version \"1.00.1\" in \">1.00.1\": Minor number must not contain leading zeroes \"00\"",
            ),
            (
                "~1.2",
                "Could not parse Range \"~1.2\": Could not parse comparator \"~\" in \"~1.2\"",
            ),
            ("2.6.x to 2.7", "Could not get version from string: \"to\""),
            (">1.0.0-fix", "Could not get version from string: \">=\""),
        ] {
            assert_eq!(Range::parse(range).map(|_| ()), Err(why.to_owned()), "{range}");
        }
    }
}
