//! Findings, and skipped checks. Texts of a cluster become one line of bounded length here, and the number of
//! findings is limited for every cluster.

use std::collections::BTreeMap;

use opgate_text::one_line;

use super::catalog::{Doc, Level};
use super::facts::Facts;
use super::facts::object::{Kind, Object};

/// Maximum number of findings of one id; the others are counted.
const MOST_EACH: usize = 32;

/// Maximum number of lines about what was not checked.
const MOST_UNCHECKED: usize = 256;

/// Maximum bytes of a text, and of a name in it.
const LONGEST: usize = 1_024;
const LONGEST_NAME: usize = 253;

/// Elements of a list that a text shows.
const SHOWN: usize = 6;

/// The object of a finding.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct At {
    /// Empty for what is no object.
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

impl At {
    pub(super) fn named(kind: Kind, namespace: &str, name: &str) -> Self {
        let cut = |text: &str| one_line(text, LONGEST_NAME);
        Self { kind: kind.to_string(), namespace: cut(namespace), name: cut(name) }
    }

    /// Creates a location that is not an object of the cluster.
    pub(super) fn other(name: &str) -> Self {
        Self { name: one_line(name, LONGEST_NAME), ..Self::default() }
    }
}

impl From<&Object> for At {
    fn from(object: &Object) -> Self {
        Self::named(object.kind, &object.namespace, &object.name)
    }
}

impl std::fmt::Display for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kind, namespace, name } = self;
        match (kind.as_str(), namespace.as_str()) {
            ("", _) => f.write_str(name),
            (kind, "") => write!(f, "{kind} {name}"),
            (kind, namespace) => write!(f, "{kind} {namespace}/{name}"),
        }
    }
}

/// Something that hurts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) doc: &'static str,
    pub(super) level: Level,
    pub(super) at: At,
    /// `spec.selector`; empty for the whole object.
    pub(super) field: String,
    pub(super) what: String,
    pub(super) repair: String,
}

/// All findings.
#[derive(Debug, Default)]
pub(super) struct Findings {
    all: Vec<Finding>,
    /// Number of omitted findings, by id.
    more: BTreeMap<&'static str, usize>,
    /// Skipped checks with reasons.
    unchecked: Vec<(String, String)>,
}

impl Findings {
    pub(super) fn add(
        &mut self,
        doc: &'static Doc,
        at: impl Into<At>,
        field: &str,
        what: &str,
        repair: &str,
    ) {
        if self.all.iter().filter(|one| one.doc == doc.id).count() >= MOST_EACH {
            let more = self.more.entry(doc.id).or_default();
            *more = more.saturating_add(1);
            return;
        }
        self.all.push(Finding {
            doc: doc.id,
            level: doc.level,
            at: at.into(),
            field: one_line(field, LONGEST_NAME),
            what: one_line(what, LONGEST),
            repair: one_line(repair, LONGEST),
        });
    }

    /// Says that something was not checked.
    pub(super) fn unchecked(&mut self, what: &str, why: &str) {
        let entry = (one_line(what, LONGEST), one_line(why, LONGEST));
        if self.unchecked.len() < MOST_UNCHECKED && !self.unchecked.contains(&entry) {
            self.unchecked.push(entry);
        }
    }

    /// Reports whether objects of a kind are known; otherwise records the skipped check.
    pub(super) fn needs(&mut self, facts: &Facts, kind: Kind, what: &str) -> bool {
        let known = facts.knows(kind).map_err(str::to_owned);
        if let Err(why) = &known {
            self.unchecked(what, &format!("{}: {why}", kind.resource()));
        }
        known.is_ok()
    }

    /// Leaves out what is known and accepted.
    pub(super) fn skip(&mut self, ids: &[String]) {
        let is_skipped = |id: &str| ids.iter().any(|skipped| skipped.eq_ignore_ascii_case(id));
        self.all.retain(|finding| !is_skipped(finding.doc));
        self.more.retain(|id, _| !is_skipped(id));
    }

    /// Sorts the findings by severity, most severe first.
    pub(super) fn sorted(mut self) -> Self {
        self.all.sort_by(|a, b| {
            (a.level, a.doc, &a.at, &a.field).cmp(&(b.level, b.doc, &b.at, &b.field))
        });
        self.all.dedup();
        self
    }

    pub(super) fn all(&self) -> &[Finding] {
        &self.all
    }

    pub(super) fn more(&self) -> &BTreeMap<&'static str, usize> {
        &self.more
    }

    pub(super) fn not_checked(&self) -> &[(String, String)] {
        &self.unchecked
    }

    /// Returns the worst level.
    pub(super) fn worst(&self) -> Option<Level> {
        self.all.iter().map(|finding| finding.level).min()
    }
}

/// Returns a text as a word of a command: what a shell would read otherwise is quoted.
pub(super) fn word(text: &str) -> String {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-_./:=@,".contains(&b);
    let line = one_line(text, LONGEST_NAME);
    if !line.is_empty() && line.bytes().all(is_plain) && !line.starts_with('-') {
        return line;
    }
    format!("'{}'", line.replace('\'', "'\\''"))
}

/// Returns the names as a text: the first ones, and how many more there are.
pub(super) fn names<'n>(all: impl IntoIterator<Item = &'n str>) -> String {
    let mut all = all.into_iter();
    let shown: Vec<_> = all.by_ref().take(SHOWN).map(|name| one_line(name, 128)).collect();
    match all.count() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_safe_for_a_shell() {
        for (text, expected) in [
            ("opgate-system", "opgate-system"),
            ("", "''"),
            ("a; rm -rf /", "'a; rm -rf /'"),
            ("it's", "'it'\\''s'"),
            ("--all", "'--all'"),
            ("a\nb", "'a b'"),
        ] {
            assert_eq!(word(text), expected);
        }
        assert_eq!(names(["a", "b"]), "a, b");
        assert_eq!(names(["a"; 9]), "a, a, a, a, a, a and 3 more");
    }
}
