//! Many look-ups at once: the same pointers in every element of a list.
//!
//! ```text
//! list ─▶ each element ─▶ each column: goes on where it leaves the way of the column before it
//! ```

use std::borrow::Cow;

use crate::{Value, pointer};

/// A column: its tokens, and how many of them are those of the column before it.
struct Column<'c> {
    tokens: Vec<Cow<'c, str>>,
    shared: usize,
}

fn columns<'c>(pointers: &'c [impl AsRef<str>]) -> Vec<Option<Column<'c>>> {
    let mut columns: Vec<Option<Column<'c>>> = Vec::with_capacity(pointers.len());
    for pointer in pointers {
        let column = pointer::tokens(pointer.as_ref()).map(|tokens| {
            let tokens: Vec<_> = tokens.collect();
            let before = columns.iter().rev().flatten().next();
            let before = before.map(|column| column.tokens.as_slice()).unwrap_or_default();
            let shared = tokens.iter().zip(before).take_while(|(one, other)| one == other).count();
            Column { tokens, shared }
        });
        columns.push(column);
    }
    columns
}

/// Hands on what stands at each of the columns, JSON pointers relative to the elements, in each element
/// of a list: element by element. Nothing for other kinds. It ends where the meter of the list stops.
///
/// # Errors
/// That of `cell`, which ends it.
pub fn table<'d, E>(
    list: Value<'d>,
    pointers: &[impl AsRef<str>],
    mut cell: impl FnMut(Option<Value<'d>>) -> Result<(), E>,
) -> Result<(), E> {
    let columns = columns(pointers);
    // The values on the way to the column before, the element itself first.
    let mut way = Vec::new();
    for element in list.items() {
        if !look(element, &columns, &mut way, &mut cell)? {
            break;
        }
    }
    Ok(())
}

/// Hands on what stands at each of the columns, JSON pointers relative to the value. It ends where the
/// meter of the value stops.
///
/// # Errors
/// That of `cell`, which ends it.
pub fn row<'d, E>(
    value: Value<'d>,
    pointers: &[impl AsRef<str>],
    mut cell: impl FnMut(Option<Value<'d>>) -> Result<(), E>,
) -> Result<(), E> {
    look(value, &columns(pointers), &mut Vec::new(), &mut cell).map(drop)
}

/// The columns of one value. False where the meter stops.
fn look<'d, E>(
    value: Value<'d>,
    columns: &[Option<Column<'_>>],
    way: &mut Vec<Value<'d>>,
    cell: &mut impl FnMut(Option<Value<'d>>) -> Result<(), E>,
) -> Result<bool, E> {
    way.clear();
    way.push(value);
    for column in columns {
        if !value.spend(1) {
            return Ok(false);
        }
        let Some(Column { tokens, shared }) = column else {
            cell(None)?;
            continue;
        };
        way.truncate(shared.saturating_add(1));
        let rest = tokens.get(way.len().saturating_sub(1)..).unwrap_or_default();
        let found = rest.iter().try_fold(way.last().copied(), |at, token| {
            let next = at.and_then(|value| value.step(token));
            way.extend(next);
            next.map(Some)
        });
        cell(found.flatten())?;
    }
    Ok(true)
}
