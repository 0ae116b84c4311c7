//! ConfigMaps of RukPak's namespace: those that a Bundle refers to do not change (RPK-19) and stay
//! (RPK-20). After rukpak v0.16.0 internal/webhook/configmaps.go.

use opgate_sdk::cluster::{Match, Query, ReadError};
use opgate_sdk::conventions::is_terminating;
use opgate_sdk::go::quote;
use opgate_sdk::{Document, Operation, Verdict};

use crate::context::{BUNDLES, LeftOut, NO_BUNDLES, SYSTEM_NAMESPACE};
use crate::{Review, source};

/// What the host keeps of a message; more names would be cut.
const MESSAGE: usize = 4_096;
/// Entries of Bundles that are looked at to count references.
const ENTRIES: usize = 10_000;

pub(crate) fn judge(review: &Review<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    let request = review.request;
    let (rule, subject) = match request.operation {
        Operation::Create => ("RPK-19", review.object),
        Operation::Delete => ("RPK-20", review.old),
        Operation::Update | Operation::Connect => return verdict,
    };
    let Some(object) = subject else { return verdict };
    if request.namespace != SYSTEM_NAMESPACE.of(review.settings)
        // What has been deleted is not deleted once more.
        || (request.operation == Operation::Delete && is_terminating(object))
        || review.conventions.exempts(request)
    {
        return verdict;
    }
    let name = object.text("/metadata/name").unwrap_or_else(|| request.name.clone());
    let judged = match request.operation {
        Operation::Create => created(object, &name, &mut verdict),
        _ => deleted(review.settings, &name, &mut verdict),
    };
    if judged.is_err() {
        let mut left_out = LeftOut::default();
        left_out.add(rule, NO_BUNDLES);
        left_out.report(review, "", &mut verdict);
    }
    verdict
}

/// RPK-19: what a Bundle waits for is created immutable.
fn created(object: &Document, name: &str, verdict: &mut Verdict) -> Result<(), ReadError> {
    if object.boolean("/immutable") == Some(true) {
        return Ok(());
    }
    // As upstream, a Bundle is listed once for each of its references.
    let mut bundles: Vec<String> = Vec::new();
    let (mut length, mut to_look_at) = (0, ENTRIES);
    referring(name, |bundle| {
        if bundle.text_or_empty("/spec/source/type") == "configMaps" {
            let referrer = bundle.text_or_empty("/metadata/name");
            for _ in 0..references(&bundle, name, &mut to_look_at) {
                if length >= MESSAGE {
                    break;
                }
                length += referrer.len() + 1;
                bundles.push(referrer.clone());
            }
        }
        length < MESSAGE
    })?;
    if !bundles.is_empty() {
        let message = format!(
            "configmap {} is referenced in .spec.source.configMaps[].configMap.name by bundles [{}]; referenced configmaps must have .immutable == true",
            quote(name),
            bundles.join(" ")
        );
        verdict.deny("RPK-19", "immutable", message);
    }
    Ok(())
}

/// RPK-20: what a Bundle refers to is not deleted. Upstream names the first Bundle that it finds, of
/// whatever source type.
fn deleted(settings: &Document, name: &str, verdict: &mut Verdict) -> Result<(), ReadError> {
    let respects_type = settings.boolean("/rukpak/deleteRespectsType") == Some(true);
    let mut user = None;
    referring(name, |bundle| {
        if !respects_type || bundle.text_or_empty("/spec/source/type") == "configMaps" {
            user = Some(bundle.text_or_empty("/metadata/name"));
        }
        user.is_none()
    })?;
    if let Some(bundle) = user {
        let message = format!("configmap {} is in-use by bundle {}", quote(name), quote(&bundle));
        verdict.deny("RPK-20", "", message);
    }
    Ok(())
}

/// The Bundles that refer to a ConfigMap, in byte order of their names.
fn referring(name: &str, visit: impl FnMut(Document) -> bool) -> Result<(), ReadError> {
    let values = [name.to_owned()];
    let matches = [Match { index: "configmap", values: &values, absent: false }];
    BUNDLES.each(Query { matches: &matches, ..Query::default() }, visit)
}

/// How often a Bundle refers to a ConfigMap: at least once, because it was found by that.
fn references(bundle: &Document, name: &str, to_look_at: &mut usize) -> usize {
    let entries = source::entries(bundle, "/spec/source/configMaps").take(*to_look_at);
    let (mut looked_at, mut count) = (0, 0);
    for (_, entry) in entries {
        looked_at += 1;
        count += usize::from(bundle.text_or_empty(&format!("{entry}/configMap/name")) == name);
    }
    *to_look_at -= looked_at;
    count.max(1)
}
