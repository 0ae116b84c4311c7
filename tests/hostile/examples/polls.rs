//! Reads what is polled, and what need not be there, and says what it has found.

use opgate_hostile::{Hostile, deny, descriptor, verdict};
use opgate_sdk::bindings::opgate::policy::cluster;
use opgate_sdk::bindings::opgate::policy::types::{ClusterRead, Descriptor};
use opgate_sdk::{Document, GroupVersionResource, Verdict};

/// The policy.
#[derive(Debug)]
pub struct Polls;

opgate_hostile::export!(Polls);

/// Group, version, resource, and the field that is kept.
const READS: [[&str; 4]; 4] = [
    ["opgate.dev", "v1alpha1", "serverversions", "/gitVersion"],
    ["packages.operators.coreos.com", "v1", "packagemanifests", "/status/packageName"],
    ["config.openshift.io", "v1", "clusterversions", "/status/desired/version"],
    ["config.openshift.io", "v1", "featuregates", "/spec/featureSet"],
];

fn resource([group, version, resource, _]: [&str; 4]) -> GroupVersionResource {
    GroupVersionResource { group: group.into(), version: version.into(), resource: resource.into() }
}

impl Hostile for Polls {
    fn describe() -> Descriptor {
        let read = |read: [&str; 4]| ClusterRead {
            resource: resource(read),
            fields: vec![read[3].to_owned()],
            keys: Vec::new(),
            labels: String::new(),
            namespace: None,
            indexes: Vec::new(),
            rules: Vec::new(),
        };
        Descriptor { reads: READS.into_iter().map(read).collect(), ..descriptor() }
    }

    /// Says the kept fields of all objects of the resource that the Bundle is named after.
    fn validate(object: Option<&Document>, _: &Document) -> Verdict {
        let mut verdict = verdict();
        let name = object.map(|object| object.text_or_empty("/metadata/name")).unwrap_or_default();
        for read in READS.into_iter().filter(|read| read[2] == name) {
            let query = cluster::Query {
                namespace: None,
                labels: None,
                matches: Vec::new(),
                after: None,
                limit: 0,
            };
            let said = match cluster::list(&resource(read), &query) {
                Ok(found) => {
                    let text = |found: &Document| found.text(read[3]).unwrap_or_default();
                    format!("{}: {:?}", name, found.iter().map(text).collect::<Vec<_>>())
                }
                Err(why) => format!("{why:?}"),
            };
            deny(&mut verdict, "EVIL-1", "", said);
        }
        verdict
    }
}
