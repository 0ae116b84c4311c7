//! What the server stands up to. Each test prints the figures of `docs/reliability.md`:
//! `cargo test --release --workspace --test serial -- reliability --nocapture`

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;
use testkit::{
    Certificates, Client, HOST, Server, WAIT_TIMEOUT, builtin_policy, configuration, create_bundle,
    good_spec, misbehaves, recorded_review, tls, wait_until,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::{BINARY, wait_for_idle_machine};

/// Reviews one after the other; gives how long each took, in microseconds, sorted.
async fn measure_reviews(client: &mut Client, path: &str, count: usize) -> Vec<u128> {
    let body = recorded_review("007");
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let started = Instant::now();
        let answer = client.post(path, "application/json", body.clone()).await.unwrap();
        assert_eq!((answer.status, answer.response()["allowed"].clone()), (200, false.into()));
        times.push(started.elapsed().as_micros());
    }
    times.sort_unstable();
    times
}

fn print_times(what: &str, times: &[u128]) {
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    println!(
        "{what}: {} reviews, p50 {} us, p99 {} us, max {} us",
        times.len(),
        at(50),
        at(99),
        at(100)
    );
}

/// 200 connections that never finish: in the handshake, in the head of a request, in its body. A
/// healthy client is served all the time, and in the end the server has let go of all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_loris_connections_block_no_reviews() {
    let _turn = wait_for_idle_machine().await;
    let server = Server::start(BINARY, None, &[]);
    let mut client = server.connect().await;
    print_times("alone", &measure_reviews(&mut client, "/validate", 300).await);
    let stop = Arc::new(AtomicBool::new(false));
    let mut slow = JoinSet::new();
    for _ in 0..80 {
        let address = server.address;
        slow.spawn(async move {
            let mut stream = TcpStream::connect(address).await.unwrap();
            // The start of a handshake record that does not go on.
            stream.write_all(b"\x16\x03\x01\x02\x00\x01").await.unwrap();
            let _ = stream.read(&mut [0; 64]).await;
        });
    }
    for index in 0..120 {
        let mut stream = tls(server.address, &server.certificates.authority, &[]).await.unwrap();
        let stop = stop.clone();
        slow.spawn(async move {
            let mut start = format!("POST /validate HTTP/1.1\r\nhost: {HOST}\r\nx: ");
            if index % 2 == 0 {
                start = format!(
                    "POST /validate HTTP/1.1\r\nhost: {HOST}\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n{{"
                );
            }
            let _ = stream.write_all(start.as_bytes()).await;
            // A byte now and then, as long as the server takes it.
            let (mut read, mut write) = tokio::io::split(stream);
            let mut buffer = [0; 256];
            let mut ticks = tokio::time::interval(Duration::from_millis(100));
            loop {
                tokio::select! {
                    got = read.read(&mut buffer) => match got {
                        Ok(0) | Err(_) => return,
                        Ok(_) => {}
                    },
                    _ = ticks.tick() => {
                        if stop.load(Ordering::Relaxed) || write.write_all(b" ").await.is_err() {
                            return;
                        }
                    }
                }
            }
        });
    }
    wait_until("open connections", async || {
        server.metric("opgate_connections ").await >= Some(201.0)
    })
    .await;
    print_times("beside 200 slow ones", &measure_reviews(&mut client, "/validate", 300).await);
    let started = Instant::now();
    tokio::time::timeout(WAIT_TIMEOUT, async { while slow.join_next().await.is_some() {} })
        .await
        .unwrap();
    println!("all 200 let go after {:.1} s", started.elapsed().as_secs_f64());
    stop.store(true, Ordering::Relaxed);
    wait_until("closed connections", async || {
        server.metric("opgate_connections ").await == Some(1.0)
    })
    .await;
    print_times("afterwards", &measure_reviews(&mut client, "/validate", 300).await);
}

/// 1,000 requests whose client goes away: before the body, within it, and right after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aborted_requests_block_no_reviews() {
    let _turn = wait_for_idle_machine().await;
    let server = Server::start(BINARY, None, &[]);
    let review = recorded_review("007");
    let head = format!(
        "POST /validate HTTP/1.1\r\nhost: {HOST}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        review.len()
    );
    let started = Instant::now();
    for batch in 0..20 {
        let mut aborted = JoinSet::new();
        for index in 0..50 {
            let sent = match (batch + index) % 4 {
                0 => head[..40].to_owned(),
                1 => head.clone(),
                2 => format!("{head}{}", &review[..review.len() / 2]),
                _ => format!("{head}{review}"),
            };
            let stream = tls(server.address, &server.certificates.authority, &[]).await.unwrap();
            aborted.spawn(async move {
                let mut stream = stream;
                stream.write_all(sent.as_bytes()).await.unwrap();
                stream.flush().await.unwrap();
                drop(stream);
            });
        }
        while let Some(done) = aborted.join_next().await {
            done.unwrap();
        }
    }
    println!("1000 aborted requests in {:.1} s", started.elapsed().as_secs_f64());
    wait_until("no request in flight", async || {
        server.metric("opgate_requests_in_flight ").await == Some(0.0)
    })
    .await;
    wait_until("no connection", async || server.metric("opgate_connections ").await == Some(0.0))
        .await;
    assert_eq!(server.metric("opgate_panics_total").await, Some(0.0));
    let mut client = server.connect().await;
    print_times("afterwards", &measure_reviews(&mut client, "/validate", 100).await);
}

/// Which certificate a new connection gets.
async fn presented_certificate(server: &Server) -> Vec<u8> {
    let stream = tls(server.address, &server.certificates.authority, &[]).await.unwrap();
    stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

fn der(pem: &str) -> Vec<u8> {
    use rustls::pki_types::pem::PemObject as _;
    rustls::pki_types::CertificateDer::from_pem_slice(pem.as_bytes()).unwrap().to_vec()
}

/// Ten swaps as a kubelet makes them while connections come in without a pause; then two broken
/// pairs, which change nothing; then a good one again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificate_swaps_under_load_fail_no_requests() {
    let _turn = wait_for_idle_machine().await;
    let mut server = Server::start(BINARY, None, &[]);
    let (stop, requests) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut load = JoinSet::new();
    for _ in 0..4 {
        let (stop, requests) = (stop.clone(), requests.clone());
        let (address, authority) = (server.address, copy_authority(&server.certificates));
        load.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let mut client = Client::connect(address, &authority).await.unwrap();
                let answer = client.review(recorded_review("007")).await.unwrap();
                assert_eq!(answer.status, 200);
                requests.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let started = Instant::now();
    let mut newest = String::new();
    for _ in 0..10 {
        newest = server.certificates.rotate();
        let expected = der(&newest);
        wait_until("the new certificate", async || {
            presented_certificate(&server).await == expected
        })
        .await;
    }
    println!(
        "10 swaps in {:.2} s, each seen by new connections; {} connections and requests meanwhile, 0 failed",
        started.elapsed().as_secs_f64(),
        requests.load(Ordering::Relaxed)
    );
    let other = server.certificates.authority.issue(&[HOST.to_owned()], 1).unwrap();
    for (certificate, key) in [(newest.as_str(), other.key.as_str()), ("garbage", "garbage")] {
        let failed = server.metric("opgate_certificate_reloads_total{result=\"failed\"}").await;
        server.certificates.swap(certificate, key);
        wait_until("the failure is counted", async || {
            server.metric("opgate_certificate_reloads_total{result=\"failed\"}").await > failed
        })
        .await;
        assert_eq!(presented_certificate(&server).await, der(&newest));
    }
    let expected = der(&server.certificates.rotate());
    wait_until("a good one again", async || presented_certificate(&server).await == expected).await;
    stop.store(true, Ordering::Relaxed);
    while let Some(done) = load.join_next().await {
        done.unwrap();
    }
}

/// The same CA once more, for a separate task.
fn copy_authority(certificates: &Certificates) -> opgate_certs::CertificateAuthority {
    let directory = tempfile::tempdir().unwrap();
    let (certificate, key) = (directory.path().join("ca.crt"), directory.path().join("ca.key"));
    std::fs::write(&certificate, certificates.authority.certificate()).unwrap();
    std::fs::write(&key, certificates.authority.key()).unwrap();
    opgate_certs::CertificateAuthority::load(&certificate, &key).unwrap()
}

/// SIGTERM, and SIGINT, while eight clients send without a pause: not ready at once, every request
/// that was sent is answered, exit status 0.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_under_load_fails_no_request() {
    let _turn = wait_for_idle_machine().await;
    for signal in [Signal::TERM, Signal::INT] {
        let mut server = Server::start(BINARY, None, &["--drain-delay", "500ms"]);
        let answered = Arc::new(AtomicUsize::new(0));
        let mut load = JoinSet::new();
        for _ in 0..8 {
            let (address, authority) = (server.address, copy_authority(&server.certificates));
            let answered = answered.clone();
            load.spawn(async move {
                let (mut failed, mut closes) = (0, 0);
                // A client whose connection the server closes connects again, as one behind a
                // Service does, until the server no longer listens.
                while let Ok(mut client) = Client::connect(address, &authority).await {
                    loop {
                        match client.review(recorded_review("007")).await {
                            Ok(answer) => {
                                assert_eq!(answer.status, 200, "{}", answer.body);
                                answered.fetch_add(1, Ordering::Relaxed);
                                if answer.headers.get("connection").is_some_and(|v| v == "close") {
                                    closes += 1;
                                    break;
                                }
                            }
                            // The request was not sent: the connection had been closed before.
                            Err(error) if error.is_canceled() || error.is_closed() => break,
                            Err(_) => {
                                failed += 1;
                                break;
                            }
                        }
                    }
                }
                (failed, closes)
            });
        }
        wait_until("some load", async || answered.load(Ordering::Relaxed) > 200).await;
        let before = answered.load(Ordering::Relaxed);
        server.signal(signal);
        wait_until("not ready", async || server.get("/readyz").await.0 == 503).await;
        let (mut failed, mut closes) = (0, 0);
        while let Some(done) = load.join_next().await {
            let (f, c) = done.unwrap();
            failed += f;
            closes += c;
        }
        assert_eq!(failed, 0);
        assert!(closes > 0, "clients are told to go");
        assert!(server.wait().success());
        let after = answered.load(Ordering::Relaxed) - before;
        println!(
            "{signal:?}: {after} requests answered after the signal, {closes} clients told to go, 0 failed"
        );
    }
}

/// A policy that burns its whole deadline on every request, asked by 100 clients at once: what is
/// beyond its share of the queue is shed, what runs ends in its deadline, and another policy is served as if
/// nothing were.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_policy_does_not_slow_other_policies() {
    let _turn = wait_for_idle_machine().await;
    let mut evil = misbehaves("evil", &json!({"do": "spin"}));
    evil["limits"] = json!({"time": "100ms", "concurrency": 4});
    let text = configuration(&[evil, builtin_policy()]);
    let server = Server::start(BINARY, Some(&text), &["--max-queued-calls", "16"]);
    let mut client = server.connect().await;
    print_times("alone", &measure_reviews(&mut client, "/validate/bundle-immutability", 300).await);
    let mut slow = JoinSet::new();
    for _ in 0..100 {
        let mut client = server.connect().await;
        slow.spawn(async move {
            let body = create_bundle("u", "b", &good_spec()).to_string();
            client.post("/validate/evil?timeout=60s", "application/json", body).await.unwrap()
        });
    }
    wait_until("shedding", async || server.metric("opgate_requests_shed_total").await > Some(0.0))
        .await;
    print_times(
        "beside it",
        &measure_reviews(&mut client, "/validate/bundle-immutability", 300).await,
    );
    let (mut deadline, mut late, mut shed) = (0, 0, 0);
    while let Some(answer) = slow.join_next().await {
        let answer = answer.unwrap();
        match answer.status {
            500 => {
                assert_eq!(answer.body, "policy evil: exceeded the CPU time limit of 100ms");
                deadline += 1;
            }
            503 => {
                assert_eq!(answer.headers["retry-after"], "1");
                if answer.body.contains("the server has too much to do") {
                    // On a busy machine the time of the request is over before that of the call.
                    late += 1;
                } else {
                    let full = ["calls are waiting already", "queue share"];
                    let is_full = full.iter().any(|text| answer.body.contains(text));
                    assert!(is_full, "{}", answer.body);
                    shed += 1;
                }
            }
            other => panic!("{other}: {}", answer.body),
        }
    }
    println!("100 requests to the slow policy: {deadline} ended in its deadline, {shed} were shed");
    // They are requests of one user, whose share is half of the queue.
    assert!(deadline > 0 && deadline + late >= 9 && shed > 0, "{deadline} {late} {shed}");
}

/// A permit belongs to the running call. A client that goes away stops its call. A client that
/// waits for a permit gets the error before its own time-out ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn abandoned_calls_stop_and_queued_calls_time_out() {
    let _turn = wait_for_idle_machine().await;
    let mut evil = misbehaves("evil", &json!({"do": "spin-for-name", "name": "slow"}));
    evil["limits"] = json!({"time": "20s", "concurrency": 1});
    let server = Server::start(BINARY, Some(&configuration(&[evil])), &[]);
    let review = |name: &str| create_bundle("u", name, &good_spec()).to_string();
    let slow = {
        let mut client = server.connect().await;
        let body = review("slow");
        tokio::spawn(async move { client.review(body).await })
    };
    wait_until("the slow call runs", async || {
        server.metric("opgate_requests_in_flight ").await == Some(1.0)
    })
    .await;
    let mut client = server.connect().await;
    let path = "/validate?timeout=1s";
    let waited = async {
        // The first try may come before the slow call has its permit.
        loop {
            let answer = client.post(path, "application/json", review("b")).await.unwrap();
            if answer.status != 200 {
                return answer;
            }
        }
    };
    let answer = tokio::time::timeout(WAIT_TIMEOUT, waited).await.unwrap();
    assert_eq!((answer.status, &answer.headers["retry-after"]), (503, &"1".parse().unwrap()));
    assert!(answer.body.starts_with("policy evil: no call ended in the "), "{}", answer.body);
    slow.abort();
    wait_until("the call is free again", async || {
        client.post("/validate", "application/json", review("b")).await.unwrap().status == 200
    })
    .await;
}
