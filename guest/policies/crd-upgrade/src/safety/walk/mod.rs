//! Walks through the schemas of an old and a new version in parallel.
//!
//! ```text
//! old ─┬─▶ for each schema in the old one: its changes ─▶ Visitor
//! new ─┘   (identical text is skipped)
//! ```
//!
//! Only schemas of the old version are visited, in the order of its text. The work is linear in the
//! size of both: identical text is found by comparing bytes, and the comparison stops after eight
//! times the bytes of both texts. There is no recursion: schemas can nest as deep as JSON.

mod parts;

use std::hash::Hash;

use super::change::Change;
use super::place::{Location, Mark, Step, hash_of};
use super::{bounds, fields, values};
use crate::schema::go;
use crate::schema::tree::{NodeId, Tree};
use crate::schema::{Keyword, Schema, Shape};

/// The receiver of the changes of schemas.
pub(super) trait Visitor {
    /// Whether changes must have different hashes.
    const NEEDS_HASHES: bool;

    /// The new version has no such schema. Returns whether it is compared with an empty schema.
    fn visit_removed(&mut self, at: &Location) -> bool;

    /// A change. `has_keyword` is true if the new schema has the keyword.
    fn visit_changed(&mut self, at: &Location, change: &Change<'_>, has_keyword: bool);
}

/// The number of times that all bytes can be compared.
const MAX_COMPARE_ROUNDS: usize = 8;

/// A schema that will be visited.
#[derive(Clone, Copy)]
struct Task {
    keyword: Keyword,
    old: NodeId,
    new: Option<NodeId>,
    index: usize,
}

/// A schema that is being visited, together with the schemas in it.
struct Frame {
    parent: Mark,
    /// The keyword that led here.
    keyword: Keyword,
    /// Tasks below this index belong to other schemas.
    tasks: usize,
    /// The keywords that differ.
    difference: Option<u64>,
    /// The differing keywords without a check.
    unhandled: Option<u64>,
    is_reported: bool,
}

pub(super) struct Walk<'s, V> {
    old: &'s Tree,
    new: &'s Tree,
    location: Location,
    visitor: &'s mut V,
    tasks: Vec<Task>,
    frames: Vec<Frame>,
    /// Members of the two objects that are being compared.
    olds: Vec<NodeId>,
    news: Vec<NodeId>,
    /// The remaining number of bytes to compare.
    remaining_bytes: usize,
    /// The remaining number of schemas to visit.
    remaining: usize,
}

/// Visits all schemas of the old version. `most` limits their number. Returns the remaining number,
/// or 0 if there are more.
pub(super) fn compare<V: Visitor>(
    old: &Tree,
    new: Option<&Tree>,
    at: Location,
    max_schemas: usize,
    visitor: &mut V,
) -> usize {
    let nothing = Tree::of(Vec::new());
    let mut walk = Walk::new(old, new.unwrap_or(&nothing), at, max_schemas, visitor);
    walk.start(new.map(|_| 0));
    walk.remaining
}

impl Frame {
    /// Adds a difference of a keyword that has no hash.
    fn mark_unhandled(&mut self, keyword: Keyword) {
        self.difference = Some(0);
        if !keyword.is_handled() {
            self.unhandled = Some(0);
        }
    }

    /// Adds a difference of a keyword.
    fn add(&mut self, keyword: Keyword, what: &impl Hash) {
        self.difference = Some(hash_of(&(self.difference, keyword, what)));
        if !keyword.is_handled() {
            self.unhandled = Some(hash_of(&(self.unhandled, keyword, what)));
        }
    }
}

impl<'s, V: Visitor> Walk<'s, V> {
    fn new(
        old: &'s Tree,
        new: &'s Tree,
        at: Location,
        max_schemas: usize,
        visitor: &'s mut V,
    ) -> Self {
        Self {
            old,
            new,
            location: if V::NEEDS_HASHES { at.with_hash() } else { at },
            visitor,
            tasks: Vec::new(),
            frames: Vec::new(),
            olds: Vec::new(),
            news: Vec::new(),
            remaining_bytes: old.size().min(new.size()).saturating_mul(MAX_COMPARE_ROUNDS),
            remaining: max_schemas,
        }
    }

    /// Visits the outermost schema, and all in it.
    fn start(&mut self, new: Option<NodeId>) {
        let back = self.location.mark();
        self.visit(back, Keyword::Properties, 0, new);
        while let Some(frame) = self.frames.last() {
            if self.remaining == 0 {
                return;
            }
            if self.tasks.len() > frame.tasks
                && let Some(Task { keyword, old, new, index }) = self.tasks.pop()
            {
                let back = self.location.mark();
                let name = self.old.name(old);
                let step = match (keyword.shape(), index) {
                    (Shape::SchemaMap | Shape::SchemaOrTextsMap, _) => Step::Named(&name),
                    (_, usize::MAX) => Step::Keyword,
                    (_, index) => Step::At(index),
                };
                self.location.enter(keyword, step, new.is_some());
                self.visit(back, keyword, old, new);
            } else {
                self.leave();
            }
        }
    }

    fn leave(&mut self) {
        let Some(frame) = self.frames.pop() else { return };
        if let Some(unhandled) = frame.unhandled.filter(|_| frame.is_reported) {
            self.visitor.visit_changed(&self.location, &Change::Unhandled(unhandled), false);
        }
        if let (Some(difference), Some(around)) = (frame.difference, self.frames.last_mut()) {
            if V::NEEDS_HASHES {
                around.add(frame.keyword, &self.location.hash_with(&difference));
            } else {
                around.mark_unhandled(frame.keyword);
            }
        }
        self.location.go_back(frame.parent);
    }

    fn visit(&mut self, back: Mark, keyword: Keyword, old: NodeId, new: Option<NodeId>) {
        self.remaining = self.remaining.saturating_sub(1);
        let is_reported = new.is_some() || self.visitor.visit_removed(&self.location);
        let old = Schema::at(self.old, old);
        let new = new.map(|new| Schema::at(self.new, new));
        let tasks = self.tasks.len();
        let frame =
            Frame { parent: back, keyword, tasks, difference: None, unhandled: None, is_reported };
        self.frames.push(frame);
        for keyword in old.keywords(new.as_ref()) {
            let new = new.as_ref();
            match keyword.shape() {
                Shape::Schema | Shape::Schemas | Shape::SchemaOrSchemas | Shape::SchemaOrFlag => {
                    self.compare_parts(keyword, &old, new);
                }
                Shape::SchemaMap | Shape::SchemaOrTextsMap => {
                    self.compare_members(keyword, &old, new);
                }
                _ => self.compare_value(keyword, &old, new, is_reported),
            }
        }
        if let Some(own) = self.tasks.get_mut(tasks..) {
            own.reverse();
        }
    }

    /// Records that the values of a keyword differ.
    fn compare_keyword(
        &mut self,
        keyword: Keyword,
        name: &str,
        old: Option<NodeId>,
        new: Option<NodeId>,
    ) {
        let Some(frame) = self.frames.last_mut() else { return };
        if V::NEEDS_HASHES {
            let old = old.map(|old| go::marshal_json(self.old.raw(old)));
            let new = new.map(|new| go::marshal_json(self.new.raw(new)));
            frame.add(keyword, &(name, old, new));
        } else {
            frame.mark_unhandled(keyword);
        }
    }

    /// Reports the change of a keyword without schemas in it.
    fn compare_value(
        &mut self,
        keyword: Keyword,
        old: &Schema<'_>,
        new: Option<&Schema<'_>>,
        is_reported: bool,
    ) {
        if new.is_none() && !is_reported {
            // It is reported as removed, and the schema around it as different.
            return;
        }
        let empty = Schema::empty(self.new);
        let new = new.unwrap_or(&empty);
        if old.has_same_text(new, keyword) {
            return;
        }
        let change = bounds::bound_change(keyword, old, new)
            .or_else(|| fields::find_change(keyword, old, new))
            .or_else(|| values::find_change(keyword, old, new));
        // A change implies a difference, so the values are not compared again.
        if change.is_some() || old.differs(new, keyword) {
            self.compare_keyword(keyword, "", old.node_id(keyword), new.node_id(keyword));
        }
        if let Some(change) = change.filter(|_| is_reported) {
            self.visitor.visit_changed(&self.location, &change, new.node_id(keyword).is_some());
        }
    }

    /// Whether two values have identical text. Returns `false` after the maximum number of compared
    /// bytes.
    fn compare_values(&mut self, old: NodeId, new: NodeId) -> bool {
        let (old, new) = (self.old.raw(old), self.new.raw(new));
        if old.len() != new.len() {
            return false;
        }
        let Some(rest) = self.remaining_bytes.checked_sub(old.len()) else { return false };
        self.remaining_bytes = rest;
        old == new
    }

    /// Whether the values of a keyword are certainly the same.
    fn compare_optional(&mut self, old: Option<NodeId>, new: Option<NodeId>) -> bool {
        match (old, new) {
            (Some(old), Some(new)) => self.compare_values(old, new),
            (None, None) => true,
            _ => false,
        }
    }

    fn push_task(&mut self, keyword: Keyword, old: NodeId, new: Option<NodeId>, index: usize) {
        if new.is_none_or(|new| !self.compare_values(old, new)) {
            self.tasks.push(Task { keyword, old, new, index });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the reported changes.
    #[derive(Default)]
    struct Counter {
        removed: usize,
        changed: usize,
    }

    impl Visitor for Counter {
        const NEEDS_HASHES: bool = true;

        fn visit_removed(&mut self, _: &Location) -> bool {
            self.removed += 1;
            true
        }

        fn visit_changed(&mut self, _: &Location, _: &Change<'_>, _: bool) {
            self.changed += 1;
        }
    }

    /// Visited schemas, removed ones and changes.
    fn walked(old: &str, new: &str, max_schemas: usize) -> (usize, usize, usize) {
        let (old, new) = (Tree::of(old.into()), Tree::of(new.into()));
        let mut counter = Counter::default();
        let left =
            compare(&old, Some(&new), Location::new(String::new()), max_schemas, &mut counter);
        (max_schemas - left, counter.removed, counter.changed)
    }

    #[test]
    fn unchanged_subtrees_are_not_visited() {
        let wide = |changed: &str| {
            let more = r#""a":{"type":"x","properties":{"b":{"type":"y"}}},"#;
            format!(r#"{{"properties":{{{more}"c":{{"items":{{"type":"{changed}"}}}},"d":{{}}}}}}"#)
        };
        assert_eq!(walked(&wide("x"), &wide("x"), 1_000), (1, 0, 0));
        // The outermost one, c, and its items.
        assert_eq!(walked(&wide("x"), &wide("y"), 1_000), (3, 0, 1));
        assert_eq!(walked(&wide("x"), "{}", 1_000), (6, 5, 3));
    }

    #[test]
    fn a_walk_stops_after_as_many_schemas_as_it_may_visit() {
        let wide = |kind: &str| {
            let all = (0..1_000).map(|n| format!(r#""{n:04}":{{"type":"{kind}"}}"#));
            format!(r#"{{"properties":{{{}}}}}"#, all.collect::<Vec<_>>().join(","))
        };
        assert_eq!(walked(&wide("x"), &wide("y"), 100_000), (1_001 + 1_000 / 8, 0, 1_000));
        assert_eq!(walked(&wide("x"), &wide("y"), 500), (500, 0, 500 - 1 - 1_000 / 8));
    }

    /// Bytes are compared a fixed number of times, regardless of their depth.
    #[test]
    fn nested_schemas_do_not_compare_bytes_per_level() {
        let deep = |kind: &str| {
            let all = (0..400).fold(format!(r#"{{"type":"{kind}"}}"#), |inner, _| {
                format!(r#"{{"not":{inner}}}"#)
            });
            Tree::of(all.into())
        };
        let (old, new) = (deep("x"), deep("y"));
        let mut counter = Counter::default();
        let mut walk = Walk::new(&old, &new, Location::new(String::new()), 1_000, &mut counter);
        walk.start(Some(0));
        assert!(walk.remaining_bytes < old.size(), "{}", walk.remaining_bytes);
        // The type of the innermost schema, and differences without a check in all schemas around
        // it.
        assert_eq!((walk.remaining, counter.changed), (1_000 - 401, 401));
    }
}
