//! What a tenant, or a failing API server, can do to the view of the cluster and to allowed
//! requests. Each attack uses the real binary, with an API server that stores what clients write.
//!
//! `docs/security.md` lists the invariants. The same with a real API server is in `attacks.rs` and
//! `races.rs`.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use serde_json::{Value, json};
use testkit::fake_api_server::{FakeCluster, Scope, WatchBehavior};
use testkit::reviews::{
    self, GOOSE_API, OLM, OPERATOR_GROUPS, WriteMode, csv, group, namespace, subscription,
};
use testkit::{Server, configuration, wait_until};

use crate::BINARY;

const SERVICE_ACCOUNTS: &str = "v1/serviceaccounts";

/// Short, so that what is not stored is known soon.
const SHORT_RESERVATION: [&str; 2] = ["--reservation-ttl", "300ms"];

fn serve(cluster: &FakeCluster, arguments: &[&str]) -> Server {
    reviews::serve(BINARY, cluster, arguments)
}

/// Stores a group, with all that a real server and OLM would have added.
fn store_group(cluster: &FakeCluster, group: &Value) {
    cluster.apply(OLM, "v1", "operatorgroups", group.clone());
}

async fn wait_ready(server: &Server) {
    wait_until("readiness", async || server.get("/readyz").await.0 == 200).await;
}

async fn wait_for_objects(server: &Server, resource: &str, count: u32) {
    let name = format!("opgate_cluster_cache_objects{{resource=\"{resource}\"}}");
    wait_until(&name, async || server.metric(&name).await == Some(count.into())).await;
}

async fn decide(server: &Server, review: String) -> String {
    server.connect().await.review(review).await.unwrap().message()
}

fn nested_value(levels: usize) -> Value {
    (0..levels).fold(json!({}), |inner, _| json!({"f:a": inner}))
}

#[tokio::test(flavor = "multi_thread")]
async fn deep_managed_fields_do_not_block_the_cache() {
    let cluster = reviews::cluster();
    let account = |name: &str, levels: usize| {
        json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {
                "name": name, "namespace": "a",
                "managedFields": [{"manager": "tenant", "fieldsV1": nested_value(levels)}],
            },
        })
    };
    let names = |name: &str| {
        let mut group = group("a", "g", &["a"], "");
        group["spec"]["serviceAccountName"] = json!(name);
        reviews::create(&group, WriteMode::DryRun)
    };
    let first = serve(&cluster, &[]);
    wait_ready(&first).await;
    cluster.apply("", "v1", "serviceaccounts", account("deep", 600));
    cluster.apply("", "v1", "serviceaccounts", account("later", 0));
    wait_for_objects(&first, SERVICE_ACCOUNTS, 2).await;
    // A server that starts meets it in a list.
    let second = serve(&cluster, &[]);
    wait_ready(&second).await;
    for server in [first, second] {
        assert_eq!(decide(&server, names("deep")).await, "allowed");
        assert_eq!(decide(&server, names("later")).await, "allowed");
        assert_eq!(decide(&server, names("x")).await, "ServiceAccount x not found");
    }
}

/// What a tenant stores is bounded in memory, is the tenant's own trouble, and is over when it is deleted.
#[tokio::test(flavor = "multi_thread")]
async fn objects_over_the_limit_fail_only_matching_queries() {
    const STORED: usize = 40;
    let cluster = reviews::cluster();
    let account = |namespace: &str, name: &str, labels: usize| {
        let labels: serde_json::Map<_, _> = (0..labels)
            .map(|n| (format!("example.com/label-{n:05}"), json!(format!("value-{n:05}"))))
            .collect();
        json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": name, "namespace": namespace, "labels": labels},
        })
    };
    let names = |namespace: &str, name: &str| {
        let mut group = group(namespace, "g", &[namespace], "");
        group["spec"]["serviceAccountName"] = json!(name);
        reviews::create(&group, WriteMode::DryRun)
    };
    for number in 0..STORED {
        let account = account("b", &format!("large{number:02}"), 2_000);
        cluster.apply("", "v1", "serviceaccounts", account);
    }
    cluster.apply("", "v1", "serviceaccounts", account("a", "small", 2));
    let server = serve(&cluster, &["--max-cluster-memory", "4Mi", "--poll-interval", "1s"]);
    wait_ready(&server).await;
    let by_name =
        format!("opgate_cluster_cache_name_only_objects{{resource=\"{SERVICE_ACCOUNTS}\"}}");
    wait_until("accounts", async || server.metric(&by_name).await.is_some_and(|n| n > 20.0)).await;
    // And what comes later.
    cluster.apply("", "v1", "serviceaccounts", account("b", "later", 2_000));
    cluster.apply("", "v1", "serviceaccounts", account("a", "second", 2));
    wait_until("the last one", async || decide(&server, names("a", "second")).await == "allowed")
        .await;
    let used = server.metric("opgate_cluster_cache_memory_bytes").await.unwrap();
    assert!(used < f64::from(2 << 20), "{used}");
    assert_eq!(decide(&server, names("a", "small")).await, "allowed");
    assert_eq!(decide(&server, names("a", "x")).await, "ServiceAccount x not found");
    assert_eq!(decide(&server, names("b", "large00")).await, "allowed");
    let refused = server.connect().await.review(names("b", "later")).await.unwrap();
    assert_eq!(refused.status, 500);
    let refused = refused.body;
    assert!(refused.contains("b/later, which cannot be read"), "{refused}");
    assert!(refused.contains("the objects of this namespace need more"), "{refused}");
    let (_, text) = server.get("/readyz?verbose").await;
    let line = text.lines().find(|line| line.contains(SERVICE_ACCOUNTS)).unwrap();
    assert!(line.contains("no memory for") && line.ends_with("of the namespaces b"), "{line}");
    let log = server.log();
    let told = log.iter().filter(|line| line.to_string().contains("no memory for objects"));
    let told: Vec<_> = told.collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["namespace"], "b");
    // The tenant cleans up, and the server needs no restart.
    for number in 0..STORED {
        cluster.delete("", "serviceaccounts", "b", &format!("large{number:02}"));
    }
    wait_until("memory", async || server.metric(&by_name).await == Some(0.0)).await;
    assert_eq!(decide(&server, names("b", "later")).await, "allowed");
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_watches_are_retried_with_a_delay() {
    let cluster = reviews::cluster();
    cluster.set_watch_behavior(OLM, "operatorgroups", WatchBehavior::ClosedImmediately);
    let server = serve(&cluster, &[]);
    let is_watch =
        |request: &str| request.contains("/operatorgroups?") && request.contains("watch=");
    let is_list =
        |request: &str| request.contains("/operatorgroups?") && !request.contains("watch=");
    cluster.wait_requested(3, is_list).await;
    // What came before the third list: by now the watch after it may be there as well.
    let requests = cluster.requests();
    let mut lists = requests.iter().enumerate().filter(|(_, request)| is_list(request));
    let (third, _) = lists.nth(2).unwrap();
    let watches = requests[..third].iter().filter(|request| is_watch(request)).count();
    assert_eq!(watches, 6, "three at one version, then a list");
    // What comes in with the lists is seen all the same.
    store_group(&cluster, &group("a", "first", &["shared"], GOOSE_API));
    wait_for_objects(&server, OPERATOR_GROUPS, 1).await;
    let log = server.log();
    let told =
        log.iter().find(|line| line["resource"] == OPERATOR_GROUPS && line["level"] == "WARN");
    assert!(told.unwrap().to_string().contains("ends watches within"), "{log:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unstored_request_does_not_hide_stored_objects() {
    let cluster = reviews::cluster();
    let server = serve(&cluster, &["--reservation-ttl", "1h"]);
    wait_ready(&server).await;
    let stored = group("a", "first", &["shared"], GOOSE_API);
    store_group(&cluster, &stored);
    wait_for_objects(&server, OPERATOR_GROUPS, 1).await;
    let harmless = group("a", "first", &["a"], "");
    let rival = group("b", "rival", &["shared"], GOOSE_API);
    // 409: the name exists.
    assert_eq!(decide(&server, reviews::create(&harmless, WriteMode::Persist)).await, "allowed");
    let refused = decide(&server, reviews::create(&rival, WriteMode::Persist)).await;
    assert!(refused.starts_with("intersecting operatorgroups"), "{refused}");
    assert!(refused.contains("a/first"), "{refused}");
    // A change that another webhook refuses.
    let change = reviews::update(&cluster, &harmless);
    assert_eq!(decide(&server, change).await, "allowed");
    let refused = decide(&server, reviews::create(&rival, WriteMode::Persist)).await;
    assert!(refused.starts_with("intersecting operatorgroups"), "{refused}");
    // A member that the stored group does not support, by name and by what it provides.
    let member = csv("a", "etcd", &["OwnNamespace"], &[]);
    let refused = decide(&server, reviews::create(&member, WriteMode::Persist)).await;
    assert!(refused.contains("SingleNamespace InstallModeType not supported"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unstored_request_stops_counting_after_direct_read() {
    let cluster = reviews::cluster();
    let server = serve(&cluster, &SHORT_RESERVATION);
    wait_ready(&server).await;
    store_group(&cluster, &group("a", "first", &["a"], ""));
    wait_for_objects(&server, OPERATOR_GROUPS, 1).await;
    let greedy = group("a", "first", &["shared"], GOOSE_API);
    let right = group("b", "right", &["shared"], GOOSE_API);
    for refused_later in
        [reviews::create(&greedy, WriteMode::Persist), reviews::update(&cluster, &greedy)]
    {
        assert_eq!(decide(&server, refused_later).await, "allowed");
        let dry = reviews::create(&right, WriteMode::DryRun);
        assert_eq!(decide(&server, dry).await, "allowed", "asked directly, and not there");
    }
    // While it could still be stored, it counts.
    let slow = serve(&cluster, &["--reservation-ttl", "1h"]);
    wait_ready(&slow).await;
    wait_for_objects(&slow, OPERATOR_GROUPS, 1).await;
    assert_eq!(decide(&slow, reviews::update(&cluster, &greedy)).await, "allowed");
    let refused = decide(&slow, reviews::create(&right, WriteMode::DryRun)).await;
    assert!(refused.starts_with("intersecting operatorgroups"), "{refused}");
    let rests = "\nconflicts with operatorgroups a/first, allowed moments ago and not yet stored";
    assert!(refused.contains(rests), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn recently_stored_objects_are_visible_to_evaluations() {
    let cluster = reviews::cluster();
    let server = serve(&cluster, &[]);
    wait_ready(&server).await;
    for number in 0..50 {
        let name = format!("new-{number}");
        cluster.apply("", "v1", "namespaces", namespace(&name));
        let group = group(&name, "g", &[&name], "");
        assert_eq!(decide(&server, reviews::create(&group, WriteMode::Persist)).await, "allowed");
        store_group(&cluster, &group);
        let member = csv(&name, "etcd", &["OwnNamespace", "SingleNamespace"], &[]);
        let member = reviews::create(&member, WriteMode::Persist);
        assert_eq!(decide(&server, member).await, "allowed", "{number}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unchanged_and_dry_run_requests_are_not_reserved() {
    let cluster = reviews::cluster();
    let server = serve(&cluster, &["--reservation-ttl", "1h"]);
    wait_ready(&server).await;
    let mut group = group("a", "first", &["a"], "");
    store_group(&cluster, &group);
    wait_for_objects(&server, OPERATOR_GROUPS, 1).await;
    let reserved = format!("opgate_reservations{{resource=\"{OPERATOR_GROUPS}\"}}");
    group["metadata"]["annotations"]["note"] = json!("nobody reads this");
    let update = reviews::update(&cluster, &group);
    assert_eq!(decide(&server, update).await, "allowed");
    assert_eq!(decide(&server, reviews::create(&group, WriteMode::DryRun)).await, "allowed");
    assert_eq!(server.metric(&reserved).await, Some(0.0));
    group["spec"]["targetNamespaces"] = json!(["b"]);
    let update = reviews::update(&cluster, &group);
    assert_eq!(decide(&server, update).await, "allowed");
    assert_eq!(server.metric(&reserved).await, Some(1.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn unauthenticated_clients_have_lower_reservation_limit() {
    let cluster = reviews::cluster();
    let server = serve(&cluster, &["--reservation-ttl", "1h"]);
    wait_ready(&server).await;
    let mut client = server.connect().await;
    let mut allowed = 0;
    let answer = loop {
        let name = format!("forged-{allowed}");
        let forged = group(&name, "g", &[&name], "");
        let answer = client.review(reviews::create(&forged, WriteMode::Persist)).await.unwrap();
        if answer.status != 200 {
            break answer;
        }
        allowed += 1;
        assert!(allowed <= 512, "there is an end");
    };
    // One user has half of the 512 places.
    assert_eq!((allowed, answer.status), (256, 503));
    assert_eq!(answer.headers["retry-after"], "1");
    assert!(answer.body.contains("reservation limit reached: "), "{}", answer.body);
    assert!(answer.body.contains("try again"), "{}", answer.body);
    // What reserves nothing is decided as ever.
    let tried = reviews::create(&group("a", "g", &["a"], ""), WriteMode::DryRun);
    assert_eq!(decide(&server, tried).await, "allowed");
}

/// Of requests that exclude each other one is stored, whatever asks the API server.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_conflicting_requests_admit_one() {
    for arguments in [&[][..], &["--consistent-reads"]] {
        let cluster = reviews::cluster();
        let mut all = vec!["--max-queued-calls", "100000"];
        all.extend(arguments);
        let server = serve(&cluster, &all);
        wait_ready(&server).await;
        let (lanes, rounds) = (40, 5);
        for round in 0..rounds {
            let api = format!("Round{round}.v1.race.com");
            let won = AtomicUsize::new(0);
            let racing = (0..lanes).map(|lane| {
                let (cluster, server, won, api) = (&cluster, &server, &won, &api);
                async move {
                    let namespace = format!("racer-{round}-{lane}");
                    let racer = group(&namespace, "g", &["shared"], api);
                    let decided = decide(server, reviews::create(&racer, WriteMode::Persist)).await;
                    if decided == "allowed" {
                        store_group(cluster, &racer);
                        won.fetch_add(1, Ordering::Relaxed);
                    } else {
                        assert!(decided.starts_with("intersecting"), "{decided}");
                    }
                }
            });
            join_all(racing).await;
            assert_eq!(won.into_inner(), 1, "round {round} with {arguments:?}");
        }
    }
}

/// Two Subscriptions for one package leave OLM without any resolution in the namespace.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_subscriptions_for_a_package_admit_one() {
    for arguments in [&[][..], &["--consistent-reads"]] {
        let cluster = reviews::cluster();
        for (plural, kind) in
            [("subscriptions", "Subscription"), ("catalogsources", "CatalogSource")]
        {
            cluster.install(OLM, "v1alpha1", plural, kind, Scope::Namespaced);
        }
        let catalog = json!({"metadata": {"name": "catalog", "namespace": "a"}, "spec": {}});
        cluster.apply(OLM, "v1alpha1", "catalogsources", catalog);
        let mut own = group("a", "g", &["a"], "");
        own["status"] = json!({"namespaces": ["a"]});
        store_group(&cluster, &own);
        let policies = configuration(&[json!({"name": "subscription", "limits": {"time": "20s"}})]);
        let mut all = vec!["--max-queued-calls", "100000"];
        all.extend(arguments);
        let server = reviews::serve_with(BINARY, &cluster, &policies, &all);
        wait_ready(&server).await;
        for round in 0..5 {
            let won = AtomicUsize::new(0);
            let racing = (0..40).map(|lane| {
                let (cluster, server, won) = (&cluster, &server, &won);
                async move {
                    let name = format!("racer-{round}-{lane}");
                    let racer = subscription("a", &name, &format!("package-{round}"));
                    let decided = decide(server, reviews::create(&racer, WriteMode::Persist)).await;
                    if decided == "allowed" {
                        cluster.apply(OLM, "v1alpha1", "subscriptions", racer);
                        won.fetch_add(1, Ordering::Relaxed);
                    } else {
                        let denial = "Within a namespace, no two Operators may come from the same";
                        assert!(decided.starts_with(denial), "{decided}");
                    }
                }
            });
            join_all(racing).await;
            assert_eq!(won.into_inner(), 1, "round {round} with {arguments:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn consistent_reads_are_shared() {
    let cluster = reviews::cluster();
    for number in 0..500 {
        store_group(&cluster, &group(&format!("n{number}"), "g", &["elsewhere"], "Other.v1.com"));
    }
    let server = serve(&cluster, &["--consistent-reads", "--max-queued-calls", "100000"]);
    wait_ready(&server).await;
    wait_for_objects(&server, OPERATOR_GROUPS, 500).await;
    let before = cluster.requests().len();
    let asking = (0..100).map(|number| {
        let (cluster, server) = (&cluster, &server);
        async move {
            let name = format!("mine-{number}");
            let mine = group(&name, "g", &[&name], &format!("Api{number}.v1.com"));
            let review = reviews::create(&mine, WriteMode::Persist);
            assert_eq!(decide(server, review).await, "allowed");
            store_group(cluster, &mine);
        }
    });
    join_all(asking).await;
    let requests = cluster.requests().split_off(before);
    let whole =
        requests.iter().filter(|r| r.contains("v1/operatorgroups?") && !r.contains("watch="));
    // Six pages each; one by one it would be 600.
    assert!(whole.clone().count() <= 300, "{}", whole.count());
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_watch_is_not_trusted() {
    let cluster = reviews::cluster();
    let server = serve(&cluster, &[]);
    let strict = serve(&cluster, &["--on-watch-failure", "fail"]);
    for server in [&server, &strict] {
        wait_ready(server).await;
    }
    cluster.set_watch_behavior(OLM, "operatorgroups", WatchBehavior::InternalError);
    cluster.cut_watches();
    for server in [&server, &strict] {
        wait_until("the interruption", async || {
            let (code, text) = server.get("/readyz?verbose").await;
            assert_eq!(code, 200, "{text}");
            text.contains(&format!("[!]{OPERATOR_GROUPS} interrupted for"))
        })
        .await;
        let metric =
            format!("opgate_cluster_cache_watch_failing{{resource=\"{OPERATOR_GROUPS}\"}}");
        assert_eq!(server.metric(&metric).await, Some(1.0));
    }
    store_group(&cluster, &group("a", "unseen", &["shared"], GOOSE_API));
    let rival = reviews::create(&group("b", "rival", &["shared"], GOOSE_API), WriteMode::Persist);
    let refused = decide(&server, rival.clone()).await;
    assert!(refused.contains("a/unseen"), "read directly: {refused}");
    let answer = strict.connect().await.review(rival).await.unwrap();
    assert_eq!(answer.status, 500);
    assert!(
        answer.body.contains("the watch of operators.coreos.com/v1/operatorgroups fails"),
        "{}",
        answer.body
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn version_that_goes_backwards_causes_a_new_list() {
    let cluster = reviews::cluster();
    store_group(&cluster, &group("a", "first", &["a"], ""));
    let backup = cluster.last_version();
    let server = serve(&cluster, &[]);
    wait_ready(&server).await;
    for number in 0..20 {
        store_group(&cluster, &group(&format!("lost-{number}"), "g", &["shared"], GOOSE_API));
    }
    wait_for_objects(&server, OPERATOR_GROUPS, 21).await;
    cluster.restore_version(backup);
    store_group(&cluster, &group("b", "after", &["b"], ""));
    wait_for_objects(&server, OPERATOR_GROUPS, 2).await;
    let review = reviews::create(&group("c", "new", &["shared"], GOOSE_API), WriteMode::Persist);
    assert_eq!(decide(&server, review).await, "allowed");
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_resource_does_not_block_readiness() {
    let cluster = reviews::cluster();
    cluster.forbid("", "serviceaccounts");
    let server = serve(&cluster, &["--sync-timeout", "1s"]);
    wait_ready(&server).await;
    wait_until("the refusal", async || {
        let (code, text) = server.get("/readyz?verbose").await;
        assert_eq!(code, 200);
        text.contains("[-]v1/serviceaccounts is not synced yet: forbidden:")
            && text.contains("needed by operator-group")
            && text.contains(&format!("[+]{OPERATOR_GROUPS} current, 0 objects"))
    })
    .await;
    // What needs it fails, what does not is decided.
    let plain = group("a", "g", &["a"], "");
    assert_eq!(decide(&server, reviews::create(&plain, WriteMode::DryRun)).await, "allowed");
    let mut scoped = plain;
    scoped["spec"]["serviceAccountName"] = json!("x");
    let review = reviews::create(&scoped, WriteMode::DryRun);
    let answer = server.connect().await.review(review).await.unwrap();
    assert_eq!(answer.status, 500);
    assert!(answer.body.contains("v1/serviceaccounts is not synced yet"), "{}", answer.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_are_asked_to_retry_during_the_first_lists() {
    let cluster = reviews::cluster();
    cluster.pause();
    // With the profile of the cluster the port would not even be open.
    let mut policies: Value = serde_json::from_str(&reviews::policies()).unwrap();
    policies["profile"] = json!("ocp-4.15");
    let policies = policies.to_string();
    let server = reviews::serve_with(BINARY, &cluster, &policies, &["--sync-timeout", "0s"]);
    let review = reviews::create(&group("a", "g", &["a"], ""), WriteMode::DryRun);
    let answer = server.connect().await.review(review.clone()).await.unwrap();
    assert_eq!(answer.status, 503, "{}", answer.body);
    assert_eq!(answer.headers["retry-after"], "1");
    assert!(
        answer.body.contains("is not synced yet: the server has just started"),
        "{}",
        answer.body
    );
    cluster.resume();
    wait_until("the lists", async || {
        server.connect().await.review(review.clone()).await.unwrap().status == 200
    })
    .await;
}

/// Memory that the process had at most, in KiB.
fn peak_kib(server: &Server) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Pages are bounded in bytes: the server does not hold 29 MiB of small brackets, which no policy
/// reads, at a time.
#[tokio::test(flavor = "multi_thread")]
async fn large_objects_are_listed_in_little_memory() {
    let cluster = reviews::cluster();
    let alone = serve(&cluster, &[]);
    wait_ready(&alone).await;
    let brackets = json!(vec![json!({}); 480_000]);
    for number in 0..20 {
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": format!("large-{number}"), "namespace": "a"},
            "secrets": brackets,
        });
        cluster.apply("", "v1", "serviceaccounts", account);
    }
    for number in 0..300 {
        let name = format!("small-{number}");
        let account = json!({"metadata": {"name": name, "namespace": "b"}});
        cluster.apply("", "v1", "serviceaccounts", account);
    }
    let server = serve(&cluster, &[]);
    wait_ready(&server).await;
    wait_for_objects(&server, SERVICE_ACCOUNTS, 320).await;
    let (before, after) = (peak_kib(&alone), peak_kib(&server));
    println!("peak {before} KiB, with 29 MiB of brackets listed {after} KiB");
    // The other one has got the same as events.
    wait_for_objects(&alone, SERVICE_ACCOUNTS, 320).await;
    println!("and as events {} KiB", peak_kib(&alone));
    assert!(after < before + (32 << 10), "{before} and {after} KiB");
    assert!(peak_kib(&alone) < before + (32 << 10), "{before} and {} KiB", peak_kib(&alone));
}
