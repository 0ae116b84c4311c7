//! Documents: handles of the host in a component, JSON of the test in native tests.

use crate::{Kind, Rows};

/// A JSON document, or a part of one. Every look-up takes a JSON pointer relative to it.
///
/// In a component this is a handle. Each look-up is a call of the host of about 0.3 µs, whatever
/// the size of the document. `wit/policy.wit` describes the answer of each function.
#[cfg(target_arch = "wasm32")]
pub type Document = crate::bindings::opgate::policy::document::Document;

/// A JSON document, or a part of one. Every look-up takes a JSON pointer relative to it.
///
/// This is the native replacement for unit tests. It uses the same code as the host.
#[cfg(not(target_arch = "wasm32"))]
#[derive(Debug, Clone)]
pub struct Document {
    shared: std::sync::Arc<opgate_document::Document>,
    path: Vec<u32>,
}

impl Document {
    #[cfg(target_arch = "wasm32")]
    pub(crate) fn of(handle: &crate::bindings::opgate::policy::document::Document) -> &Self {
        handle
    }

    #[cfg(not(target_arch = "wasm32"))]
    #[expect(clippy::unreachable, reason = "a handle of the host exists in components only")]
    pub(crate) fn of(_: &crate::bindings::opgate::policy::document::Document) -> &Self {
        unreachable!("a handle of the host exists in components only")
    }

    /// Whether there is a value other than `null` at the pointer.
    #[must_use]
    pub fn has(&self, pointer: &str) -> bool {
        !matches!(self.kind(pointer), Kind::Missing | Kind::Null)
    }

    /// The text at the pointer, empty if there is none.
    #[must_use]
    pub fn text_or_empty(&self, pointer: &str) -> String {
        self.text(pointer).unwrap_or_default()
    }

    /// Handles for the elements of the list at the pointer, one at a time.
    #[must_use]
    pub fn items(&self, pointer: &str) -> Items<'_> {
        let count = match self.kind(pointer) {
            Kind::List => self.length(pointer).unwrap_or_default(),
            _ => 0,
        };
        Items { document: self, pointer: pointer.to_owned(), next: 0, count }
    }

    /// The values at the columns in each element of the list at the pointer, in one call of the
    /// host. Columns are pointers relative to an element.
    #[must_use]
    pub fn rows(&self, pointer: &str, columns: &[&str]) -> Rows {
        let names: Vec<String> = columns.iter().map(|column| (*column).to_owned()).collect();
        Rows::of(self.table(pointer, &names), columns.len())
    }

    /// The values at the columns in the value at the pointer, in one call of the host. No row if there
    /// is no value. For the fields of one object.
    #[must_use]
    pub fn fields(&self, pointer: &str, columns: &[&str]) -> Rows {
        let names: Vec<String> = columns.iter().map(|column| (*column).to_owned()).collect();
        Rows::of(self.row(pointer, &names), columns.len())
    }

    /// The texts in the list at the pointer, without elements of other kinds.
    #[must_use]
    pub fn texts(&self, pointer: &str) -> Vec<String> {
        self.items(pointer).filter_map(|item| item.text("")).collect()
    }

    /// The JSON text at the pointer, to deserialize it (`Raw::parse`).
    #[cfg(feature = "json")]
    #[must_use]
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

    use super::{Document, Kind};
    use crate::bindings::opgate::policy::document::{Cell, Table};

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

    /// A pointer without a slash leads nowhere, in every object. A server logs it; a test fails.
    #[track_caller]
    fn assert_slash(pointer: &str) {
        assert!(
            pointer.is_empty() || pointer.starts_with('/'),
            "the pointer {pointer:?} leads nowhere: begin it with a slash"
        );
    }

    impl Document {
        /// A document that the host would keep.
        pub(crate) fn whole(document: opgate_document::Document) -> Self {
            Self { shared: document.into(), path: Vec::new() }
        }

        pub(crate) fn root(&self) -> Value<'_> {
            self.shared.follow(&self.path).unwrap_or_else(|| self.shared.root())
        }
    }

    /// The same functions as the generated ones of a handle, see `wit/policy.wit`.
    #[expect(missing_docs, reason = "documented once, in wit/policy.wit")]
    impl Document {
        /// # Errors
        /// If the text is not JSON. The error says what is wrong, with line and column.
        pub fn parse(json: &str) -> Result<Self, String> {
            let shared = opgate_document::Document::parse(json).map_err(|e| e.to_string())?;
            Ok(Self { shared: shared.into(), path: Vec::new() })
        }

        #[track_caller]
        fn value(&self, pointer: &str) -> Option<Value<'_>> {
            assert_slash(pointer);
            self.shared.follow(&self.path)?.get(pointer)
        }

        #[must_use]
        pub fn kind(&self, pointer: &str) -> Kind {
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

        #[must_use]
        pub fn text(&self, pointer: &str) -> Option<String> {
            self.value(pointer)?.text().map(str::to_owned)
        }

        #[must_use]
        pub fn boolean(&self, pointer: &str) -> Option<bool> {
            self.value(pointer)?.boolean()
        }

        #[must_use]
        pub fn integer(&self, pointer: &str) -> Option<i64> {
            self.value(pointer)?.integer()
        }

        #[must_use]
        pub fn number(&self, pointer: &str) -> Option<f64> {
            self.value(pointer)?.number()
        }

        #[must_use]
        pub fn length(&self, pointer: &str) -> Option<u32> {
            u32::try_from(self.value(pointer)?.length()?).ok()
        }

        #[must_use]
        pub fn keys(&self, pointer: &str) -> Vec<String> {
            let members = self.value(pointer).into_iter().flat_map(|v| v.members());
            members.map(|(name, _)| name.to_owned()).collect()
        }

        #[must_use]
        pub fn table(&self, pointer: &str, columns: &[String]) -> Table {
            let mut table = Table { cells: Vec::new(), texts: String::new() };
            for column in columns {
                assert_slash(column);
            }
            let Some(list) = self.value(pointer) else { return table };
            let Ok(()) = opgate_document::table(list, columns, |found| {
                push(&mut table, found);
                Ok::<_, std::convert::Infallible>(())
            });
            table
        }

        #[must_use]
        pub fn row(&self, pointer: &str, columns: &[String]) -> Table {
            let mut table = Table { cells: Vec::new(), texts: String::new() };
            for column in columns {
                assert_slash(column);
            }
            let Some(value) = self.value(pointer) else { return table };
            let Ok(()) = opgate_document::row(value, columns, |found| {
                push(&mut table, found);
                Ok::<_, std::convert::Infallible>(())
            });
            table
        }

        #[must_use]
        pub fn at(&self, pointer: &str) -> Option<Self> {
            assert_slash(pointer);
            let mut path = self.path.clone();
            self.shared.follow(&self.path)?.resolve(pointer, &mut path)?;
            Some(Self { shared: self.shared.clone(), path })
        }

        #[must_use]
        pub fn raw(&self, pointer: &str) -> Option<Vec<u8>> {
            Some(self.value(pointer)?.raw().as_bytes().to_vec())
        }

        #[must_use]
        pub fn size(&self, pointer: &str) -> Option<u32> {
            Some(u32::try_from(self.value(pointer)?.raw().len()).unwrap_or(u32::MAX))
        }

        #[must_use]
        pub fn equal(&self, pointer: &str, other: &Self, other_pointer: &str) -> bool {
            opgate_document::equal(self.value(pointer), other.value(other_pointer))
        }
    }
}
