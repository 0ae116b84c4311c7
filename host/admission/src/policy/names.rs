//! Names by pattern: the namespaces and objects that a match rule or a configuration matches.

use crate::review::Review;

/// The reason why patterns for names are invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NamePatternError(String);

/// Maximum number of patterns in one list, and bytes of each: a name of Kubernetes has at most
/// 253.
const MAX_PATTERNS: usize = 64;
const MAX_PATTERN_BYTES: usize = 253;

/// Names that one of `include` matches (or `include` is empty) and none of `exclude`. `*` in a
/// pattern stands for any characters, also for none.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamePatterns {
    include: Vec<String>,
    exclude: Vec<String>,
}

impl NamePatterns {
    /// Checks patterns.
    ///
    /// # Errors
    /// Too many, one that is too long, or one that no name of Kubernetes can match.
    pub fn new(include: Vec<String>, exclude: Vec<String>) -> Result<Self, NamePatternError> {
        let count = include.len().saturating_add(exclude.len());
        if count > MAX_PATTERNS {
            return Err(NamePatternError(format!("{count} patterns, more than {MAX_PATTERNS}")));
        }
        for pattern in include.iter().chain(&exclude) {
            // The characters that every name of Kubernetes consists of, those of roles included.
            let fits = |b: u8| b.is_ascii_graphic() && !b"/%".contains(&b);
            if pattern.is_empty() || pattern.len() > MAX_PATTERN_BYTES || !pattern.bytes().all(fits)
            {
                let shown: String = pattern.chars().take(64).collect();
                return Err(NamePatternError(format!(
                    "{shown:?} fits no name: write 1 to {MAX_PATTERN_BYTES} characters without spaces, `/` and `%`"
                )));
            }
        }
        Ok(Self { include, exclude })
    }

    /// Whether all names match.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.include.is_empty() && self.exclude.is_empty()
    }

    /// The patterns of which one must match; empty for all names.
    #[must_use]
    pub fn include(&self) -> &[String] {
        &self.include
    }

    /// The patterns of which none may match.
    #[must_use]
    pub fn exclude(&self) -> &[String] {
        &self.exclude
    }

    /// The patterns in CEL, for the `matchConditions` of a webhook. A request without the name
    /// matches, as here.
    pub(super) fn to_cel(&self, subject: &str) -> String {
        let one_of = |patterns: &[String]| {
            let all: Vec<_> =
                patterns.iter().map(|pattern| pattern_to_cel(subject, pattern)).collect();
            all.join(" || ")
        };
        let mut fits = Vec::new();
        if !self.include.is_empty() {
            fits.push(format!("({})", one_of(&self.include)));
        }
        if !self.exclude.is_empty() {
            fits.push(format!("!({})", one_of(&self.exclude)));
        }
        format!("!has({subject}) || {subject} == '' || ({})", fits.join(" && "))
    }

    /// Whether a name matches.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let one_of =
            |patterns: &[String]| patterns.iter().any(|pattern| matches_pattern(pattern, name));
        (self.include.is_empty() || one_of(&self.include)) && !one_of(&self.exclude)
    }

    /// Whether the namespace of a request matches. A Namespace belongs to itself, as for the
    /// `namespaceSelector` of an API server; other cluster-scoped objects belong to none and
    /// match.
    pub(super) fn matches_namespace_of(&self, review: &Review<'_>) -> bool {
        let name: &str = if review.is_namespace() { &review.name } else { &review.namespace };
        self.is_all() || name.is_empty() || self.matches(name)
    }

    /// Whether the name of the object matches. A missing name, which the API server has yet to
    /// generate, does.
    pub(super) fn matches_name_of(&self, review: &Review<'_>) -> bool {
        self.is_all() || review.name.is_empty() || self.matches(&review.name)
    }
}

/// A CEL expression that matches a text against a pattern.
fn pattern_to_cel(subject: &str, pattern: &str) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"));
    let parts: Vec<&str> = pattern.split('*').collect();
    match parts.as_slice() {
        [whole] => format!("{subject} == {}", quoted(whole)),
        ["", ""] => "true".to_owned(),
        [start, ""] => format!("{subject}.startsWith({})", quoted(start)),
        ["", end] => format!("{subject}.endsWith({})", quoted(end)),
        _ => {
            // Every other character of a pattern matches itself when it is escaped.
            let literal = |part: &&str| {
                part.chars().fold(String::new(), |mut text, c| {
                    if !c.is_ascii_alphanumeric() {
                        text.push('\\');
                    }
                    text.push(c);
                    text
                })
            };
            let all: Vec<_> = parts.iter().map(literal).collect();
            format!("{subject}.matches({})", quoted(&format!("^{}$", all.join(".*"))))
        }
    }
}

/// Whether a name matches a pattern. The parts between the stars must follow each other: using the
/// first match of each is enough, so the time is bounded by the product of both lengths, 253
/// squared.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut last = None;
    for part in parts {
        if let Some(middle) = last.replace(part) {
            let Some((_, after)) = rest.split_once(middle) else { return false };
            rest = after;
        }
    }
    match last {
        None => rest.is_empty(),
        Some(last) => rest.ends_with(last),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_matches_any_characters() {
        for (pattern, name, expected) in [
            ("team-a", "team-a", true),
            ("team-a", "team-ab", false),
            ("*", "", true),
            ("*", "anything", true),
            ("team-*", "team-a", true),
            ("team-*", "team-", true),
            ("team-*", "a-team-b", false),
            ("*-prod", "team-prod", true),
            ("*-prod", "team-prod-2", false),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "abc", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
            ("*ab*ab", "ab", false),
            ("*ab*ab", "abab", true),
            ("**", "x", true),
        ] {
            assert_eq!(matches_pattern(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn excluded_names_override_included_ones() {
        let list = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let names = NamePatterns::new(list(&["team-*"]), list(&["*-sandbox"])).expect("valid");
        assert!(names.matches("team-a"));
        assert!(!names.matches("team-a-sandbox"));
        assert!(!names.matches("other"));
        let but = NamePatterns::new(Vec::new(), list(&["kube-*"])).expect("valid");
        assert!(but.matches("team-a"));
        assert!(!but.matches("kube-system"));
    }

    /// The CEL expressions for API servers give the same result.
    #[test]
    fn patterns_are_translated_to_cel() {
        let list = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        for (include, exclude, expected) in [
            (&["a", "b-*"][..], &[][..], "(S == 'a' || S.startsWith('b-'))"),
            (&[], &["*-c"], "!(S.endsWith('-c'))"),
            (&["*"], &["a*b.c*"], r"(true) && !(S.matches('^a.*b\\.c.*$'))"),
            (&["it's\\"], &[], r"(S == 'it\'s\\')"),
        ] {
            let names = NamePatterns::new(list(include), list(exclude)).expect("valid");
            let expected = format!("!has(S) || S == '' || ({expected})");
            assert_eq!(names.to_cel("S"), expected);
        }
    }

    #[test]
    fn impossible_name_patterns_are_rejected() {
        for wrong in ["", "a/b", "ä", "a b", &"a".repeat(254)] {
            let error =
                NamePatterns::new(vec![wrong.to_owned()], Vec::new()).expect_err(wrong).to_string();
            assert!(error.contains("fits no name"), "{error}");
        }
        let many = NamePatterns::new(vec!["a".to_owned(); 40], vec!["b".to_owned(); 25]);
        assert_eq!(many.expect_err("65").to_string(), "65 patterns, more than 64");
    }
}
