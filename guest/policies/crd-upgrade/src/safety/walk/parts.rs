//! The pairs of schemas in two schemas: by keyword, and there by name or position.

use opgate_upstream::json::Kind;

use super::{Visitor, Walk};
use crate::schema::go;
use crate::schema::tree::{Place, Tree};
use crate::schema::{Keyword, Schema, Shape};

impl<V: Visitor> Walk<'_, V> {
    /// Plans visits to the schemas of a keyword with one or several.
    pub(super) fn parts(&mut self, keyword: Keyword, old: &Schema<'_>, new: Option<&Schema<'_>>) {
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
    pub(super) fn members(&mut self, keyword: Keyword, old: &Schema<'_>, new: Option<&Schema<'_>>) {
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

/// The type of the value of a keyword with one or several schemas.
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
            // The walk treats any value as a schema; the API server accepts only schemas.
            (Shape::Schema, _) | (Shape::SchemaOrSchemas | Shape::SchemaOrFlag, Kind::Object) => {
                Self::One
            }
            // An empty list counts as missing.
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
