//! What wasmtime makes of `wit/policy.wit`, and what the imports do.
//!
//! Imports are look-ups in memory; none waits. Everything that a guest passes is bounded before it
//! gets here (hostcall fuel) and every handle is counted.

use std::sync::Arc;

use opgate_document::{Document, Kind as Found, Value};
use wasmtime::component::{Resource, ResourceTable};

use super::limits::{Fault, Limiter};
use crate::cluster::reader::{Asked, ReadError};
use crate::cluster::{NotCurrent, Reader};

#[allow(
    clippy::all,
    clippy::pedantic,
    clippy::as_conversions,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unreachable,
    clippy::allow_attributes_without_reason,
    missing_docs,
    unsafe_code,
    unused_qualifications,
    reason = "generated code"
)]
mod generated {
    wasmtime::component::bindgen!({
        path: "../wit/policy.wit",
        world: "cluster-policy",
        with: { "opgate:policy/document.document": super::Handle },
        imports: { default: trappable },
    });
}

pub(crate) use generated::opgate::policy::cluster;
pub(crate) use generated::opgate::policy::document::{self, Cell, Kind, Table};
pub(crate) use generated::opgate::policy::log::{self, Severity};
pub use generated::opgate::policy::types;
pub(crate) use generated::{ClusterPolicy, ClusterPolicyPre};

/// Lines of log kept of one call, and bytes of each.
const LOG_LINES: usize = 64;
const LOG_BYTES: usize = 2_048;

/// Bytes of a cell of a table in the memory of a guest.
const CELL: usize = 8;

/// What a document handle of a guest stands for: a document and the way to a value in it.
#[derive(Clone)]
#[expect(unreachable_pub, reason = "the generated module re-exports it")]
pub struct Handle {
    document: Arc<Document>,
    path: Vec<u32>,
}

impl Handle {
    pub(crate) fn whole(document: Arc<Document>) -> Self {
        Self { document, path: Vec::new() }
    }

    fn value(&self, pointer: &str) -> Option<Value<'_>> {
        self.document.follow(&self.path)?.get(pointer)
    }
}

/// What the host keeps for one instance, which lives for one call.
pub(crate) struct State {
    pub(crate) handles: ResourceTable,
    pub(crate) limiter: Limiter,
    pub(crate) log: Vec<(Severity, String)>,
    /// Bytes of JSON that the guest had parsed. They are kept outside of its memory, and count
    /// against the same limit.
    pub(crate) parsed: usize,
    /// What the guest may read of the cluster.
    pub(crate) reader: Option<Reader>,
}

impl State {
    fn handle(&self, handle: &Resource<Handle>) -> wasmtime::Result<&Handle> {
        Ok(self.handles.get(handle)?)
    }
}

impl types::Host for State {}

impl document::Host for State {}

impl document::HostDocument for State {
    fn parse(&mut self, json: String) -> wasmtime::Result<Result<Resource<Handle>, String>> {
        self.parsed = self.parsed.saturating_add(json.len());
        self.limiter.check(self.parsed)?;
        match Document::of(json) {
            Ok(document) => Ok(Ok(self.handles.push(Handle::whole(Arc::new(document)))?)),
            Err(error) => Ok(Err(error.to_string())),
        }
    }

    fn kind(&mut self, of: Resource<Handle>, pointer: String) -> wasmtime::Result<Kind> {
        Ok(match self.handle(&of)?.value(&pointer).map(|v| v.kind()) {
            None => Kind::Missing,
            Some(Found::Null) => Kind::Null,
            Some(Found::Boolean) => Kind::Boolean,
            Some(Found::Number) => Kind::Number,
            Some(Found::Text) => Kind::Text,
            Some(Found::List) => Kind::List,
            Some(Found::Object) => Kind::Object,
        })
    }

    fn text(&mut self, of: Resource<Handle>, pointer: String) -> wasmtime::Result<Option<String>> {
        let value = self.handle(&of)?.value(&pointer);
        Ok(value.and_then(|v| v.text()).map(str::to_owned))
    }

    fn boolean(&mut self, of: Resource<Handle>, pointer: String) -> wasmtime::Result<Option<bool>> {
        Ok(self.handle(&of)?.value(&pointer).and_then(|v| v.boolean()))
    }

    fn integer(&mut self, of: Resource<Handle>, pointer: String) -> wasmtime::Result<Option<i64>> {
        Ok(self.handle(&of)?.value(&pointer).and_then(|v| v.integer()))
    }

    fn number(&mut self, of: Resource<Handle>, pointer: String) -> wasmtime::Result<Option<f64>> {
        Ok(self.handle(&of)?.value(&pointer).and_then(|v| v.number()))
    }

    fn length(&mut self, of: Resource<Handle>, pointer: String) -> wasmtime::Result<Option<u32>> {
        let length = self.handle(&of)?.value(&pointer).and_then(|v| v.length());
        Ok(length.and_then(|length| u32::try_from(length).ok()))
    }

    fn keys(&mut self, of: Resource<Handle>, pointer: String) -> wasmtime::Result<Vec<String>> {
        let members = self.handle(&of)?.value(&pointer).into_iter().flat_map(|v| v.members());
        Ok(members.map(|(name, _)| name.to_owned()).collect())
    }

    fn table(
        &mut self,
        of: Resource<Handle>,
        pointer: String,
        columns: Vec<String>,
    ) -> wasmtime::Result<Table> {
        let mut table = Table { cells: Vec::new(), texts: String::new() };
        let limiter = &mut self.limiter;
        let Some(list) = self.handles.get(&of)?.value(&pointer) else { return Ok(table) };
        opgate_document::table(list, &columns, |found| {
            let length = || found.and_then(|value| value.length()).unwrap_or_default();
            let cell = match found.map(|value| value.kind()) {
                None => Cell::Missing,
                Some(Found::Null) => Cell::Null,
                Some(Found::Boolean) => {
                    Cell::Boolean(found.and_then(|value| value.boolean()).unwrap_or_default())
                }
                Some(Found::Number) => Cell::Number,
                Some(Found::Text) => {
                    let text = found.and_then(|value| value.text()).unwrap_or_default();
                    table.texts.push_str(text);
                    Cell::Text(u32::try_from(text.len())?)
                }
                Some(Found::List) => Cell::List(u32::try_from(length())?),
                Some(Found::Object) => Cell::Object(u32::try_from(length())?),
            };
            table.cells.push(cell);
            // It has to fit into the memory of the guest: nothing larger is put together.
            limiter.check(table.texts.len().saturating_add(table.cells.len().saturating_mul(CELL)))
        })?;
        Ok(table)
    }

    fn at(
        &mut self,
        of: Resource<Handle>,
        pointer: String,
    ) -> wasmtime::Result<Option<Resource<Handle>>> {
        let mut found = self.handle(&of)?.clone();
        let from = found.document.follow(&found.path);
        let there = from.and_then(|value| value.resolve(&pointer, &mut found.path)).is_some();
        if there { Ok(Some(self.handles.push(found)?)) } else { Ok(None) }
    }

    fn raw(&mut self, of: Resource<Handle>, pointer: String) -> wasmtime::Result<Option<Vec<u8>>> {
        Ok(self.handle(&of)?.value(&pointer).map(|v| v.raw().as_bytes().to_vec()))
    }

    fn size(&mut self, of: Resource<Handle>, pointer: String) -> wasmtime::Result<Option<u32>> {
        let size = self.handle(&of)?.value(&pointer).map(|v| v.raw().len());
        Ok(size.map(|size| u32::try_from(size).unwrap_or(u32::MAX)))
    }

    fn equal(
        &mut self,
        of: Resource<Handle>,
        pointer: String,
        other: Resource<Handle>,
        other_pointer: String,
    ) -> wasmtime::Result<bool> {
        let (left, right) = (self.handle(&of)?, self.handle(&other)?);
        Ok(opgate_document::equal(left.value(&pointer), right.value(&other_pointer)))
    }

    fn drop(&mut self, handle: Resource<Handle>) -> wasmtime::Result<()> {
        self.handles.delete(handle)?;
        Ok(())
    }
}

impl log::Host for State {
    fn log(&mut self, severity: Severity, message: String) -> wasmtime::Result<()> {
        // The last place is for the last error: that is what a panic writes.
        if self.log.len() == LOG_LINES && severity == Severity::Error {
            self.log.pop();
        }
        if self.log.len() < LOG_LINES {
            self.log.push((severity, crate::text::one_line(&message, LOG_BYTES)));
        }
        Ok(())
    }
}

impl State {
    /// The reader of this call. Without one nothing was declared.
    fn reader(&mut self) -> Result<&mut Reader, cluster::ReadError> {
        let none = || cluster::ReadError::Denied("nothing is declared in `reads`".to_owned());
        self.reader.as_mut().ok_or_else(none)
    }

    /// What the cluster answers. Where it has no current view the call ends here.
    fn answer<T>(
        &mut self,
        answer: Result<Result<T, ReadError>, NotCurrent>,
    ) -> wasmtime::Result<Result<T, cluster::ReadError>> {
        match answer {
            Ok(answer) => Ok(answer.map_err(|error| match error {
                ReadError::Absent(why) => cluster::ReadError::Absent(why),
                ReadError::Denied(why) => cluster::ReadError::Denied(why),
                ReadError::Invalid(why) => cluster::ReadError::Invalid(why),
            })),
            Err(NotCurrent::Listing(why)) => Err(self.limiter.end(Fault::Listing(why))),
            Err(NotCurrent::Unknown(why)) => Err(self.limiter.end(Fault::Context(why))),
        }
    }
}

impl From<cluster::Query> for Asked {
    fn from(query: cluster::Query) -> Self {
        Self {
            namespace: query.namespace,
            labels: query.labels,
            matches: query.matches.into_iter().map(|m| (m.index, m.values, m.absent)).collect(),
            after: query.after.map(|after| (after.namespace, after.name)),
            limit: usize::try_from(query.limit).unwrap_or(usize::MAX),
        }
    }
}

impl cluster::Host for State {
    fn get(
        &mut self,
        resource: types::GroupVersionResource,
        namespace: String,
        name: String,
    ) -> wasmtime::Result<Result<Option<Resource<Handle>>, cluster::ReadError>> {
        let found = match self.reader() {
            Ok(reader) => reader.get(&resource, &namespace, &name),
            Err(error) => return Ok(Err(error)),
        };
        match self.answer(found)? {
            Ok(Some(document)) => Ok(Ok(Some(self.handles.push(Handle::whole(document))?))),
            Ok(None) => Ok(Ok(None)),
            Err(error) => Ok(Err(error)),
        }
    }

    fn list(
        &mut self,
        resource: types::GroupVersionResource,
        query: cluster::Query,
    ) -> wasmtime::Result<Result<Vec<Resource<Handle>>, cluster::ReadError>> {
        let found = match self.reader() {
            Ok(reader) => reader.list(&resource, &query.into()),
            Err(error) => return Ok(Err(error)),
        };
        match self.answer(found)? {
            Ok(documents) => {
                let push = |document| Ok(self.handles.push(Handle::whole(document))?);
                documents.into_iter().map(push).collect::<wasmtime::Result<_>>().map(Ok)
            }
            Err(error) => Ok(Err(error)),
        }
    }

    fn names(
        &mut self,
        resource: types::GroupVersionResource,
        query: cluster::Query,
    ) -> wasmtime::Result<Result<Vec<cluster::ObjectName>, cluster::ReadError>> {
        let found = match self.reader() {
            Ok(reader) => reader.names(&resource, &query.into()),
            Err(error) => return Ok(Err(error)),
        };
        let name = |(namespace, name)| cluster::ObjectName { namespace, name };
        Ok(self.answer(found)?.map(|names| names.into_iter().map(name).collect()))
    }
}
