//! OLM's computations, as in upstream's own tables (`upstream.json`), and properties that hold for
//! all of them.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests may panic, and so may what they share"
)]

#[allow(dead_code, reason = "shared with other tests")]
mod shorthand;

use opgate_operator_group::POLICY;
use opgate_operator_group::apis::{Api, ApiSet};
use opgate_operator_group::group_surface::{ApiReconciliation, Surface};
use opgate_operator_group::install_modes::InstallModes;
use opgate_operator_group::namespaces::NamespaceSet;
use opgate_sdk::Level;
use opgate_sdk_testing::native::verdict;
use proptest::prelude::*;
use serde_json::{Value, json};
use shorthand::{apis, create, csv, group, modes, nothing, object, parsed, text, texts};

const UPSTREAM: &str = include_str!("upstream.json");

// Upstream's tables.

fn table(name: &str) -> Vec<Value> {
    let tables: Value = serde_json::from_str(UPSTREAM).expect("JSON");
    tables[name].as_array().unwrap_or_else(|| panic!("no table {name}")).clone()
}

fn set(value: &Value) -> NamespaceSet {
    texts(value).into_iter().collect()
}

#[test]
fn namespace_sets_are_upstreams() {
    for row in table("intersection") {
        let (left, right, want) = (set(&row["left"]), set(&row["right"]), set(&row["want"]));
        assert_eq!(left.intersection(&right), want, "{row}");
        assert_eq!(left.intersects(&right), !want.is_empty(), "{row}");
    }
    for row in table("union") {
        assert_eq!(set(&row["left"]).union(&set(&row["right"])), set(&row["want"]), "{row}");
    }
    for row in table("isAll") {
        assert_eq!(json!(set(&row["set"]).is_all()), row["want"], "{row}");
    }
    for row in table("contains") {
        assert_eq!(json!(set(&row["set"]).contains(&text(&row["name"]))), row["want"], "{row}");
    }
    for row in table("fromText") {
        let set = NamespaceSet::from_text(&text(&row["text"]));
        assert_eq!(json!(set.contains(&text(&row["name"]))), row["want"], "{row}");
    }
}

fn surface(value: &Value) -> Surface {
    Surface::of(&parsed(value))
}

#[test]
fn groups_intersect_as_upstream() {
    for row in table("newGroup") {
        let mut metadata = json!({"name": "g", "namespace": "ns"});
        if row["annotation"].is_string() {
            metadata["annotations"] = json!({"olm.providedAPIs": row["annotation"]});
        }
        let found =
            surface(&json!({"metadata": metadata, "status": {"namespaces": row["status"]}}));
        assert_eq!(found.targets, set(&row["reach"]), "{row}");
        assert_eq!(found.apis.texts(), texts(&row["apis"]), "{row}");
    }
    for row in table("groupIntersection") {
        let left = surface(&group(&text(&row["left"])));
        let others: Vec<_> = texts(&row["others"]).iter().map(|o| surface(&group(o))).collect();
        let met: Vec<_> = left.overlapping(&others).map(|other| other.namespace.clone()).collect();
        assert_eq!(met, texts(&row["want"]), "{row}");
    }
}

#[test]
fn apis_are_read_and_written_as_upstream() {
    for row in table("parse") {
        let read = ApiSet::parse(&text(&row["text"]));
        assert_eq!(read.texts(), texts(&row["want"]), "{row}");
        assert_eq!(ApiSet::parse(&read.to_string()), read, "{row}");
    }
    for row in table("key") {
        let [kind, version, group] = ["kind", "version", "group"].map(|key| text(&row[key]));
        assert_eq!(Api::new(&kind, &version, &group).to_string(), text(&row["want"]), "{row}");
    }
    for row in table("set") {
        let apis = row["apis"].as_array().expect("a list").iter().map(|api| {
            let parts = texts(api);
            Api::new(&parts[0], &parts[1], &parts[2])
        });
        assert_eq!(apis.collect::<ApiSet>().to_string(), text(&row["want"]), "{row}");
    }
}

/// Each case once as upstream computes it, and once as the verdict for the user who creates the
/// member.
#[test]
fn apis_are_reconciled_as_upstream() {
    let rows = table("reconcile");
    assert_eq!(rows.len(), 26);
    for row in rows {
        let own = format!("ns:{}", text(&row["group"]));
        let others: Vec<_> = texts(&row["others"]).iter().map(|other| group(other)).collect();
        let surfaces: Vec<_> = others.iter().map(surface).collect();
        let add = text(&row["add"]);
        let outcome = surface(&group(&own)).reconcile(&ApiSet::parse(&apis(&add)), &surfaces);
        assert_eq!(format!("{outcome:?}"), text(&row["want"]), "{row}");

        for is_static in [false, true] {
            let mut groups = others.clone();
            groups.push(group(&format!("{own}{}", if is_static { " static" } else { "" })));
            let member = csv("ns/c", "OSMA", &add);
            let expected = match (outcome, is_static) {
                (ApiReconciliation::NoConflict, _) | (ApiReconciliation::Add, false) => vec![],
                (ApiReconciliation::Add | ApiReconciliation::Remove, true) => {
                    vec![("OPG-27", Level::Deny)]
                }
                (ApiReconciliation::Remove, false) => vec![("OPG-26", Level::Warn)],
                (ApiReconciliation::Conflict, _) => vec![("OPG-25", Level::Deny)],
            };
            let found = verdict(&POLICY, &create(&member, &groups));
            let found: Vec<_> =
                found.violations.iter().map(|v| (v.rule.as_str(), v.level)).collect();
            assert_eq!(found, expected, "{row}, static: {is_static}");
        }
    }
}

#[test]
fn install_modes_support_namespaces_as_upstream() {
    for row in table("supports") {
        let modes = InstallModes::new(modes(&text(&row["modes"])));
        let namespaces = texts(&row["namespaces"]);
        let namespaces: Vec<_> = namespaces.iter().map(String::as_str).collect();
        let found = modes.supports(&text(&row["own"]), &namespaces);
        assert_eq!(found.err().unwrap_or_default(), text(&row["want"]), "{row}");
    }
}

// Properties.

fn names() -> impl Strategy<Value = NamespaceSet> {
    let some = proptest::collection::btree_set("[a-e]", 0..4);
    prop_oneof![
        4 => some.prop_map(|names| names.into_iter().collect()),
        1 => Just(NamespaceSet::all()),
    ]
}

/// A group in one of five namespaces, with targets by name or label or all, and some of four APIs.
fn any_group() -> impl Strategy<Value = Value> {
    let targets = prop_oneof![
        3 => proptest::collection::btree_set("[a-e]", 1..3)
            .prop_map(|names| json!({"targetNamespaces": names})),
        1 => Just(json!({})),
        2 => "[a-e]".prop_map(|label| json!({"selector": {"matchExpressions":
            [{"key": label, "operator": "Exists"}]}})),
    ];
    let apis = proptest::collection::btree_set("[K-N]", 0..3);
    ("[a-e]", targets, apis, any::<bool>()).prop_map(|(namespace, spec, apis, synchronised)| {
        let apis: Vec<_> = apis.iter().map(|kind| format!("{kind}.v1.example.com")).collect();
        let mut group = object("OperatorGroup", &format!("{namespace}/g"));
        group["metadata"]["annotations"] = json!({"olm.providedAPIs": apis.join(", ")});
        group["spec"] = spec;
        if synchronised {
            let targets = targets_of(&group);
            if !targets.is_empty() {
                group["status"] = json!({"namespaces": targets});
            }
        }
        group
    })
}

/// The Namespaces of the property test: each has its name and that of its successor as a label.
fn namespaces() -> Vec<Value> {
    let names = ["a", "b", "c", "d", "e"];
    let namespace = |i: usize| {
        let mut namespace = object("Namespace", names[i]);
        namespace["metadata"]["labels"] = json!({names[i]: "", names[(i + 1) % 4]: ""});
        namespace
    };
    (0..names.len()).map(namespace).collect()
}

/// The namespaces in which a group of the property test works, computed without the policy.
fn targets_of(group: &Value) -> Vec<String> {
    let spec = &group["spec"];
    if let Some(key) = spec.pointer("/selector/matchExpressions/0/key") {
        let labelled = |n: &Value| n["metadata"]["labels"].get(text(key)).is_some();
        let found = namespaces().into_iter().filter(labelled);
        return found.map(|n| text(&n["metadata"]["name"])).collect();
    }
    let names = texts(&spec["targetNamespaces"]);
    if names.is_empty() { vec![String::new()] } else { names }
}

fn conflicts(left: &Value, right: &Value) -> bool {
    let synchronised = |group: &Value| {
        let mut group = group.clone();
        group["status"] = json!({"namespaces": targets_of(&group)});
        surface(&group)
    };
    let (left, right) = (synchronised(left), synchronised(right));
    !left.targets.intersection(&right.targets).is_empty()
        && !left.apis.intersection(&right.apis).is_empty()
}

proptest! {
    #[test]
    fn intersection_is_symmetric(left in names(), right in names()) {
        prop_assert_eq!(left.intersection(&right), right.intersection(&left));
        prop_assert_eq!(left.union(&right), right.union(&left));
        prop_assert_eq!(left.intersects(&right), right.intersects(&left));
        prop_assert_eq!(left.intersects(&right), !left.intersection(&right).is_empty());
    }

    #[test]
    fn group_for_all_namespaces_intersects_every_target(other in names()) {
        prop_assert_eq!(NamespaceSet::all().intersects(&other), !other.is_empty());
        prop_assert!(NamespaceSet::all().contains("any"));
    }

    #[test]
    fn a_group_with_targets_works_in_its_own_namespace(targets in names(), own in "[a-g]") {
        let reach = opgate_operator_group::group_surface::targets_with_own(&targets, &own);
        prop_assert_eq!(reach.contains(&own), !targets.is_empty());
        prop_assert!(targets.iter().all(|name| reach.contains(name)));
        prop_assert_eq!(reach.is_all(), targets.is_all());
    }

    /// Objects created in any order: accepted ones never conflict, and each denied one would have.
    #[test]
    fn admitted_groups_do_not_conflict(groups in proptest::collection::vec(any_group(), 0..12)) {
        let namespaces = namespaces();
        let mut admitted: Vec<Value> = Vec::new();
        for group in groups {
            let there = [admitted.as_slice(), namespaces.as_slice()].concat();
            let verdict = verdict(&POLICY, &create(&group, &there));
            let refused_by = |rule: &str| {
                verdict.violations.iter().any(|v| v.rule == rule && v.level == Level::Deny)
            };
            let in_the_way = admitted.iter().any(|other| conflicts(other, &group));
            let namespace = &group["metadata"]["namespace"];
            let same = admitted.iter().any(|other| other["metadata"]["namespace"] == *namespace);
            // A group of the same key is the group itself.
            if same {
                continue;
            }
            prop_assert_eq!(refused_by("OPG-18"), in_the_way, "{} in {:?}", group, admitted);
            if !verdict.violations.iter().any(|v| v.level == Level::Deny) {
                admitted.push(group);
            }
        }
    }
}

/// The documented member of a group for its own namespace.
#[test]
fn a_documented_member_passes_in_its_group() {
    let groups = group("tenant-a/my-group:[tenant-a]{}");
    let own = "EtcdCluster.v1beta2.etcd.database.coreos.com";
    let mut member = csv("tenant-a/etcdoperator.v0.9.4", "OSmA", own);
    member["spec"]["replaces"] = json!("etcdoperator.v0.9.2");
    assert_eq!(verdict(&POLICY, &create(&member, &[groups])), nothing());
}
