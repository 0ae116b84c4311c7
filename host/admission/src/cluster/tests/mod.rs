//! Views, reservations and verdicts, without policies and without a network.

mod beside;
mod decide;
mod kind;
mod model;
mod polled;
mod reader;

use super::*;

/// A resource of which `spec`, found by an index, is kept.
fn cluster(options: Options) -> Cluster {
    labelled(options, "{}")
}

/// The same, of objects with some labels only.
fn labelled(options: Options, selector: &str) -> Cluster {
    let resource = Resource { group: "g".into(), version: "v1".into(), resource: "r".into() };
    let index = opgate_cluster::Index {
        name: "spec".into(),
        field: "/spec".into(),
        separator: String::new(),
    };
    let declaration = Declaration::new(&["/spec".to_owned()], &[], &[index]).unwrap();
    let labels = opgate_cluster::selector(Document::parse(selector).unwrap().root()).unwrap();
    let reading = Reading { resource, declaration, labels, namespace: None, optional: false };
    Cluster::new(&[reading], options)
}

fn object(name: &str, version: &str, uid: &str, spec: &str) -> Arc<Document> {
    let json = format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"ns","resourceVersion":"{version}","uid":"{uid}"}},"spec":"{spec}"}}"#
    );
    Arc::new(Document::parse(&json).unwrap())
}

fn key(name: &str) -> Key {
    Key::new("ns", name)
}

/// Takes over a whole list.
fn list(kind: &Kind, version: &str, objects: &[Arc<Document>]) {
    let mut listing = Listing { version: version.to_owned(), ..kind.empty() };
    for object in objects {
        kind.take(&mut listing, object.root(), "");
    }
    kind.replace(listing, tokio::time::Instant::now());
}
