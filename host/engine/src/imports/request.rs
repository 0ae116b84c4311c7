//! The request under review. Each part is copied when a guest reads it.

use wasmtime::component::{ComponentNamedList, LinkerInstance, Lower, Resource, ResourceType};

use super::{CallError, Context, Import, RequestHandle, State};
use crate::inputs::RequestParts;

/// Bytes of a separate text in addition to its content, in the host and on its way.
const TEXT_OVERHEAD_BYTES: usize = 48;

pub(super) fn define(request: &mut LinkerInstance<'_, State>) -> wasmtime::Result<()> {
    // There is one request in a call, so its handle has no other meaning.
    request.resource("request", ResourceType::host::<RequestHandle>(), |_, _| Ok(()))?;
    let text = |name, short, text: fn(&RequestParts) -> &str| (name, short, text);
    for (name, short, text) in [
        text("[method]request.uid", "uid", RequestParts::uid),
        text("[method]request.sub-resource", "sub-resource", RequestParts::sub_resource),
        text("[method]request.name", "name", RequestParts::name),
        text("[method]request.namespace", "namespace", RequestParts::namespace),
    ] {
        define_query(request, name, short, move |r| text(r).len(), move |r| (text(r).to_owned(),))?;
    }
    define_query(
        request,
        "[method]request.kind",
        "kind",
        |r| r.kind_size() + 2 * TEXT_OVERHEAD_BYTES,
        |r| (r.kind(),),
    )?;
    define_query(
        request,
        "[method]request.resource",
        "resource",
        |r| r.resource_size() + 2 * TEXT_OVERHEAD_BYTES,
        |r| (r.resource(),),
    )?;
    define_query(
        request,
        "[method]request.user",
        "user",
        |r| r.user_size() + (r.groups() + 2) * TEXT_OVERHEAD_BYTES,
        |r| (r.user(),),
    )?;
    let answer = |r: &RequestParts| (r.wants_fixes(),);
    define_query(request, "[method]request.wants-fixes", "wants-fixes", |_| 0, answer)?;
    define_query(request, "[method]request.dry-run", "dry-run", |_| 0, |r| (r.is_dry_run(),))
}

/// Defines a query about the request. `size` is the size of the result.
fn define_query<R>(
    request: &mut LinkerInstance<'_, State>,
    name: &str,
    short: &'static str,
    size: impl Fn(&RequestParts) -> usize + Send + Sync + 'static,
    answer: impl Fn(&RequestParts) -> R + Send + Sync + 'static,
) -> wasmtime::Result<()>
where
    R: ComponentNamedList + Lower + Send + Sync + 'static,
{
    let import = Import("request", short);
    request.func_wrap(name, move |store: Context<'_>, (_,): (Resource<RequestHandle>,)| {
        let state = store.data();
        let Some(inputs) = &state.inputs else {
            return Err(CallError::ImportLimit(
                import,
                "no request: there is none in this call".to_owned(),
            )
            .into());
        };
        state.begin_import();
        let size = size(&inputs.request).saturating_add(TEXT_OVERHEAD_BYTES);
        state.charge(import, size)?;
        state.spend(size / 16)?;
        Ok(answer(&inputs.request))
    })
}
