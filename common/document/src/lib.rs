//! JSON documents for policies: read by JSON pointer, and parsed lazily.
//!
//! A [`Document`] keeps the JSON text as it was received and a tree of nodes over it. A node stores where its
//! text starts and ends; its content is parsed at the first read and cached, so that any number of policies
//! share one parse, and an object without reads is not parsed at all. A read of `/spec` splits the top level
//! into members and the member `spec` into its members; the text of `metadata` is skipped. All reads together
//! cost no more than reading the text once.
//!
//! ```text
//! Text (indexed) ──────▶ Document ──get("/spec")──▶ Value ──text()/integer()/members()/equal()
//!                         (shared)                  (borrowed: document + node)
//! ```
//!
//! This crate is used by the host, behind the WIT interface `document`, and by the guest SDK in
//! native unit tests, so that a rule gets the same answers in both.
//!
//! Semantics follow the API server's decoder in cases that JSON leaves open: the last of several members of
//! one name counts, and a lone surrogate in a string reads as U+FFFD.

mod account;
mod charged_vec;
mod equality;
mod escapes;
mod meter;
mod node;
mod pointer;
mod scan;
mod sort;
mod table;
mod text;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

pub use account::{Account, Charge};
use meter::Cost;
pub use meter::{Deadline, Meter};
use node::{Content, Node};
pub use pointer::pointer_error;
use scan::ScanOptions;
pub use table::{row, table};
pub use text::{IndexError, MAX_DEPTH, Text, TooDeep};

/// Why a text is not a document: a message with line and column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(String);

impl Error {
    fn new(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// Type of a [`Value`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// JSON `null`.
    Null,
    /// `true` or `false`.
    Boolean,
    /// Any number.
    Number,
    /// A string.
    Text,
    /// An array.
    List,
    /// An object.
    Object,
}

/// A JSON text and what is known about it so far. Cheap to share (`Arc`), never changes.
pub struct Document {
    text: Arc<Text>,
    root: Node,
    /// Charge for the nodes.
    charge: Charge,
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Document").field(&self.root().raw()).finish()
    }
}

impl Default for Document {
    /// Returns `null`.
    fn default() -> Self {
        Self::part(Arc::new(Text::default()), 0..0)
    }
}

impl Document {
    /// Parses an unchecked JSON text.
    ///
    /// # Errors
    /// Fails if the text is not one JSON value, or nests deeper than [`MAX_DEPTH`].
    pub fn parse(json: &str) -> Result<Self, Error> {
        Self::of(json.to_owned())
    }

    /// [`Document::parse`] of an owned text.
    ///
    /// # Errors
    /// Fails as [`Document::parse`].
    pub fn of(json: String) -> Result<Self, Error> {
        Self::parse_charged(json, Charge::default())
    }

    /// [`Document::of`] with a memory account, see [`Text::with_charge`].
    ///
    /// # Errors
    /// Fails as [`Document::parse`], and if the account refuses the charge, which its mark reports.
    pub fn parse_charged(json: String, charge: Charge) -> Result<Self, Error> {
        Self::read(json, charge, None)
    }

    /// [`Document::parse_charged`] with limited work.
    ///
    /// # Errors
    /// Fails as [`Document::parse_charged`], and if the meter stops, which it reports.
    pub fn parse_metered(json: String, charge: Charge, meter: &Meter) -> Result<Self, Error> {
        Self::read(json, charge, Some(meter))
    }

    fn read(json: String, charge: Charge, meter: Option<&Meter>) -> Result<Self, Error> {
        let wanted = ScanOptions { max_depth: MAX_DEPTH, find_duplicates: false };
        let text = match Text::scan(json, wanted, charge, meter) {
            Ok((text, values)) if values.len() == 1 => text,
            // The parser reports the error.
            Ok((text, _)) => check_syntax(text, meter)?,
            Err((json, charge)) => check_syntax(Text::with_charge(json, charge)?, meter)?,
        };
        let end = text.len();
        Ok(Self::part(Arc::new(text), 0..end))
    }

    /// Reads a JSON text of any depth, to extract parts of it: a response of an API server can contain an
    /// object that a tenant nested a million levels deep next to the needed one.
    ///
    /// Code that visits all of it must not recurse; [`equal`] does.
    ///
    /// # Errors
    /// Fails if the text is not one JSON value.
    pub fn parse_deep(json: String) -> Result<Self, Error> {
        Self::parse_deep_charged(json, Charge::default())
    }

    /// [`Document::parse_deep`] with a memory account, see [`Text::with_charge`].
    ///
    /// # Errors
    /// Fails as [`Document::parse_deep`], and if the account refuses the charge, which its mark reports.
    pub fn parse_deep_charged(json: String, charge: Charge) -> Result<Self, Error> {
        let bytes = json.len();
        let wanted = ScanOptions { max_depth: usize::MAX, find_duplicates: false };
        match Text::scan(json, wanted, charge, None) {
            Ok((text, values)) if values.len() == 1 => {
                let end = text.len();
                Ok(Self::part(Arc::new(text), 0..end))
            }
            _ => Err(Error::new(format!("no JSON value in {bytes} bytes of text"))),
        }
    }

    /// Creates a document from one part of a text whose syntax was checked.
    ///
    /// A range outside the text, or one without a JSON value, gives a document that reads as `null`.
    #[must_use]
    pub fn part(text: Arc<Text>, range: Range<usize>) -> Self {
        let root = Node::trimmed(&text, range);
        let charge = Charge::sibling(text.charge());
        Self { text, root, charge }
    }

    /// Returns the account for reads of the document; that of its text.
    #[must_use]
    pub fn account(&self) -> Option<&Arc<Account>> {
        self.charge.account()
    }

    /// Reports whether a read of the document may have returned nothing because the memory budget was
    /// exhausted.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.account().is_some_and(|account| account.is_exhausted())
    }

    /// Returns the value of the whole document.
    #[must_use]
    pub fn root(&self) -> Value<'_> {
        Value::of(self, &self.root, None)
    }

    /// [`Document::root`] with limited work: all reads that start there are charged to the meter.
    #[must_use]
    pub fn root_metered<'d>(&'d self, meter: &'d Meter) -> Value<'d> {
        Value::of(self, &self.root, Some(meter))
    }

    /// Returns the same text for another account, which is charged for reads.
    #[must_use]
    pub fn with_account(&self, account: &Arc<Account>) -> Self {
        Self {
            text: self.text.clone(),
            root: self.root.without_cache(),
            charge: Charge::on(account),
        }
    }

    /// Charges the document's account for bytes that are released with the document; reports whether they are
    /// available.
    #[must_use]
    pub fn charge_bytes(&self, bytes: usize) -> bool {
        self.charge.grow(bytes)
    }

    /// Returns bytes of its text.
    #[must_use]
    pub fn size(&self) -> usize {
        self.root.range().len()
    }

    /// Returns the value at a JSON pointer (RFC 6901), if there is one.
    #[must_use]
    pub fn get(&self, pointer: &str) -> Option<Value<'_>> {
        self.root().get(pointer)
    }

    /// Returns the value at the end of a path that [`Value::resolve`] gave.
    #[must_use]
    pub fn follow(&self, path: &[u32]) -> Option<Value<'_>> {
        self.root().follow(path)
    }
}

/// Maximum bytes of a refused text that an uninterruptible parser reads to find the position of the error.
const MAX_EXPLAINED_BYTES: usize = 64 << 10;

/// Returns a text that the parser takes for one value.
fn check_syntax(text: Text, meter: Option<&Meter>) -> Result<Text, Error> {
    if meter.is_some() && text.len() > MAX_EXPLAINED_BYTES {
        return Err(Error(format!("not one JSON value in {} bytes", text.len())));
    }
    serde_json::from_str::<serde::de::IgnoredAny>(&text).map_err(|e| Error(e.to_string()))?;
    Ok(text)
}

/// A value inside a document.
#[derive(Clone, Copy)]
pub struct Value<'d> {
    document: &'d Document,
    node: &'d Node,
    meter: Option<&'d Meter>,
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Value").field(&self.raw()).finish()
    }
}

impl<'d> Value<'d> {
    /// Returns the value of a node, or the document that represents it.
    // Without a call in between, a value stays in registers: through memory each step takes as long again.
    #[inline]
    fn of(document: &'d Document, node: &'d Node, meter: Option<&'d Meter>) -> Self {
        match document.text.part(node.start()) {
            None => Self { document, node, meter },
            Some(part) => Self { meter, ..part.root() },
        }
    }

    #[inline]
    fn content(&self) -> Content<'d> {
        let cost = Cost { charge: &self.document.charge, meter: self.meter };
        self.node.content(&self.document.text, cost)
    }

    /// Charges the work for this number of values to the meter of this one; reports whether to continue.
    #[must_use]
    pub fn spend(&self, values: usize) -> bool {
        self.spend_units(values.saturating_mul(8))
    }

    /// Charges this number of units of work; reports whether to continue.
    pub(crate) fn spend_units(&self, units: usize) -> bool {
        self.meter.is_none_or(|meter| meter.spend(units))
    }

    /// Notes the work to find a member by its name: one that is long is compared with up to sixteen that
    /// differ at their ends only, and 32 bytes of it take the time of a unit in all.
    fn spend_name_lookup(&self, name: &str) -> bool {
        self.spend_units(8 + name.len() / 32)
    }

    /// Charges the account of the document for bytes derived from this value, which live no longer than the
    /// document; reports whether they are available.
    #[must_use]
    pub fn charge_bytes(&self, bytes: usize) -> bool {
        self.document.charge_bytes(bytes)
    }

    /// Returns the value at the end of a path that [`Value::resolve`] gave.
    #[must_use]
    pub fn follow(&self, path: &[u32]) -> Option<Self> {
        let mut at = *self;
        for &index in path {
            at = at.child(index)?;
        }
        at.spend(path.len() / 8).then_some(at)
    }

    #[inline]
    fn child(&self, index: u32) -> Option<Self> {
        let index = usize::try_from(index).ok()?;
        let node = match self.content() {
            Content::List(items) => items.get(index)?,
            Content::Object(members) => &members.get(index)?.value,
            _ => return None,
        };
        Some(Self::of(self.document, node, self.meter))
    }

    /// Returns the element or member that a token of a pointer names.
    #[inline]
    fn step(&self, token: &str) -> Option<Self> {
        self.spend_name_lookup(token).then_some(())?;
        let (_, node) = self.entry(token)?;
        Some(Self::of(self.document, node, self.meter))
    }

    /// Returns the element or member that a token names, and its position.
    #[inline]
    fn entry(&self, token: &str) -> Option<(usize, &'d Node)> {
        match self.content() {
            Content::List(items) => {
                let index = usize::try_from(pointer::index(token)?).ok()?;
                items.get(index).map(|node| (index, node))
            }
            Content::Object(members) => {
                let index = node::position(members, &self.document.text, token)?;
                members.get(index).map(|member| (index, &member.value))
            }
            _ => None,
        }
    }

    /// Returns the type of the value.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self.content() {
            Content::Null => Kind::Null,
            Content::Boolean(_) => Kind::Boolean,
            Content::Number => Kind::Number,
            Content::Text(_) => Kind::Text,
            Content::List(_) => Kind::List,
            Content::Object(_) => Kind::Object,
        }
    }

    /// Returns the value at a JSON pointer relative to this one.
    #[must_use]
    pub fn get(&self, pointer: &str) -> Option<Self> {
        let mut at = *self;
        for token in pointer::tokens(pointer)? {
            at = at.step(&token)?;
        }
        Some(at)
    }

    /// Appends to `path` the positions that lead from here to the value at `pointer`, for
    /// [`Document::follow`]. Returns `None` and keeps `path` unchanged if there is no value.
    #[must_use]
    pub fn resolve(&self, pointer: &str, path: &mut Vec<u32>) -> Option<Self> {
        let before = path.len();
        let found = self.walk(pointer, path);
        if found.is_none() {
            path.truncate(before);
        }
        found
    }

    fn walk(&self, pointer: &str, path: &mut Vec<u32>) -> Option<Self> {
        let mut at = *self;
        for token in pointer::tokens(pointer)? {
            at.spend_name_lookup(&token).then_some(())?;
            let (index, node) = at.entry(&token)?;
            path.push(u32::try_from(index).ok()?);
            at = Self::of(at.document, node, at.meter);
        }
        Some(at)
    }

    /// Returns the text, if this is one.
    #[must_use]
    pub fn text(&self) -> Option<&'d str> {
        match self.content() {
            Content::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the truth value, if this is one.
    #[must_use]
    pub fn boolean(&self) -> Option<bool> {
        match self.content() {
            Content::Boolean(value) => Some(value),
            _ => None,
        }
    }

    /// Returns the number, if this is an integer between -2⁶³ and 2⁶³-1. `1.0` and `1e3` are integers.
    #[must_use]
    pub fn integer(&self) -> Option<i64> {
        match self.content() {
            Content::Number => node::integer(self.scalar_text()),
            _ => None,
        }
    }

    /// Returns the number, if this is one, as the nearest double.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self.content() {
            Content::Number => self.scalar_text().parse().ok(),
            _ => None,
        }
    }

    /// Returns the number of elements or members, if this is a list or an object.
    #[must_use]
    pub fn length(&self) -> Option<usize> {
        match self.content() {
            Content::List(items) => Some(items.len()),
            Content::Object(members) => Some(members.len()),
            _ => None,
        }
    }

    /// Returns the names and values of an object, in byte order of the names; nothing for other kinds.
    pub fn members(&self) -> impl Iterator<Item = (&'d str, Value<'d>)> + use<'d> {
        let (document, meter) = (self.document, self.meter);
        let members = match self.content() {
            Content::Object(members) => members,
            _ => &[],
        };
        members.iter().map(move |m| (m.name(&document.text), Value::of(document, &m.value, meter)))
    }

    /// Elements of a list; nothing for other kinds.
    pub fn items(&self) -> impl Iterator<Item = Value<'d>> + use<'d> {
        let (document, meter) = (self.document, self.meter);
        let items = match self.content() {
            Content::List(items) => items,
            _ => &[],
        };
        items.iter().map(move |node| Value::of(document, node, meter))
    }

    /// Returns the JSON text as it was received.
    #[must_use]
    pub fn raw(&self) -> Cow<'d, str> {
        self.document.text.whole(self.node.range())
    }

    /// Returns bytes of [`Value::raw`].
    #[must_use]
    pub fn size(&self) -> usize {
        self.document.text.size(self.node.range())
    }

    /// Returns the range of the value in the text of its document.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.node.range()
    }

    /// Returns the text of a value that has no values in it.
    fn scalar_text(&self) -> &'d str {
        self.node.text(&self.document.text)
    }
}

/// Compares two values independently of their Go types: order of members and notation of numbers do not
/// matter, `null` and `[]` equal a missing value, lists are ordered. `None` is a missing value.
#[must_use]
pub fn equal(left: Option<Value<'_>>, right: Option<Value<'_>>) -> bool {
    equality::equal(left, right)
}
