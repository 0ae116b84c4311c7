//! Documents: queries of a guest about JSON that the host keeps.

use std::borrow::Cow;
use std::sync::Arc;

use super::generated::opgate::policy::document::{Cell, Kind, Table};
use super::{CallError, Context, Handle, Import, State};
use crate::limits::{MAX_COLUMNS, MAX_HOSTCALL_BYTES};
use opgate_cluster::access::Access;
use opgate_document::{Charge, Document, Kind as Found, Value};
use wasmtime::component::{
    ComponentNamedList, LinkerInstance, Lower, Resource, ResourceType, WasmList, WasmStr,
};

/// Bytes of a separate text in addition to its content, in the host and on its way.
const TEXT_OVERHEAD_BYTES: usize = 48;

/// Bytes of cells or texts for which a result is charged at a time.
const CHARGE_INTERVAL_BYTES: usize = 4 << 10;

/// Initial capacity of a result in cells, and in bytes of texts.
const INITIAL_CAPACITY: usize = 64;

pub(super) fn define(document: &mut LinkerInstance<'_, State>) -> wasmtime::Result<()> {
    document.resource("document", ResourceType::host::<Handle>(), |mut store, rep| {
        store.data_mut().handles.remove(rep);
        Ok(())
    })?;
    document.func_wrap("[static]document.parse", parse)?;
    let is =
        |_: &ValueQuery<'_>, value: Option<Value<'_>>| Ok((value.map_or(Kind::Missing, kind),));
    define_query(document, "[method]document.kind", "kind", Access::Kind, is)?;
    define_query(document, "[method]document.text", "text", Access::Scalar, |query, value| {
        query.copy(value.and_then(|value| value.text())).map(|text| (text,))
    })?;
    define_query(document, "[method]document.boolean", "boolean", Access::Boolean, |_, value| {
        Ok((value.and_then(|value| value.boolean()),))
    })?;
    define_query(
        document,
        "[method]document.integer",
        "integer",
        Access::Scalar,
        |query, value| {
            query.state.spend(value.map_or(0, |value| value.range().len()))?;
            Ok((value.and_then(|value| value.integer()),))
        },
    )?;
    define_query(document, "[method]document.number", "number", Access::Scalar, |query, value| {
        query.state.spend(value.map_or(0, |value| value.range().len()))?;
        Ok((value.and_then(|value| value.number()),))
    })?;
    define_query(document, "[method]document.length", "length", Access::Members, |_, value| {
        let length = value.and_then(|value| value.length());
        Ok((length.and_then(|length| u32::try_from(length).ok()),))
    })?;
    define_query(document, "[method]document.keys", "keys", Access::Members, |query, value| {
        let mut keys = Vec::new();
        for (name, _) in value.into_iter().flat_map(|value| value.members()) {
            query.state.spend(8 + name.len() / 8)?;
            query.state.charge(query.import, name.len().saturating_add(TEXT_OVERHEAD_BYTES))?;
            keys.push(name.to_owned());
        }
        Ok((keys,))
    })?;
    define_query(document, "[method]document.raw", "raw", Access::Whole, |query, value| {
        let Some(value) = value else { return Ok((None,)) };
        query.state.charge(query.import, value.size())?;
        query.state.spend(value.size() / 16)?;
        Ok((Some(value.raw().as_bytes().to_vec()),))
    })?;
    define_query(document, "[method]document.size", "size", Access::Kind, |_, value| {
        let size = value.map(|value| value.size());
        Ok((size.map(|size| u32::try_from(size).unwrap_or(u32::MAX)),))
    })?;
    document.func_wrap("[method]document.table", table)?;
    document.func_wrap("[method]document.row", row)?;
    document.func_wrap("[method]document.at", at)?;
    document.func_wrap("[method]document.equal", equal)
}

/// A query about a value.
struct ValueQuery<'s> {
    import: Import,
    state: &'s State,
}

impl ValueQuery<'_> {
    /// Copies a text, charged to the account.
    fn copy(&self, text: Option<&str>) -> Result<Option<String>, CallError> {
        let Some(text) = text else { return Ok(None) };
        self.state.charge(self.import, text.len().saturating_add(TEXT_OVERHEAD_BYTES))?;
        self.state.spend(text.len() / 16)?;
        Ok(Some(text.to_owned()))
    }
}

/// Defines a query about the value at a pointer.
fn define_query<R>(
    document: &mut LinkerInstance<'_, State>,
    name: &str,
    short: &'static str,
    access: Access,
    answer: impl Fn(&ValueQuery<'_>, Option<Value<'_>>) -> Result<R, CallError> + Send + Sync + 'static,
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
            state.begin_import();
            let handle = state.handle(&of)?;
            handle.check(import, &pointer, access)?;
            let value = handle.value(&state.meter).and_then(|value| value.get(&pointer));
            let answer = answer(&ValueQuery { import, state }, value);
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
    let json = import.text(&store, "a text", &json, MAX_HOSTCALL_BYTES)?;
    let state = store.data();
    state.begin_import();
    let charge = Charge::on(&state.account);
    if !charge.grow(json.len().saturating_add(size_of::<Document>())) {
        return Err(state.out_of_memory(import).into());
    }
    match Document::parse_metered(json.into_owned(), charge, &state.meter) {
        Ok(document) => {
            state.ensure_complete(import, &document)?;
            let handle = Handle::of_document(Arc::new(document));
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
    state.begin_import();
    let handle = state.handle(&of)?;
    handle.check(import, &pointer, Access::Kind)?;
    let mut path = handle.path.clone();
    let from = handle.value(&state.meter);
    let found = from.and_then(|value| value.resolve(&pointer, &mut path)).is_some();
    state.ensure_complete(import, &handle.document)?;
    if !found {
        return Ok((None,));
    }
    let handle = handle.child(&pointer, path);
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
    state.begin_import();
    let (left, right) = (state.handle(&of)?, state.handle(&other)?);
    left.check(import, &pointers.0, Access::Whole)?;
    right.check(import, &pointers.1, Access::Whole)?;
    let answer = opgate_document::equal(
        left.value(&state.meter).and_then(|value| value.get(&pointers.0)),
        right.value(&state.meter).and_then(|value| value.get(&pointers.1)),
    );
    state.ensure_complete(import, &left.document)?;
    state.ensure_complete(import, &right.document)?;
    Ok((answer,))
}

type Columns = WasmList<WasmStr>;

fn table(
    store: Context<'_>,
    query: (Resource<Handle>, WasmStr, Columns),
) -> wasmtime::Result<(Table,)> {
    build_table(
        store,
        query,
        Import("document", "table"),
        Handle::check_column,
        |list, columns, cell| opgate_document::table(list, columns, cell),
    )
}

fn row(
    store: Context<'_>,
    query: (Resource<Handle>, WasmStr, Columns),
) -> wasmtime::Result<(Table,)> {
    build_table(
        store,
        query,
        Import("document", "row"),
        Handle::check_cell,
        |value, columns, cell| opgate_document::row(value, columns, cell),
    )
}

/// A consumer of cells.
type Cells<'c> = &'c mut dyn FnMut(Option<Value<'_>>) -> Result<(), CallError>;

fn build_table(
    mut store: Context<'_>,
    (of, pointer, columns): (Resource<Handle>, WasmStr, Columns),
    import: Import,
    check: impl Fn(&Handle, Import, &str, &str) -> Result<(), CallError>,
    each: impl Fn(Value<'_>, &[Cow<'_, str>], Cells<'_>) -> Result<(), CallError>,
) -> wasmtime::Result<(Table,)> {
    import.check_count("columns", columns.len(), MAX_COLUMNS)?;
    let columns: Vec<WasmStr> = columns.iter(&mut store)?.collect::<wasmtime::Result<_>>()?;
    let columns = columns.iter().map(|column| import.pointer(&store, column));
    let columns: Vec<_> = columns.collect::<wasmtime::Result<_>>()?;
    let pointer = import.pointer(&store, &pointer)?;
    let state = store.data();
    state.begin_import();
    let handle = state.handle(&of)?;
    for column in &columns {
        check(handle, import, &pointer, column)?;
    }
    let list = handle.value(&state.meter).and_then(|value| value.get(&pointer));
    let query = ValueQuery { import, state };
    let answer =
        list.map(|list| collect_cells(&query, |cell| each(list, &columns, cell))).transpose();
    state.ensure_complete(import, &handle.document)?;
    Ok((answer?.unwrap_or_else(|| Table { cells: Vec::new(), texts: String::new() }),))
}

fn collect_cells(
    query: &ValueQuery<'_>,
    each: impl FnOnce(Cells<'_>) -> Result<(), CallError>,
) -> Result<Table, CallError> {
    // Most results need no more, and do not grow step by step.
    let mut table = Table {
        cells: Vec::with_capacity(INITIAL_CAPACITY),
        texts: String::with_capacity(INITIAL_CAPACITY),
    };
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
                query.state.spend(text.len() / 16)?;
                table.texts.push_str(text);
                Cell::Text(u32::try_from(text.len()).unwrap_or(u32::MAX))
            }
            Some(Found::List) => Cell::List(length()),
            Some(Found::Object) => Cell::Object(length()),
        };
        table.cells.push(cell);
        let size = table.cells.capacity().saturating_mul(size_of::<Cell>());
        let size = size.saturating_add(table.texts.capacity());
        if size > charged.saturating_add(CHARGE_INTERVAL_BYTES) {
            query.state.charge(query.import, size.saturating_sub(charged))?;
            charged = size;
        }
        Ok(())
    })?;
    Ok(table)
}
