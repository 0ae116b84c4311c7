//! Other objects of the cluster, as the call's reader answers.

use std::borrow::Cow;
use std::sync::Arc;

use opgate_document::Document;
use wasmtime::component::{ComponentType, Lift, LinkerInstance, Resource, WasmList, WasmStr};

use super::generated::opgate::policy::cluster::{ObjectName, ReadError as Refusal};
use super::{Context, Fault, Handle, Import, State, types};
use crate::cluster::reader::{Asked, ReadError};
use crate::cluster::{NotCurrent, Reader};
use crate::engine::limits::HOSTCALL_BYTES;

/// Bytes of a name, conditions of a query, values of a condition.
const NAME: usize = 4 << 10;
const CONDITIONS: usize = 16;
const VALUES: usize = 65_536;

/// Bytes that a text or a handle of an answer takes beside its content.
const EACH: usize = 64;

/// What stands in the memory of the guest, not yet copied.
#[derive(ComponentType, Lift)]
#[component(record)]
struct ResourceInGuest {
    group: WasmStr,
    version: WasmStr,
    resource: WasmStr,
}

#[derive(ComponentType, Lift)]
#[component(record)]
struct NameInGuest {
    namespace: WasmStr,
    name: WasmStr,
}

#[derive(ComponentType, Lift)]
#[component(record)]
struct MatchInGuest {
    index: WasmStr,
    values: WasmList<WasmStr>,
    absent: bool,
}

#[derive(ComponentType, Lift)]
#[component(record)]
struct QueryInGuest {
    namespace: Option<WasmStr>,
    labels: Option<WasmStr>,
    matches: WasmList<MatchInGuest>,
    after: Option<NameInGuest>,
    limit: u32,
}

pub(super) fn define(cluster: &mut LinkerInstance<'_, State>) -> wasmtime::Result<()> {
    cluster.func_wrap("get", get)?;
    cluster.func_wrap("list", list)?;
    cluster.func_wrap("names", names)
}

impl Import {
    fn name(self, store: &Context<'_>, name: &WasmStr) -> wasmtime::Result<String> {
        Ok(self.text(store, "a name", name, NAME)?.into_owned())
    }

    fn resource(
        self,
        store: &Context<'_>,
        resource: &ResourceInGuest,
    ) -> wasmtime::Result<types::GroupVersionResource> {
        Ok(types::GroupVersionResource {
            group: self.name(store, &resource.group)?,
            version: self.name(store, &resource.version)?,
            resource: self.name(store, &resource.resource)?,
        })
    }

    /// Copies a query; all of it together has no more bytes than one call may pass.
    fn query(self, store: &mut Context<'_>, query: &QueryInGuest) -> wasmtime::Result<Asked> {
        let mut left = HOSTCALL_BYTES;
        let optional = |store: &Context<'_>, text: &Option<WasmStr>, most| {
            let text = text
                .as_ref()
                .map(|text| self.text(store, "a query", text, most).map(Cow::into_owned));
            text.transpose()
        };
        let labels = optional(store, &query.labels, left)?;
        let mut take = |bytes: usize| {
            left = left.checked_sub(bytes).ok_or_else(|| {
                let most = crate::policy::units::bytes(HOSTCALL_BYTES);
                Fault::Limit(self, format!("a query of more than {most}"))
            })?;
            Ok::<_, Fault>(())
        };
        take(labels.as_ref().map_or(0, String::len))?;
        let namespace = optional(store, &query.namespace, NAME)?;
        self.count("conditions", query.matches.len(), CONDITIONS)?;
        let matches = query.matches.iter(&mut *store)?;
        let matches: Vec<MatchInGuest> = matches.collect::<wasmtime::Result<_>>()?;
        let mut conditions = Vec::with_capacity(matches.len());
        for found in &matches {
            self.count("values of a condition", found.values.len(), VALUES)?;
            let values: Vec<WasmStr> =
                found.values.iter(&mut *store)?.collect::<wasmtime::Result<_>>()?;
            let mut texts = Vec::with_capacity(values.len());
            for value in &values {
                let text = self.text(store, "a query", value, HOSTCALL_BYTES)?;
                take(text.len().saturating_add(size_of::<String>()))?;
                texts.push(text.into_owned());
            }
            conditions.push((self.name(store, &found.index)?, texts, found.absent));
        }
        let after = query.after.as_ref().map(|after| {
            let (namespace, name) = (&after.namespace, &after.name);
            Ok::<_, wasmtime::Error>((self.name(store, namespace)?, self.name(store, name)?))
        });
        let after = after.transpose()?;
        let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
        // What a selector is compared with is bounded by the cluster; itself, here.
        let bytes = HOSTCALL_BYTES.saturating_sub(left);
        store.data().charge(self, bytes)?;
        store.data().spend(bytes)?;
        Ok(Asked { namespace, labels, matches: conditions, after, limit })
    }
}

/// What the cluster answers. Where it has no current view the call ends here.
fn answer<T>(
    state: &State,
    answer: Result<Result<T, ReadError>, NotCurrent>,
) -> Result<Result<T, Refusal>, Fault> {
    state.spend(1)?;
    match answer {
        Ok(answer) => Ok(answer.map_err(|error| match error {
            ReadError::Absent(why) => Refusal::Absent(why),
            ReadError::Denied(why) => Refusal::Denied(why),
            ReadError::Invalid(why) => Refusal::Invalid(why),
        })),
        Err(NotCurrent::Listing(why)) => Err(Fault::Listing(why)),
        Err(NotCurrent::Unknown(why)) => Err(Fault::Context(why)),
    }
}

/// The reader of this call. Without one nothing was declared.
fn reader(state: &mut State) -> Result<&mut Reader, Refusal> {
    let none = || Refusal::Denied("nothing is declared in `reads`".to_owned());
    state.reader.as_mut().ok_or_else(none)
}

impl State {
    /// A handle of a stored object. Its text counts, which may be a copy with fewer fields, and what is
    /// looked at in it does.
    fn lend_stored(
        &mut self,
        import: Import,
        stored: &Document,
    ) -> Result<Resource<Handle>, Fault> {
        let document = stored.charged_to(&self.account);
        if !document.pay(stored.size().saturating_add(EACH)) {
            return Err(self.out_of_memory(import));
        }
        self.spend(EACH)?;
        self.push(import, Handle::whole(Arc::new(document)))
    }
}

type Answer<T> = wasmtime::Result<(Result<T, Refusal>,)>;

fn get(
    mut store: Context<'_>,
    (resource, namespace, name): (ResourceInGuest, WasmStr, WasmStr),
) -> Answer<Option<Resource<Handle>>> {
    let import = Import("cluster", "get");
    let resource = import.resource(&store, &resource)?;
    let (namespace, name) = (import.name(&store, &namespace)?, import.name(&store, &name)?);
    let state = store.data_mut();
    state.begin();
    let found = match reader(state) {
        Ok(reader) => reader.get(&resource, &namespace, &name),
        Err(error) => return Ok((Err(error),)),
    };
    match answer(state, found)? {
        Ok(Some(document)) => Ok((Ok(Some(state.lend_stored(import, &document)?)),)),
        Ok(None) => Ok((Ok(None),)),
        Err(error) => Ok((Err(error),)),
    }
}

fn list(
    mut store: Context<'_>,
    (resource, query): (ResourceInGuest, QueryInGuest),
) -> Answer<Vec<Resource<Handle>>> {
    let import = Import("cluster", "list");
    let resource = import.resource(&store, &resource)?;
    store.data().begin();
    let query = import.query(&mut store, &query)?;
    let state = store.data_mut();
    let found = match reader(state) {
        Ok(reader) => reader.list(&resource, &query),
        Err(error) => return Ok((Err(error),)),
    };
    match answer(state, found)? {
        Ok(documents) => {
            let mut handles = Vec::with_capacity(documents.len());
            for document in documents {
                handles.push(state.lend_stored(import, &document)?);
            }
            Ok((Ok(handles),))
        }
        Err(error) => Ok((Err(error),)),
    }
}

fn names(
    mut store: Context<'_>,
    (resource, query): (ResourceInGuest, QueryInGuest),
) -> Answer<Vec<ObjectName>> {
    let import = Import("cluster", "names");
    let resource = import.resource(&store, &resource)?;
    store.data().begin();
    let query = import.query(&mut store, &query)?;
    let state = store.data_mut();
    let found = match reader(state) {
        Ok(reader) => reader.names(&resource, &query),
        Err(error) => return Ok((Err(error),)),
    };
    let found = answer(state, found)?;
    if let Ok(names) = &found {
        let bytes = names.iter().map(|(namespace, name)| namespace.len() + name.len() + EACH);
        let bytes = bytes.sum::<usize>();
        state.charge(import, bytes)?;
        state.spend(bytes / 8)?;
    }
    let name = |(namespace, name)| ObjectName { namespace, name };
    Ok((found.map(|names| names.into_iter().map(name).collect()),))
}
