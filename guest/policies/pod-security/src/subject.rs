//! The subject of the rules that evaluate pods: an object with specs of pods, and its new
//! violations.

use opgate_sdk::pods::{self, PodSpec};
use opgate_sdk::{Document, Report, Review, Rule};

/// More violations than this are not accidental. The policy does not store them one by one, and
/// evaluates an UPDATE of such an object like a new one.
const MAX_VIOLATIONS: usize = 16_384;

/// The violations of one rule in an object: the first ones, and their number.
#[derive(Debug)]
pub(crate) struct Violations<T> {
    first: Vec<T>,
    count: usize,
}

impl<T: Ord> Violations<T> {
    pub(crate) fn new() -> Self {
        Self { first: Vec::new(), count: 0 }
    }

    pub(crate) fn push(&mut self, violation: T) {
        self.count += 1;
        if self.count <= MAX_VIOLATIONS {
            self.first.push(violation);
        }
    }

    /// Whether the old object determines which of them are reported.
    pub(crate) fn may_be_old(&self) -> bool {
        (1..=MAX_VIOLATIONS).contains(&self.count)
    }

    /// The new ones, and the number of others.
    pub(crate) fn new_since(mut self, mut before: Self) -> (Vec<T>, usize) {
        if self.may_be_old() {
            before.first.sort_unstable();
            self.first.retain(|violation| before.first.binary_search(violation).is_err());
        }
        (self.first, self.count.saturating_sub(MAX_VIOLATIONS))
    }
}

/// An object with specs of pods, and the report about it.
pub(crate) struct Subject<'a, 'r> {
    /// The request. Its old object was evaluated before.
    pub(crate) review: &'a Review<'a>,
    pub(crate) object: &'a Document,
    /// The specs in it.
    pub(crate) specs: &'a [PodSpec],
    /// The kind of a Pod or workload; empty for a `ClusterServiceVersion`.
    pub(crate) kind: &'a str,
    pub(crate) report: &'a mut Report<'r>,
    /// The prefix of its fields: empty, or its path in a catalog with a dot.
    pub(crate) field_prefix: &'a str,
}

impl Subject<'_, '_> {
    /// Adds a violation. An object can have a hundred thousand: the policy creates texts only for
    /// those that fit into a verdict.
    pub(crate) fn add(&mut self, rule: &'static Rule, texts: impl FnOnce() -> (String, String)) {
        if self.report.is_full(rule) {
            self.report.add_count(rule, 1);
        } else {
            let (field, message) = texts();
            self.report.add(rule, format!("{}{field}", self.field_prefix), message);
        }
    }

    /// Adds a violation for each problem that the old object does not have. `search` finds the
    /// problems of an object, `texts` returns field and message.
    pub(crate) fn add_new<T: Ord>(
        &mut self,
        rule: &'static Rule,
        search: impl Fn(&Document, &[PodSpec]) -> Violations<T>,
        texts: impl Fn(&Document, &PodSpec, &T) -> (String, String),
        spec_of: impl Fn(&T) -> usize,
    ) {
        let found = search(self.object, self.specs);
        let old = self.review.ratchet_base().filter(|_| found.may_be_old());
        let before = old.map_or_else(Violations::new, |old| search(old, &self.specs_of(old)));
        let (object, specs) = (self.object, self.specs);
        let (new, more) = found.new_since(before);
        for violation in new {
            if let Some(spec) = specs.get(spec_of(&violation)) {
                self.add(rule, || texts(object, spec, &violation));
            }
        }
        self.report.add_count(rule, more);
    }

    /// The specs in another object of this kind.
    pub(crate) fn specs_of(&self, object: &Document) -> Vec<PodSpec> {
        if self.kind.is_empty() {
            pods::in_csv(object)
        } else {
            pods::in_object(object, self.kind).into_iter().collect()
        }
    }

    /// Whether an UPDATE changes the value at a pointer, or the object is new.
    pub(crate) fn touches_json(&self, pointer: &str) -> bool {
        self.review.touches_json(self.object, pointer)
    }
}
