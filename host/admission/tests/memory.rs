//! Memory of a store in its process. Alone in its binary: no other test allocates at the same time.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::fmt::Write as _;

use opgate_cluster::{Declaration, Index, Store};
use opgate_document::Document;

const ACCOUNTS: usize = 40;

/// Bytes of this process that are no pages of files.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() << 10
}

/// Builds an object that a tenant may store: an API server limits neither the number of labels nor their
/// bytes.
fn account(number: usize) -> String {
    let mut labels = String::new();
    for label in 0..17_500 {
        let comma = if label > 0 { "," } else { "" };
        let _ = write!(
            labels,
            r#"{comma}"example.com/label-{label:05}":"value-{label:05}-{number:03}""#
        );
    }
    format!(
        r#"{{"metadata":{{"labels":{{{labels}}},"name":"account-{number:03}","namespace":"tenant","resourceVersion":"{number}","uid":"u-{number}"}}}}"#
    )
}

#[test]
#[cfg(target_os = "linux")]
fn equal_labels_of_objects_are_stored_once() {
    // As a server does.
    opgate_system::map_large_allocations_separately();
    let indexes =
        [Index { name: "name".into(), field: "/metadata/name".into(), separator: String::new() }];
    let declaration = Declaration::new(&[], &[], &indexes).unwrap();
    let mut store = Store::new(1);
    let (mut sent, before) = (0, resident_bytes());
    for number in 0..ACCOUNTS {
        let json = account(number);
        sent += json.len();
        store.add(declaration.project(Document::of(json).unwrap().root()).unwrap());
    }
    let taken = resident_bytes() - before;
    println!(
        "{ACCOUNTS} accounts with 17,500 labels each, {} MiB: {} MiB resident, {} MiB counted",
        sent >> 20,
        taken >> 20,
        store.bytes() >> 20
    );
    assert!(taken < sent + sent / 4, "{taken} of {sent}");
    assert!(store.bytes() >= sent && store.bytes() < sent + sent / 4, "{}", store.bytes());
}
