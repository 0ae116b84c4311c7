//! Reads the cluster without having been allowed to.

use opgate_sdk::bindings::opgate::policy::cluster;
use opgate_sdk::{Descriptor, Document, GroupVersionResource, Policy, Request, Verdict};

/// The policy.
#[derive(Debug)]
pub struct Reads;

opgate_sdk::export!(Reads);

impl Policy for Reads {
    fn describe() -> Descriptor {
        opgate_hostile::DESCRIPTOR
    }

    fn validate(_: &Request, _: Option<&Document>, _: Option<&Document>, _: &Document) -> Verdict {
        let mut verdict = Verdict::default();
        let secrets = GroupVersionResource {
            group: String::new(),
            version: "v1".into(),
            resource: "secrets".into(),
        };
        let query = cluster::Query {
            namespace: None,
            labels: None,
            matches: Vec::new(),
            after: None,
            limit: 0,
        };
        let found = cluster::names(&secrets, &query);
        verdict.deny("EVIL-1", "", format!("{} secrets", found.map_or(0, |list| list.len())));
        verdict
    }
}
