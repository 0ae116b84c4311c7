//! What policies ask by names that tenants have written.

use super::*;
use crate::cluster::reader::Asked as Question;
use crate::engine::wit;

#[test]
fn impossible_names_are_answered_and_not_asked() {
    let cluster = Arc::new(cluster(Options::of(Source::Live)));
    list(&cluster.kinds[0], "1", &[object("rbac:name,with=all", "1", "u", "x")]);
    let reading = cluster.kinds[0].reading().clone();
    let view = Arc::new(View::new(&cluster, &[reading], Vec::new()));
    let resource =
        wit::GroupVersionResource { group: "g".into(), version: "v1".into(), resource: "r".into() };
    for (namespace, name, is_possible) in [
        ("ns", "a", true),
        ("ns", "rbac:name,with=all", true),
        ("", "a", true),
        ("x/clusterserviceversions?watch=1&y=", "a", false),
        ("..", "a", false),
        ("Upper", "a", false),
        ("ns", "", false),
        ("ns", "..", false),
        ("ns", "a/status", false),
        ("ns", "%2e%2e", false),
    ] {
        let mut reader = view.reader(Lens::default());
        let found = reader.get(&resource, namespace, name).unwrap().unwrap();
        let there = namespace == "ns" && name == "rbac:name,with=all";
        assert_eq!(found.is_some(), there, "{namespace} {name}");
        assert_eq!(!reader.asked().is_empty(), is_possible, "{namespace} {name}");
        let mut reader = view.reader(Lens::default());
        let query = Question { namespace: Some(namespace.to_owned()), ..Question::default() };
        let names = reader.names(&resource, &query).unwrap().unwrap();
        assert!(names.is_empty() || namespace == "ns", "{namespace}");
    }
}
