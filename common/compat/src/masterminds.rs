//! Constraints on versions as `github.com/Masterminds/semver/v3` v3.2.1 reads them, which OLM 1.0
//! goes by, with its texts.
//!
//! ```text
//! text ─▶ alternatives (||) ─▶ comparisons (spaces, commas) ─▶ operator and version, x for any number
//! ```
//!
//! The schema of OLM 1.0's Operators is stricter in what it takes for a number and knows no ranges
//! with a hyphen: what either of the two refuses for that is refused here, too.

use crate::version::Version;

/// The reason why a text is no constraint, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConstraintError(String);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Tilde,
    Caret,
}

/// Longer ones first: `>=` is not `>`.
const OPERATORS: [(&str, Operator); 12] = [
    ("!=", Operator::NotEqual),
    (">=", Operator::GreaterOrEqual),
    ("=>", Operator::GreaterOrEqual),
    ("<=", Operator::LessOrEqual),
    ("=<", Operator::LessOrEqual),
    ("~>", Operator::Tilde),
    ("=", Operator::Equal),
    (">", Operator::Greater),
    ("<", Operator::Less),
    ("~", Operator::Tilde),
    ("^", Operator::Caret),
    ("", Operator::Equal),
];

/// Number of given numbers of a version before the first `x`, or the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Precision {
    Nothing,
    Major,
    Minor,
    All,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Comparison {
    operator: Operator,
    /// Missing parts are zero.
    version: Version,
    precision: Precision,
}

/// A constraint: one of the alternatives must hold, and of it every comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constraint {
    alternatives: Vec<Vec<Comparison>>,
}

/// The first three numbers that are above a constraint.
pub type UpperBound = [u64; 3];

impl Constraint {
    /// Parses as `semver.NewConstraint`.
    ///
    /// # Errors
    /// Upstream's text.
    pub fn parse(text: &str) -> Result<Self, ConstraintError> {
        let alternatives = text.split("||").map(parse_comparisons).collect::<Result<_, _>>()?;
        Ok(Self { alternatives })
    }

    /// Reports whether a version satisfies the constraint. One with a pre-release satisfies only comparisons
    /// with one.
    #[must_use]
    pub fn contains(&self, version: &Version) -> bool {
        self.alternatives.iter().any(|all| all.iter().all(|one| one.is_satisfied_by(version)))
    }

    /// Returns the version, if the constraint admits one only.
    #[must_use]
    pub fn exact_version(&self) -> Option<&Version> {
        let [alternative] = self.alternatives.as_slice() else { return None };
        let [Comparison { operator: Operator::Equal, version, precision: Precision::All }] =
            alternative.as_slice()
        else {
            return None;
        };
        Some(version)
    }

    /// Returns the end of the constraint. None if it has none.
    #[must_use]
    pub fn upper_bound(&self) -> Option<UpperBound> {
        let of_all = |all: &Vec<Comparison>| all.iter().filter_map(Comparison::upper_bound).min();
        self.alternatives.iter().map(of_all).max_by_key(|above| above.unwrap_or([u64::MAX; 3]))?
    }
}

impl Comparison {
    fn is_satisfied_by(&self, version: &Version) -> bool {
        let Self { operator, version: own, precision } = self;
        if !version.pre.is_empty() && own.pre.is_empty() {
            return *operator == Operator::NotEqual
                && *precision == Precision::All
                && version.cmp(own).is_ne();
        }
        let above = self.upper_bound().is_none_or(|above| numbers(version) < above);
        match (operator, precision) {
            (Operator::Equal, Precision::All) => version.cmp(own).is_eq(),
            (Operator::NotEqual, Precision::All | Precision::Nothing) => version.cmp(own).is_ne(),
            (Operator::NotEqual, Precision::Major) => version.major != own.major,
            (Operator::NotEqual, Precision::Minor) => {
                (version.major, version.minor) != (own.major, own.minor) || version.pre != own.pre
            }
            (Operator::Greater, Precision::All | Precision::Nothing) => version.cmp(own).is_gt(),
            (Operator::Greater, Precision::Major) => version.major > own.major,
            (Operator::Greater, Precision::Minor) => {
                (version.major, version.minor) > (own.major, own.minor)
            }
            (Operator::GreaterOrEqual, _) => version.cmp(own).is_ge(),
            (Operator::Less, _) => version.cmp(own).is_lt(),
            (Operator::LessOrEqual, Precision::All) => version.cmp(own).is_le(),
            (Operator::LessOrEqual, _) => above,
            (Operator::Equal | Operator::Tilde | Operator::Caret, _) => {
                version.cmp(own).is_ge() && above
            }
        }
    }

    /// Returns the first numbers that are above the comparison.
    fn upper_bound(&self) -> Option<UpperBound> {
        let Self { operator, version, precision } = self;
        let [major, minor, patch] = numbers(version);
        let next_major = [major.saturating_add(1), 0, 0];
        let next_minor = [major, minor.saturating_add(1), 0];
        let next_patch = [major, minor, patch.saturating_add(1)];
        let next = match precision {
            Precision::Nothing | Precision::Minor => next_minor,
            Precision::Major => next_major,
            Precision::All => next_patch,
        };
        let is_zero = [major, minor, patch] == [0; 3];
        match operator {
            Operator::NotEqual | Operator::Greater | Operator::GreaterOrEqual => None,
            Operator::Less => Some([major, minor, patch]),
            // `~*`, and `~0.0.0` as well: upstream treats them as equal.
            Operator::Equal | Operator::Tilde if *precision == Precision::Nothing => None,
            Operator::Tilde if *precision == Precision::All => (!is_zero).then_some(next_minor),
            Operator::Equal | Operator::LessOrEqual | Operator::Tilde => Some(next),
            Operator::Caret if major > 0 || *precision == Precision::Major => Some(next_major),
            Operator::Caret if minor > 0 || *precision == Precision::Minor => Some(next_minor),
            Operator::Caret => Some(next_patch),
        }
    }
}

fn numbers(version: &Version) -> UpperBound {
    [version.major, version.minor, version.patch]
}

/// Trims white space as Go's regular expressions define it.
fn trim(text: &str) -> &str {
    text.trim_start_matches(['\t', '\n', '\u{c}', '\r', ' '])
}

fn parse_comparisons(text: &str) -> Result<Vec<Comparison>, ConstraintError> {
    let improper = || ConstraintError(format!("improper constraint: {text}"));
    let mut found = Vec::new();
    let mut rest = trim(text);
    loop {
        let operator = OPERATORS
            .into_iter()
            .find_map(|(sign, operator)| Some((operator, rest.strip_prefix(sign)?)));
        let (operator, after) = operator.ok_or_else(improper)?;
        let after = trim(after);
        let end = after.find(['\t', '\n', '\u{c}', '\r', ' ', ',']).unwrap_or(after.len());
        let (version, after) = after.split_at_checked(end).ok_or_else(improper)?;
        let (version, precision) = parse_partial_version(version).ok_or_else(improper)?;
        let version = Version::parse(&version)
            .map_err(|_| ConstraintError("constraint Parser Error".to_owned()))?;
        found.push(Comparison { operator, version, precision });
        rest = trim(after);
        if rest.is_empty() {
            return Ok(found);
        }
        if let Some(next) = rest.strip_prefix(',') {
            rest = trim(next);
        }
    }
}

/// Returns a complete version, and which of its parts were given. None for a malformed version.
fn parse_partial_version(text: &str) -> Option<(String, Precision)> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let (rest, build) = match text.split_once('+') {
        Some((rest, build)) => (rest, Some(build)),
        None => (text, None),
    };
    let (rest, pre) = match rest.split_once('-') {
        Some((rest, pre)) => (rest, Some(pre)),
        None => (rest, None),
    };
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let is_identifier = |part: &str| !part.is_empty() && part.bytes().all(is_inner);
    let are_identifiers = |part: &str| part.split('.').all(is_identifier);
    let parts: Vec<&str> = rest.split('.').collect();
    if parts.len() > 3
        || !parts.iter().all(|part| is_number(part) || is_any(part))
        || ![pre, build].into_iter().flatten().all(are_identifiers)
    {
        return None;
    }
    let precision = parts.iter().take_while(|part| !is_any(part)).count();
    let number = |place: usize| if place < precision { parts.get(place).copied() } else { None };
    let mut version = format!(
        "{}.{}.{}",
        number(0).unwrap_or("0"),
        number(1).unwrap_or("0"),
        number(2).unwrap_or("0")
    );
    // The build is of no account, and upstream forgets it where a number is missing.
    for (sign, part) in [('-', pre), ('+', build.filter(|_| precision == 3))] {
        if let Some(part) = part {
            version.push(sign);
            version.push_str(part);
        }
    }
    let precision = match precision {
        0 => Precision::Nothing,
        1 => Precision::Major,
        2 => Precision::Minor,
        _ => Precision::All,
    };
    Some((version, precision))
}

fn is_any(part: &str) -> bool {
    matches!(part, "x" | "X" | "*")
}

fn is_number(part: &str) -> bool {
    part == "0"
        || !part.is_empty()
            && !part.starts_with('0')
            && part.bytes().all(|byte| byte.is_ascii_digit())
}
