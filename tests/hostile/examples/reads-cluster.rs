//! Reads the cluster without having been allowed to.

use opgate_hostile::{Hostile, deny, verdict};
use opgate_sdk::bindings::opgate::policy::cluster;
use opgate_sdk::{Document, GroupVersionResource, Verdict};

/// The policy.
#[derive(Debug)]
pub struct Reads;

opgate_hostile::export!(Reads);

impl Hostile for Reads {
    fn validate(_: Option<&Document>, _: &Document) -> Verdict {
        let mut verdict = verdict();
        let secrets = GroupVersionResource {
            group: String::new(),
            version: "v1".into(),
            resource: "secrets".into(),
        };
        let query = cluster::Query {
            namespace: None,
            label_selector: None,
            matches: Vec::new(),
            after: None,
            limit: 0,
        };
        let found = cluster::names(&secrets, &query);
        deny(&mut verdict, "EVIL-1", "", format!("{} secrets", found.map_or(0, |list| list.len())));
        verdict
    }
}
