//! Documents: queries of a guest about JSON that the host keeps.

use std::borrow::Cow;
use std::sync::Arc;

use super::generated::opgate::policy::document::{Cell, Kind, Table};
use super::{CallError, Context, Handle, Import, State};
use crate::limits::{COLUMNS, HOSTCALL_BYTES};
use opgate_cluster::access::Access;
use opgate_document::{Charge, Document, Kind as Found, Value};
use wasmtime::component::{
    ComponentNamedList, LinkerInstance, Lower, Resource, ResourceType, WasmList, WasmStr,
};

/// Bytes of a separate text in addition to its content, in the host and on its way.
const TEXT: usize = 48;

/// Bytes of cells or texts for which a result is charged at a time.
const STEP: usize = 4 << 10;

/// Initial capacity of a result in cells, and in bytes of texts.
const FEW: usize = 64;

pub(super) fn define(document: &mut LinkerInstance<'_, State>) -> wasmtime::Result<()> {
    document.resource("document", ResourceType::host::<Handle>(), |mut store, rep| {
        store.data_mut().handles.remove(rep);
        Ok(())
    })?;
    document.func_wrap("[static]document.parse", parse)?;
    let is = |_: &Asked<'_>, value: Option<Value<'_>>| Ok((value.map_or(Kind::Missing, kind),));
    look(document, "[method]document.kind", "kind", Access::Kind, is)?;
    look(document, "[method]document.text", "text", Access::Scalar, |asked, value| {
        asked.copy(value.and_then(|value| value.text())).map(|text| (text,))
    })?;
    look(document, "[method]document.boolean", "boolean", Access::Boolean, |_, value| {
        Ok((value.and_then(|value| value.boolean()),))
    })?;
    look(document, "[method]document.integer", "integer", Access::Scalar, |asked, value| {
        asked.state.spend(value.map_or(0, |value| value.range().len()))?;
        Ok((value.and_then(|value| value.integer()),))
    })?;
    look(document, "[method]document.number", "number", Access::Scalar, |asked, value| {
        asked.state.spend(value.map_or(0, |value| value.range().len()))?;
        Ok((value.and_then(|value| value.number()),))
    })?;
    look(document, "[method]document.length", "length", Access::Members, |_, value| {
        let length = value.and_then(|value| value.length());
        Ok((length.and_then(|length| u32::try_from(length).ok()),))
    })?;
    look(document, "[method]document.keys", "keys", Access::Members, |asked, value| {
        let mut keys = Vec::new();
        for (name, _) in value.into_iter().flat_map(|value| value.members()) {
            asked.state.spend(8 + name.len() / 8)?;
            asked.state.charge(asked.import, name.len().saturating_add(TEXT))?;
            keys.push(name.to_owned());
        }
        Ok((keys,))
    })?;
    look(document, "[method]document.raw", "raw", Access::Whole, |asked, value| {
        let Some(value) = value else { return Ok((None,)) };
        asked.state.charge(asked.import, value.size())?;
        asked.state.spend(value.size() / 16)?;
        Ok((Some(value.raw().as_bytes().to_vec()),))
    })?;
    look(document, "[method]document.size", "size", Access::Kind, |_, value| {
        let size = value.map(|value| value.size());
        Ok((size.map(|size| u32::try_from(size).unwrap_or(u32::MAX)),))
    })?;
    document.func_wrap("[method]document.table", table)?;
    document.func_wrap("[method]document.row", row)?;
    document.func_wrap("[method]document.at", at)?;
    document.func_wrap("[method]document.equal", equal)
}

/// A query about a value.
struct Asked<'s> {
    import: Import,
    state: &'s State,
}

impl Asked<'_> {
    /// Copies a text, charged to the account.
    fn copy(&self, text: Option<&str>) -> Result<Option<String>, CallError> {
        let Some(text) = text else { return Ok(None) };
        self.state.charge(self.import, text.len().saturating_add(TEXT))?;
        self.state.spend(text.len() / 16)?;
        Ok(Some(text.to_owned()))
    }
}

/// Defines a query about the value at a pointer.
fn look<R>(
    document: &mut LinkerInstance<'_, State>,
    name: &str,
    short: &'static str,
    access: Access,
    answer: impl Fn(&Asked<'_>, Option<Value<'_>>) -> Result<R, CallError> + Send + Sync + 'static,
) -> wasmtime::Result<()>
where
    R: ComponentNamedList + Lower + Send + Sync + 'static,
{
    let import = Import("document", short);
    document.func_wrap(
        name,
        move |store: Context<'_>, (of, pointer): (Resource<Handle>, WasmStr)| {
            let pointer = import.pointer(&store, &pointer)?;
            let state = store.data();
            state.begin();
            let handle = state.handle(&of)?;
            handle.check(import, &pointer, access)?;
            let value = handle.at(&state.meter).and_then(|value| value.get(&pointer));
            let answer = answer(&Asked { import, state }, value);
            state.ensure_complete(import, &handle.document)?;
            Ok(answer?)
        },
    )
}

fn kind(value: Value<'_>) -> Kind {
    match value.kind() {
        Found::Null => Kind::Null,
        Found::Boolean => Kind::Boolean,
        Found::Number => Kind::Number,
        Found::Text => Kind::Text,
        Found::List => Kind::List,
        Found::Object => Kind::Object,
    }
}

type Parsed = Result<Resource<Handle>, String>;

fn parse(mut store: Context<'_>, (json,): (WasmStr,)) -> wasmtime::Result<(Parsed,)> {
    let import = Import("document", "parse");
    let json = import.text(&store, "a text", &json, HOSTCALL_BYTES)?;
    let state = store.data();
    state.begin();
    let charge = Charge::on(&state.account);
    if !charge.grow(json.len().saturating_add(size_of::<Document>())) {
        return Err(state.out_of_memory(import).into());
    }
    match Document::metered(json.into_owned(), charge, &state.meter) {
        Ok(document) => {
            state.ensure_complete(import, &document)?;
            let handle = Handle::whole(Arc::new(document));
            Ok((Ok(store.data_mut().push(import, handle)?),))
        }
        Err(error) => {
            state.ensure_complete(import, &Document::default())?;
            Ok((Err(error.to_string()),))
        }
    }
}

fn at(
    mut store: Context<'_>,
    (of, pointer): (Resource<Handle>, WasmStr),
) -> wasmtime::Result<(Option<Resource<Handle>>,)> {
    let import = Import("document", "at");
    let pointer = import.pointer(&store, &pointer)?;
    let state = store.data();
    state.begin();
    let handle = state.handle(&of)?;
    handle.check(import, &pointer, Access::Kind)?;
    let mut path = handle.path.clone();
    let from = handle.at(&state.meter);
    let found = from.and_then(|value| value.resolve(&pointer, &mut path)).is_some();
    state.ensure_complete(import, &handle.document)?;
    if !found {
        return Ok((None,));
    }
    let handle = handle.below(&pointer, path);
    Ok((Some(store.data_mut().push(import, handle)?),))
}

#[expect(clippy::needless_pass_by_value, reason = "the form of all imports")]
fn equal(
    store: Context<'_>,
    (of, pointer, other, other_pointer): (Resource<Handle>, WasmStr, Resource<Handle>, WasmStr),
) -> wasmtime::Result<(bool,)> {
    let import = Import("document", "equal");
    let pointers = (import.pointer(&store, &pointer)?, import.pointer(&store, &other_pointer)?);
    let state = store.data();
    state.begin();
    let (left, right) = (state.handle(&of)?, state.handle(&other)?);
    left.check(import, &pointers.0, Access::Whole)?;
    right.check(import, &pointers.1, Access::Whole)?;
    let answer = opgate_document::equal(
        left.at(&state.meter).and_then(|value| value.get(&pointers.0)),
        right.at(&state.meter).and_then(|value| value.get(&pointers.1)),
    );
    state.ensure_complete(import, &left.document)?;
    state.ensure_complete(import, &right.document)?;
    Ok((answer,))
}

type Columns = WasmList<WasmStr>;

fn table(
    store: Context<'_>,
    asked: (Resource<Handle>, WasmStr, Columns),
) -> wasmtime::Result<(Table,)> {
    rows(store, asked, Import("document", "table"), Handle::check_column, |list, columns, cell| {
        opgate_document::table(list, columns, cell)
    })
}

fn row(
    store: Context<'_>,
    asked: (Resource<Handle>, WasmStr, Columns),
) -> wasmtime::Result<(Table,)> {
    rows(store, asked, Import("document", "row"), Handle::check_cell, |value, columns, cell| {
        opgate_document::row(value, columns, cell)
    })
}

/// A consumer of cells.
type Cells<'c> = &'c mut dyn FnMut(Option<Value<'_>>) -> Result<(), CallError>;

fn rows(
    mut store: Context<'_>,
    (of, pointer, columns): (Resource<Handle>, WasmStr, Columns),
    import: Import,
    check: impl Fn(&Handle, Import, &str, &str) -> Result<(), CallError>,
    each: impl Fn(Value<'_>, &[Cow<'_, str>], Cells<'_>) -> Result<(), CallError>,
) -> wasmtime::Result<(Table,)> {
    import.count("columns", columns.len(), COLUMNS)?;
    let columns: Vec<WasmStr> = columns.iter(&mut store)?.collect::<wasmtime::Result<_>>()?;
    let columns = columns.iter().map(|column| import.pointer(&store, column));
    let columns: Vec<_> = columns.collect::<wasmtime::Result<_>>()?;
    let pointer = import.pointer(&store, &pointer)?;
    let state = store.data();
    state.begin();
    let handle = state.handle(&of)?;
    for column in &columns {
        check(handle, import, &pointer, column)?;
    }
    let list = handle.at(&state.meter).and_then(|value| value.get(&pointer));
    let asked = Asked { import, state };
    let answer = list.map(|list| cells(&asked, |cell| each(list, &columns, cell))).transpose();
    state.ensure_complete(import, &handle.document)?;
    Ok((answer?.unwrap_or_else(|| Table { cells: Vec::new(), texts: String::new() }),))
}

fn cells(
    asked: &Asked<'_>,
    each: impl FnOnce(Cells<'_>) -> Result<(), CallError>,
) -> Result<Table, CallError> {
    // Most results need no more, and do not grow step by step.
    let mut table = Table { cells: Vec::with_capacity(FEW), texts: String::with_capacity(FEW) };
    let mut charged = 0_usize;
    each(&mut |found| {
        let length = || {
            let length = found.and_then(|value| value.length()).unwrap_or_default();
            u32::try_from(length).unwrap_or(u32::MAX)
        };
        let cell = match found.map(|value| value.kind()) {
            None => Cell::Missing,
            Some(Found::Null) => Cell::Null,
            Some(Found::Boolean) => {
                Cell::Boolean(found.and_then(|value| value.boolean()).unwrap_or_default())
            }
            Some(Found::Number) => Cell::Number,
            Some(Found::Text) => {
                let text = found.and_then(|value| value.text()).unwrap_or_default();
                asked.state.spend(text.len() / 16)?;
                table.texts.push_str(text);
                Cell::Text(u32::try_from(text.len()).unwrap_or(u32::MAX))
            }
            Some(Found::List) => Cell::List(length()),
            Some(Found::Object) => Cell::Object(length()),
        };
        table.cells.push(cell);
        let size = table.cells.capacity().saturating_mul(size_of::<Cell>());
        let size = size.saturating_add(table.texts.capacity());
        if size > charged.saturating_add(STEP) {
            asked.state.charge(asked.import, size.saturating_sub(charged))?;
            charged = size;
        }
        Ok(())
    })?;
    Ok(table)
}
