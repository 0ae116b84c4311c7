//! Servers that differ from each other: by what their Leases say, and by the images of their pods.

use std::collections::BTreeMap;

use crate::facts::Facts;
use crate::facts::object::{Kind, Object, list, text};
use crate::facts::workload::{Workload, selected_pods};
use crate::finding::{Findings, join_names};
use crate::finding_docs::Doc;
use crate::finding_docs::replicas::{CA_BUNDLES_DIFFER, CONFIGURATIONS_DIFFER, VERSIONS_DIFFER};

/// Label of the Leases of servers, and beginning of their names.
const REPLICA_LABEL: &str = "opgate.dev/replica";
const LEASE_NAME_PREFIX: &str = "opgate-replica-";

/// Facts in a Lease, and the findings if two Leases differ.
const COMPARED_ANNOTATIONS: [(&str, &str, &Doc); 4] = [
    ("opgate.dev/version", "version", &VERSIONS_DIFFER),
    ("opgate.dev/configuration", "configuration", &CONFIGURATIONS_DIFFER),
    ("opgate.dev/registration", "registration", &CONFIGURATIONS_DIFFER),
    ("opgate.dev/ca", "CA bundle", &CA_BUNDLES_DIFFER),
];

pub(super) fn check(facts: &Facts, found: &mut Findings) {
    check_images(facts, found);
    if !found.require_kind(facts, Kind::Lease, "whether the servers agree") {
        return;
    }
    // The Lease of a removed server is irrelevant; it expires.
    let has_pod = |lease: &Object| {
        let name = lease.name.strip_prefix(LEASE_NAME_PREFIX).unwrap_or_default();
        facts.ensure_known(Kind::Pod).is_err()
            || facts.own_objects(Kind::Pod).any(|pod| pod.name == name)
    };
    let is_replica = |lease: &Object| {
        lease.label(REPLICA_LABEL) == Some("true") || lease.name.starts_with(LEASE_NAME_PREFIX)
    };
    let leases: Vec<_> =
        facts.own_objects(Kind::Lease).filter(|one| is_replica(one) && has_pod(one)).collect();
    for (annotation, what, doc) in COMPARED_ANNOTATIONS {
        let mut said: BTreeMap<&str, Vec<&Object>> = BTreeMap::new();
        for lease in &leases {
            if let Some(value) = lease.annotation(annotation) {
                said.entry(value).or_default().push(lease);
            }
        }
        let few = said.iter().min_by_key(|(_, leases)| leases.len());
        if let Some((_, few)) = few.filter(|_| said.len() > 1)
            && let Some(first) = few.first()
        {
            let shown = said.iter().map(|(value, leases)| {
                let servers =
                    leases.iter().map(|one| one.name.trim_start_matches(LEASE_NAME_PREFIX));
                format!("{value} on {}", join_names(servers))
            });
            let shown: Vec<_> = shown.collect();
            let what = format!(
                "{} {what}s: {}",
                shown.len(),
                join_names(shown.iter().map(String::as_str))
            );
            let repair = "wait for an update to end; if it does not, see the log of the servers that are behind";
            found.add(doc, *first, &format!("metadata.annotations[{annotation}]"), &what, repair);
        }
    }
}

/// Digests of the images that run.
fn check_images(facts: &Facts, found: &mut Findings) {
    if !found.require_kind(facts, Kind::Pod, "whether the servers run the same image") {
        return;
    }
    let (Some(service), Some(workload)) = (facts.service(), Workload::of(facts)) else { return };
    let container = text(workload.container, "/name");
    let mut images: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for pod in selected_pods(facts, service) {
        let statuses = list(&pod.value, "/status/containerStatuses").iter();
        let mut statuses = statuses.filter(|status| text(status, "/name") == container);
        let image = statuses.next().map(|status| text(status, "/imageID")).unwrap_or_default();
        if let Some((_, digest)) = image.rsplit_once('@') {
            images.entry(digest).or_default().push(&pod.name);
        }
    }
    if images.len() > 1 {
        let shown = images
            .iter()
            .map(|(digest, pods)| format!("{digest} in {}", join_names(pods.iter().copied())));
        let shown: Vec<_> = shown.collect();
        let what =
            format!("{} images: {}", shown.len(), join_names(shown.iter().map(String::as_str)));
        let repair = "wait for an update to end; kubectl rollout status says why it does not";
        found.add(&VERSIONS_DIFFER, workload.object, &workload.field("image"), &what, repair);
    }
}
