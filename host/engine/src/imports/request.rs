//! The request under review: each part is copied when a guest asks for it.

use wasmtime::component::{ComponentNamedList, LinkerInstance, Lower, Resource, ResourceType};

use super::{Asked, Context, Fault, Import, State};
use crate::inputs::RequestParts;

/// Bytes that a text of its own takes beside its content, on the host and on its way.
const TEXT: usize = 48;

pub(super) fn define(request: &mut LinkerInstance<'_, State>) -> wasmtime::Result<()> {
    // There is one request in a call: its handle stands for nothing else.
    request.resource("request", ResourceType::host::<Asked>(), |_, _| Ok(()))?;
    part(request, "[method]request.uid", "uid", |r| r.uid.len(), |r| (r.uid.clone(),))?;
    part(
        request,
        "[method]request.kind",
        "kind",
        |r| r.kind.group.len() + r.kind.version.len() + r.kind.kind.len() + 2 * TEXT,
        |r| (r.kind.clone(),),
    )?;
    part(
        request,
        "[method]request.resource",
        "resource",
        |r| {
            let resource = &r.resource;
            resource.group.len() + resource.version.len() + resource.resource.len() + 2 * TEXT
        },
        |r| (r.resource.clone(),),
    )?;
    part(
        request,
        "[method]request.sub-resource",
        "sub-resource",
        |r| r.sub_resource.len(),
        |r| (r.sub_resource.clone(),),
    )?;
    part(request, "[method]request.name", "name", |r| r.name.len(), |r| (r.name.clone(),))?;
    part(
        request,
        "[method]request.namespace",
        "namespace",
        |r| r.namespace.len(),
        |r| (r.namespace.clone(),),
    )?;
    part(
        request,
        "[method]request.user",
        "user",
        |r| {
            let user = &r.user;
            let groups = user.groups.iter().map(|group| group.len() + TEXT).sum::<usize>();
            user.username.len() + user.uid.len() + groups + 2 * TEXT
        },
        |r| (r.user.clone(),),
    )?;
    part(request, "[method]request.dry-run", "dry-run", |_| 0, |r| (r.dry_run,))
}

/// Defines a question about the request. `size` is what the answer takes.
fn part<R>(
    request: &mut LinkerInstance<'_, State>,
    name: &str,
    short: &'static str,
    size: fn(&RequestParts) -> usize,
    answer: fn(&RequestParts) -> R,
) -> wasmtime::Result<()>
where
    R: ComponentNamedList + Lower + Send + Sync + 'static,
{
    let import = Import("request", short);
    request.func_wrap(name, move |store: Context<'_>, (_,): (Resource<Asked>,)| {
        let state = store.data();
        let Some(inputs) = &state.inputs else {
            return Err(
                Fault::Limit(import, "no request: there is none in this call".to_owned()).into()
            );
        };
        state.begin();
        let size = size(&inputs.request).saturating_add(TEXT);
        state.charge(import, size)?;
        state.spend(size / 16)?;
        Ok(answer(&inputs.request))
    })
}
