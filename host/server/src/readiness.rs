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
pub(super) fn why_not(
    set: &PolicySet,
    draining: &AtomicBool,
    open: &AtomicBool,
    sync_timeout: Option<Duration>,
) -> Vec<String> {
    if draining.load(Ordering::Relaxed) {
        return vec!["draining".to_owned()];
    }
    let missed = set.broken().iter().filter(|b| b.fails_closed());
    let mut lines: Vec<_> = missed.map(|b| format!("policy {}: {}", b.name, b.error)).collect();
    if !open.load(Ordering::Relaxed) {
        lines.push("the webhook port is not open yet".to_owned());
        lines.extend(unseen(set));
    } else if sync_timeout.is_some_and(|time| is_blind(set.cluster(), time)) {
        lines.extend(unseen(set));
    } else {
        lines.extend(locked_out(set));
    }
    lines
}

/// The reason why no request can be decided: every policy without which requests fail needs
/// resources, and the API server has denied all of them for longer than the maximum age of the
/// cache. Without such a policy, no request depends on the server.
fn locked_out(set: &PolicySet) -> Option<String> {
    let cluster = set.cluster();
    let mut refused: Option<&Arc<ResourceCache>> = None;
    for policy in set.policies().iter().filter(|policy| policy.can_block_api_servers()) {
        // All users may read the version of the API server.
        let kinds = policy.readings.iter().filter_map(|reading| cluster.kind_of(reading));
        let mut kinds = kinds.filter(|kind| !kind.resource().is_server_version()).peekable();
        kinds.peek()?;
        if !kinds.all(|kind| {
            let is_locked_out = kind.is_locked_out();
            refused = refused.or(Some(kind).filter(|_| is_locked_out));
            is_locked_out
        }) {
            return None;
        }
    }
    let kind = refused?;
    let why = kind.status().error.unwrap_or_default();
    Some(format!(
        "no policy can decide: the API server refuses all that they read: {} {why}",
        kind.name()
    ))
}

/// Whether no resource has been listed yet, or the first one only a moment ago and others not yet.
/// A new server without permissions must not replace one that has them.
fn is_blind(cluster: &ClusterState, sync_timeout: Duration) -> bool {
    !cluster.is_seen() && cluster.longest_seen().is_none_or(|longest| longest < sync_timeout)
}

/// Resources that were never listed, by the policies that can block and need them.
pub(super) fn unseen(set: &PolicySet) -> Vec<String> {
    if set.cluster().options().source != Source::Live {
        return Vec::new();
    }
    let blocking = set.policies().iter().filter(|policy| policy.can_block());
    let needs = blocking.flat_map(|policy| {
        policy.readings.iter().map(move |reading| (policy.name.as_str(), reading))
    });
    let why = |(policy, reading): (&str, &ResolvedRead)| {
        let kind = set.cluster().kind_of(reading)?;
        let status = kind.status();
        (!status.standing.was_listed()).then(|| {
            format!("policy {policy}: {} {}", kind.name(), status.error.unwrap_or_default())
        })
    };
    needs.filter_map(why).collect()
}

/// A line for each resource: `[+]` if its cache is ready, `[-]` if it is not, `[!]` if its watch
/// fails, or its lists if it is polled.
pub(super) fn resources(set: &PolicySet) -> Vec<String> {
    if set.cluster().options().source != Source::Live {
        return Vec::new();
    }
    set.cluster().kinds().iter().map(|kind| resource(set, kind)).collect()
}

fn resource(set: &PolicySet, kind: &ResourceCache) -> String {
    let status = kind.status();
    let (mark, text) = match (status.standing, status.interrupted) {
        (CacheStatus::Listing | CacheStatus::Unseen | CacheStatus::TooOld, _) => {
            ("-", String::new())
        }
        (_, Some(since)) => ("!", format!("interrupted for {} s", since.as_secs())),
        (CacheStatus::NotInstalled, None) => ("+", "not installed".to_owned()),
        (CacheStatus::Current, None) => ("+", format!("current, {} objects", status.objects)),
    };
    let polled = match status.age.filter(|_| status.polled && !text.is_empty()) {
        Some(age) => format!(", polled {} s ago", age.as_secs()),
        None => String::new(),
    };
    let unreadable = match status.unreadable.saturating_sub(status.by_name) {
        0 => String::new(),
        some => format!(", {some} of them cannot be read"),
    };
    let by_name = match status.by_name {
        0 => String::new(),
        some => {
            let namespaces = status.crowded.join(", ");
            format!(", no memory for {some} of the namespaces {namespaces}")
        }
    };
    let error = status.error.filter(|_| mark != "+").map(|error| match text.as_str() {
        "" => error,
        _ => format!(": {error}"),
    });
    let needed = match mark {
        "+" => String::new(),
        _ => format!("; needed by {}", needed_by(set, kind).join(", ")),
    };
    let error = error.unwrap_or_default();
    format!("[{mark}]{} {text}{unreadable}{by_name}{polled}{error}{needed}", kind.name())
}
