//! The attacks, one function each. What comes through an API server comes over its connections, which are
//! the victim's as well; who reaches the port himself has an address of his own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use testkit::fake_api_server::FakeCluster;
use testkit::reviews::{self, OLM, WriteMode, group};
use testkit::{HOST, Server, create_bundle, good_spec};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// From where API servers come.
const API_SERVER_ADDRESS: [u8; 4] = [127, 0, 0, 1];

/// The address of another client that reaches the ports.
const POD_ADDRESS: [u8; 4] = [127, 0, 0, 66];

/// One way to attack.
pub(crate) struct Attack {
    /// As it stands in the table.
    pub(crate) name: &'static str,
    /// Starts the attack. It must report when it is under way, and continues until it is aborted.
    pub(crate) start: fn(&mut JoinSet<()>, &Arc<AttackTarget>, &FakeCluster),
}

pub(crate) const ATTACKS: [Attack; 15] = [
    Attack { name: "36 bodies of 6 MiB that are nothing but brackets", start: send_brackets },
    Attack {
        name: "8 connections with CSVs of 2 MiB",
        start: |set, target, _| send_large_csvs(set, target, 8),
    },
    Attack {
        name: "80 connections with CSVs of 2 MiB",
        start: |set, target, _| send_large_csvs(set, target, 80),
    },
    Attack {
        name: "60 objects of 2.9 MB that are allowed and never stored",
        start: reserve_large_objects,
    },
    Attack {
        name: "small groups, allowed and never stored, without a pause",
        start: reserve_small_groups,
    },
    Attack { name: "a foreign policy that spins, 8 connections", start: spin_policy },
    Attack {
        name: "8 h2 connections with 256 requests each that take no answer",
        start: withhold_h2_window,
    },
    Attack { name: "4,500 idle connections from one address", start: open_idle_connections },
    Attack {
        name: "200 connections that stop in the handshake or in a body",
        start: stall_connections,
    },
    Attack { name: "40 bodies of 7 MiB that stop before their end", start: withhold_body_ends },
    Attack {
        name: "64 connections that begin handshakes without a pause",
        start: start_handshakes,
    },
    Attack { name: "200 connections to the ops port that do not read", start: ignore_responses },
    Attack {
        name: "29 MiB of stored accounts; large stored CSVs and groups of its API group",
        start: fill_cluster_cache,
    },
    Attack { name: "130 stored accounts with 17,500 labels each", start: store_labels },
    Attack { name: "20 writes a second of one stored object of 1.4 MB", start: rewrite_large_csv },
];

/// Where the attackers are.
pub(crate) struct AttackTarget {
    address: SocketAddr,
    ops: SocketAddr,
    tls: TlsConnector,
    stop: Arc<AtomicBool>,
    started: watch::Sender<usize>,
}

impl AttackTarget {
    pub(crate) fn of(server: &Server, stop: Arc<AtomicBool>) -> Self {
        let config = testkit::client(&server.certificates.authority, &[b"h2"]);
        Self {
            address: server.address,
            ops: server.ops,
            tls: TlsConnector::from(Arc::new(config)),
            stop,
            started: watch::Sender::default(),
        }
    }

    fn is_running(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    /// An attack has had a first effect.
    fn mark_started(&self) {
        self.started.send_modify(|begun| *begun += 1);
    }

    /// Waits until this many are under way.
    pub(crate) async fn wait_started(&self, attacks: usize) {
        let mut begun = self.started.subscribe();
        let waiting = begun.wait_for(|begun| *begun >= attacks);
        let waited = tokio::time::timeout(Duration::from_secs(300), waiting).await;
        let begun = *self.started.borrow();
        assert!(waited.is_ok(), "{begun} of {attacks} attacks are under way after 300 s");
    }

    async fn tcp(&self, source: [u8; 4], to: SocketAddr) -> std::io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from((source, 0)))?;
        let stream = socket.connect(to).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    async fn connect(&self, source: [u8; 4]) -> std::io::Result<TlsStream<TcpStream>> {
        let stream = self.tcp(source, self.address).await?;
        self.tls.connect(ServerName::try_from(HOST).unwrap(), stream).await
    }
}

/// Sends requests over one connection after the other, without a pause, and ignores the answers. It
/// calls `begun` after each request.
async fn keep_sending(
    target: Arc<AttackTarget>,
    path: &'static str,
    body: impl Fn(usize) -> Bytes + Send + 'static,
    begun: impl Fn() + Send + 'static,
) {
    let mut number = 0;
    while target.is_running() {
        let Ok(stream) = target.connect(API_SERVER_ADDRESS).await else { continue };
        let handshake =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let Ok((mut sender, connection)) = handshake.await else { continue };
        let connection = tokio::spawn(connection);
        while target.is_running() && sender.ready().await.is_ok() {
            let answer = sender.send_request(request(path, body(number))).await;
            begun();
            number += 1;
            let Ok(answer) = answer else { break };
            let _ = answer.into_body().collect().await;
        }
        connection.abort();
    }
}

fn request(path: &str, body: Bytes) -> hyper::Request<Full<Bytes>> {
    hyper::Request::post(format!("https://{HOST}{path}"))
        .header("content-type", "application/json")
        .body(Full::new(body))
        .unwrap()
}

/// Reports once that an attack is under way, when this many of its parts are.
fn mark_started_after(
    target: &Arc<AttackTarget>,
    parts: usize,
) -> impl Fn() + Clone + Send + 'static {
    let (target, count) = (target.clone(), Arc::new(AtomicUsize::new(0)));
    move || {
        if count.fetch_add(1, Ordering::Relaxed) + 1 == parts {
            target.mark_started();
        }
    }
}

/// A CSV of the attacker, whose spec has something more.
fn csv(name: &str, what: &str, value: &Value) -> Value {
    let mut csv = reviews::csv("attacker", name, &["OwnNamespace"], &[]);
    csv["spec"][what] = value.clone();
    csv
}

fn send_brackets(set: &mut JoinSet<()>, target: &Arc<AttackTarget>, _: &FakeCluster) {
    let mut text = reviews::create(&csv("b", "displayName", &json!("@")), WriteMode::DryRun);
    text = text.replace("\"@\"", &format!("[{}[]]", "[],".repeat(2 << 20)));
    let body = Bytes::from(text);
    let begun = mark_started_after(target, 36);
    for _ in 0..36 {
        let body = body.clone();
        set.spawn(keep_sending(target.clone(), "/validate", move |_| body.clone(), begun.clone()));
    }
}

/// A CSV with as many owned APIs and permissions as fit into 2 MiB.
fn large_csv() -> Value {
    let owned = |n: usize| json!({"name": format!("goose{n}.birds.com"), "version": "v1", "kind": format!("Goose{n}")});
    let rule = |n: usize| json!({"apiGroups": ["birds.com"], "resources": [format!("goose{n}")], "verbs": ["get", "list", "watch"]});
    let mut csv = csv("large", "displayName", &json!("x"));
    csv["spec"]["customresourcedefinitions"]["owned"] = (0..14_000).map(owned).collect();
    csv["spec"]["install"] = json!({"strategy": "deployment", "spec": {"clusterPermissions": [
        {"serviceAccountName": "x", "rules": (0..12_000).map(rule).collect::<Vec<_>>()},
    ]}});
    csv
}

fn send_large_csvs(set: &mut JoinSet<()>, target: &Arc<AttackTarget>, connections: usize) {
    let body = Bytes::from(reviews::create(&large_csv(), WriteMode::DryRun));
    let begun = mark_started_after(target, connections.min(8));
    for _ in 0..connections {
        let body = body.clone();
        set.spawn(keep_sending(target.clone(), "/validate", move |_| body.clone(), begun.clone()));
    }
}

fn reserve_large_objects(set: &mut JoinSet<()>, target: &Arc<AttackTarget>, _: &FakeCluster) {
    let description = "x".repeat(2_900_000);
    let begun = mark_started_after(target, 60);
    for part in 0..4 {
        let description = description.clone();
        let body = move |number: usize| {
            let name = format!("reserved{part}.v{number}");
            let csv = csv(&name, "description", &json!(description));
            Bytes::from(reviews::create(&csv, WriteMode::Persist))
        };
        set.spawn(keep_sending(target.clone(), "/validate", body, begun.clone()));
    }
}

fn reserve_small_groups(set: &mut JoinSet<()>, target: &Arc<AttackTarget>, _: &FakeCluster) {
    // Among the other attacks, each request of this tenant takes a second.
    let begun = mark_started_after(target, 50);
    for part in 0..2 {
        let body = move |number: usize| {
            let name = format!("scribble{part}x{number}");
            let group = group("attacker", &name, &["attacker"], "");
            Bytes::from(reviews::create(&group, WriteMode::Persist))
        };
        set.spawn(keep_sending(target.clone(), "/validate", body, begun.clone()));
    }
}

/// What the attacker has stored: large CSVs in the API group that everybody uses, large groups without a
/// status, and accounts with nothing in long lists.
pub(crate) fn store_objects(cluster: &FakeCluster) {
    let owned =
        |n: usize| json!({"group": "birds.com", "version": format!("v{n}"), "kind": "Goose"});
    for number in 0..4 {
        let mut csv = csv(&format!("stored.v{number}"), "displayName", &json!("x"));
        csv["spec"]["apiservicedefinitions"] =
            json!({"owned": (0..25_000).map(owned).collect::<Vec<_>>()});
        cluster.apply(OLM, "v1alpha1", "clusterserviceversions", csv);
        let apis: Vec<_> = (0..50_000).map(|n| format!("Goose{n}.v1alpha1.birds.com")).collect();
        let name = format!("attacker{number}");
        cluster.apply("", "v1", "namespaces", reviews::namespace(&name));
        let mut group = group(&name, "large", &[], &apis.join(","));
        group["spec"] = json!({"selector": {"matchLabels": {"team": "none"}}});
        cluster.apply(OLM, "v1", "operatorgroups", group);
    }
    for number in 0..20 {
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": format!("account{number}"), "namespace": "attacker"},
            "secrets": vec![json!({}); 480_000],
        });
        cluster.apply("", "v1", "serviceaccounts", account);
    }
}

fn fill_cluster_cache(set: &mut JoinSet<()>, target: &Arc<AttackTarget>, cluster: &FakeCluster) {
    store_objects(cluster);
    let (begun, ops) = (mark_started_after(target, 1), target.ops);
    set.spawn(async move {
        // Until the server has seen them; another attack stores a CSV, too.
        while known_objects(ops, "clusterserviceversions").await.is_none_or(|known| known < 4) {
            tokio::task::yield_now().await;
        }
        begun();
        std::future::pending::<()>().await;
    });
}

/// How many objects of a resource the server knows, in full or by name.
async fn known_objects(ops: SocketAddr, resource: &str) -> Option<u32> {
    let mut stream = TcpStream::connect(ops).await.ok()?;
    let ask = format!("GET /metrics HTTP/1.1\r\nhost: {HOST}\r\nconnection: close\r\n\r\n");
    stream.write_all(ask.as_bytes()).await.ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await.ok()?;
    let lines = text.lines().filter(|line| {
        let is_count = ["opgate_cluster_cache_objects", "opgate_cluster_cache_name_only_objects"]
            .iter()
            .any(|name| line.starts_with(name));
        is_count && line.contains(resource)
    });
    lines.map(|line| line.rsplit_once(' ')?.1.parse::<u32>().ok()).sum()
}

/// Accounts with as many labels as an API server takes: 17,500 each.
fn store_labels(set: &mut JoinSet<()>, target: &Arc<AttackTarget>, cluster: &FakeCluster) {
    let labels: serde_json::Map<_, _> = (0..17_500)
        .map(|n| (format!("example.com/label-{n:05}"), json!(format!("value-{n:05}"))))
        .collect();
    for number in 0..130 {
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {
                "name": format!("labelled{number}"), "namespace": "labels", "labels": labels,
            },
        });
        cluster.apply("", "v1", "serviceaccounts", account);
    }
    let (begun, ops) = (mark_started_after(target, 1), target.ops);
    set.spawn(async move {
        while known_objects(ops, "serviceaccounts").await.is_none_or(|known| known < 130) {
            tokio::task::yield_now().await;
        }
        begun();
        std::future::pending::<()>().await;
    });
}

/// A CSV that is stored again and again, with as many owned APIs as fit.
fn rewrite_large_csv(set: &mut JoinSet<()>, target: &Arc<AttackTarget>, cluster: &FakeCluster) {
    let owned =
        |n: usize| json!({"group": "birds.com", "version": format!("v{n}"), "kind": "Goose"});
    let mut csv = csv("rewritten.v1", "displayName", &json!("x"));
    csv["spec"]["apiservicedefinitions"] =
        json!({"owned": (0..25_000).map(owned).collect::<Vec<_>>()});
    let (begun, cluster) = (mark_started_after(target, 5), cluster.writer());
    set.spawn(async move {
        let mut often = tokio::time::interval(Duration::from_millis(50));
        for number in 0_usize.. {
            often.tick().await;
            let (mut csv, cluster) = (csv.clone(), cluster.clone());
            csv["spec"]["displayName"] = json!(number.to_string());
            let write = move || cluster.apply(OLM, "v1alpha1", "clusterserviceversions", csv);
            tokio::task::spawn_blocking(write).await.unwrap();
            begun();
        }
    });
}

fn spin_policy(set: &mut JoinSet<()>, target: &Arc<AttackTarget>, _: &FakeCluster) {
    let body = Bytes::from(create_bundle("u", "b", &good_spec()).to_string());
    let begun = mark_started_after(target, 8);
    for _ in 0..8 {
        let body = body.clone();
        set.spawn(keep_sending(
            target.clone(),
            "/validate/foreign",
            move |_| body.clone(),
            begun.clone(),
        ));
    }
}

/// A CSV with hundreds of violations, each of which repeats a long text of its author.
fn csv_with_violations() -> Bytes {
    let unknown = |n: usize| json!({"type": "olm.constraint", "value": {format!("{n}{}", "x".repeat(4_000)): {}}});
    let properties: Vec<_> = (0..256).map(unknown).collect();
    let mut csv = csv("wordy", "displayName", &json!("x"));
    csv["metadata"]["annotations"] =
        json!({"operatorframework.io/properties": json!({"properties": properties}).to_string()});
    Bytes::from(reviews::create(&csv, WriteMode::DryRun))
}

/// Requests whose answers are long, over connections whose client makes no room for them.
fn withhold_h2_window(set: &mut JoinSet<()>, target: &Arc<AttackTarget>, _: &FakeCluster) {
    let body = csv_with_violations();
    let begun = mark_started_after(target, 8);
    for _ in 0..8 {
        let (target, body, begun) = (target.clone(), body.clone(), begun.clone());
        set.spawn(async move {
            let mut has_begun = false;
            while target.is_running() {
                let Ok(stream) = target.connect(POD_ADDRESS).await else { continue };
                let mut http = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
                http.initial_stream_window_size(0).initial_connection_window_size(0);
                let Ok((sender, connection)) = http.handshake(TokioIo::new(stream)).await else {
                    continue;
                };
                let mut connection = tokio::spawn(connection);
                let mut answers = JoinSet::new();
                for _ in 0..256 {
                    let mut sender = sender.clone();
                    let request = request("/validate/constraint-limits", body.clone());
                    answers.spawn(async move {
                        let answer = sender.send_request(request).await;
                        // The head has come; the body waits for room.
                        if let Ok(answer) = answer {
                            let _ = answer.into_body().collect().await;
                        }
                    });
                }
                if !has_begun {
                    begun();
                    has_begun = true;
                }
                let _ = (&mut connection).await;
            }
        });
    }
}

fn open_idle_connections(set: &mut JoinSet<()>, target: &Arc<AttackTarget>, _: &FakeCluster) {
    let begun = mark_started_after(target, 45);
    for _ in 0..45 {
        let (target, begun) = (target.clone(), begun.clone());
        set.spawn(async move {
            let mut streams = Vec::new();
            while target.is_running() && streams.len() < 100 {
                let connecting =
                    tokio::time::timeout(Duration::from_secs(2), target.connect(POD_ADDRESS));
                if let Ok(Ok(stream)) = connecting.await {
                    streams.push(stream);
                } else {
                    break;
                }
            }
            begun();
            std::future::pending::<()>().await;
        });
    }
}

fn stall_connections(set: &mut JoinSet<()>, target: &Arc<AttackTarget>, _: &FakeCluster) {
    let begun = mark_started_after(target, 200);
    for number in 0..200 {
        let (target, begun) = (target.clone(), begun.clone());
        set.spawn(async move {
            let mut has_begun = false;
            while target.is_running() {
                if number % 2 == 0 {
                    let Ok(mut stream) = target.tcp(POD_ADDRESS, target.address).await else {
                        continue;
                    };
                    let _ = stream.write_all(b"\x16\x03\x01\x02\x00\x01").await;
                    if !has_begun {
                        begun();
                    }
                    let _ = stream.read(&mut [0; 64]).await;
                } else {
                    let Ok(mut stream) = target.connect(POD_ADDRESS).await else { continue };
                    if !has_begun {
                        begun();
                    }
                    // Nothing of h2 ever comes.
                    let _ = stream.read(&mut [0; 64]).await;
                }
                has_begun = true;
            }
        });
    }
}

/// All of a body but its last byte, again whenever the server ends it.
fn withhold_body_ends(set: &mut JoinSet<()>, target: &Arc<AttackTarget>, _: &FakeCluster) {
    const BODY_BYTES: usize = 7 << 20;
    let begun = mark_started_after(target, 40);
    let body = Bytes::from(vec![b' '; BODY_BYTES - 1]);
    let mut config = target.tls.config().as_ref().clone();
    config.alpn_protocols.clear();
    let plain = TlsConnector::from(Arc::new(config));
    for _ in 0..40 {
        let (target, begun, body, plain) =
            (target.clone(), begun.clone(), body.clone(), plain.clone());
        set.spawn(async move {
            let head = format!(
                "POST /validate HTTP/1.1\r\nhost: {HOST}\r\ncontent-type: application/json\r\ncontent-length: {BODY_BYTES}\r\n\r\n"
            );
            let mut has_begun = false;
            while target.is_running() {
                let Ok(stream) = target.tcp(POD_ADDRESS, target.address).await else { continue };
                let name = ServerName::try_from(HOST).unwrap();
                let Ok(mut stream) = plain.connect(name, stream).await else { continue };
                let _ = stream.write_all(head.as_bytes()).await;
                let _ = stream.write_all(&body).await;
                if !has_begun {
                    begun();
                    has_begun = true;
                }
                let _ = stream.read(&mut [0; 64]).await;
            }
        });
    }
}

/// The same greeting again and again: next to nothing for the client, and all the cryptography for the server.
fn start_handshakes(set: &mut JoinSet<()>, target: &Arc<AttackTarget>, _: &FakeCluster) {
    let name = ServerName::try_from(HOST).unwrap();
    let mut client = rustls::ClientConnection::new(target.tls.config().clone(), name).unwrap();
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    let begun = mark_started_after(target, 64);
    for _ in 0..64 {
        let (target, begun, hello) = (target.clone(), begun.clone(), hello.clone());
        set.spawn(async move {
            let mut has_begun = false;
            while target.is_running() {
                let Ok(mut stream) = target.tcp(POD_ADDRESS, target.address).await else {
                    continue;
                };
                let _ = stream.write_all(&hello).await;
                let _ = stream.read(&mut [0; 64]).await;
                if !has_begun {
                    begun();
                    has_begun = true;
                }
            }
        });
    }
}

fn ignore_responses(set: &mut JoinSet<()>, target: &Arc<AttackTarget>, _: &FakeCluster) {
    let begun = mark_started_after(target, 200);
    for _ in 0..200 {
        let (target, begun) = (target.clone(), begun.clone());
        set.spawn(async move {
            let mut has_begun = false;
            while target.is_running() {
                let Ok(mut stream) = target.tcp(POD_ADDRESS, target.ops).await else { continue };
                if !has_begun {
                    begun();
                    has_begun = true;
                }
                let ask = format!("GET /metrics HTTP/1.1\r\nhost: {HOST}\r\n\r\n").repeat(50);
                while target.is_running() && stream.write_all(ask.as_bytes()).await.is_ok() {}
            }
        });
    }
}
