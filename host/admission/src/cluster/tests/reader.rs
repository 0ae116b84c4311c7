//! Queries of policies by names that tenants have written.

use std::sync::atomic::{AtomicU64, Ordering};

use opgate_document::{Account, Deadline, Meter};

use super::*;
use opgate_engine::reader::{ClusterReader as _, PolicyQuery as Question, ResultAccounts};
use opgate_engine::wit;

/// Ends after this many checks.
struct ExpiresAfter(AtomicU64);

impl Deadline for ExpiresAfter {
    fn is_expired(&self) -> bool {
        let less = |left: u64| left.checked_sub(1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_err()
    }
}

fn meter(looks: u64) -> Meter {
    Meter::new(Arc::new(ExpiresAfter(AtomicU64::new(looks))))
}

fn resource() -> wit::GroupVersionResource {
    wit::GroupVersionResource { group: "g".into(), version: "v1".into(), resource: "r".into() }
}

#[test]
fn impossible_names_are_not_requested() {
    let cluster = Arc::new(cluster(ClusterOptions::of(Source::Live)));
    apply_list(&cluster.caches[0], "1", &[object("rbac:name,with=all", "1", "u", "x")]);
    let reading = cluster.caches[0].resolved_read().clone();
    let view = Arc::new(PolicyView::new(&cluster, &[reading], Vec::new()));
    let resource = resource();
    let (meter, account) = (meter(u64::MAX), Account::new(1 << 20));
    let payer = ResultAccounts { meter: &meter, account: &account };
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
        let mut reader = view.reader(EvaluationView::default());
        let found = reader.get(&resource, namespace, name, payer).unwrap().unwrap();
        let there = namespace == "ns" && name == "rbac:name,with=all";
        assert_eq!(!found.objects().is_empty(), there, "{namespace} {name}");
        assert_eq!(!reader.queries().is_empty(), is_possible, "{namespace} {name}");
        let mut reader = view.reader(EvaluationView::default());
        let query = Question { namespace: Some(namespace.to_owned()), ..Question::default() };
        let names = reader.names(&resource, query, payer).unwrap().unwrap();
        assert!(names.objects().is_empty() || namespace == "ns", "{namespace}");
    }
}

/// A query costs the objects that it visits, and ends at the limit of the call.
#[test]
fn queries_are_charged_and_stop_at_the_limit() {
    const OBJECT_COUNT: usize = 10_000;
    let cluster = Arc::new(cluster(ClusterOptions::of(Source::Live)));
    let kind = &cluster.caches[0];
    let stored: Vec<_> =
        (0..OBJECT_COUNT).map(|n| object(&format!("o{n}"), "1", "u", &format!("v{n}"))).collect();
    apply_list(kind, "1", &stored);
    // Others are allowed, and not visible yet.
    let reserve = |n: usize| {
        let object = object(&format!("r{n}"), "", "", &format!("v{n}"));
        assert!(reserve_for(kind, "u", &key(&format!("r{n}")), &object, ""));
    };
    let view = Arc::new(PolicyView::new(&cluster, &[kind.resolved_read().clone()], Vec::new()));
    let values: Vec<_> = (0..OBJECT_COUNT).map(|n| format!("v{n}")).collect();
    let index = |values: &[String]| Question {
        matches: vec![("spec".to_owned(), values.to_vec(), false)],
        ..Question::default()
    };
    let labels = |json: String| Question { labels: Some(json), ..Question::default() };
    let expression = |values: &str| {
        format!(r#"{{"matchExpressions":[{{"key":"a","operator":"In","values":[{values}]}}]}}"#)
    };
    let keys: Vec<_> =
        (0..2_000).map(|n| format!(r#"{{"key":"k{n}","operator":"DoesNotExist"}}"#)).collect();
    let questions: [(&str, &dyn Fn() -> Question, usize); 5] = [
        ("all", &Question::default, 8 * OBJECT_COUNT),
        ("many values", &|| index(&values), 64 * OBJECT_COUNT),
        (
            "many values and nothing",
            &|| index(&vec!["x".to_owned(); OBJECT_COUNT]),
            32 * OBJECT_COUNT,
        ),
        (
            "a selector of many values",
            &|| labels(expression(&vec!["\"a\""; OBJECT_COUNT].join(","))),
            32 * OBJECT_COUNT,
        ),
        (
            "a selector of many keys",
            &|| labels(format!(r#"{{"matchExpressions":[{}]}}"#, keys.join(","))),
            100 * OBJECT_COUNT,
        ),
    ];
    for with_reservations in [false, true] {
        if with_reservations {
            (0..100).for_each(reserve);
        }
        for (what, question, least) in &questions {
            let account = Account::new(64 << 20);
            let ask = |looks: u64| {
                let meter = meter(looks);
                let payer = ResultAccounts { meter: &meter, account: &account };
                let found =
                    view.reader(EvaluationView::default()).names(&resource(), question(), payer);
                let count = found.unwrap().map_or(0, |found| found.objects().len());
                (count, meter)
            };
            let (count, patient) = ask(u64::MAX);
            let spent = usize::try_from(patient.spent()).unwrap();
            assert!(spent >= *least, "{what}: {spent} units");
            assert!(!patient.is_stopped());
            if *what == "all" || *what == "many values" {
                assert!(count >= OBJECT_COUNT, "{what}: {count}");
            }
            if spent > 40_000 {
                let (_, stopped) = ask(0);
                assert!(
                    stopped.is_stopped() && stopped.spent() < 64 << 10,
                    "{what}: {}",
                    stopped.spent()
                );
            }
            assert_eq!(account.used(), 0, "{what}");
        }
    }
}

/// The memory of an object in a result is charged before it is created, also if the policy may see
/// only a part of an object that others have stored.
#[test]
fn returned_objects_are_charged_before_creation() {
    let reading = |field: &str| {
        let declaration = Declaration::new(&[field.to_owned()], &[], &[]).unwrap();
        let resource = Resource { group: "g".into(), version: "v1".into(), resource: "r".into() };
        ResolvedRead {
            resource,
            declaration,
            labels: Selector::default(),
            namespace: None,
            optional: false,
        }
    };
    let own = reading("/status");
    let cluster = Arc::new(ClusterState::new(
        &[reading("/spec"), own.clone()],
        ClusterOptions::of(Source::Live),
    ));
    let stored: Vec<_> =
        (0..100).map(|n| object(&format!("o{n}"), "1", "u", &"x".repeat(1_000))).collect();
    apply_list(&cluster.caches[0], "1", &stored);
    for (reading, own) in [(reading("/spec"), true), (own, false)] {
        let view = Arc::new(PolicyView::new(&cluster, &[reading], Vec::new()));
        let (meter, account) = (meter(u64::MAX), Account::new(10_000));
        let payer = ResultAccounts { meter: &meter, account: &account };
        let found =
            view.reader(EvaluationView::default()).list(&resource(), Question::default(), payer);
        let found = found.unwrap().unwrap();
        let documents = found.objects().iter().map_while(|object| found.document(object, payer));
        let documents: Vec<_> = documents.collect();
        assert!(documents.len() < 100 && !documents.is_empty(), "{}", documents.len());
        assert!(account.is_exhausted() && account.used() <= 10_000);
        for document in &documents {
            assert_eq!(document.size() > 1_000, own, "{document:?}");
        }
        drop(documents);
        assert_eq!(account.used(), 0);
    }
}

/// A page can end between objects of one name; the next one has the others.
#[test]
fn pages_return_each_object_with_an_equal_name_once() {
    let cluster = Arc::new(cluster(ClusterOptions::of(Source::Live)));
    let kind = &cluster.caches[0];
    let named = |name: &str, specs: std::ops::Range<usize>| {
        specs.map(|spec| object(name, "", "", &spec.to_string())).collect::<Vec<_>>()
    };
    apply_list(kind, "", &[named("a", 0..1), named("b", 1..6), named("c", 6..8)].concat());
    let view = Arc::new(PolicyView::new(&cluster, &[kind.resolved_read().clone()], Vec::new()));
    let (meter, account) = (meter(u64::MAX), Account::new(1 << 20));
    let payer = ResultAccounts { meter: &meter, account: &account };
    for limit in 1..10 {
        let mut reader = view.reader(EvaluationView::default());
        let (mut after, mut specs) = (None, Vec::new());
        loop {
            let query = Question { after, limit, ..Question::default() };
            let page = reader.list(&resource(), query, payer).unwrap().unwrap();
            let spec = |o: &Arc<opgate_cluster::Object>| {
                o.document().get("/spec").unwrap().text().unwrap().to_owned()
            };
            specs.extend(page.objects().iter().map(spec));
            assert!(specs.len() <= 8, "{limit}: {specs:?}");
            if page.objects().len() < limit {
                break;
            }
            // The guest knows names only.
            let last = page.objects().last().unwrap().key().clone();
            after = Some((last.namespace.to_string(), last.name.to_string()));
        }
        assert_eq!(specs.concat(), "01234567", "{limit}");
    }
}

/// Two reads of a resource with different labels do not become one read of the whole cluster.
#[test]
fn reads_with_different_labels_are_separate_unless_one_is_full() {
    let reading = |labels: &str| {
        let labels =
            opgate_cluster::parse_selector(Document::parse(labels).unwrap().root()).unwrap();
        ResolvedRead {
            resource: Resource { group: "g".into(), version: "v1".into(), resource: "r".into() },
            declaration: Declaration::new(&[], &[], &[]).unwrap(),
            labels,
            namespace: None,
            optional: false,
        }
    };
    let a = reading(r#"{"matchLabels":{"a":"b"}}"#);
    let (c, all) = (reading(r#"{"matchLabels":{"c":"d"}}"#), reading("{}"));
    for (readings, names) in [
        (vec![a.clone(), c.clone()], &["g/v1/r with a in (b)", "g/v1/r with c in (d)"][..]),
        (vec![a.clone(), a.clone()], &["g/v1/r"]),
        (vec![a.clone(), c.clone(), all.clone()], &["g/v1/r"]),
        (vec![all.clone(), a.clone()], &["g/v1/r"]),
    ] {
        let cluster = ClusterState::new(&readings, ClusterOptions::of(Source::Live));
        let found: Vec<_> = cluster.caches().iter().map(|kind| kind.name()).collect();
        assert_eq!(found, names);
        for reading in &readings {
            let kind = cluster.cache_of(reading).unwrap();
            assert!(kind.labels().is_empty() || *kind.labels() == reading.labels);
        }
    }
}

/// A read of one namespace needs another permission than one of another namespace, or of all.
#[test]
fn reads_of_different_namespaces_are_separate() {
    let reading = |field: &str, namespace: Option<&str>, optional: bool| {
        let declaration = Declaration::new(&[field.to_owned()], &[], &[]).unwrap();
        let resource = Resource { group: "g".into(), version: "v1".into(), resource: "r".into() };
        let (labels, namespace) = (Selector::default(), namespace.map(str::to_owned));
        ResolvedRead { resource, declaration, labels, namespace, optional }
    };
    let readings = [
        reading("/a", Some("one"), true),
        reading("/b", Some("two"), true),
        reading("/c", Some("one"), false),
        reading("/d", None, false),
    ];
    let cluster = ClusterState::new(&readings, ClusterOptions::of(Source::Live));
    let kinds = cluster.caches().iter().map(|kind| (kind.name(), kind.is_optional()));
    let expected = [("g/v1/r in one", false), ("g/v1/r in two", true), ("g/v1/r", false)];
    assert_eq!(kinds.collect::<Vec<_>>(), expected);
    for reading in &readings {
        let kind = cluster.cache_of(reading).unwrap();
        assert_eq!(kind.namespace(), reading.namespace.as_deref());
        assert!(reading.declaration.is_within(kind.declaration()));
    }
    let alone = ClusterState::new(&readings[1..2], ClusterOptions::of(Source::Live));
    assert_eq!(alone.caches()[0].name(), "g/v1/r");
}
