//! Document handles: the values that a policy reads, with the check of undeclared reads.
//!
//! The queries are those of `host/engine/src/imports/document.rs`, without its accounts: the page limits the time
//! and the size of all inputs.

use std::sync::Arc;

use opgate_cluster::Declaration;
use opgate_cluster::access::{Access, UndeclaredRead};
use opgate_document::{Document, Kind as Found, Value, pointer_error};
use opgate_text::one_line;

use crate::bindings::document::{self as wit, Cell, Kind, Table};
use crate::call::{Call, HandleCount, Import};
use crate::cluster::DeclaredRead;

/// Maximum bytes of a text of one import, of a pointer, and columns of a table, as for a server.
const MAX_TEXT_BYTES: usize = 4 << 20;
const MAX_POINTER_BYTES: usize = 4 << 10;
const MAX_COLUMNS: usize = 64;

/// A document and the path to a value in it.
#[derive(Debug)]
#[expect(dead_code, reason = "the count is dropped with the handle")]
pub(crate) struct Handle {
    document: Arc<Document>,
    path: Vec<u32>,
    /// The declared read of the object, and the pointer to the value in it; none for a whole document.
    declared_part: Option<(Arc<DeclaredRead>, String)>,
    /// Counts the handle while it lives.
    count: HandleCount,
}

impl Handle {
    /// A whole document outside of the limits of a call: its inputs.
    pub(crate) fn of_input(document: Arc<Document>) -> Self {
        let count = HandleCount::uncounted();
        Self { document, path: Vec::new(), declared_part: None, count }
    }

    /// A whole document that a call receives.
    fn of_document(import: Import, document: Document) -> Self {
        Self::of_shared_document(import, Arc::new(document))
    }

    /// A whole document of the cluster state that a call receives.
    pub(crate) fn of_shared_document(import: Import, document: Arc<Document>) -> Self {
        let count = HandleCount::of_call(import);
        Self { document, path: Vec::new(), declared_part: None, count }
    }

    /// A stored object, of which only the declared fields are present.
    pub(crate) fn of_stored(import: Import, document: Document, read: &Arc<DeclaredRead>) -> Self {
        let part = Some((read.clone(), String::new()));
        Self { declared_part: part, ..Self::of_document(import, document) }
    }

    fn root(&self) -> Option<Value<'_>> {
        self.document.root().follow(&self.path)
    }

    /// The value at a pointer, if a policy may read it.
    fn query(&self, name: &'static str, pointer: &str, access: Access) -> Option<Value<'_>> {
        let import = Import("document", name);
        let check = |declaration: &Declaration, base: &str| {
            declaration.check(&format!("{base}{pointer}"), access)
        };
        if !is_pointer(import, pointer) || !self.is_declared(import, check) {
            return None;
        }
        self.root()?.get(pointer)
    }

    fn is_declared(
        &self,
        import: Import,
        check: impl FnOnce(&Declaration, &str) -> Result<(), UndeclaredRead>,
    ) -> bool {
        let Some((read, base)) = &self.declared_part else { return true };
        let checked = check(&read.declaration, base);
        if let Err(error) = &checked {
            Call::fail(import, &error.message(&read.resource));
        }
        checked.is_ok()
    }

    fn child(&self, import: Import, pointer: &str, path: Vec<u32>) -> Self {
        let declared_part = self.declared_part.as_ref().and_then(|(read, base)| {
            let pointer = format!("{base}{pointer}");
            // A declared field is completely present.
            let is_whole = read.declaration.check(&pointer, Access::Scalar).is_ok();
            (!is_whole).then(|| (read.clone(), pointer))
        });
        let count = HandleCount::of_call(import);
        Self { document: self.document.clone(), path, declared_part, count }
    }

    fn table_root(
        &self,
        import: Import,
        pointer: &str,
        columns: &[String],
        check: impl Fn(&Declaration, &str, &str) -> Result<(), UndeclaredRead>,
    ) -> Option<Value<'_>> {
        if columns.len() > MAX_COLUMNS {
            Call::fail(import, &format!("{} columns, more than {MAX_COLUMNS}", columns.len()));
            return None;
        }
        for column in columns {
            let checked = |declaration: &Declaration, base: &str| {
                check(declaration, &format!("{base}{pointer}"), column)
            };
            if !is_pointer(import, column) || !self.is_declared(import, checked) {
                return None;
            }
        }
        if !is_pointer(import, pointer) {
            return None;
        }
        self.root()?.get(pointer)
    }
}

/// Whether a text is a pointer. Another one would match nothing, and appear as a value that is always absent.
fn is_pointer(import: Import, pointer: &str) -> bool {
    let too_long = || {
        let length = pointer.len();
        (length > MAX_POINTER_BYTES)
            .then(|| format!("a pointer of {length} bytes, more than {MAX_POINTER_BYTES}"))
    };
    let why = too_long().or_else(|| pointer_error(pointer).map(|why| one_line(&why, 512)));
    if let Some(why) = &why {
        Call::fail(import, why);
    }
    why.is_none()
}

fn length_of(value: Value<'_>) -> Option<u32> {
    value.length().and_then(|length| u32::try_from(length).ok())
}

fn to_cell(value: Option<Value<'_>>, texts: &mut String) -> Cell {
    let Some(value) = value else { return Cell::Missing };
    let length = || length_of(value).unwrap_or_default();
    match value.kind() {
        Found::Null => Cell::Null,
        Found::Boolean => Cell::Boolean(value.boolean().unwrap_or_default()),
        Found::Number => Cell::Number,
        Found::Text => {
            let text = value.text().unwrap_or_default();
            texts.push_str(text);
            Cell::Text(u32::try_from(text.len()).unwrap_or(u32::MAX))
        }
        Found::List => Cell::List(length()),
        Found::Object => Cell::Object(length()),
    }
}

impl wit::GuestDocument for Handle {
    fn parse(json: String) -> Result<wit::Document, String> {
        let import = Import("document", "parse");
        if json.len() > MAX_TEXT_BYTES {
            let why = format!("a text of {} bytes, more than 4MiB", json.len());
            Call::fail(import, &why);
            return Err(why);
        }
        let document = Document::of(json).map_err(|error| error.to_string())?;
        Ok(wit::Document::new(Self::of_document(import, document)))
    }

    fn kind(&self, pointer: String) -> Kind {
        match self.query("kind", &pointer, Access::Kind).map(|value| value.kind()) {
            None => Kind::Missing,
            Some(Found::Null) => Kind::Null,
            Some(Found::Boolean) => Kind::Boolean,
            Some(Found::Number) => Kind::Number,
            Some(Found::Text) => Kind::Text,
            Some(Found::List) => Kind::List,
            Some(Found::Object) => Kind::Object,
        }
    }

    fn text(&self, pointer: String) -> Option<String> {
        self.query("text", &pointer, Access::Scalar)?.text().map(str::to_owned)
    }

    fn boolean(&self, pointer: String) -> Option<bool> {
        self.query("boolean", &pointer, Access::Boolean)?.boolean()
    }

    fn integer(&self, pointer: String) -> Option<i64> {
        self.query("integer", &pointer, Access::Scalar)?.integer()
    }

    fn number(&self, pointer: String) -> Option<f64> {
        self.query("number", &pointer, Access::Scalar)?.number()
    }

    fn length(&self, pointer: String) -> Option<u32> {
        self.query("length", &pointer, Access::Members).and_then(length_of)
    }

    fn keys(&self, pointer: String) -> Vec<String> {
        let value = self.query("keys", &pointer, Access::Members);
        let members = value.into_iter().flat_map(|value| value.members());
        members.map(|(name, _)| name.to_owned()).collect()
    }

    fn table(&self, pointer: String, columns: Vec<String>) -> Table {
        let import = Import("document", "table");
        let check = Declaration::check_column;
        let mut table = Table { cells: Vec::new(), texts: String::new() };
        if let Some(list) = self.table_root(import, &pointer, &columns, check) {
            let Table { cells, texts } = &mut table;
            let Ok(()) = opgate_document::table(list, &columns, |value| {
                cells.push(to_cell(value, texts));
                Ok::<_, std::convert::Infallible>(())
            });
        }
        table
    }

    fn row(&self, pointer: String, columns: Vec<String>) -> Table {
        let import = Import("document", "row");
        let check = |declaration: &Declaration, pointer: &str, column: &str| {
            declaration.check_cell(&format!("{pointer}{column}"))
        };
        let mut table = Table { cells: Vec::new(), texts: String::new() };
        if let Some(value) = self.table_root(import, &pointer, &columns, check) {
            let Table { cells, texts } = &mut table;
            let Ok(()) = opgate_document::row(value, &columns, |value| {
                cells.push(to_cell(value, texts));
                Ok::<_, std::convert::Infallible>(())
            });
        }
        table
    }

    fn at(&self, pointer: String) -> Option<wit::Document> {
        // The query checks that the value may be read.
        self.query("at", &pointer, Access::Kind)?;
        let mut path = self.path.clone();
        self.root()?.resolve(&pointer, &mut path)?;
        Some(wit::Document::new(self.child(Import("document", "at"), &pointer, path)))
    }

    fn raw(&self, pointer: String) -> Option<Vec<u8>> {
        Some(self.query("raw", &pointer, Access::Whole)?.raw().as_bytes().to_vec())
    }

    fn size(&self, pointer: String) -> Option<u32> {
        let size = self.query("size", &pointer, Access::Kind)?.size();
        Some(u32::try_from(size).unwrap_or(u32::MAX))
    }

    fn equal(
        &self,
        pointer: String,
        other: wit::DocumentBorrow<'_>,
        other_pointer: String,
    ) -> bool {
        let other = other.get::<Self>();
        opgate_document::equal(
            self.query("equal", &pointer, Access::Whole),
            other.query("equal", &other_pointer, Access::Whole),
        )
    }
}
