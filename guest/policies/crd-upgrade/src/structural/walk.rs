//! The walk through the schemas of a version, without recursion: they can nest as deep as JSON.
//!
//! ```text
//! openAPIV3Schema ─┬─ items, properties, additionalProperties ─▶ structure:  the type of a value
//!                  └─ allOf, anyOf, oneOf, not ────────────────▶ validation: further restrictions
//! ```
//!
//! Each schema is read once. The values that the outermost schema validates must have a counterpart
//! in the structure; indexes of the structure, each built once, find its members.

use std::borrow::Cow;
use std::collections::BTreeMap;

use opgate_compat::json::Kind;
use opgate_sdk::Report;

use super::CRD_33;
use super::path::{self, Link, Notation, PathStep};
use crate::schema::tree::{NodeId, Tree};
use crate::schema::{Keyword, Schema};

/// The position of a schema of the structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Position {
    Root,
    Item,
    Field,
}

/// The role of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Structure(Position),
    Validation {
        /// The schema of the structure for the same value, if there is one.
        counterpart: Option<NodeId>,
        /// Whether `anyOf` has the two types of `x-kubernetes-int-or-string`.
        skips_any_of: bool,
    },
}

/// The restrictions of the schemas around a schema.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct InheritedRestrictions {
    /// Whether it is the schema of `apiVersion`, `kind` or `metadata` of an object.
    pub(super) is_in_meta: bool,
    /// The reason why it must not have a default.
    pub(super) no_default: Option<&'static str>,
}

/// A schema that is to be visited.
struct Task {
    link: Link,
    /// Links to the schema around it.
    depth: usize,
    role: Role,
    restrictions: InheritedRestrictions,
}

/// See the module.
pub(super) struct Walk<'t, 'r, 'a> {
    pub(super) tree: &'t Tree,
    /// The field of the outermost schema.
    field: &'a str,
    /// Whether the version has the subresource `status`.
    pub(super) has_status: bool,
    report: &'a mut Report<'r>,
    links: Vec<Link>,
    tasks: Vec<Task>,
    members: BTreeMap<NodeId, BTreeMap<Cow<'t, str>, NodeId>>,
    counterparts: BTreeMap<NodeId, Counterpart>,
    /// The errors so far.
    pub(super) count: usize,
    /// The defaults of the structure.
    pub(super) defaults: Vec<DefaultValue>,
    /// Whether there are more than the limit.
    pub(super) has_more_defaults: bool,
    free_links: usize,
}

/// The parts of a schema of the structure.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counterpart {
    pub(super) items: Option<NodeId>,
    pub(super) properties: Option<NodeId>,
}

/// A default that is to be checked.
pub(super) struct DefaultValue {
    /// The path to its schema.
    pub(super) links: Vec<Link>,
    pub(super) value: NodeId,
    pub(super) is_embedded: bool,
}

/// The maximum number of links for defaults. Published CRDs have some thousand defaults, ten links
/// deep.
const MAX_LINKS: usize = 200_000;

/// The maximum number of defaults.
const MAX_DEFAULTS: usize = 10_000;

impl<'t, 'r, 'a> Walk<'t, 'r, 'a> {
    pub(super) fn new(
        tree: &'t Tree,
        field: &'a str,
        has_status: bool,
        report: &'a mut Report<'r>,
    ) -> Self {
        Self {
            tree,
            field,
            has_status,
            report,
            links: Vec::new(),
            tasks: Vec::new(),
            members: BTreeMap::new(),
            counterparts: BTreeMap::new(),
            count: 0,
            defaults: Vec::new(),
            has_more_defaults: false,
            free_links: MAX_LINKS,
        }
    }

    /// Visits all schemas, at most `max_schemas`, and calls `check` with each one. Returns the
    /// remaining number, or 0 if there are more.
    pub(super) fn run(
        &mut self,
        max_schemas: usize,
        check: impl Fn(&mut Self, NodeId, Role, InheritedRestrictions),
    ) -> usize {
        let visit = |walk: &mut Self, node_id, role, restrictions| {
            let first = walk.tasks.len();
            check(walk, node_id, role, restrictions);
            // The first is visited first.
            if let Some(own) = walk.tasks.get_mut(first..) {
                own.reverse();
            }
        };
        let mut remaining = max_schemas;
        visit(self, 0, Role::Structure(Position::Root), InheritedRestrictions::default());
        while let Some(task) = self.tasks.pop() {
            remaining = remaining.saturating_sub(1);
            if remaining == 0 {
                break;
            }
            self.links.truncate(task.depth);
            self.links.push(task.link);
            visit(self, task.link.node_id, task.role, task.restrictions);
        }
        remaining
    }

    /// Plans the visit of a schema in this one.
    pub(super) fn push_task(
        &mut self,
        keyword: Keyword,
        node_id: NodeId,
        index: Option<usize>,
        role: Role,
        restrictions: InheritedRestrictions,
    ) {
        let link = Link { keyword, node_id, index };
        self.tasks.push(Task { link, depth: self.links.len(), role, restrictions });
    }

    /// Plans the visits of the schemas in junctors: they apply to the same value.
    pub(super) fn push_junctors(
        &mut self,
        schema: &Schema<'_>,
        counterpart: Option<NodeId>,
        skips_any_of: bool,
        skips_first_all_of: bool,
        restrictions: InheritedRestrictions,
    ) {
        let role = |skips_any_of| Role::Validation { counterpart, skips_any_of };
        for keyword in [Keyword::AllOf, Keyword::AnyOf, Keyword::OneOf] {
            let Some(list) =
                schema.node_id(keyword).filter(|list| self.tree.kind(*list) == Kind::List)
            else {
                continue;
            };
            if skips_any_of && keyword == Keyword::AnyOf {
                continue;
            }
            for (index, node_id) in self.tree.children(list).enumerate() {
                let skips = skips_first_all_of && keyword == Keyword::AllOf && index == 0;
                self.push_task(keyword, node_id, Some(index), role(skips), restrictions);
            }
        }
        if let Some(node_id) = schema.node_id(Keyword::Not) {
            self.push_task(Keyword::Not, node_id, None, role(false), restrictions);
        }
    }

    /// The members of an object by name. The last member with a name counts.
    pub(super) fn members(&mut self, node_id: NodeId) -> &BTreeMap<Cow<'t, str>, NodeId> {
        let tree = self.tree;
        self.members.entry(node_id).or_insert_with(|| {
            let names = tree.children(node_id).map(|member| (tree.name(member), member));
            names.collect()
        })
    }

    /// The parts of a schema of the structure.
    pub(super) fn counterpart(&mut self, node_id: NodeId) -> Counterpart {
        let tree = self.tree;
        *self
            .counterparts
            .entry(node_id)
            .or_insert_with(|| Counterpart::of(&Schema::at(tree, node_id)))
    }

    /// Records a default.
    pub(super) fn keep_default(&mut self, value: NodeId, is_embedded: bool) {
        match self.free_links.checked_sub(self.links.len()) {
            Some(rest) if self.defaults.len() < MAX_DEFAULTS => {
                self.free_links = rest;
                let links = self.links.clone();
                self.defaults.push(DefaultValue { links, value, is_embedded });
            }
            _ => self.has_more_defaults = true,
        }
    }

    fn text(&self, parts: &[PathStep<'_>], notation: Notation) -> String {
        let path = path::write(self.tree, &self.links, parts, notation);
        format!("{}{path}", self.field)
    }

    /// Reports an error at a path below this schema.
    pub(super) fn add(&mut self, parts: &[PathStep<'_>], why: impl FnOnce() -> String) {
        self.add_at(parts, Notation::Message, |_| why());
    }

    /// Reports a value that this schema restricts and the structure does not define.
    pub(super) fn add_missing(&mut self, parts: &[PathStep<'_>]) {
        self.add_at(parts, Notation::Structure, |here| {
            format!("Required value: because it is defined in {here}")
        });
    }

    fn add_at(
        &mut self,
        parts: &[PathStep<'_>],
        notation: Notation,
        why: impl FnOnce(&str) -> String,
    ) {
        self.count = self.count.saturating_add(1);
        if self.report.is_full(&CRD_33) {
            self.report.add_count(&CRD_33, 1);
            return;
        }
        let here = self.text(parts, Notation::Message);
        let message = format!("{}: {}", self.text(parts, notation), why(&here));
        let field = self.text(parts, Notation::Field);
        self.report.add(&CRD_33, field, message);
    }

    /// Reports a default that is not valid.
    pub(super) fn add_default(&mut self, default: DefaultValue, why: &str) {
        self.links = default.links;
        self.add(&[PathStep::Word("default")], || why.to_owned());
    }
}

impl Counterpart {
    pub(super) fn of(schema: &Schema<'_>) -> Self {
        let object = |keyword| {
            let node_id = schema.node_id(keyword);
            node_id.filter(|node_id| schema.tree.kind(*node_id) == Kind::Object)
        };
        Self { items: object(Keyword::Items), properties: object(Keyword::Properties) }
    }
}

/// `Required value: why`
pub(super) fn required_message(why: &str) -> String {
    format!("Required value: {why}")
}

/// `Forbidden: why`
pub(super) fn forbidden_message(why: &str) -> String {
    format!("Forbidden: {why}")
}

/// `Invalid value: "a": why`
pub(super) fn invalid_message(value: &str, why: &str) -> String {
    format!("Invalid value: {}: {why}", quoted(value))
}

/// `Unsupported value: "a": supported values: "b", "c"`
pub(super) fn unsupported_message(value: &str, supported: &[&str]) -> String {
    let supported: Vec<_> = supported.iter().map(|value| format!("\"{value}\"")).collect();
    let value = quoted(value);
    format!("Unsupported value: {value}: supported values: {}", supported.join(", "))
}

/// The maximum size of a value in a message, in bytes.
const MAX_SHOWN_BYTES: usize = 500;

fn quoted(value: &str) -> String {
    opgate_sdk::go::quote(&opgate_compat::go::shorten(value, MAX_SHOWN_BYTES))
}
