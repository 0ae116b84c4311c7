//! A cluster in files: the output of `kubectl get -A -o yaml`, taken as complete, and that of
//! `kubectl get --raw /version`.

use opgate_cluster::server_version;
use opgate_document::{Document, Value};
use opgate_upstream::kinds::plural;
use tokio::time::Instant;

use super::Cluster;

/// Objects from files.
#[derive(Debug, Default)]
pub struct Snapshot {
    documents: Vec<Document>,
}

impl Snapshot {
    /// Adds an object, a list of objects, or the version of the API server; returns the number of
    /// objects.
    ///
    /// # Errors
    /// If it is neither: what is missing, and at which JSON pointer.
    pub fn add(&mut self, document: Document) -> Result<usize, String> {
        if server_version(document.root()).is_some() {
            self.documents.push(document);
            return Ok(1);
        }
        let mut count = 0;
        objects(document.root(), |pointer, object, _, _| {
            let named = object.get("/metadata/name").and_then(|name| name.text());
            if named.is_none_or(str::is_empty) {
                return Err(format!("{pointer}/metadata/name is missing: not a Kubernetes object"));
            }
            count += 1;
            Ok(())
        })?;
        self.documents.push(document);
        Ok(count)
    }

    /// Makes these the only objects of a view of the cluster. Objects that no policy reads are left
    /// out, except for some custom resources of each kind, for samples.
    pub fn fill(&self, cluster: &Cluster) {
        for kind in cluster.kinds() {
            kind.replace(kind.empty(), Instant::now());
        }
        cluster.files.clear();
        let versions = || cluster.kinds().iter().filter(|kind| kind.resource().is_server_version());
        for document in &self.documents {
            if let Some(version) = server_version(document.root()) {
                versions().for_each(|kind| kind.apply(version.root(), ""));
                continue;
            }
            // As a list of an API server.
            let mut listings: Vec<_> = cluster.kinds().iter().map(|kind| kind.empty()).collect();
            let filled = objects(document.root(), |_, object, group, resource| {
                cluster.files.put(group, resource, object, "");
                let read = |kind: &&std::sync::Arc<super::Kind>| {
                    let known = kind.resource();
                    // Only what the API server answers says which one it is.
                    let is_version = known.is_server_version();
                    known.group == group && known.resource == resource && !is_version
                };
                for (kind, listing) in cluster.kinds().iter().zip(&mut listings) {
                    if read(&kind) {
                        kind.take(listing, object, "");
                    }
                }
                Ok(())
            });
            for (kind, listing) in cluster.kinds().iter().zip(listings) {
                kind.merge(listing);
            }
            // They were checked when they were added.
            debug_assert!(filled.is_ok(), "{filled:?}");
        }
    }
}

/// Calls `visit` with each object: its JSON pointer, the object, its API group and resource.
fn objects(
    root: Value<'_>,
    mut visit: impl FnMut(&str, Value<'_>, &str, &str) -> Result<(), String>,
) -> Result<(), String> {
    let text =
        |value: Value<'_>, name: &str| value.get(name).and_then(|v| v.text()).map(str::to_owned);
    let missing =
        |pointer: &str, name: &str| format!("{pointer}{name} is missing: not a Kubernetes object");
    let api = text(root, "/apiVersion").ok_or_else(|| missing("", "/apiVersion"))?;
    let kind = text(root, "/kind").ok_or_else(|| missing("", "/kind"))?;
    let items = root.get("/items").filter(|_| kind.ends_with("List"));
    let Some(items) = items else {
        return visit("", root, group(&api), &plural(&kind));
    };
    match items.kind() {
        // Go writes an empty list in this form.
        opgate_document::Kind::List | opgate_document::Kind::Null => {}
        _ => return Err("/items is not a list".to_owned()),
    }
    // The elements of a typed list have no kind.
    let element = kind.strip_suffix("List").filter(|kind| !kind.is_empty());
    for (index, item) in items.items().enumerate() {
        let pointer = format!("/items/{index}");
        let own_kind = text(item, "/kind").or_else(|| element.map(str::to_owned));
        let own_kind = own_kind.ok_or_else(|| missing(&pointer, "/kind"))?;
        let own_api = text(item, "/apiVersion").unwrap_or_else(|| api.clone());
        visit(&pointer, item, group(&own_api), &plural(&own_kind))?;
    }
    Ok(())
}

fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}
