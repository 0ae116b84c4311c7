//! Whether the server should get requests, and the state of each resource that policies read.
//!
//! A server that cannot read one resource still serves. The policies that need it fail only when
//! they need it, and another replica would know no more. A server is not ready only if it has not
//! started to serve, has no cluster state, or lacks a policy. A server that has just started to
//! list the cluster gets some time to list all of it.
//!
//! A server that can no longer decide any request is not ready, either (docs/adr/0041): the API
//! server responds, but has denied all reads for too long, and there is no policy that needs no
//! reads. While an API server does not respond, the server stays ready: such an API server sends
//! no reviews, and when it is back, it must find servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opgate_admission::cluster::{CacheStatus, ClusterState, ResolvedRead, ResourceCache, Source};
use opgate_admission::policy::PolicySet;

use super::state::needed_by;

/// The reasons why the server is not ready, one for each line; empty if it is ready.
/// `sync_timeout` is the time that the first set has to list the cluster; a set that replaced
/// another has a complete list.
pub(super) fn unready_reasons(
    set: &PolicySet,
    draining: &AtomicBool,
    open: &AtomicBool,
    sync_timeout: Option<Duration>,
) -> Vec<String> {
    if draining.load(Ordering::Relaxed) {
        return vec!["draining".to_owned()];
    }
    let failed = set.broken().iter().filter(|b| b.fails_closed());
    let mut lines: Vec<_> = failed.map(|b| format!("policy {}: {}", b.name, b.error)).collect();
    if !open.load(Ordering::Relaxed) {
        lines.push("the webhook port is not open yet".to_owned());
        lines.extend(unlisted_resources(set));
    } else if sync_timeout.is_some_and(|time| is_awaiting_first_sync(set.cluster(), time)) {
        lines.extend(unlisted_resources(set));
    } else {
        lines.extend(locked_out_reason(set));
    }
    lines
}

/// The reason why no request can be decided: every policy without which requests fail needs
/// resources, and the API server has denied all of them for longer than the maximum age of the
/// cache. Without such a policy, no request depends on the server.
fn locked_out_reason(set: &PolicySet) -> Option<String> {
    let cluster = set.cluster();
    let mut denied: Option<&Arc<ResourceCache>> = None;
    for policy in set.policies().iter().filter(|policy| policy.can_block_api_servers()) {
        // All users may read the version of the API server.
        let kinds = policy.reads.iter().filter_map(|read| cluster.cache_of(read));
        let mut kinds = kinds.filter(|cache| !cache.resource().is_server_version()).peekable();
        kinds.peek()?;
        if !kinds.all(|cache| {
            let is_locked_out = cache.is_access_denied();
            denied = denied.or(Some(cache).filter(|_| is_locked_out));
            is_locked_out
        }) {
            return None;
        }
    }
    let cache = denied?;
    let why = cache.status().error.unwrap_or_default();
    Some(format!(
        "no policy can decide: the API server refuses all that they read: {} {why}",
        cache.name()
    ))
}

/// Whether no resource has been listed yet, or the first one only a moment ago and others not yet.
/// A new server without permissions must not replace one that has them.
fn is_awaiting_first_sync(cluster: &ClusterState, sync_timeout: Duration) -> bool {
    !cluster.is_synced()
        && cluster.time_since_first_list().is_none_or(|longest| longest < sync_timeout)
}

/// Resources that were never listed, by the policies that can block and need them, and the ledger of shared
/// reservations if it cannot be used.
pub(super) fn unlisted_resources(set: &PolicySet) -> Vec<String> {
    if set.cluster().options().source != Source::Live {
        return Vec::new();
    }
    let blocking = set.policies().iter().filter(|policy| policy.can_block());
    let needs = blocking
        .flat_map(|policy| policy.reads.iter().map(move |read| (policy.name.as_str(), read)));
    let why = |(policy, read): (&str, &ResolvedRead)| {
        let cache = set.cluster().cache_of(read)?;
        let status = cache.status();
        (!status.cache_status.was_listed()).then(|| {
            format!("policy {policy}: {} {}", cache.name(), status.error.unwrap_or_default())
        })
    };
    let ledger = set.cluster().ledger_status().and_then(|ledger| ledger.problem);
    let ledger = ledger.map(|problem| format!("ledger of shared reservations: {problem}"));
    needs.filter_map(why).chain(ledger).collect()
}

/// A line for each resource: `[+]` if its cache is ready, `[-]` if it is not, `[!]` if its watch
/// fails, or its lists if it is polled.
pub(super) fn resource_lines(set: &PolicySet) -> Vec<String> {
    if set.cluster().options().source != Source::Live {
        return Vec::new();
    }
    set.cluster().caches().iter().map(|cache| resource_line(set, cache)).collect()
}

fn resource_line(set: &PolicySet, cache: &ResourceCache) -> String {
    let status = cache.status();
    let (mark, text) = match (status.cache_status, status.interrupted) {
        (CacheStatus::Listing | CacheStatus::NeverListed | CacheStatus::Stale, _) => {
            ("-", String::new())
        }
        (_, Some(since)) => ("!", format!("interrupted for {} s", since.as_secs())),
        (CacheStatus::NotInstalled, None) => ("+", "not installed".to_owned()),
        (CacheStatus::Ready, None) => ("+", format!("current, {} objects", status.objects)),
    };
    let polled = match status.since_contact.filter(|_| status.polled && !text.is_empty()) {
        Some(age) => format!(", polled {} s ago", age.as_secs()),
        None => String::new(),
    };
    let unreadable = match status.unreadable.saturating_sub(status.name_only) {
        0 => String::new(),
        some => format!(", {some} of them cannot be read"),
    };
    let by_name = match status.name_only {
        0 => String::new(),
        some => {
            let namespaces = status.namespaces_over_limit.join(", ");
            format!(", no memory for {some} of the namespaces {namespaces}")
        }
    };
    let error = status.error.filter(|_| mark != "+").map(|error| match text.as_str() {
        "" => error,
        _ => format!(": {error}"),
    });
    let needed = match mark {
        "+" => String::new(),
        _ => format!("; needed by {}", needed_by(set, cache).join(", ")),
    };
    let error = error.unwrap_or_default();
    format!("[{mark}]{} {text}{unreadable}{by_name}{polled}{error}{needed}", cache.name())
}
