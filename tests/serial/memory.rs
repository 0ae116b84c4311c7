//! What strangers can make the server hold, by its own counters and by what the system counts.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::Full;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use testkit::{
    Client, HOST, Server, builtin_policy, configuration, create_bundle, good_spec, misbehaves,
    recorded_review, tls, wait_until,
};
use tokio::task::JoinSet;

use crate::cgroup::Cgroup;
use crate::{BINARY, wait_for_idle_machine};

const MIB: usize = 1 << 20;

/// A review of this many bytes whose spec is nothing but brackets: the text that needs most memory.
fn bracket_review(bytes: usize) -> String {
    let review = create_bundle("u", "b", &json!(["here"])).to_string();
    let count = (bytes - review.len()) / 3;
    review.replace("\"here\"", &(String::from("[]") + &",[]".repeat(count)))
}

fn copy_authority(server: &Server) -> opgate_certs::CertificateAuthority {
    let directory = tempfile::tempdir().unwrap();
    let (certificate, key) = (directory.path().join("ca.crt"), directory.path().join("ca.key"));
    std::fs::write(&certificate, server.certificates.authority.certificate()).unwrap();
    std::fs::write(&key, server.certificates.authority.key()).unwrap();
    opgate_certs::CertificateAuthority::load(&certificate, &key).unwrap()
}

/// Sends a body over many connections at once; gives the HTTP codes.
fn send_bodies(server: &Server, path: &'static str, bodies: &[Bytes]) -> JoinSet<u16> {
    let mut answers = JoinSet::new();
    for body in bodies {
        let (address, authority, body): (SocketAddr, _, _) =
            (server.address, copy_authority(server), body.clone());
        answers.spawn(async move {
            let Ok(mut client) = Client::connect(address, &authority).await else { return 0 };
            let answer = client.post(path, "application/json", body).await;
            answer.map_or(0, |answer| {
                if answer.status == 503 {
                    assert_eq!(answer.headers["retry-after"], "1");
                }
                answer.status
            })
        });
    }
    answers
}

async fn status_codes(mut answers: JoinSet<u16>) -> Vec<u16> {
    let mut codes = Vec::new();
    while let Some(code) = answers.join_next().await {
        codes.push(code.unwrap());
    }
    codes.sort_unstable();
    codes
}

/// Whether no request holds memory, except for what accounts keep at hand.
async fn is_memory_released(server: &Server) -> bool {
    server.metric("opgate_request_memory_bytes").await <= Some(64_000.0)
}

/// A policy that keeps all requests waiting for its one call.
fn slow_policy() -> Value {
    let mut slow = misbehaves("slow", &json!({"do": "spin"}));
    slow["limits"] = json!({"time": "1s", "concurrency": 1});
    slow
}

/// 36 bodies of 7 MiB, `[],[],…`, which wait for their turn: text and index of all of them were 1 GiB
/// where 256 MiB were allowed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn request_bodies_stay_within_the_memory_budget() {
    let _turn = wait_for_idle_machine().await;
    let budget = 96 * MIB;
    let text = configuration(&[slow_policy(), builtin_policy()]);
    let server = Server::start(BINARY, Some(&text), &["--max-request-memory", "96Mi"]);
    let before = server.memory("VmHWM");
    let body = Bytes::from(bracket_review(7 << 20));
    let answers = send_bodies(&server, "/validate/slow?timeout=60s", &vec![body; 36]);
    wait_until("shed", async || server.metric("opgate_requests_shed_total").await >= Some(20.0))
        .await;
    let used = server.metric("opgate_request_memory_bytes").await.unwrap();
    assert!(used > 0.0 && used <= 96.0 * 1_048_576.0, "{used}");
    // Small requests of others have room all the time.
    let mut other = server.connect().await;
    for _ in 0..20 {
        let path = "/validate/bundle-immutability";
        let answer = other.post(path, "application/json", recorded_review("006")).await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    let codes = status_codes(answers).await;
    assert!(codes.iter().all(|code| [500, 503].contains(code)), "{codes:?}");
    let most = server.memory("VmHWM") - before;
    println!("36 bodies of 7 MiB: {} MiB more at the most", most / MIB);
    // What the system gives in pages, and what is on its way between sockets and bodies.
    assert!(most < budget + budget / 2, "{} MiB", most / MIB);
    wait_until("given back", async || is_memory_released(&server).await).await;
    wait_until("returned", async || server.memory("RssAnon") < 48 * MIB).await;
}

/// Answers that an h2 client with a window of 0 does not take count, and end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn responses_are_charged_until_they_are_read() {
    let _turn = wait_for_idle_machine().await;
    let evil = misbehaves("evil", &json!({"do": "many-warnings", "number": 200}));
    let server = Server::start(BINARY, Some(&configuration(&[evil])), &[]);
    let stream = tls(server.address, &server.certificates.authority, &[b"h2"]).await.unwrap();
    let (sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(0)
        .handshake(TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    let mut kept = Vec::new();
    for _ in 0..10 {
        let body = create_bundle("u", "b", &good_spec()).to_string();
        let mut sender = sender.clone();
        let request = hyper::Request::post(format!("https://{HOST}/validate"))
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body)))
            .unwrap();
        kept.push(sender.send_request(request).await.unwrap());
    }
    assert!(kept.iter().all(|answer| answer.status() == 200));
    // Ten answers of 8 KiB and more: their heads, a few warnings, and a note of what was found.
    assert!(server.metric("opgate_request_memory_bytes").await >= Some(80_000.0));
    wait_until("given back", async || is_memory_released(&server).await).await;
}

/// The fields of a review other than its objects are bounded, too.
#[tokio::test]
async fn oversized_envelope_is_rejected() {
    let _turn = wait_for_idle_machine().await;
    let server = Server::start(BINARY, None, &[]);
    let mut client = server.connect().await;
    let with = |pointer: &str, value: Value| {
        let mut review = create_bundle("u", "b", &good_spec());
        *review.pointer_mut(pointer).unwrap() = value;
        review.to_string()
    };
    let groups = with("/request/userInfo/groups", json!(vec![""; 2_000_000]));
    let uid = with("/request/uid", "x".repeat(6 << 20).into());
    for (review, why) in [
        (groups, "request.userInfo.groups has more than 10000 elements"),
        (uid, "request.uid has more than 1024 bytes"),
    ] {
        let answer = client.review(review).await.unwrap();
        assert_eq!(answer.status, 422, "{}", answer.body);
        assert!(answer.body.contains(why), "{}", answer.body);
    }
    let many = with("/request/userInfo/groups", json!(vec!["group"; 5_000]));
    assert_eq!(client.review(many).await.unwrap().status, 200);
}

/// One denial for 250 violations.
#[tokio::test]
async fn denial_with_many_violations_is_limited_in_size() {
    let _turn = wait_for_idle_machine().await;
    let evil = misbehaves("evil", &json!({"do": "many-violations", "number": 250}));
    let server = Server::start(BINARY, Some(&configuration(&[evil])), &[]);
    let mut client = server.connect().await;
    let name = "n".repeat(1 << 20);
    let answer = client.review(create_bundle("u", &name, &good_spec()).to_string()).await.unwrap();
    let status = &answer.response()["status"];
    let causes = status["details"]["causes"].as_array().unwrap();
    assert_eq!(causes.len(), 32);
    assert_eq!(causes[31]["message"], "and 219 more");
    assert!(answer.body.len() <= 96 << 10, "{}", answer.body.len());
}

/// A directory as the system of a container shows it, with this limit.
fn container_files(limit: usize) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (name, content) in [
        ("proc/self/cgroup", "0::/kubepods/pod1\n".to_owned()),
        ("sys/fs/cgroup/kubepods/pod1/memory.max", format!("{limit}\n")),
    ] {
        let path = root.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    root
}

/// All at once: bodies of brackets, of one namespace and of all policies, idle and silent
/// connections, and answers that no client reads. `/livez`, `/readyz` and another tenant are
/// answered throughout.
async fn run_all_attacks(server: &Server) {
    let mut other = server.connect().await;
    let mut strangers = Vec::new();
    for _ in 0..400 {
        strangers.push(tokio::net::TcpStream::connect(server.address).await.unwrap());
        strangers.push(tokio::net::TcpStream::connect(server.ops).await.unwrap());
    }
    let sizes = [7 << 20, 3 << 20, 1 << 20, 100 << 10];
    let bodies = sizes.map(|size| vec![Bytes::from(bracket_review(size)); 6]).concat();
    for _ in 0..2 {
        let mut answers = send_bodies(server, "/validate?timeout=20s", &bodies);
        let mut done = Vec::new();
        loop {
            assert_eq!(server.get("/livez").await, (200, "ok".to_owned()));
            assert_eq!(server.get("/readyz").await.0, 200);
            let answer = other.post(
                "/validate/bundle-immutability",
                "application/json",
                recorded_review("006"),
            );
            let answer = answer.await.unwrap();
            assert_eq!(answer.status, 200, "{}", answer.body);
            match answers.try_join_next() {
                Some(code) => done.push(code.unwrap()),
                None if answers.is_empty() => break,
                None => {}
            }
        }
        assert!(done.iter().all(|code| [0, 200, 500, 503].contains(code)), "{done:?}");
    }
}

/// Only files in a directory declare the limit of the container: the system does not enforce it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_in_128_mib_withstands_all_attacks() {
    let _turn = wait_for_idle_machine().await;
    let root = container_files(128 * MIB);
    let text = configuration(&[builtin_policy(), slow_policy()]);
    let arguments = ["--system-root", root.path().to_str().unwrap(), "--cluster-source", "none"];
    let server = Server::start(BINARY, Some(&text), &arguments);
    let limit = server.metric("opgate_request_memory_limit_bytes").await;
    assert_eq!(limit, Some(32.0 * 1_048_576.0));
    run_all_attacks(&server).await;
    let (most, file) = (server.memory("VmHWM"), server.memory("RssFile"));
    println!("{} MiB at the most, {} of them pages of files", most / MIB, file / MIB);
    assert!(most < 128 * MIB, "{} MiB", most / MIB);
}

/// The container is one: the system ends a server that passes its limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_in_a_128_mib_cgroup_survives() {
    let _turn = wait_for_idle_machine().await;
    let Some(group) = Cgroup::create(128 << 20) else { return };
    let text = configuration(&[builtin_policy(), slow_policy()]);
    let arguments = ["--cluster-source", "none"];
    let server = Server::start_after(&group.enter_command(), BINARY, Some(&text), &arguments);
    if !group.contains(server.id()) {
        return println!("skipped: the control group takes no process");
    }
    let limit = server.metric("opgate_request_memory_limit_bytes").await;
    assert_eq!(limit, Some(32.0 * 1_048_576.0));
    run_all_attacks(&server).await;
    println!("{} MiB without pages of files", server.memory("RssAnon") / MIB);
}
