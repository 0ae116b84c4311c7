//! Walks through the schemas of an old and a new version side by side.
//!
//! ```text
//! old ─┬─▶ for each schema in the old one: what changed ─▶ Visitor
//! new ─┘   (what is written alike is skipped)
//! ```
//!
//! Only what the old version has is visited, in the order of its text. The work is linear in the size of
//! both: what is written alike is found by comparing bytes, and after eight times the bytes of
//! both texts no more are compared. There is no recursion: schemas can nest as deep as JSON.

use std::hash::Hash;

use opgate_upstream::json::Kind;

use super::change::Change;
use super::place::{Location, Mark, Step, hash_of};
use super::schema::{Keyword, Schema, Shape};
use super::tree::{Place, Tree};
use super::{bounds, fields, go, values};

/// What is told about schemas.
pub(super) trait Visitor {
    /// Whether changes must be told apart by their hash.
    const HASHES: bool;

    /// The new version has no such schema. The answer says whether it is compared with an empty one.
    fn removed(&mut self, at: &Location) -> bool;

    /// A change. `has_keyword` says whether the new schema has what changed.
    fn changed(&mut self, at: &Location, change: &Change<'_>, has_keyword: bool);
}

/// How often all bytes are compared.
const ROUNDS: usize = 8;

/// A schema that will be visited.
#[derive(Clone, Copy)]
struct Task {
    keyword: Keyword,
    old: Place,
    new: Option<Place>,
    index: usize,
}

/// A schema that is visited, and so are those in it.
struct Frame {
    back: Mark,
    /// The keyword that led here.
    keyword: Keyword,
    /// Tasks below belong to others.
    tasks: usize,
    /// What in it is not the same, if anything.
    difference: Option<u64>,
    /// What of that no check handles.
    unhandled: Option<u64>,
    is_reported: bool,
}

pub(super) struct Walk<'s, V> {
    old: &'s Tree,
    new: &'s Tree,
    at: Location,
    visitor: &'s mut V,
    tasks: Vec<Task>,
    frames: Vec<Frame>,
    /// Members of the two objects that are being compared.
    olds: Vec<Place>,
    news: Vec<Place>,
    /// Bytes that may still be compared.
    bytes: usize,
    /// Schemas that may still be visited.
    left: usize,
}

/// Visits all schemas of the old version. `most` limits their number; the answer is what remains of
/// it, 0 if there are more.
pub(super) fn compare<V: Visitor>(
    old: &Tree,
    new: Option<&Tree>,
    at: Location,
    most: usize,
    visitor: &mut V,
) -> usize {
    let nothing = Tree::of(Vec::new());
    let mut walk = Walk {
        old,
        new: new.unwrap_or(&nothing),
        at: if V::HASHES { at.hashed() } else { at },
        visitor,
        tasks: Vec::new(),
        frames: Vec::new(),
        olds: Vec::new(),
        news: Vec::new(),
        bytes: new.map_or(0, |new| old.size().min(new.size())).saturating_mul(ROUNDS),
        left: most,
    };
    let back = walk.at.mark();
    walk.visit(back, Keyword::Properties, 0, new.map(|_| 0));
    walk.run();
    walk.left
}

impl Frame {
    /// Adds a difference of a keyword that has no hash.
    fn note(&mut self, keyword: Keyword) {
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

impl<V: Visitor> Walk<'_, V> {
    fn run(&mut self) {
        while let Some(frame) = self.frames.last() {
            if self.left == 0 {
                return;
            }
            if self.tasks.len() > frame.tasks
                && let Some(Task { keyword, old, new, index }) = self.tasks.pop()
            {
                let back = self.at.mark();
                let name = self.old.name(old);
                let step = match (keyword.shape(), index) {
                    (Shape::Named | Shape::NamedOrTexts, _) => Step::Named(&name),
                    (_, usize::MAX) => Step::Only,
                    (_, index) => Step::At(index),
                };
                self.at.enter(keyword, step, new.is_some());
                self.visit(back, keyword, old, new);
            } else {
                self.leave();
            }
        }
    }

    fn leave(&mut self) {
        let Some(frame) = self.frames.pop() else { return };
        if let Some(unhandled) = frame.unhandled.filter(|_| frame.is_reported) {
            self.visitor.changed(&self.at, &Change::Unhandled(unhandled), false);
        }
        if let (Some(difference), Some(around)) = (frame.difference, self.frames.last_mut()) {
            if V::HASHES {
                around.add(frame.keyword, &self.at.hash_with(&difference));
            } else {
                around.note(frame.keyword);
            }
        }
        self.at.go_back(frame.back);
    }

    fn visit(&mut self, back: Mark, keyword: Keyword, old: Place, new: Option<Place>) {
        self.left = self.left.saturating_sub(1);
        let is_reported = new.is_some() || self.visitor.removed(&self.at);
        let old = Schema::at(self.old, old);
        let new = new.map(|new| Schema::at(self.new, new));
        let tasks = self.tasks.len();
        let frame = Frame { back, keyword, tasks, difference: None, unhandled: None, is_reported };
        self.frames.push(frame);
        for keyword in old.keywords(new.as_ref()) {
            let new = new.as_ref();
            match keyword.shape() {
                Shape::Schema | Shape::Schemas | Shape::SchemaOrSchemas | Shape::SchemaOrFlag => {
                    self.parts(keyword, &old, new);
                }
                Shape::Named | Shape::NamedOrTexts => self.members(keyword, &old, new),
                _ => self.value(keyword, &old, new, is_reported),
            }
        }
        if let Some(own) = self.tasks.get_mut(tasks..) {
            own.reverse();
        }
    }

    /// Remembers that values of a keyword are not the same.
    fn differ(&mut self, keyword: Keyword, name: &str, old: Option<Place>, new: Option<Place>) {
        let Some(frame) = self.frames.last_mut() else { return };
        if V::HASHES {
            let old = old.map(|old| go::json(self.old.raw(old)));
            let new = new.map(|new| go::json(self.new.raw(new)));
            frame.add(keyword, &(name, old, new));
        } else {
            frame.note(keyword);
        }
    }

    /// Reports what changed of a keyword without schemas in it.
    fn value(
        &mut self,
        keyword: Keyword,
        old: &Schema<'_>,
        new: Option<&Schema<'_>>,
        is_reported: bool,
    ) {
        if new.is_none() && !is_reported {
            // It is reported as removed, and so is the schema around it as not the same.
            return;
        }
        let empty = Schema::empty(self.new);
        let new = new.unwrap_or(&empty);
        if old.is_written_as_in(new, keyword) {
            return;
        }
        let change = bounds::change(keyword, old, new)
            .or_else(|| fields::change(keyword, old, new))
            .or_else(|| values::change(keyword, old, new));
        // What is a change is different, and need not be compared once more.
        if change.is_some() || old.differs(new, keyword) {
            self.differ(keyword, "", old.place(keyword), new.place(keyword));
        }
        if let Some(change) = change.filter(|_| is_reported) {
            self.visitor.changed(&self.at, &change, new.place(keyword).is_some());
        }
    }

    /// Whether two values are written alike. Does not know if too many bytes have been compared.
    fn is_copy(&mut self, old: Place, new: Place) -> bool {
        let (old, new) = (self.old.raw(old), self.new.raw(new));
        if old.len() != new.len() {
            return false;
        }
        let Some(rest) = self.bytes.checked_sub(old.len()) else { return false };
        self.bytes = rest;
        old == new
    }

    /// Whether the values of a keyword are certainly the same.
    fn are_copies(&mut self, old: Option<Place>, new: Option<Place>) -> bool {
        match (old, new) {
            (Some(old), Some(new)) => self.is_copy(old, new),
            (None, None) => true,
            _ => false,
        }
    }

    fn task(&mut self, keyword: Keyword, old: Place, new: Option<Place>, index: usize) {
        if new.is_none_or(|new| !self.is_copy(old, new)) {
            self.tasks.push(Task { keyword, old, new, index });
        }
    }

    /// Plans visits to the schemas of a keyword with one or several.
    fn parts(&mut self, keyword: Keyword, old: &Schema<'_>, new: Option<&Schema<'_>>) {
        let (old, new) = (old.place(keyword), new.and_then(|new| new.place(keyword)));
        if self.are_copies(old, new) {
            return;
        }
        let (old_tree, new_tree) = (self.old, self.new);
        let old_form = Form::of(keyword, old_tree, old);
        let new_form = Form::of(keyword, new_tree, new);
        if old_form != new_form {
            self.differ(keyword, "", old.filter(|_| old_form == Form::Flag), new);
        }
        match (old, old_form) {
            (Some(old), Form::One) => {
                self.task(keyword, old, new.filter(|_| new_form == Form::One), usize::MAX);
            }
            (Some(old), Form::List) => {
                let list = new.filter(|_| new_form == Form::List);
                let mut rest = list.into_iter().flat_map(|list| new_tree.children(list));
                for (index, old) in old_tree.children(old).enumerate() {
                    let new = rest.next();
                    if new.is_none() {
                        self.differ(keyword, "", None, None);
                    }
                    self.task(keyword, old, new, index);
                }
                for added in rest {
                    self.differ(keyword, "", None, Some(added));
                }
            }
            // Flags that are the same are copies.
            (_, Form::Flag) => self.differ(keyword, "", old, new),
            _ => {}
        }
    }

    /// Plans visits to the schemas of a keyword with names.
    fn members(&mut self, keyword: Keyword, old: &Schema<'_>, new: Option<&Schema<'_>>) {
        let (old, new) = (old.place(keyword), new.and_then(|new| new.place(keyword)));
        if self.are_copies(old, new) {
            return;
        }
        let (mut olds, mut news) = (std::mem::take(&mut self.olds), std::mem::take(&mut self.news));
        let list = |tree: &Tree, place: Option<Place>, into: &mut Vec<Place>| match place {
            Some(place) => tree.members(place, into),
            None => into.clear(),
        };
        let (old_tree, new_tree) = (self.old, self.new);
        list(old_tree, old, &mut olds);
        list(new_tree, new, &mut news);
        self.left = self.left.saturating_sub(olds.len() / 8);
        let is_schema = |tree: &Tree, place: Place| {
            keyword.shape() == Shape::Named || tree.kind(place) == Kind::Object
        };
        let mut rest = news.iter().copied().peekable();
        for &old in &olds {
            while let Some(added) = rest.next_if(|&new| new_tree.order(new, old_tree, old).is_lt())
            {
                self.differ(keyword, &new_tree.name(added), None, Some(added));
            }
            let new = rest.next_if(|&new| new_tree.order(new, old_tree, old).is_eq());
            match (is_schema(old_tree, old), new) {
                (true, Some(new)) if is_schema(new_tree, new) => {
                    self.task(keyword, old, Some(new), usize::MAX);
                }
                (true, new) => {
                    self.differ(keyword, &old_tree.name(old), None, new);
                    self.task(keyword, old, None, usize::MAX);
                }
                (false, Some(new))
                    if self.is_copy(old, new)
                        || go::json(old_tree.raw(old)) == go::json(new_tree.raw(new)) => {}
                (false, new) => self.differ(keyword, &old_tree.name(old), Some(old), new),
            }
        }
        for added in rest {
            self.differ(keyword, &new_tree.name(added), None, Some(added));
        }
        (self.olds, self.news) = (olds, news);
    }
}

/// What the value of a keyword with one or several schemas is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    None,
    One,
    List,
    Flag,
}

impl Form {
    fn of(keyword: Keyword, tree: &Tree, place: Option<Place>) -> Self {
        let Some(place) = place else { return Self::None };
        match (keyword.shape(), tree.kind(place)) {
            // Anything is a schema to the walk; the API server lets nothing else in.
            (Shape::Schema, _) | (Shape::SchemaOrSchemas | Shape::SchemaOrFlag, Kind::Object) => {
                Self::One
            }
            // An empty list is like none.
            (Shape::Schemas | Shape::SchemaOrSchemas, Kind::List)
                if tree.children(place).next().is_some() =>
            {
                Self::List
            }
            (Shape::SchemaOrFlag, Kind::Boolean) => Self::Flag,
            _ => Self::None,
        }
    }
}
