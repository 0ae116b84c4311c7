//! Documents: handles of the host in a component, JSON of the test in native tests.
//!
//! ```text
//! Document ─▶ is it a pointer, and declared? ─┬─ in a component: handle of the host
//!                 (or a panic, with its place) └─ in native tests: `native::Handle`
//! ```
//!
//! The host checks the same, for policies in any language. It does not know the line of the source.

use std::sync::Arc;

use opgate_cluster::access::{self, Access, UndeclaredRead};
use opgate_document::pointer_error;

use crate::bindings::opgate::policy::document::{Document as Generated, Table};
use crate::{Kind, Rows};

#[cfg(target_arch = "wasm32")]
use component::Handle;
#[cfg(not(target_arch = "wasm32"))]
use native::Handle;

/// A JSON document, or a part of one. Every look-up takes a JSON pointer relative to it.
///
/// In a component this is a handle. Each look-up is a call of the host of about 0.3 µs, for documents of
/// every size. `wit/policy.wit` describes the result of each function.
///
/// # Panics
/// Every look-up panics, which is a policy error, if its pointer has no slash at its beginning, or if
/// the document is an object of the cluster and its [`ClusterRead`](crate::ClusterRead) does not declare what is read.
#[cfg(target_arch = "wasm32")]
#[derive(Debug, ref_cast::RefCast)]
#[repr(transparent)]
pub struct Document(Handle);

/// A JSON document, or a part of one. Every look-up takes a JSON pointer relative to it.
///
/// This is the native replacement for unit tests. It uses the same code as the host.
///
/// # Panics
/// Every look-up panics, which is a policy error, if its pointer has no slash at its beginning, or if
/// the document is an object of the cluster and its [`ClusterRead`](crate::ClusterRead) does not declare what is read.
#[cfg(not(target_arch = "wasm32"))]
#[derive(Debug, Clone)]
pub struct Document {
    handle: Handle,
    part: Option<Arc<Part>>,
}

/// The fields of a resource's objects that a policy declares.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeclaredFields {
    /// Group, version, resource.
    pub(crate) resource: [&'static str; 3],
    pub(crate) fields: &'static [&'static str],
    pub(crate) keys: &'static [&'static str],
}

/// A stored object, of which only what a policy declares is there, or a part of it.
#[derive(Debug)]
pub(crate) struct Part {
    declared: DeclaredFields,
    /// The pointer to it in the object.
    base: String,
}

impl Part {
    /// Creates a whole object.
    pub(crate) fn of(declared: DeclaredFields) -> Arc<Self> {
        Arc::new(Self { declared, base: String::new() })
    }

    fn child(&self, pointer: &str) -> Option<Arc<Self>> {
        let base = format!("{}{pointer}", self.base);
        // All of a declared field is there.
        let is_whole =
            access::check(self.declared.fields, self.declared.keys, &base, Access::Scalar);
        is_whole.is_err().then(|| Arc::new(Self { declared: self.declared, base }))
    }

    /// Returns the error as text, if there is one.
    fn error(
        &self,
        check: impl FnOnce(&DeclaredFields, &str) -> Result<(), UndeclaredRead>,
    ) -> Option<String> {
        let error = check(&self.declared, &self.base).err()?;
        let [group, version, resource] = self.declared.resource.map(str::to_owned);
        let resource = opgate_cluster::Resource { group, version, resource };
        Some(error.message(&resource))
    }
}

#[cfg(target_arch = "wasm32")]
mod component {
    use std::cell::RefCell;

    use ref_cast::RefCast as _;

    use super::{Arc, Document, Generated, Part};

    pub(super) type Handle = Generated;

    thread_local! {
        /// The parts that handles are, by their numbers. The number of a handle that was dropped can be
        /// that of another one, so every new one has its entry.
        static PARTS: RefCell<Vec<Option<Arc<Part>>>> = const { RefCell::new(Vec::new()) };
    }

    impl Document {
        /// Returns the document of a handle that the host lends.
        #[doc(hidden)]
        #[must_use]
        pub fn of(handle: &Generated) -> &Self {
            Self::ref_cast(handle)
        }

        pub(super) fn handle(&self) -> &Handle {
            &self.0
        }

        pub(super) fn part(&self) -> Option<Arc<Part>> {
            let number = usize::try_from(self.0.handle()).ok()?;
            PARTS.with_borrow(|parts| parts.get(number).cloned().flatten())
        }

        pub(crate) fn new(handle: Handle, part: Option<Arc<Part>>) -> Self {
            if let Ok(number) = usize::try_from(handle.handle()) {
                PARTS.with_borrow_mut(|parts| {
                    if parts.len() <= number && part.is_some() {
                        parts.resize(number.saturating_add(1), None);
                    }
                    if let Some(place) = parts.get_mut(number) {
                        *place = part;
                    }
                });
            }
            Self(handle)
        }
    }
}

impl Document {
    /// Creates a document that the host would keep.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn from_stored(
        document: opgate_document::Document,
        declared: DeclaredFields,
    ) -> Self {
        Self { handle: Handle::whole(document), part: Some(Part::of(declared)) }
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn new(handle: Handle, part: Option<Arc<Part>>) -> Self {
        Self { handle, part }
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn handle(&self) -> &Handle {
        &self.handle
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn part(&self) -> Option<&Arc<Part>> {
        self.part.as_ref()
    }

    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn root(&self) -> opgate_document::Value<'_> {
        self.handle.root()
    }

    /// Returns the document of a handle that the host lends.
    #[cfg(not(target_arch = "wasm32"))]
    #[doc(hidden)]
    #[must_use]
    #[expect(clippy::unreachable, reason = "a handle of the host exists in components only")]
    pub fn of(_: &Generated) -> &Self {
        unreachable!("a handle of the host exists in components only")
    }

    /// Reports whether the whole value at the pointer is stored, if there is one.
    pub(crate) fn is_stored_whole(&self, pointer: &str) -> bool {
        let check = |it: &DeclaredFields, base: &str| {
            access::check(it.fields, it.keys, &format!("{base}{pointer}"), Access::Whole)
        };
        self.part().is_none_or(|part| check(&part.declared, &part.base).is_ok())
    }

    #[track_caller]
    fn check(&self, pointer: &str, access: Access) {
        self.check_by(pointer, |it, base| {
            access::check(it.fields, it.keys, &format!("{base}{pointer}"), access)
        });
    }

    #[track_caller]
    #[expect(clippy::panic, reason = "a policy that reads what is not there is wrong")]
    fn check_by(
        &self,
        pointer: &str,
        check: impl FnOnce(&DeclaredFields, &str) -> Result<(), UndeclaredRead>,
    ) {
        let wrong =
            pointer_error(pointer).or_else(|| self.part().and_then(|part| part.error(check)));
        if let Some(why) = wrong {
            panic!("{why}");
        }
    }
}

/// The functions of a handle, see `wit/policy.wit`.
#[expect(missing_docs, reason = "documented once, in wit/policy.wit")]
impl Document {
    /// # Errors
    /// Fails if the text is not JSON. The error has line and column.
    pub fn parse(json: &str) -> Result<Self, String> {
        Handle::parse(json).map(|handle| Self::new(handle, None))
    }

    #[must_use]
    #[track_caller]
    pub fn kind(&self, pointer: &str) -> Kind {
        self.check(pointer, Access::Kind);
        self.handle().kind(pointer)
    }

    #[must_use]
    #[track_caller]
    pub fn text(&self, pointer: &str) -> Option<String> {
        self.check(pointer, Access::Scalar);
        self.handle().text(pointer)
    }

    #[must_use]
    #[track_caller]
    pub fn boolean(&self, pointer: &str) -> Option<bool> {
        self.check(pointer, Access::Boolean);
        self.handle().boolean(pointer)
    }

    #[must_use]
    #[track_caller]
    pub fn integer(&self, pointer: &str) -> Option<i64> {
        self.check(pointer, Access::Scalar);
        self.handle().integer(pointer)
    }

    #[must_use]
    #[track_caller]
    pub fn number(&self, pointer: &str) -> Option<f64> {
        self.check(pointer, Access::Scalar);
        self.handle().number(pointer)
    }

    #[must_use]
    #[track_caller]
    pub fn length(&self, pointer: &str) -> Option<u32> {
        self.check(pointer, Access::Members);
        self.handle().length(pointer)
    }

    #[must_use]
    #[track_caller]
    pub fn keys(&self, pointer: &str) -> Vec<String> {
        self.check(pointer, Access::Members);
        self.handle().keys(pointer)
    }

    #[must_use]
    #[track_caller]
    pub fn table(&self, pointer: &str, columns: &[String]) -> Table {
        self.check_columns(pointer, columns, |it, base, column| {
            access::check_column(it.fields, it.keys, (base, column))
        });
        self.handle().table(pointer, columns)
    }

    #[must_use]
    #[track_caller]
    pub fn row(&self, pointer: &str, columns: &[String]) -> Table {
        self.check_columns(pointer, columns, |it, base, column| {
            access::check_cell(it.fields, it.keys, &format!("{base}{column}"))
        });
        self.handle().row(pointer, columns)
    }

    #[track_caller]
    fn check_columns(
        &self,
        pointer: &str,
        columns: &[String],
        check: impl Fn(&DeclaredFields, &str, &str) -> Result<(), UndeclaredRead>,
    ) {
        self.check_by(pointer, |_, _| Ok(()));
        for column in columns {
            self.check_by(column, |it, base| check(it, &format!("{base}{pointer}"), column));
        }
    }

    #[must_use]
    #[track_caller]
    pub fn at(&self, pointer: &str) -> Option<Self> {
        self.check(pointer, Access::Kind);
        let found = self.handle().at(pointer)?;
        Some(Self::new(found, self.part().and_then(|part| part.child(pointer))))
    }

    #[must_use]
    #[track_caller]
    pub fn raw(&self, pointer: &str) -> Option<Vec<u8>> {
        self.check(pointer, Access::Whole);
        self.handle().raw(pointer)
    }

    #[must_use]
    #[track_caller]
    pub fn size(&self, pointer: &str) -> Option<u32> {
        self.check(pointer, Access::Kind);
        self.handle().size(pointer)
    }

    #[must_use]
    #[track_caller]
    pub fn equal(&self, pointer: &str, other: &Self, other_pointer: &str) -> bool {
        self.check(pointer, Access::Whole);
        other.check(other_pointer, Access::Whole);
        self.handle().equal(pointer, other.handle(), other_pointer)
    }
}

impl Document {
    /// Reports whether there is a value other than `null` at the pointer.
    #[must_use]
    #[track_caller]
    pub fn has(&self, pointer: &str) -> bool {
        !matches!(self.kind(pointer), Kind::Missing | Kind::Null)
    }

    /// Returns the text at the pointer, empty if there is none.
    #[must_use]
    #[track_caller]
    pub fn text_or_empty(&self, pointer: &str) -> String {
        self.text(pointer).unwrap_or_default()
    }

    /// Handles for the elements of the list at the pointer, one at a time.
    #[must_use]
    #[track_caller]
    pub fn items(&self, pointer: &str) -> Items<'_> {
        let count = match self.kind(pointer) {
            Kind::List => self.length(pointer).unwrap_or_default(),
            _ => 0,
        };
        Items { document: self, pointer: pointer.to_owned(), next: 0, count }
    }

    /// Returns the values at the columns in each element of the list at the pointer, in one call of the host.
    /// Columns are pointers relative to an element.
    #[must_use]
    #[track_caller]
    pub fn rows(&self, pointer: &str, columns: &[&str]) -> Rows {
        let names: Vec<String> = columns.iter().map(|column| (*column).to_owned()).collect();
        Rows::of(self.table(pointer, &names), columns.len())
    }

    /// Returns the values at the columns in the value at the pointer, in one call of the host. No row if
    /// there is no value. For the fields of one object.
    #[must_use]
    #[track_caller]
    pub fn fields(&self, pointer: &str, columns: &[&str]) -> Rows {
        let names: Vec<String> = columns.iter().map(|column| (*column).to_owned()).collect();
        Rows::of(self.row(pointer, &names), columns.len())
    }

    /// Returns the texts in the list at the pointer, without elements of other kinds.
    #[must_use]
    #[track_caller]
    pub fn texts(&self, pointer: &str) -> Vec<String> {
        let mut texts = Vec::new();
        // There is no closure, so that an error has the location of the caller.
        for item in self.items(pointer) {
            texts.extend(item.text(""));
        }
        texts
    }

    /// Returns the JSON text at the pointer, to deserialize it (`Raw::parse`).
    #[cfg(feature = "json")]
    #[must_use]
    #[track_caller]
    pub fn json(&self, pointer: &str) -> Option<crate::Raw> {
        self.raw(pointer).map(crate::Raw::new)
    }
}

/// Escapes a name for use as a token of a JSON pointer.
#[must_use]
pub fn escape(name: &str) -> String {
    if name.contains(['~', '/']) {
        name.replace('~', "~0").replace('/', "~1")
    } else {
        name.to_owned()
    }
}

/// Elements of a list, see [`Document::items`].
pub struct Items<'d> {
    document: &'d Document,
    pointer: String,
    next: u32,
    count: u32,
}

impl Iterator for Items<'_> {
    type Item = Document;

    fn next(&mut self) -> Option<Document> {
        if self.next >= self.count {
            return None;
        }
        let item = self.document.at(&format!("{}/{}", self.pointer, self.next));
        self.next += 1;
        item
    }
}

#[cfg(not(target_arch = "wasm32"))]
mod native {
    use opgate_document::{Kind as Found, Value};

    use super::{Kind, Table};
    use crate::bindings::opgate::policy::document::Cell;

    /// Adds a cell to a table.
    fn push(table: &mut Table, found: Option<Value<'_>>) {
        let number = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        let length = || found.and_then(|value| value.length()).map_or(0, number);
        table.cells.push(match found.map(|value| value.kind()) {
            None => Cell::Missing,
            Some(Found::Null) => Cell::Null,
            Some(Found::Boolean) => {
                Cell::Boolean(found.and_then(|value| value.boolean()).unwrap_or_default())
            }
            Some(Found::Number) => Cell::Number,
            Some(Found::Text) => {
                let text = found.and_then(|value| value.text()).unwrap_or_default();
                table.texts.push_str(text);
                Cell::Text(number(text.len()))
            }
            Some(Found::List) => Cell::List(length()),
            Some(Found::Object) => Cell::Object(length()),
        });
    }

    /// Data of the host behind a handle.
    #[derive(Debug, Clone)]
    pub(super) struct Handle {
        shared: std::sync::Arc<opgate_document::Document>,
        path: Vec<u32>,
    }

    impl Handle {
        pub(super) fn whole(document: opgate_document::Document) -> Self {
            Self { shared: document.into(), path: Vec::new() }
        }

        pub(super) fn root(&self) -> Value<'_> {
            self.shared.follow(&self.path).unwrap_or_else(|| self.shared.root())
        }
    }

    /// Mirrors the generated functions of a handle, see `wit/policy.wit`.
    impl Handle {
        pub(super) fn parse(json: &str) -> Result<Self, String> {
            let shared = opgate_document::Document::parse(json).map_err(|e| e.to_string())?;
            Ok(Self { shared: shared.into(), path: Vec::new() })
        }

        fn value(&self, pointer: &str) -> Option<Value<'_>> {
            self.shared.follow(&self.path)?.get(pointer)
        }

        pub(super) fn kind(&self, pointer: &str) -> Kind {
            match self.value(pointer).map(|v| v.kind()) {
                None => Kind::Missing,
                Some(Found::Null) => Kind::Null,
                Some(Found::Boolean) => Kind::Boolean,
                Some(Found::Number) => Kind::Number,
                Some(Found::Text) => Kind::Text,
                Some(Found::List) => Kind::List,
                Some(Found::Object) => Kind::Object,
            }
        }

        pub(super) fn text(&self, pointer: &str) -> Option<String> {
            self.value(pointer)?.text().map(str::to_owned)
        }

        pub(super) fn boolean(&self, pointer: &str) -> Option<bool> {
            self.value(pointer)?.boolean()
        }

        pub(super) fn integer(&self, pointer: &str) -> Option<i64> {
            self.value(pointer)?.integer()
        }

        pub(super) fn number(&self, pointer: &str) -> Option<f64> {
            self.value(pointer)?.number()
        }

        pub(super) fn length(&self, pointer: &str) -> Option<u32> {
            u32::try_from(self.value(pointer)?.length()?).ok()
        }

        pub(super) fn keys(&self, pointer: &str) -> Vec<String> {
            let members = self.value(pointer).into_iter().flat_map(|v| v.members());
            members.map(|(name, _)| name.to_owned()).collect()
        }

        pub(super) fn table(&self, pointer: &str, columns: &[String]) -> Table {
            let mut table = Table { cells: Vec::new(), texts: String::new() };
            let Some(list) = self.value(pointer) else { return table };
            let Ok(()) = opgate_document::table(list, columns, |found| {
                push(&mut table, found);
                Ok::<_, std::convert::Infallible>(())
            });
            table
        }

        pub(super) fn row(&self, pointer: &str, columns: &[String]) -> Table {
            let mut table = Table { cells: Vec::new(), texts: String::new() };
            let Some(value) = self.value(pointer) else { return table };
            let Ok(()) = opgate_document::row(value, columns, |found| {
                push(&mut table, found);
                Ok::<_, std::convert::Infallible>(())
            });
            table
        }

        pub(super) fn at(&self, pointer: &str) -> Option<Self> {
            let mut path = self.path.clone();
            self.shared.follow(&self.path)?.resolve(pointer, &mut path)?;
            Some(Self { shared: self.shared.clone(), path })
        }

        pub(super) fn raw(&self, pointer: &str) -> Option<Vec<u8>> {
            Some(self.value(pointer)?.raw().as_bytes().to_vec())
        }

        pub(super) fn size(&self, pointer: &str) -> Option<u32> {
            Some(u32::try_from(self.value(pointer)?.raw().len()).unwrap_or(u32::MAX))
        }

        pub(super) fn equal(&self, pointer: &str, other: &Self, other_pointer: &str) -> bool {
            opgate_document::equal(self.value(pointer), other.value(other_pointer))
        }
    }
}
