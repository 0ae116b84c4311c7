//! Rows of a table: the values at the same pointers of each element of a list.

use crate::Kind;
use crate::bindings::opgate::policy::document::{Cell, Table};

/// See [`crate::Document::rows`].
#[derive(Debug, Clone)]
pub struct Rows {
    table: Table,
    columns: usize,
}

/// One element of the list. Columns are numbered from 0.
#[derive(Debug, Clone, Copy)]
pub struct Row<'r> {
    cells: &'r [Cell],
    /// Starts with the texts of this row.
    texts: &'r str,
}

impl Rows {
    pub(crate) fn of(table: Table, columns: usize) -> Self {
        Self { table, columns }
    }

    /// Returns the rows, in the order of the list.
    pub fn iter(&self) -> impl Iterator<Item = Row<'_>> {
        let mut texts = self.table.texts.as_str();
        // Without columns there are no rows.
        self.table.cells.chunks_exact(self.columns.max(1)).map(move |cells| {
            let row = Row { cells, texts };
            texts = texts.get(row.text_offset(cells.len())..).unwrap_or_default();
            row
        })
    }
}

impl<'r> Row<'r> {
    /// A row in which all columns are missing.
    pub(crate) const EMPTY: Self = Self { cells: &[], texts: "" };

    /// Returns the row without its first columns.
    pub(crate) fn after(self, columns: usize) -> Self {
        Self {
            cells: self.cells.get(columns..).unwrap_or_default(),
            texts: self.texts.get(self.text_offset(columns)..).unwrap_or_default(),
        }
    }

    /// Returns bytes of the texts before a column.
    fn text_offset(&self, column: usize) -> usize {
        let length = |cell: &Cell| match cell {
            Cell::Text(length) => usize::try_from(*length).unwrap_or(usize::MAX),
            _ => 0,
        };
        self.cells.iter().take(column).map(length).sum()
    }

    /// Returns the cell of a column.
    #[must_use]
    pub fn kind(&self, column: usize) -> Kind {
        match self.cells.get(column) {
            None | Some(Cell::Missing) => Kind::Missing,
            Some(Cell::Null) => Kind::Null,
            Some(Cell::Boolean(_)) => Kind::Boolean,
            Some(Cell::Number) => Kind::Number,
            Some(Cell::Text(_)) => Kind::Text,
            Some(Cell::List(_)) => Kind::List,
            Some(Cell::Object(_)) => Kind::Object,
        }
    }

    /// Returns the text in a column, if there is one.
    #[must_use]
    pub fn text(&self, column: usize) -> Option<&'r str> {
        let Some(Cell::Text(length)) = self.cells.get(column) else { return None };
        let start = self.text_offset(column);
        self.texts.get(start..start.checked_add(usize::try_from(*length).ok()?)?)
    }

    /// Returns the text in a column, empty if there is none.
    #[must_use]
    pub fn text_or_empty(&self, column: usize) -> &'r str {
        self.text(column).unwrap_or_default()
    }

    /// Returns the boolean in a column, if there is one.
    #[must_use]
    pub fn boolean(&self, column: usize) -> Option<bool> {
        match self.cells.get(column) {
            Some(Cell::Boolean(value)) => Some(*value),
            _ => None,
        }
    }

    /// Returns the number of elements of the list, or of members of the object, in a column.
    #[must_use]
    pub fn length(&self, column: usize) -> Option<u32> {
        match self.cells.get(column) {
            Some(Cell::List(length) | Cell::Object(length)) => Some(*length),
            _ => None,
        }
    }
}
