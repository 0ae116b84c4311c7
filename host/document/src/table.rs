//! Many look-ups at once: the same pointers in every element of a list.
//!
//! ```text
//! list ─▶ each element ─▶ each column: goes on where it leaves the way of the column before it
//! ```

use std::borrow::Cow;

use crate::{Value, pointer};

/// Hands on what stands at each of the columns, JSON pointers relative to the elements, in each element
/// of a list: element by element. Nothing for other kinds.
///
/// # Errors
/// That of `cell`, which ends it.
pub fn table<'d, E>(
    list: Value<'d>,
    columns: &[impl AsRef<str>],
    mut cell: impl FnMut(Option<Value<'d>>) -> Result<(), E>,
) -> Result<(), E> {
    let tokens = |column| Some(pointer::tokens(column)?.collect::<Vec<_>>());
    let columns: Vec<_> = columns.iter().map(|column| tokens(column.as_ref())).collect();
    // The values on the way to the column before, the element itself first.
    let mut way = Vec::new();
    for element in list.items() {
        way.clear();
        way.push(element);
        let mut before: &[Cow<'_, str>] = &[];
        for column in &columns {
            let Some(tokens) = column.as_deref() else {
                cell(None)?;
                continue;
            };
            let shared = tokens.iter().zip(before).take_while(|(one, other)| one == other).count();
            way.truncate(shared.saturating_add(1));
            let rest = tokens.get(way.len().saturating_sub(1)..).unwrap_or_default();
            let found = rest.iter().try_fold(way.last().copied(), |at, token| {
                let next = at.and_then(|value| value.step(token));
                way.extend(next);
                next.map(Some)
            });
            cell(found.flatten())?;
            before = tokens;
        }
    }
    Ok(())
}
