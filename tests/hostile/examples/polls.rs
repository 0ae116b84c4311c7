//! Reads polled resources, and resources that need not exist, and reports what it has found.

use opgate_hostile::{Hostile, deny, descriptor, verdict};
use opgate_sdk::bindings::opgate::policy::types;
use opgate_sdk::cluster::Query;
use opgate_sdk::{ClusterRead, Document, GroupVersionResource, Verdict};

/// The policy.
#[derive(Debug)]
pub struct Polls;

opgate_hostile::export!(Polls);

const OPENSHIFT: ClusterRead =
    ClusterRead { group: "config.openshift.io", version: "v1", ..ClusterRead::EMPTY };

/// Each with the one field that is kept.
static READS: [ClusterRead; 5] = [
    ClusterRead {
        group: "opgate.dev",
        version: "v1alpha1",
        resource: "serverversions",
        fields: &["/gitVersion"],
        ..ClusterRead::EMPTY
    },
    ClusterRead {
        group: "packages.operators.coreos.com",
        version: "v1",
        resource: "packagemanifests",
        fields: &["/status/packageName"],
        ..ClusterRead::EMPTY
    },
    ClusterRead { resource: "clusterversions", fields: &["/status/desired/version"], ..OPENSHIFT },
    ClusterRead { resource: "featuregates", fields: &["/spec/featureSet"], ..OPENSHIFT },
    // Every API server has these, and watches none of them.
    ClusterRead {
        version: "v1",
        resource: "componentstatuses",
        fields: &["/metadata/name"],
        ..ClusterRead::EMPTY
    },
];

impl Hostile for Polls {
    fn describe() -> types::Descriptor {
        let read = |read: &ClusterRead| types::ClusterRead {
            resource: GroupVersionResource {
                group: read.group.into(),
                version: read.version.into(),
                resource: read.resource.into(),
            },
            fields: read.fields.iter().map(|&field| field.to_owned()).collect(),
            keys: Vec::new(),
            label_selector: String::new(),
            namespace: None,
            indexes: Vec::new(),
            enabled_by: Vec::new(),
            rules: Vec::new(),
        };
        types::Descriptor { reads: READS.iter().map(read).collect(), ..descriptor() }
    }

    /// Says the kept fields of all objects of the resource that the Bundle is named after.
    fn validate(object: Option<&Document>, _: &Document) -> Verdict {
        let mut verdict = verdict();
        let name = object.map(|object| object.text_or_empty("/metadata/name")).unwrap_or_default();
        for read in READS.iter().filter(|read| read.resource == name) {
            let mut found = Vec::new();
            let asked = read.each(Query::default(), |object| {
                found.extend(read.fields.iter().map(|field| object.text_or_empty(field)));
                true
            });
            let said = match asked {
                Ok(()) => format!("{name}: {found:?}"),
                Err(why) => format!("{name}: {why:?}"),
            };
            deny(&mut verdict, "EVIL-1", "", said);
        }
        verdict
    }
}
