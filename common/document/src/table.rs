//! Many look-ups at once: the same pointers in every element of a list.
//!
//! ```text
//! list ─▶ each element ─▶ each column: continues where its path leaves that of the previous column
//! ```

use std::borrow::Cow;
use std::ops::Range;

use crate::{Value, pointer};

/// The columns, and the tokens of all of them in one list.
struct Columns<'c> {
    tokens: Vec<Cow<'c, str>>,
    columns: Vec<Option<Column>>,
}

/// A column: where its tokens are, and how many of them are those of the column before it.
struct Column {
    tokens: Range<usize>,
    shared: usize,
}

fn columns<'c>(pointers: &'c [impl AsRef<str>]) -> Columns<'c> {
    let mut tokens: Vec<Cow<'c, str>> = Vec::with_capacity(pointers.len().saturating_mul(4));
    let mut columns = Vec::with_capacity(pointers.len());
    let mut before = 0..0;
    for pointer in pointers {
        let column = pointer::tokens(pointer.as_ref()).map(|own| {
            let start = tokens.len();
            tokens.extend(own);
            let of = |range: Range<usize>| tokens.get(range).unwrap_or_default();
            let pairs = of(start..tokens.len()).iter().zip(of(before.clone()));
            let shared = pairs.take_while(|(one, other)| one == other).count();
            before = start..tokens.len();
            Column { tokens: before.clone(), shared }
        });
        columns.push(column);
    }
    Columns { tokens, columns }
}

/// Visits the values at the columns, JSON pointers relative to the elements, in each element of a list:
/// element by element. Visits nothing for other kinds. Stops if the meter of the list stops.
///
/// # Errors
/// Fails with the error of `cell`, which ends it.
pub fn table<'d, E>(
    list: Value<'d>,
    pointers: &[impl AsRef<str>],
    mut cell: impl FnMut(Option<Value<'d>>) -> Result<(), E>,
) -> Result<(), E> {
    let columns = columns(pointers);
    // The values on the way to the column before, the element itself first.
    let mut path = Vec::new();
    for element in list.items() {
        if !visit_columns(element, &columns, &mut path, &mut cell)? {
            break;
        }
    }
    Ok(())
}

/// Visits the values at the columns, JSON pointers relative to the value. Stops if the meter of the value
/// stops.
///
/// # Errors
/// Fails with the error of `cell`, which ends it.
pub fn row<'d, E>(
    value: Value<'d>,
    pointers: &[impl AsRef<str>],
    mut cell: impl FnMut(Option<Value<'d>>) -> Result<(), E>,
) -> Result<(), E> {
    visit_columns(value, &columns(pointers), &mut Vec::new(), &mut cell).map(drop)
}

/// Reads the columns of one value. False if the meter stops.
fn visit_columns<'d, E>(
    value: Value<'d>,
    columns: &Columns<'_>,
    path: &mut Vec<Value<'d>>,
    cell: &mut impl FnMut(Option<Value<'d>>) -> Result<(), E>,
) -> Result<bool, E> {
    path.clear();
    path.push(value);
    for column in &columns.columns {
        if !value.spend(1) {
            return Ok(false);
        }
        let Some(Column { tokens, shared }) = column else {
            cell(None)?;
            continue;
        };
        path.truncate(shared.saturating_add(1));
        let tokens = columns.tokens.get(tokens.clone()).unwrap_or_default();
        let rest = tokens.get(path.len().saturating_sub(1)..).unwrap_or_default();
        let found = rest.iter().try_fold(path.last().copied(), |at, token| {
            let next = at.and_then(|value| value.step(token));
            path.extend(next);
            next.map(Some)
        });
        cell(found.flatten())?;
    }
    Ok(true)
}
