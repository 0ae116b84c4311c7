//! The value of an `olm.constraint`: its size, its shape, and its requirement.
//!
//! ```text
//! raw bytes ─▶ size ─▶ JSON and its depth ─▶ shape ─┬─▶ violations, with JSON pointers
//!                                                   └─▶ Constraint, to be evaluated
//! ```
//!
//! The size is checked first, so that an oversized value is refused immediately. A constraint may nest
//! thousands of levels deep within its size: no function here is recursive, nested constraints wait in a list
//! and end in another one, parents before children.

use crate::checks::{Check, Violation};
use crate::names::Gvk;
use opgate_cel as cel;
use opgate_compat::go::{folds_to, quote, shorten};
use opgate_compat::json::{Index, Kind, ReadOptions, Tree};
use opgate_compat::range::Range;

/// Limit of upstream's code: 128 KiB, although its documentation states 64.
pub const UPSTREAM_MAX_BYTES: usize = 131_072;
/// Findings of one check in one constraint: as many as a verdict shows.
const MAX_VIOLATIONS_PER_CHECK: usize = 256;
/// Findings of one check that are written out, whatever they take.
const MIN_SHOWN_PER_CHECK: usize = 20;
/// Bytes of a name that a message repeats.
const MAX_SHOWN_BYTES: usize = 256;
const PARSE_PREFIX: &str = "parse olm.constraint: ";
const CONVERT_PREFIX: &str = "convert olm.constraint to resolver predicate: ";

/// Strictness of reading a constraint.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Largest value, in bytes.
    pub max_bytes: usize,
    /// Compound levels above which there is a warning.
    pub warn_depth: usize,
    /// Levels of JSON.
    pub max_depth: usize,
    /// Accept what upstream accepts: any case of keys, several types at once, empty fields, empty
    /// lists, and bytes after the value.
    pub upstream: bool,
    /// Accept the spellings `package.name` and `package.version` of the documents.
    pub documented_keys: bool,
    /// Maximum bytes of violations; beyond them only a few of each check are written out, and the others
    /// counted. Deep inside a constraint, the path alone takes kilobytes.
    pub max_message_bytes: usize,
    /// Give advice on the bounds of ranges as well.
    pub advice: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_bytes: 65_536,
            warn_depth: 10,
            max_depth: 10_000,
            upstream: false,
            documented_keys: true,
            max_message_bytes: 256 << 10,
            advice: false,
        }
    }
}

/// A package with a range of versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// Name of the package.
    pub name: String,
    /// The range as written.
    pub range: String,
    /// The range, where it can be read.
    pub parsed: Option<Range>,
}

/// Requirement of a constraint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// No requirement.
    Empty,
    /// An API is provided.
    Gvk(Gvk),
    /// A package is present.
    Package(Package),
    /// An expression is true.
    Cel(String),
    /// All of these hold.
    All(Vec<usize>),
    /// One of these holds.
    Any(Vec<usize>),
    /// None of these holds.
    Not(Vec<usize>),
}

/// A constraint, or one inside another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The message if it does not hold.
    pub failure_message: String,
    /// The requirement.
    pub body: Body,
}

/// A constraint with everything in it: the outermost comes first, parents before children.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constraint {
    /// All of it.
    pub nodes: Vec<Node>,
}

impl Constraint {
    /// Returns every API that is named.
    pub fn gvks(&self) -> impl Iterator<Item = &Gvk> {
        self.nodes.iter().filter_map(|node| match &node.body {
            Body::Gvk(gvk) => Some(gvk),
            _ => None,
        })
    }

    /// Returns every package that is named.
    pub fn packages(&self) -> impl Iterator<Item = &Package> {
        self.nodes.iter().filter_map(|node| match &node.body {
            Body::Package(package) => Some(package),
            _ => None,
        })
    }
}

/// Results of the checks of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The violations.
    pub violations: Vec<Violation>,
    /// Number of omitted violations for each check: a very long list is not written out.
    pub omitted: Vec<(Check, usize)>,
    /// The requirement, unless it is unreadable.
    pub constraint: Option<Constraint>,
}

impl From<Vec<Violation>> for Report {
    /// Creates a report for a value that is not a constraint.
    fn from(violations: Vec<Violation>) -> Self {
        Self { violations, omitted: Vec::new(), constraint: None }
    }
}

/// Position of a constraint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ParentKind {
    Nothing,
    AllOrAny,
    Not,
}

/// A field of an object: its name in Go, and other spellings.
type Field = (&'static str, &'static [&'static str]);

const CONSTRAINT: [Field; 7] = [
    ("failureMessage", &[]),
    ("gvk", &[]),
    ("package", &[]),
    ("all", &[]),
    ("any", &[]),
    ("not", &[]),
    ("cel", &[]),
];
const GVK: [Field; 3] = [("group", &[]), ("version", &[]), ("kind", &[])];
const PACKAGE: [Field; 2] = [("packageName", &["name"]), ("versionRange", &["version"])];
const COMPOUND: [Field; 1] = [("constraints", &[])];
const CEL: [Field; 1] = [("rule", &[])];

/// Looks at the raw text of a value.
#[must_use]
pub fn check(raw: &[u8], options: &Options) -> Report {
    let refused =
        |check, pointer, message| Report::from(vec![Violation { check, pointer, message }]);
    if raw.len() > options.max_bytes {
        return refused(Check::Size, String::new(), too_large(options.max_bytes));
    }
    let reading = ReadOptions { max_depth: options.max_depth, allow_trailing: options.upstream };
    let tree = match Tree::parse(raw, reading) {
        Ok(tree) => tree,
        Err(error) => {
            let check = if error.is_too_deep() { Check::JsonDepth } else { Check::Object };
            let message = format!("{PARSE_PREFIX}{}", error.decoder_message());
            return refused(check, error.pointer, message);
        }
    };
    let (violations, counts, nodes) = (Vec::new(), Vec::new(), Vec::new());
    Checker { tree: &tree, options, violations, counts, message_bytes: 0, nodes, deepest: (0, 0) }
        .run()
}

/// Returns the text about a value of more bytes than are allowed.
#[must_use]
pub fn too_large(max_bytes: usize) -> String {
    format!(
        "{PARSE_PREFIX}olm.constraint value is greater than max constraint size {max_bytes} bytes"
    )
}

struct Pending {
    at: Index,
    /// Its place among the nodes.
    node: usize,
    /// Compound constraints around it.
    depth: usize,
    parent: ParentKind,
}

struct CheckCount {
    check: Check,
    found: usize,
    omitted: usize,
}

struct Checker<'t, 'j> {
    tree: &'t Tree<'j>,
    options: &'t Options,
    violations: Vec<(Index, Violation)>,
    /// Number of violations of each check, and number of omitted ones.
    counts: Vec<CheckCount>,
    /// Bytes of all violations.
    message_bytes: usize,
    nodes: Vec<Node>,
    /// The most compound levels, and where.
    deepest: (usize, Index),
}

/// The fields of an object that are set, in the order of the table, and whether there are others.
struct Fields<const N: usize> {
    set: [Option<Index>; N],
    has_unknown: bool,
}

impl<const N: usize> Fields<N> {
    fn get(&self, field: usize) -> Option<Index> {
        self.set.get(field).copied().flatten()
    }
}

impl Checker<'_, '_> {
    fn run(mut self) -> Report {
        if self.tree.kind(0) == Kind::Null && !self.options.upstream {
            self.add(Check::Object, 0, |_| {
                format!("{PARSE_PREFIX}json: cannot unmarshal null into Go value of type constraints.Constraint")
            });
            return self.finish();
        }
        let empty = Node { failure_message: String::new(), body: Body::Empty };
        self.nodes.push(empty.clone());
        let mut waiting = vec![Pending { at: 0, node: 0, depth: 0, parent: ParentKind::Nothing }];
        while let Some(pending) = waiting.pop() {
            let first = waiting.len();
            let (body, failure_message) = self.constraint(&pending, &mut waiting, &empty);
            // The first of the nested ones is evaluated first.
            if let Some(nested) = waiting.get_mut(first..) {
                nested.reverse();
            }
            if let Some(node) = self.nodes.get_mut(pending.node) {
                *node = Node { failure_message, body };
            }
        }
        let (depth, at) = self.deepest;
        if depth > self.options.warn_depth {
            let most = self.options.warn_depth;
            self.add(Check::CompoundDepth, at, |_| {
                format!("olm.constraint is nested {depth} compound levels deep, more than {most}")
            });
        }
        self.finish()
    }

    fn finish(mut self) -> Report {
        self.violations.sort_by_key(|(at, _)| *at);
        let readable = !self.nodes.is_empty()
            && !self
                .counts
                .iter()
                .any(|count| matches!(count.check, Check::Object | Check::Fields | Check::Strings));
        let left_out = self.counts.iter().map(|count| (count.check, count.omitted));
        let left_out = left_out.filter(|(_, more)| *more > 0).collect();
        Report {
            violations: self.violations.into_iter().map(|(_, finding)| finding).collect(),
            omitted: left_out,
            constraint: readable.then_some(Constraint { nodes: self.nodes }),
        }
    }

    /// Adds a violation for a value.
    fn add(&mut self, check: Check, at: Index, message: impl FnOnce(&str) -> String) {
        let known = self.counts.iter().position(|count| count.check == check);
        let known = known.unwrap_or_else(|| {
            self.counts.push(CheckCount { check, found: 0, omitted: 0 });
            self.counts.len().saturating_sub(1)
        });
        let Some(count) = self.counts.get_mut(known) else { return };
        count.found += 1;
        // Warnings must not crowd out what denies.
        if count.found > MIN_SHOWN_PER_CHECK
            && (count.found > MAX_VIOLATIONS_PER_CHECK
                || self.message_bytes > self.options.max_message_bytes)
        {
            count.omitted += 1;
            return;
        }
        let pointer = self.tree.pointer(at);
        let message = message(&pointer);
        self.message_bytes += pointer.len() + message.len();
        self.violations.push((at, Violation { check, pointer, message }));
    }

    /// Returns the fields of an object; `None` for other values. `of` is its type in Go.
    fn fields<const N: usize>(
        &mut self,
        at: Index,
        of: &str,
        table: &[Field; N],
    ) -> Option<Fields<N>> {
        let tree = self.tree;
        let kind = tree.kind(at);
        if !matches!(kind, Kind::Object | Kind::Null) {
            let word = kind.go_name();
            self.add(Check::Object, at, |pointer| match path(pointer).as_str() {
                "" => format!("{PARSE_PREFIX}json: cannot unmarshal {word} into Go value of type constraints.{of}"),
                path => format!(
                    "{PARSE_PREFIX}json: cannot unmarshal {word} into Go struct field Constraint.{path} of type constraints.{of}"
                ),
            });
            return None;
        }
        let mut fields = Fields { set: [None; N], has_unknown: false };
        for child in tree.children(at) {
            let key = tree.key(child);
            let matches = |name: &str| key == name || self.options.upstream && folds_to(&key, name);
            let slot = table.iter().position(|(name, others)| {
                matches(name)
                    || self.options.documented_keys && others.iter().any(|other| matches(other))
            });
            let Some(slot) = slot.and_then(|slot| fields.set.get_mut(slot)) else {
                fields.has_unknown = true;
                self.add(Check::Fields, child, |_| {
                    format!(
                        "{PARSE_PREFIX}json: unknown field {}",
                        quote(&shorten(&key, MAX_SHOWN_BYTES))
                    )
                });
                continue;
            };
            if slot.is_some() && !self.options.upstream {
                fields.has_unknown = true;
                self.add(Check::Fields, child, |_| {
                    format!("{PARSE_PREFIX}json: duplicate field {}", quote(&key))
                });
            }
            // As in Go, null keeps a text unchanged and removes an object.
            *slot = (tree.kind(child) != Kind::Null).then_some(child);
        }
        Some(fields)
    }

    /// Returns a text; empty if it is not set, `None` for other values.
    fn string_field(&mut self, at: Option<Index>, of: &str) -> Option<String> {
        let Some(at) = at else { return Some(String::new()) };
        let text = self.tree.text(at);
        if text.is_none() {
            let word = self.tree.kind(at).go_name();
            self.add(Check::Strings, at, |pointer| {
                let path = path(pointer);
                format!("{PARSE_PREFIX}json: cannot unmarshal {word} into Go struct field {of}.{path} of type string")
            });
        }
        text
    }

    fn constraint(
        &mut self,
        pending: &Pending,
        waiting: &mut Vec<Pending>,
        empty: &Node,
    ) -> (Body, String) {
        let at = pending.at;
        let Some(fields) = self.fields(at, "Constraint", &CONSTRAINT) else {
            return (Body::Empty, String::new());
        };
        let failure_message = self.string_field(fields.get(0), "Constraint").unwrap_or_default();
        // In upstream's order of evaluation.
        let set = CONSTRAINT.iter().zip(fields.set).skip(1);
        let set = set.filter_map(|((name, _), index)| index.map(|index| (*name, index)));
        let count = set.clone().count();
        if count == 0 && !fields.has_unknown {
            self.add(Check::NotEmpty, at, |_| format!("{CONVERT_PREFIX}constraint is empty"));
        }
        if count > 1 && !self.options.upstream {
            let names: Vec<_> = set.clone().map(|(name, _)| name).collect();
            self.add(Check::SingleType, at, |_| {
                format!(
                    "olm.constraint must set exactly one of gvk, package, cel, all, any, not; found {}",
                    names.join(", ")
                )
            });
        }
        let mut body = None;
        for (name, index) in set {
            // Upstream reads everything and goes by the first alone.
            let counts = body.is_none() || !self.options.upstream;
            let found = match name {
                "gvk" => self.gvk(index, counts),
                "package" => self.package(index, counts),
                "cel" => self.cel(index, counts),
                _ => self.compound(name, index, counts, pending, waiting, empty),
            };
            body.get_or_insert(found);
        }
        (body.unwrap_or(Body::Empty), failure_message)
    }

    fn gvk(&mut self, at: Index, counts: bool) -> Body {
        let Some(fields) = self.fields(at, "GVKConstraint", &GVK) else { return Body::Empty };
        let mut missing = false;
        let mut texts = [const { String::new() }; 3];
        for (field, (text, (name, _))) in texts.iter_mut().zip(GVK).enumerate() {
            let Some(found) = self.string_field(fields.get(field), "GVKConstraint") else {
                missing = true;
                continue;
            };
            if counts && found.is_empty() && !fields.has_unknown && !self.options.upstream {
                self.add(Check::ApiParts, fields.get(field).unwrap_or(at), |_| {
                    format!("olm.constraint gvk.{name} must be a non-empty string")
                });
            }
            *text = found;
        }
        let [group, version, kind] = texts;
        let gvk = Gvk { group, version, kind };
        if counts && !missing {
            for (field, message) in gvk.name_errors() {
                let index = GVK.iter().position(|(name, _)| *name == field);
                let place = index.and_then(|index| fields.get(index)).unwrap_or(at);
                self.add(Check::ApiNames, place, |_| message);
            }
        }
        Body::Gvk(gvk)
    }

    fn package(&mut self, at: Index, counts: bool) -> Body {
        let of = "PackageConstraint";
        let Some(fields) = self.fields(at, of, &PACKAGE) else { return Body::Empty };
        let name = self.string_field(fields.get(0), of);
        let range = self.string_field(fields.get(1), of);
        if counts
            && name.as_ref().is_some_and(String::is_empty)
            && !fields.has_unknown
            && !self.options.upstream
        {
            self.add(Check::PackageName, fields.get(0).unwrap_or(at), |_| {
                "olm.constraint package.packageName must be a non-empty string".to_owned()
            });
        }
        let mut parsed = None;
        // A misspelled field is reported instead of the missing one.
        let evaluated = fields.get(1).is_some() || !fields.has_unknown;
        if let Some(range) = range.as_ref().filter(|_| counts && evaluated) {
            let place = fields.get(1).unwrap_or(at);
            match Range::parse(range) {
                Ok(found) => {
                    if let Some(message) = range_warning(range, &found) {
                        self.add(Check::RangeMeaning, place, |_| message);
                    }
                    if self.options.advice {
                        let name = name.as_deref().unwrap_or_default();
                        for (check, message) in range_recommendations(name, &found) {
                            self.add(check, place, |_| message);
                        }
                    }
                    parsed = Some(found);
                }
                Err(error) => self.add(Check::Range, place, |_| format!("{CONVERT_PREFIX}{error}")),
            }
        }
        Body::Package(Package {
            name: name.unwrap_or_default(),
            range: range.unwrap_or_default(),
            parsed,
        })
    }

    fn cel(&mut self, at: Index, counts: bool) -> Body {
        let Some(fields) = self.fields(at, "Cel", &CEL) else { return Body::Empty };
        let Some(rule) = self.string_field(fields.get(0), "Cel") else { return Body::Empty };
        if counts && (fields.get(0).is_some() || !fields.has_unknown) {
            let place = fields.get(0).unwrap_or(at);
            match cel::check(&rule) {
                Ok(()) => {}
                Err(cel::CompileError::Invalid(error)) => {
                    self.add(Check::Expression, place, |_| format!("{CONVERT_PREFIX}{error}"));
                }
                Err(cel::CompileError::NotBool) => {
                    self.add(Check::Bool, place, |_| cel::NOT_BOOL.to_owned());
                }
            }
        }
        Body::Cel(rule)
    }

    fn compound(
        &mut self,
        name: &'static str,
        at: Index,
        counts: bool,
        pending: &Pending,
        waiting: &mut Vec<Pending>,
        empty: &Node,
    ) -> Body {
        let Some(fields) = self.fields(at, "CompoundConstraint", &COMPOUND) else {
            return Body::Empty;
        };
        let depth = pending.depth + 1;
        if depth > self.deepest.0 {
            self.deepest = (depth, at);
        }
        if name == "not" && pending.parent != ParentKind::AllOrAny {
            self.add(Check::NestedNot, at, |_| {
                "the not compound constraint should only be used within all or any constraints"
                    .to_owned()
            });
        }
        let tree = self.tree;
        let list = fields.get(0);
        if let Some(list) = list.filter(|&list| tree.kind(list) != Kind::List) {
            let word = tree.kind(list).go_name();
            self.add(Check::Object, list, |pointer| {
                let path = path(pointer);
                format!("{PARSE_PREFIX}json: cannot unmarshal {word} into Go struct field CompoundConstraint.{path} of type []constraints.Constraint")
            });
            return Body::Empty;
        }
        let within = if name == "not" { ParentKind::Not } else { ParentKind::AllOrAny };
        let mut nested = Vec::new();
        for child in list.into_iter().flat_map(|list| tree.children(list)) {
            let node = self.nodes.len();
            self.nodes.push(empty.clone());
            nested.push(node);
            waiting.push(Pending { at: child, node, depth, parent: within });
        }
        if nested.is_empty() && counts && !fields.has_unknown && !self.options.upstream {
            self.add(Check::Contents, list.unwrap_or(at), |_| {
                format!("olm.constraint {name}.constraints must contain one or more constraints")
            });
        }
        match name {
            "all" => Body::All(nested),
            "any" => Body::Any(nested),
            _ => Body::Not(nested),
        }
    }
}

/// Returns Go's names of the fields from the outermost value to the one at the pointer.
fn path(pointer: &str) -> String {
    let is_name = |token: &&str| !token.is_empty() && !token.bytes().all(|b| b.is_ascii_digit());
    pointer.split('/').filter(is_name).collect::<Vec<_>>().join(".")
}

/// Returns the warning for a range with an unexpected meaning.
#[must_use]
pub fn range_warning(text: &str, range: &Range) -> Option<String> {
    if range.warnings.is_empty() {
        return None;
    }
    let text = quote(&shorten(text, MAX_SHOWN_BYTES));
    let surprises = range.warnings.join("; ");
    Some(format!("range {text} is accepted but does not mean what it says: {surprises}"))
}

/// Returns the documented recommendations for the range of a package.
#[must_use]
pub fn range_recommendations(name: &str, range: &Range) -> Vec<(Check, String)> {
    let name = || quote(&shorten(name, MAX_SHOWN_BYTES));
    let mut advice = Vec::new();
    if !range.has_minimum() {
        advice.push((
            Check::LowerBound,
            format!("package dependency on {} has no minimum version", name()),
        ));
    }
    if range.is_narrow() {
        let message = format!(
            "package dependency on {} has a narrow maximum version; whenever possible, do not set a maximum version",
            name()
        );
        advice.push((Check::UpperBound, message));
    }
    advice
}
