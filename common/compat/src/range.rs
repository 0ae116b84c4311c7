//! Ranges of versions as `ParseRange` of `github.com/blang/semver/v4` v4.0.0 reads them.
//!
//! ```text
//! text ─▶ tokens ─▶ alternatives (||) ─▶ wildcards expanded ─▶ comparators
//!           │                               │
//!           └── dropped tokens              └── unknown operators, 1.x.x ──▶ surprises
//! ```
//!
//! The parser accepts much that does not mean what it seems to; it is ported with all of that,
//! because a range that it accepts is one that OLM goes by. What is likely to surprise is noted in
//! [`Range::warnings`].

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::go::{quote, shorten};
use crate::version::Version;

/// The reason why a text is no range, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RangeError(String);

/// Relation of a version to the one of a comparator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `=`, `==` or nothing.
    Equal,
    /// `!` or `!=`.
    NotEqual,
    /// `>`.
    Greater,
    /// `>=`.
    GreaterOrEqual,
    /// `<`.
    Less,
    /// `<=`.
    LessOrEqual,
}

impl Operator {
    fn of(text: &str) -> Option<Self> {
        Some(match text {
            "" | "=" | "==" => Self::Equal,
            "!" | "!=" => Self::NotEqual,
            ">" => Self::Greater,
            ">=" => Self::GreaterOrEqual,
            "<" => Self::Less,
            "<=" => Self::LessOrEqual,
            _ => return None,
        })
    }

    fn admits(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
        }
    }
}

/// One condition: `>=1.0.0`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparator {
    /// The relation.
    pub operator: Operator,
    /// The version to compare with.
    pub version: Version,
}

/// A range: one of the alternatives must hold, and of it every comparator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// Never empty. An alternative without comparators holds for no version; upstream's evaluation
    /// crashes there.
    pub alternatives: Vec<Vec<Comparator>>,
    /// Why the range may not mean what it says.
    pub warnings: Vec<String>,
}

/// An end of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End<'r> {
    /// The version at the end.
    pub version: &'r Version,
    /// Whether the version belongs to the interval.
    pub is_included: bool,
}

impl<'r> End<'r> {
    fn included(version: &'r Version) -> Self {
        Self { version, is_included: true }
    }

    fn excluded(version: &'r Version) -> Self {
        Self { version, is_included: false }
    }
}

/// An end of an interval, if it has one.
pub type Bound<'r> = Option<End<'r>>;

/// Surprises that are reported; a hostile range has very many.
const MAX_WARNINGS: usize = 4;
/// Bytes of a token in a surprise.
const MAX_SHOWN_BYTES: usize = 64;

impl Range {
    /// Parses as `semver.ParseRange`.
    ///
    /// # Errors
    /// Upstream's text.
    pub fn parse(text: &str) -> Result<Self, RangeError> {
        let mut warnings = Warnings::default();
        let tokens = tokens(text, &mut warnings);
        check_alternatives(&tokens)?;
        let mut alternatives = Vec::with_capacity(1);
        if text.contains('x') {
            // Wildcards of the whole range are expanded first.
            let mut expanded = Vec::with_capacity(1);
            for alternative in tokens.split(|token| token == "||") {
                let mut comparators = Vec::with_capacity(alternative.len());
                for token in alternative {
                    expand(token, &mut comparators, &mut warnings)?;
                }
                expanded.push(comparators);
            }
            for tokens in &expanded {
                alternatives.push(comparators(tokens, &mut warnings)?);
            }
        } else {
            for tokens in tokens.split(|token| token == "||") {
                alternatives.push(comparators(tokens, &mut warnings)?);
            }
        }
        Ok(Self { alternatives, warnings: warnings.0 })
    }

    /// Reports whether a version is in the range.
    #[must_use]
    pub fn contains(&self, version: &Version) -> bool {
        let holds = |c: &Comparator| c.operator.admits(version.cmp(&c.version));
        self.alternatives.iter().any(|all| !all.is_empty() && all.iter().all(holds))
    }

    /// Returns the intervals that the range consists of; some may be empty, and they may overlap.
    #[must_use]
    pub fn intervals(&self) -> Vec<(Bound<'_>, Bound<'_>)> {
        let mut spans = Vec::new();
        for all in self.alternatives.iter().filter(|all| !all.is_empty()) {
            let (mut low, mut high): (Bound<'_>, Bound<'_>) = (None, None);
            let mut holes = Vec::new();
            for Comparator { operator, version } in all {
                match operator {
                    Operator::Equal => {
                        low = stricter_lower(low, End::included(version));
                        high = stricter_upper(high, End::included(version));
                    }
                    Operator::NotEqual => holes.push(version),
                    Operator::Greater => low = stricter_lower(low, End::excluded(version)),
                    Operator::GreaterOrEqual => low = stricter_lower(low, End::included(version)),
                    Operator::Less => high = stricter_upper(high, End::excluded(version)),
                    Operator::LessOrEqual => high = stricter_upper(high, End::included(version)),
                }
            }
            holes.sort();
            for hole in holes {
                spans.push((low, stricter_upper(high, End::excluded(hole))));
                low = stricter_lower(low, End::excluded(hole));
            }
            spans.push((low, high));
        }
        spans
    }

    /// Reports whether every alternative has a minimum version.
    #[must_use]
    pub fn has_minimum(&self) -> bool {
        let bounds = |c: &Comparator| {
            matches!(c.operator, Operator::Equal | Operator::Greater | Operator::GreaterOrEqual)
        };
        self.alternatives.iter().all(|all| all.iter().any(bounds))
    }

    /// Reports whether there is a maximum that is less than a major version above the minimum. Exact versions
    /// and exclusions do not count, and neither does a range without a minimum.
    #[must_use]
    pub fn is_narrow(&self) -> bool {
        let mut lowest: Option<&Version> = None;
        let mut highest: Option<&Version> = None;
        for all in &self.alternatives {
            if all.iter().any(|c| c.operator == Operator::Equal) {
                continue;
            }
            let of = |operators: [Operator; 2]| {
                all.iter().filter(move |c| operators.contains(&c.operator)).map(|c| &c.version)
            };
            let lower = of([Operator::Greater, Operator::GreaterOrEqual]).max();
            let upper = of([Operator::Less, Operator::LessOrEqual]).min();
            let (Some(lower), Some(upper)) = (lower, upper) else { return false };
            lowest = Some(lowest.map_or(lower, |l| l.min(lower)));
            highest = Some(highest.map_or(upper, |h| h.max(upper)));
        }
        lowest.zip(highest).is_some_and(|(low, high)| {
            let major = low.major.saturating_add(1);
            *high < Version { major, ..low.clone() }
        })
    }
}

/// Returns the stricter of two lower ends.
fn stricter_lower<'r>(bound: Bound<'r>, other: End<'r>) -> Bound<'r> {
    match bound {
        Some(end)
            if end.version > other.version || end.version == other.version && !end.is_included =>
        {
            bound
        }
        _ => Some(other),
    }
}

/// Returns the stricter of two upper ends.
fn stricter_upper<'r>(bound: Bound<'r>, other: End<'r>) -> Bound<'r> {
    match bound {
        Some(end)
            if end.version < other.version || end.version == other.version && !end.is_included =>
        {
            bound
        }
        _ => Some(other),
    }
}

#[derive(Default)]
struct Warnings(Vec<String>);

impl Warnings {
    fn add(&mut self, text: impl FnOnce() -> String) {
        if self.0.len() < MAX_WARNINGS {
            let text = text();
            if !self.0.contains(&text) {
                self.0.push(text);
            }
        }
    }
}

fn shorten_token(token: &str) -> String {
    quote(&shorten(token, MAX_SHOWN_BYTES))
}

/// Splits at spaces, though not at one that follows an operator. What is one byte long disappears.
fn tokens<'t>(text: &'t str, warnings: &mut Warnings) -> Vec<Cow<'t, str>> {
    let mut found = Vec::with_capacity(2);
    let mut take = |token: &'t str| match token.len() {
        0 => {}
        1 => warnings.add(|| format!("the lone {} is dropped", shorten_token(token))),
        _ if token.contains(' ') => found.push(token.replace(' ', "").into()),
        _ => found.push(token.into()),
    };
    let mut start = 0;
    let mut last = 0;
    for (index, byte) in text.bytes().enumerate() {
        if byte != b' ' {
            last = byte;
        } else if !matches!(last, b'>' | b'<' | b'=') {
            take(text.get(start..index).unwrap_or_default());
            start = index + 1;
        }
    }
    take(text.get(start..).unwrap_or_default());
    found
}

/// Alternatives stand between two others, or alone.
fn check_alternatives(tokens: &[Cow<'_, str>]) -> Result<(), RangeError> {
    if tokens.first().is_some_and(|first| first == "||") {
        return Err(RangeError("First element in range is '||'".to_owned()));
    }
    if tokens.last().is_none_or(|last| last == "||") {
        return Err(RangeError("Last element in range is '||'".to_owned()));
    }
    Ok(())
}

/// Returns the comparators of one alternative.
fn comparators(
    tokens: &[Cow<'_, str>],
    warnings: &mut Warnings,
) -> Result<Vec<Comparator>, RangeError> {
    if tokens.is_empty() {
        warnings.add(|| "it has an empty alternative, which OLM cannot evaluate".to_owned());
    }
    let mut comparators = Vec::with_capacity(tokens.len());
    for token in tokens {
        comparators.push(comparator(token)?);
    }
    Ok(comparators)
}

/// Splits operator and version at the first digit.
fn split_operator(token: &str) -> Result<(&str, &str), RangeError> {
    let digit = token.find(char::is_numeric);
    let parts = digit.and_then(|digit| token.split_at_checked(digit));
    let (operator, version) = parts.ok_or_else(|| {
        RangeError(format!("Could not get version from string: {}", quote(token)))
    })?;
    Ok((operator.trim(), version))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wildcard {
    None,
    Minor,
    Patch,
}

impl Wildcard {
    fn of(version: &str) -> Self {
        match (version.rsplit('.').next() == Some("x"), version.split('.').count()) {
            (true, 2) => Self::Minor,
            (true, 3) => Self::Patch,
            _ => Self::None,
        }
    }

    /// Returns the first version above the wildcard; empty if there is none.
    fn next(self, flat: &str) -> String {
        let raised = match self {
            Self::None => return String::new(),
            Self::Minor => 0,
            Self::Patch => 1,
        };
        let mut parts: Vec<String> = flat.split('.').map(str::to_owned).collect();
        let Some(part) = parts.get_mut(raised) else { return String::new() };
        let Ok(number) = part.parse::<i64>() else { return String::new() };
        // As Go's int, which wraps silently.
        *part = number.wrapping_add(1).to_string();
        parts.join(".")
    }
}

/// Returns a version without its wildcard.
fn without_wildcard(version: &str) -> String {
    let version = version.replacen(".x.x", ".x", 1).replacen(".x", ".0", 1);
    if version.split('.').count() == 2 { format!("{version}.0") } else { version }
}

/// Returns the comparators of a token: itself, unless it contains an `x`.
fn expand<'t>(
    token: &'t str,
    comparators: &mut Vec<Cow<'t, str>>,
    warnings: &mut Warnings,
) -> Result<(), RangeError> {
    if !token.contains('x') {
        comparators.push(token.into());
        return Ok(());
    }
    let (operator, version) = split_operator(token)?;
    let wildcard = Wildcard::of(version);
    let flat = without_wildcard(version);
    let next = wildcard.next(&flat);
    if version.contains(".x.x") {
        let meant = version.replacen(".x.x", ".0.x", 1);
        warnings.add(|| format!("{} means {meant}", shorten_token(version)));
    }
    match operator {
        ">" => comparators.push(format!(">={next}").into()),
        ">=" => comparators.push(format!(">={flat}").into()),
        "<" => comparators.push(format!("<{flat}").into()),
        "<=" => comparators.push(format!("<{next}").into()),
        "" | "=" | "==" => {
            comparators.extend([format!(">={flat}").into(), format!("<{next}").into()]);
        }
        "!" | "!=" => {
            comparators.extend([format!("<{flat}").into(), format!(">={next}").into()]);
            warnings.add(|| format!("{} holds for no version", shorten_token(token)));
        }
        _ => {
            warnings.add(|| format!("{} means exactly {flat}", shorten_token(token)));
            comparators.push(flat.into());
        }
    }
    Ok(())
}

fn comparator(token: &str) -> Result<Comparator, RangeError> {
    let (operator, version) = split_operator(token)?;
    let both = || quote(&format!("{operator}{version}"));
    let wrong =
        |what: String| RangeError(format!("Could not parse Range {}: {what}", quote(token)));
    let known = Operator::of(operator).ok_or_else(|| {
        wrong(format!("Could not parse comparator {} in {}", quote(operator), both()))
    })?;
    let parsed = Version::parse(version).map_err(|error| {
        wrong(format!("Could not parse version {} in {}: {error}", quote(version), both()))
    })?;
    Ok(Comparator { operator: known, version: parsed })
}
