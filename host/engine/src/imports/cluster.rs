//! Other objects of the cluster, from the reader of the call.

use std::borrow::Cow;
use std::sync::Arc;

use opgate_cluster::{Key, Object};
use wasmtime::component::{ComponentType, Lift, LinkerInstance, Resource, WasmList, WasmStr};

use super::generated::opgate::policy::cluster::{ObjectName, ReadError as Refusal, SampleResult};
use super::{CallError, Context, Handle, Import, State, types};
use crate::limits::MAX_HOSTCALL_BYTES;
use crate::reader::{
    CacheUnavailable, ClusterReader, PolicyQuery, QueryResult, ReadError, ResultAccounts, Sample,
};

/// Maximum bytes of a name, conditions of a query, and values of a condition.
const MAX_NAME_BYTES: usize = 4 << 10;
const MAX_CONDITIONS: usize = 16;
const MAX_VALUES: usize = 65_536;

/// Bytes of values that are charged together.
const CHARGE_INTERVAL_BYTES: usize = 4 << 10;

/// Bytes of a name in a result in addition to its content.
const NAME_OVERHEAD_BYTES: usize = 64;

/// Data in the memory of the guest that is not copied yet.
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
    #[component(name = "include-missing")]
    include_missing: bool,
}

#[derive(ComponentType, Lift)]
#[component(record)]
struct QueryInGuest {
    namespace: Option<WasmStr>,
    #[component(name = "label-selector")]
    label_selector: Option<WasmStr>,
    matches: WasmList<MatchInGuest>,
    after: Option<NameInGuest>,
    limit: u32,
}

pub(super) fn define(cluster: &mut LinkerInstance<'_, State>) -> wasmtime::Result<()> {
    cluster.func_wrap("get", get)?;
    cluster.func_wrap("list", list)?;
    cluster.func_wrap("names", names)?;
    cluster.func_wrap("sample", sample)
}

impl Import {
    fn name(self, store: &Context<'_>, name: &WasmStr) -> wasmtime::Result<String> {
        Ok(self.text(store, "a name", name, MAX_NAME_BYTES)?.into_owned())
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

    /// Copies a query. Together, its parts have at most the bytes that one call may pass. They are
    /// charged while they are copied.
    fn query(self, store: &mut Context<'_>, query: &QueryInGuest) -> wasmtime::Result<PolicyQuery> {
        let mut left = MAX_HOSTCALL_BYTES;
        let too_large = || {
            let most = opgate_text::units::bytes(MAX_HOSTCALL_BYTES);
            CallError::ImportLimit(self, format!("a query of more than {most}"))
        };
        let mut take = |state: &State, bytes: usize| {
            left = left.checked_sub(bytes).ok_or_else(too_large)?;
            state.charge(self, bytes)?;
            state.spend(bytes)
        };
        // Short values are charged together.
        let mut due = 0_usize;
        let optional = |store: &Context<'_>, text: &Option<WasmStr>, most| {
            let text = text
                .as_ref()
                .map(|text| self.text(store, "a query", text, most).map(Cow::into_owned));
            text.transpose()
        };
        let labels = optional(store, &query.label_selector, MAX_HOSTCALL_BYTES)?;
        take(store.data(), labels.as_ref().map_or(0, String::len))?;
        let namespace = optional(store, &query.namespace, MAX_NAME_BYTES)?;
        self.check_count("conditions", query.matches.len(), MAX_CONDITIONS)?;
        let matches = query.matches.iter(&mut *store)?;
        let matches: Vec<MatchInGuest> = matches.collect::<wasmtime::Result<_>>()?;
        let mut values = 0_usize;
        for found in &matches {
            self.check_count("values of a condition", found.values.len(), MAX_VALUES)?;
            values = values.saturating_add(found.values.len());
        }
        let each = size_of::<String>();
        if values.saturating_mul(each) > MAX_HOSTCALL_BYTES {
            return Err(too_large().into());
        }
        let mut conditions = Vec::with_capacity(matches.len());
        for found in &matches {
            take(store.data(), found.values.len().saturating_mul(each))?;
            let mut values = Vec::with_capacity(found.values.len());
            for value in found.values.iter(&mut *store)? {
                values.push(value?);
            }
            let mut texts = Vec::with_capacity(values.len());
            for value in &values {
                let text = self.text(store, "a query", value, MAX_HOSTCALL_BYTES)?;
                due = due.saturating_add(text.len());
                if due > CHARGE_INTERVAL_BYTES {
                    take(store.data(), std::mem::take(&mut due))?;
                }
                texts.push(text.into_owned());
            }
            conditions.push((self.name(store, &found.index)?, texts, found.include_missing));
        }
        take(store.data(), due)?;
        let after = query.after.as_ref().map(|after| {
            let (namespace, name) = (&after.namespace, &after.name);
            Ok::<_, wasmtime::Error>((self.name(store, namespace)?, self.name(store, name)?))
        });
        let after = after.transpose()?;
        let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
        Ok(PolicyQuery { namespace, labels, matches: conditions, after, limit })
    }
}

/// Queries the cluster. If the cache is not ready, or the result exceeds the account of the call,
/// the call ends here.
fn query_cluster<T>(
    state: &mut State,
    import: Import,
    question: impl FnOnce(
        &mut dyn ClusterReader,
        ResultAccounts<'_>,
    ) -> Result<Result<T, ReadError>, CacheUnavailable>,
) -> Result<Result<T, Refusal>, CallError> {
    let State { reader, meter, account, .. } = state;
    let Some(reader) = reader.as_mut() else {
        // Without a reader, no reads were declared.
        return Ok(Err(Refusal::NotDeclared("nothing is declared in `reads`".to_owned())));
    };
    let result = question(reader.as_mut(), ResultAccounts { meter, account });
    state.spend(1)?;
    if state.account.is_exhausted() {
        return Err(state.out_of_memory(import));
    }
    match result {
        Ok(result) => Ok(result.map_err(|error| match error {
            ReadError::NoCluster(why) => Refusal::NoCluster(why),
            ReadError::NotDeclared(why) => Refusal::NotDeclared(why),
            ReadError::Invalid(why) => Refusal::Invalid(why),
            ReadError::NotGranted(why) => Refusal::NotGranted(why),
            ReadError::Unavailable(why) => Refusal::Unavailable(why),
        })),
        Err(CacheUnavailable::Listing(why)) => Err(CallError::Listing(why)),
        Err(CacheUnavailable::NotReady(why)) => Err(CallError::CacheNotReady(why)),
        Err(CacheUnavailable::SampleNeeded(what)) => Err(CallError::SampleNeeded(what)),
        Err(CacheUnavailable::SampleQueueFull(why)) => Err(CallError::SampleQueueFull(why)),
    }
}

impl State {
    /// A handle of a stored object.
    fn lend_stored(
        &mut self,
        import: Import,
        found: &QueryResult,
        object: &Object,
    ) -> Result<Resource<Handle>, CallError> {
        let accounts = ResultAccounts { meter: &self.meter, account: &self.account };
        let document = found.document(object, accounts);
        self.spend(1)?;
        let document = document.ok_or_else(|| self.out_of_memory(import))?;
        self.push(import, Handle::of_stored(Arc::new(document), found.declared_read().cloned()))
    }
}

type ImportResult<T> = wasmtime::Result<(Result<T, Refusal>,)>;

fn get(
    mut store: Context<'_>,
    (resource, namespace, name): (ResourceInGuest, WasmStr, WasmStr),
) -> ImportResult<Option<Resource<Handle>>> {
    let import = Import("cluster", "get");
    let resource = import.resource(&store, &resource)?;
    let (namespace, name) = (import.name(&store, &namespace)?, import.name(&store, &name)?);
    let state = store.data_mut();
    state.begin_import();
    let found = query_cluster(state, import, |reader, accounts| {
        reader.get(&resource, &namespace, &name, accounts)
    })?;
    let found = match found {
        Ok(found) => found,
        Err(error) => return Ok((Err(error),)),
    };
    let object = found.objects().first();
    let object = object.map(|object| state.lend_stored(import, &found, object)).transpose()?;
    Ok((Ok(object),))
}

fn list(
    mut store: Context<'_>,
    (resource, query): (ResourceInGuest, QueryInGuest),
) -> ImportResult<Vec<Resource<Handle>>> {
    let import = Import("cluster", "list");
    let resource = import.resource(&store, &resource)?;
    store.data().begin_import();
    let query = import.query(&mut store, &query)?;
    let state = store.data_mut();
    let found = match query_cluster(state, import, |reader, accounts| {
        reader.list(&resource, query, accounts)
    })? {
        Ok(found) => found,
        Err(error) => return Ok((Err(error),)),
    };
    let handles = found.objects().iter().map(|object| state.lend_stored(import, &found, object));
    Ok((Ok(handles.collect::<Result<_, _>>()?),))
}

fn names(
    mut store: Context<'_>,
    (resource, query): (ResourceInGuest, QueryInGuest),
) -> ImportResult<Vec<ObjectName>> {
    let import = Import("cluster", "names");
    let resource = import.resource(&store, &resource)?;
    store.data().begin_import();
    let query = import.query(&mut store, &query)?;
    let state = store.data_mut();
    let found = match query_cluster(state, import, |reader, accounts| {
        reader.names(&resource, query, accounts)
    })? {
        Ok(found) => found,
        Err(error) => return Ok((Err(error),)),
    };
    let size = |key: &Key| key.namespace.len() + key.name.len() + NAME_OVERHEAD_BYTES;
    state.charge(import, found.objects().iter().map(|object| size(object.key())).sum())?;
    let mut names = Vec::with_capacity(found.objects().len());
    for object in found.objects() {
        let key = object.key();
        state.spend(size(key) / 2)?;
        let (namespace, name) = (key.namespace.to_string(), key.name.to_string());
        names.push(ObjectName { namespace, name });
    }
    Ok((Ok(names),))
}

fn sample(
    mut store: Context<'_>,
    (resource, limit): (ResourceInGuest, u32),
) -> ImportResult<SampleResult> {
    let import = Import("cluster", "sample");
    let resource = import.resource(&store, &resource)?;
    let state = store.data_mut();
    state.begin_import();
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let found = match query_cluster(state, import, |reader, _| reader.sample(&resource, limit))? {
        Ok(found) => found,
        Err(error) => return Ok((Err(error),)),
    };
    let mut objects = Vec::with_capacity(found.objects.len());
    for text in &found.objects {
        let accounts = ResultAccounts { meter: &state.meter, account: &state.account };
        let document = Sample::document(text, accounts);
        state.spend(1)?;
        let document = document.ok_or_else(|| state.out_of_memory(import))?;
        objects.push(state.push(import, Handle::of_document(Arc::new(document)))?);
    }
    Ok((Ok(SampleResult { objects, complete: found.complete }),))
}
