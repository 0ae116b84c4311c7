//! The pairs of schemas in two schemas: by keyword, and there by name or position.

use opgate_compat::json::Kind;

use super::{Visitor, Walk};
use crate::schema::go;
use crate::schema::tree::{NodeId, Tree};
use crate::schema::{Keyword, Schema, Shape};

impl<V: Visitor> Walk<'_, V> {
    /// Plans visits to the schemas of a keyword with one or several.
    pub(super) fn compare_parts(
        &mut self,
        keyword: Keyword,
        old: &Schema<'_>,
        new: Option<&Schema<'_>>,
    ) {
        let (old, new) = (old.node_id(keyword), new.and_then(|new| new.node_id(keyword)));
        if self.compare_optional(old, new) {
            return;
        }
        let (old_tree, new_tree) = (self.old, self.new);
        let old_form = SubschemaForm::of(keyword, old_tree, old);
        let new_form = SubschemaForm::of(keyword, new_tree, new);
        if old_form != new_form {
            self.compare_keyword(keyword, "", old.filter(|_| old_form == SubschemaForm::Flag), new);
        }
        match (old, old_form) {
            (Some(old), SubschemaForm::One) => {
                self.push_task(
                    keyword,
                    old,
                    new.filter(|_| new_form == SubschemaForm::One),
                    usize::MAX,
                );
            }
            (Some(old), SubschemaForm::List) => {
                let list = new.filter(|_| new_form == SubschemaForm::List);
                let mut rest = list.into_iter().flat_map(|list| new_tree.children(list));
                for (index, old) in old_tree.children(old).enumerate() {
                    let new = rest.next();
                    if new.is_none() {
                        self.compare_keyword(keyword, "", None, None);
                    }
                    self.push_task(keyword, old, new, index);
                }
                for added in rest {
                    self.compare_keyword(keyword, "", None, Some(added));
                }
            }
            // Flags that are the same are copies.
            (_, SubschemaForm::Flag) => self.compare_keyword(keyword, "", old, new),
            _ => {}
        }
    }

    /// Plans visits to the schemas of a keyword with names.
    pub(super) fn compare_members(
        &mut self,
        keyword: Keyword,
        old: &Schema<'_>,
        new: Option<&Schema<'_>>,
    ) {
        let (old, new) = (old.node_id(keyword), new.and_then(|new| new.node_id(keyword)));
        if self.compare_optional(old, new) {
            return;
        }
        let (mut olds, mut news) = (std::mem::take(&mut self.olds), std::mem::take(&mut self.news));
        let list = |tree: &Tree, node_id: Option<NodeId>, into: &mut Vec<NodeId>| match node_id {
            Some(node_id) => tree.members(node_id, into),
            None => into.clear(),
        };
        let (old_tree, new_tree) = (self.old, self.new);
        list(old_tree, old, &mut olds);
        list(new_tree, new, &mut news);
        self.remaining = self.remaining.saturating_sub(olds.len() / 8);
        let is_schema = |tree: &Tree, node_id: NodeId| {
            keyword.shape() == Shape::SchemaMap || tree.kind(node_id) == Kind::Object
        };
        let mut rest = news.iter().copied().peekable();
        for &old in &olds {
            while let Some(added) =
                rest.next_if(|&new| new_tree.compare_text(new, old_tree, old).is_lt())
            {
                self.compare_keyword(keyword, &new_tree.name(added), None, Some(added));
            }
            let new = rest.next_if(|&new| new_tree.compare_text(new, old_tree, old).is_eq());
            match (is_schema(old_tree, old), new) {
                (true, Some(new)) if is_schema(new_tree, new) => {
                    self.push_task(keyword, old, Some(new), usize::MAX);
                }
                (true, new) => {
                    self.compare_keyword(keyword, &old_tree.name(old), None, new);
                    self.push_task(keyword, old, None, usize::MAX);
                }
                (false, Some(new))
                    if self.compare_values(old, new)
                        || go::marshal_json(old_tree.raw(old))
                            == go::marshal_json(new_tree.raw(new)) => {}
                (false, new) => self.compare_keyword(keyword, &old_tree.name(old), Some(old), new),
            }
        }
        for added in rest {
            self.compare_keyword(keyword, &new_tree.name(added), None, Some(added));
        }
        (self.olds, self.news) = (olds, news);
    }
}

/// The type of the value of a keyword with one or several schemas.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SubschemaForm {
    None,
    One,
    List,
    Flag,
}

impl SubschemaForm {
    fn of(keyword: Keyword, tree: &Tree, node_id: Option<NodeId>) -> Self {
        let Some(node_id) = node_id else { return Self::None };
        match (keyword.shape(), tree.kind(node_id)) {
            // The walk treats any value as a schema; the API server accepts only schemas.
            (Shape::Schema, _) | (Shape::SchemaOrSchemas | Shape::SchemaOrFlag, Kind::Object) => {
                Self::One
            }
            // An empty list counts as missing.
            (Shape::Schemas | Shape::SchemaOrSchemas, Kind::List)
                if tree.children(node_id).next().is_some() =>
            {
                Self::List
            }
            (Shape::SchemaOrFlag, Kind::Boolean) => Self::Flag,
            _ => Self::None,
        }
    }
}
