//! Servers that differ from each other: by what their Leases say, and by the images of their pods.

use std::collections::BTreeMap;

use crate::cli::doctor::catalog::Doc;
use crate::cli::doctor::catalog::replicas::{BUNDLES, CONFIGURATIONS, VERSIONS};
use crate::cli::doctor::facts::Facts;
use crate::cli::doctor::facts::object::{Kind, Object, list, text};
use crate::cli::doctor::facts::workload::{Workload, selected};
use crate::cli::doctor::finding::{Findings, names};

/// Label of the Leases of servers, and beginning of their names.
const REPLICA: &str = "opgate.dev/replica";
const PREFIX: &str = "opgate-replica-";

/// Facts in a Lease, and the findings if two Leases differ.
const SAID: [(&str, &str, &Doc); 4] = [
    ("opgate.dev/version", "version", &VERSIONS),
    ("opgate.dev/configuration", "configuration", &CONFIGURATIONS),
    ("opgate.dev/registration", "registration", &CONFIGURATIONS),
    ("opgate.dev/ca", "CA bundle", &BUNDLES),
];

pub(super) fn check(facts: &Facts, found: &mut Findings) {
    images(facts, found);
    if !found.needs(facts, Kind::Lease, "whether the servers agree") {
        return;
    }
    // The Lease of a removed server is irrelevant; it expires.
    let has_pod = |lease: &Object| {
        let name = lease.name.strip_prefix(PREFIX).unwrap_or_default();
        facts.knows(Kind::Pod).is_err() || facts.own(Kind::Pod).any(|pod| pod.name == name)
    };
    let is_replica =
        |lease: &Object| lease.label(REPLICA) == Some("true") || lease.name.starts_with(PREFIX);
    let leases: Vec<_> =
        facts.own(Kind::Lease).filter(|one| is_replica(one) && has_pod(one)).collect();
    for (annotation, what, doc) in SAID {
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
                let servers = leases.iter().map(|one| one.name.trim_start_matches(PREFIX));
                format!("{value} on {}", names(servers))
            });
            let shown: Vec<_> = shown.collect();
            let what =
                format!("{} {what}s: {}", shown.len(), names(shown.iter().map(String::as_str)));
            let repair = "wait for an update to end; if it does not, see the log of the servers that are behind";
            found.add(doc, *first, &format!("metadata.annotations[{annotation}]"), &what, repair);
        }
    }
}

/// Digests of the images that run.
fn images(facts: &Facts, found: &mut Findings) {
    if !found.needs(facts, Kind::Pod, "whether the servers run the same image") {
        return;
    }
    let (Some(service), Some(workload)) = (facts.service(), Workload::of(facts)) else { return };
    let container = text(workload.container, "/name");
    let mut images: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for pod in selected(facts, service) {
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
            .map(|(digest, pods)| format!("{digest} in {}", names(pods.iter().copied())));
        let shown: Vec<_> = shown.collect();
        let what = format!("{} images: {}", shown.len(), names(shown.iter().map(String::as_str)));
        let repair = "wait for an update to end; kubectl rollout status says why it does not";
        found.add(&VERSIONS, workload.object, &workload.field("image"), &what, repair);
    }
}
