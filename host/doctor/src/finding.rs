//! Findings, and skipped checks. Texts of a cluster become one line of bounded length here, and the number of
//! findings is limited for every cluster.

use std::collections::BTreeMap;

use opgate_text::one_line;

use crate::facts::Facts;
use crate::facts::object::{Kind, Object};
use crate::finding_docs::{Doc, Level};

/// Maximum number of findings of one id; the others are counted.
const MAX_FINDINGS_PER_ID: usize = 32;

/// Maximum number of lines about what was not checked.
const MAX_UNCHECKED: usize = 256;

/// Maximum bytes of a text, and of a name in it.
const MAX_TEXT_BYTES: usize = 1_024;
const MAX_NAME_BYTES: usize = 253;

/// Elements of a list that a text shows.
const MAX_LISTED_NAMES: usize = 6;

/// The object of a finding.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectReference {
    /// Empty for what is no object.
    pub kind: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Its name, or the location in words.
    pub name: String,
}

impl ObjectReference {
    pub(crate) fn named(kind: Kind, namespace: &str, name: &str) -> Self {
        let cut = |text: &str| one_line(text, MAX_NAME_BYTES);
        Self { kind: kind.to_string(), namespace: cut(namespace), name: cut(name) }
    }

    /// Creates a location that is not an object of the cluster.
    pub(crate) fn other(name: &str) -> Self {
        Self { name: one_line(name, MAX_NAME_BYTES), ..Self::default() }
    }
}

impl From<&Object> for ObjectReference {
    fn from(object: &Object) -> Self {
        Self::named(object.kind, &object.namespace, &object.name)
    }
}

impl std::fmt::Display for ObjectReference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kind, namespace, name } = self;
        match (kind.as_str(), namespace.as_str()) {
            ("", _) => f.write_str(name),
            (kind, "") => write!(f, "{kind} {name}"),
            (kind, namespace) => write!(f, "{kind} {namespace}/{name}"),
        }
    }
}

/// A problem of an installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// `DOC-12`; see [`crate::finding_docs`].
    pub doc: &'static str,
    /// Severity.
    pub level: Level,
    /// The object with the problem.
    pub object: ObjectReference,
    /// `spec.selector`; empty for the whole object.
    pub field: String,
    /// The problem, on one line.
    pub message: String,
    /// What to do, on one line.
    pub remediation: String,
}

/// All findings.
#[derive(Debug, Default)]
pub struct Findings {
    all: Vec<Finding>,
    /// Number of omitted findings, by id.
    omitted: BTreeMap<&'static str, usize>,
    /// Skipped checks with reasons.
    unchecked: Vec<(String, String)>,
}

impl Findings {
    pub(crate) fn add(
        &mut self,
        doc: &'static Doc,
        at: impl Into<ObjectReference>,
        field: &str,
        what: &str,
        repair: &str,
    ) {
        if self.all.iter().filter(|one| one.doc == doc.id).count() >= MAX_FINDINGS_PER_ID {
            let more = self.omitted.entry(doc.id).or_default();
            *more = more.saturating_add(1);
            return;
        }
        self.all.push(Finding {
            doc: doc.id,
            level: doc.level,
            object: at.into(),
            field: one_line(field, MAX_NAME_BYTES),
            message: one_line(what, MAX_TEXT_BYTES),
            remediation: one_line(repair, MAX_TEXT_BYTES),
        });
    }

    /// Says that something was not checked.
    pub(crate) fn add_unchecked(&mut self, what: &str, why: &str) {
        let entry = (one_line(what, MAX_TEXT_BYTES), one_line(why, MAX_TEXT_BYTES));
        if self.unchecked.len() < MAX_UNCHECKED && !self.unchecked.contains(&entry) {
            self.unchecked.push(entry);
        }
    }

    /// Reports whether objects of a kind are known; otherwise records the skipped check.
    pub(crate) fn require_kind(&mut self, facts: &Facts, kind: Kind, what: &str) -> bool {
        let known = facts.ensure_known(kind).map_err(str::to_owned);
        if let Err(why) = &known {
            self.add_unchecked(what, &format!("{}: {why}", kind.resource()));
        }
        known.is_ok()
    }

    /// Leaves out what is known and accepted.
    pub fn skip(&mut self, ids: &[String]) {
        let is_skipped = |id: &str| ids.iter().any(|skipped| skipped.eq_ignore_ascii_case(id));
        self.all.retain(|finding| !is_skipped(finding.doc));
        self.omitted.retain(|id, _| !is_skipped(id));
    }

    /// Sorts the findings by severity, most severe first.
    pub(crate) fn into_sorted(mut self) -> Self {
        self.all.sort_by(|a, b| {
            (a.level, a.doc, &a.object, &a.field).cmp(&(b.level, b.doc, &b.object, &b.field))
        });
        self.all.dedup();
        self
    }

    /// Returns the findings, most severe first.
    #[must_use]
    pub fn all(&self) -> &[Finding] {
        &self.all
    }

    /// Returns the number of omitted findings, by id.
    #[must_use]
    pub fn omitted(&self) -> &BTreeMap<&'static str, usize> {
        &self.omitted
    }

    /// Returns skipped checks, with reasons.
    #[must_use]
    pub fn not_checked(&self) -> &[(String, String)] {
        &self.unchecked
    }

    /// Returns the worst level.
    #[must_use]
    pub fn worst(&self) -> Option<Level> {
        self.all.iter().map(|finding| finding.level).min()
    }
}

/// Returns a text as a word of a command: what a shell would read otherwise is quoted.
pub(crate) fn shell_word(text: &str) -> String {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-_./:=@,".contains(&b);
    let line = one_line(text, MAX_NAME_BYTES);
    if !line.is_empty() && line.bytes().all(is_plain) && !line.starts_with('-') {
        return line;
    }
    format!("'{}'", line.replace('\'', "'\\''"))
}

/// Returns the names as a text: the first ones, and how many more there are.
pub(crate) fn join_names<'n>(all: impl IntoIterator<Item = &'n str>) -> String {
    let mut all = all.into_iter();
    let shown: Vec<_> =
        all.by_ref().take(MAX_LISTED_NAMES).map(|name| one_line(name, 128)).collect();
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
            assert_eq!(shell_word(text), expected);
        }
        assert_eq!(join_names(["a", "b"]), "a, b");
        assert_eq!(join_names(["a"; 9]), "a, a, a, a, a, a and 3 more");
    }
}
