//! Objects of a cluster as policies see them: only the fields that were declared, found by name,
//! namespace, labels and declared indexes.
//!
//! ```text
//! JSON of an object ─▶ Declaration::project ─▶ Object ─▶ Store ─ get / select(Query) ─▶ Object
//! ```
//!
//! This crate is used by the host, which fills stores from watches or files, and by the guest SDK in native
//! unit tests, so that a policy gets the same results in both. It never blocks and has no network access.

pub mod access;
mod index;
mod labels;
mod object;
mod outline;
mod pattern;
mod sketch;
mod store;
mod tokens;
mod version;
mod words;

use std::fmt;
use std::sync::Arc;

pub use opgate_compat::labels::{Selector, SelectorError};
use opgate_document::{Kind, Text, Value};

use labels::Labels;
pub use object::{Attachment, Object};
pub use outline::Outline;
pub use pattern::PatternError;
use pattern::{Pattern, Projection};
pub use sketch::Sketch;
pub use store::{IndexMatch, Query, Store};
pub use version::server_version;

/// `group/version/resource`, for example `operators.coreos.com/v1/operatorgroups`; the core group is
/// empty and not written: `v1/namespaces`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Resource {
    /// API group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Plural, lower case.
    pub resource: String,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.group.is_empty() {
            write!(f, "{}/", self.group)?;
        }
        write!(f, "{}/{}", self.version, self.resource)
    }
}

/// Namespace (empty for a cluster-scoped object) and name. Ordered by bytes, namespace first; objects
/// of one name in the order in which they were listed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Namespace.
    pub namespace: Box<str>,
    /// Name.
    pub name: Box<str>,
    /// Distinguishes objects of the same namespace and name, which only a server has that does not
    /// store them. 0 for all others.
    pub ordinal: u32,
}

impl Key {
    /// Creates a key.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into(), ordinal: 0 }
    }

    /// Reports whether both have the same namespace and name.
    #[must_use]
    pub fn has_same_name(&self, other: &Self) -> bool {
        self.namespace == other.namespace && self.name == other.name
    }
}

/// A value by which objects are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    /// Its name in queries.
    pub name: String,
    /// JSON pointer of a text; a token `*` stands for every element of a list or member of an
    /// object, and `#` at the end for the names of its members.
    pub field: String,
    /// If not empty, the text is a list with this separator; spaces in it do not count, and empty elements
    /// are skipped.
    pub separator: String,
}

/// The stored parts of a resource's objects.
#[derive(Debug, Clone)]
pub struct Declaration {
    fields: Vec<String>,
    keys: Vec<String>,
    projection: Projection,
    indexes: Vec<(Index, Pattern)>,
}

/// Fields that are always kept.
const FIXED_FIELDS: [&str; 6] = [
    "/metadata/name",
    "/metadata/namespace",
    "/metadata/uid",
    "/metadata/resourceVersion",
    "/metadata/labels",
    "/metadata/deletionTimestamp",
];

/// Levels of one JSON pointer, so that a projection does not recurse deeper.
const MAX_LEVELS: usize = 32;

impl Declaration {
    /// Creates the declaration of a policy: JSON pointers of stored fields, JSON pointers of objects of which
    /// only the names of the members are stored, and indexes.
    ///
    /// # Errors
    /// A pointer that is none, or is too deep.
    pub fn new(
        fields: &[String],
        keys: &[String],
        indexes: &[Index],
    ) -> Result<Self, PatternError> {
        let mut keep = Projection::default();
        for field in FIXED_FIELDS {
            keep.add(&Pattern::parse(field)?, false);
        }
        for field in fields {
            keep.add(&Pattern::parse(field)?, false);
        }
        for field in keys {
            keep.add(&Pattern::parse(field)?, true);
        }
        let index =
            |index: &Index| Ok::<_, PatternError>((index.clone(), Pattern::parse(&index.field)?));
        let indexes = indexes.iter().map(index).collect::<Result<_, _>>()?;
        Ok(Self { fields: fields.to_vec(), keys: keys.to_vec(), projection: keep, indexes })
    }

    /// Returns the union of both, for a store that serves both. The indexes of `self` keep their positions.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut union = self.clone();
        union.projection.merge(&other.projection);
        for (from, to) in [(&other.fields, &mut union.fields), (&other.keys, &mut union.keys)] {
            for field in from {
                if !to.contains(field) {
                    to.push(field.clone());
                }
            }
        }
        for (index, pattern) in &other.indexes {
            if union.equivalent_index(index).is_none() {
                union.indexes.push((index.clone(), pattern.clone()));
            }
        }
        union
    }

    /// Returns the declaration that also keeps the fields of the indexes: what it keeps of an object can be
    /// projected again.
    #[must_use]
    pub fn with_index_fields(&self) -> Self {
        let mut whole = self.clone();
        for (_, pattern) in &self.indexes {
            whole.projection.add(&pattern.values(), false);
        }
        whole
    }

    /// Returns all that is declared, in a fixed order: two servers with equal texts keep the same of an object.
    #[must_use]
    pub fn signature(&self) -> String {
        let sorted = |texts: &[String]| {
            let mut texts: Vec<_> = texts.to_vec();
            texts.sort();
            texts.join(" ")
        };
        let index = |(index, _): &(Index, Pattern)| format!("{}|{}", index.field, index.separator);
        let indexes: Vec<_> = self.indexes.iter().map(index).collect();
        format!("{}\n{}\n{}", sorted(&self.fields), sorted(&self.keys), sorted(&indexes))
    }

    /// Reports whether objects that were projected with `self` contain only data that `other` declares.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        self.fields.iter().all(|field| other.fields.contains(field))
            && self.keys.iter().all(|field| other.keys.contains(field))
    }

    /// Checks a read of an object of which this is kept.
    ///
    /// # Errors
    /// Fails if the result could be wrong, because not all needed parts are stored.
    pub fn check(
        &self,
        pointer: &str,
        access: access::Access,
    ) -> Result<(), access::UndeclaredRead> {
        access::check(&self.fields, &self.keys, pointer, access)
    }

    /// Checks a read of the values at a column, a pointer relative to each element of a list.
    ///
    /// # Errors
    /// Fails as [`Declaration::check`].
    pub fn check_column(&self, pointer: &str, column: &str) -> Result<(), access::UndeclaredRead> {
        access::check_column(&self.fields, &self.keys, (pointer, column))
    }

    /// Checks a read of the value at a pointer as a cell of a table.
    ///
    /// # Errors
    /// Fails as [`Declaration::check`].
    pub fn check_cell(&self, pointer: &str) -> Result<(), access::UndeclaredRead> {
        access::check_cell(&self.fields, &self.keys, pointer)
    }

    /// Returns an index of this declaration, by its name.
    #[must_use]
    pub fn index(&self, name: &str) -> Option<&Index> {
        self.indexes.iter().map(|(index, _)| index).find(|index| index.name == name)
    }

    /// Returns the position of the index over the same values, with any name.
    #[must_use]
    pub fn equivalent_index(&self, wanted: &Index) -> Option<usize> {
        let same =
            |index: &Index| index.field == wanted.field && index.separator == wanted.separator;
        self.indexes.iter().position(|(index, _)| same(index))
    }

    /// Returns the number of indexes.
    #[must_use]
    pub fn index_count(&self) -> usize {
        self.indexes.len()
    }

    /// Returns the stored parts of an object. Other parts are skipped, at any depth of nesting.
    ///
    /// # Errors
    /// Fails if it has no name, or if the stored parts nest too deep for a document.
    pub fn project(&self, object: Value<'_>) -> Result<Object, UnreadableReason> {
        let text = |pointer: &str| object.get(pointer).and_then(|v| v.text());
        let name = text("/metadata/name").ok_or(UnreadableReason::NoName)?;
        let key = Key::new(text("/metadata/namespace").unwrap_or_default(), name);
        let kept = self.project_text(object)?;
        let tokens = self.indexes.iter().map(|(index, pattern)| pattern.tokens(object, index));
        Ok(Object {
            key: Arc::new(key),
            labels: Labels::of(object, &kept),
            resource_version: text("/metadata/resourceVersion").unwrap_or_default().into(),
            uid: text("/metadata/uid").unwrap_or_default().into(),
            tokens: tokens.collect(),
            text: Arc::new(kept),
            _attachment: None,
        })
    }
}

impl Declaration {
    /// Returns the fields of an object that are kept, and nothing to find it by.
    ///
    /// # Errors
    /// Fails if they nest too deep for a document.
    pub fn project_text(&self, object: Value<'_>) -> Result<Text, UnreadableReason> {
        let mut json = String::new();
        self.projection.write(object, &mut json);
        json.shrink_to_fit();
        Text::new(json).map_err(|_| UnreadableReason::TooDeep)
    }
}

/// Why nothing of an object can be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnreadableReason {
    /// It has no `metadata.name`.
    NoName,
    /// A field that would be kept nests too deep.
    TooDeep,
}

impl fmt::Display for UnreadableReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoName => f.write_str("it has no metadata.name"),
            Self::TooDeep => write!(
                f,
                "a field that policies read nests deeper than {} levels",
                opgate_document::MAX_DEPTH
            ),
        }
    }
}

/// Reads a `metav1.LabelSelector`. Members other than `matchLabels` and `matchExpressions` do not
/// count, as for the API server, which prunes them.
///
/// # Errors
/// Upstream's text.
pub fn parse_selector(value: Value<'_>) -> Result<Selector, SelectorError> {
    let mut selector = Selector::default();
    // Memory for each of them is charged to the account of the document.
    let is_paid = |value: Value<'_>, text: &str| {
        value.spend(4) && value.charge_bytes(text.len() + REQUIREMENT_OVERHEAD_BYTES)
    };
    for (key, value) in value.get("/matchLabels").into_iter().flat_map(|labels| labels.members()) {
        if !is_paid(value, key) {
            break;
        }
        selector.add_match_label(key, value.text().unwrap_or_default())?;
    }
    for expression in value.get("/matchExpressions").into_iter().flat_map(|list| list.items()) {
        let text = |pointer: &str| expression.get(pointer).and_then(|v| v.text());
        let (key, operator) = (text("/key").unwrap_or_default(), text("/operator"));
        if !is_paid(expression, key) {
            break;
        }
        let values = expression.get("/values").into_iter().flat_map(|values| values.items());
        let values = values.filter_map(|value| Some((value, value.text()?)));
        let values = values.take_while(|(value, text)| is_paid(*value, text));
        selector.add_match_expression(
            key,
            operator.unwrap_or_default(),
            values.map(|(_, text)| text),
        )?;
    }
    Ok(selector)
}

/// Bytes that a requirement or a value of a selector takes in addition to its text.
const REQUIREMENT_OVERHEAD_BYTES: usize = 128;

/// Reports whether a value is set.
fn is_set(value: Value<'_>) -> bool {
    value.kind() != Kind::Null
}
