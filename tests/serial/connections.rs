//! Strangers with connections: many, silent, deaf, and a system without descriptors. API servers and
//! kubelets are served all the time.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Instant;

use bytes::Bytes;
use http_body_util::Full;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use testkit::{
    HOST, Server, WAIT_TIMEOUT, configuration, create_bundle, good_spec, misbehaves,
    recorded_review, tls, tls_over, wait_until,
};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::{BINARY, wait_for_idle_machine};

/// A connection from an address of the loopback network.
async fn connect_from(source: u8, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((IpAddr::V4(Ipv4Addr::new(127, 0, 1, source)), 0).into())?;
    socket.connect(to).await
}

/// Whether the server closes a connection.
async fn closes(stream: &mut (impl AsyncRead + Unpin)) -> bool {
    let mut rest = Vec::new();
    tokio::time::timeout(WAIT_TIMEOUT, stream.read_to_end(&mut rest)).await.is_ok()
}

async fn assert_alive(server: &Server) {
    assert_eq!(server.get("/livez").await, (200, "ok".to_owned()));
}

/// The server serves a client that connects now.
async fn assert_accepts_connections(server: &Server) {
    let mut client = tokio::time::timeout(WAIT_TIMEOUT, server.connect()).await.unwrap();
    assert_eq!(client.review(recorded_review("006")).await.unwrap().status, 200);
}

/// As many connections as there are places, and more, that say nothing: before their handshake, and
/// after it. One source has its share only, several have all places; who comes is let in all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_port_accepts_new_connections() {
    let _turn = wait_for_idle_machine().await;
    let server = Server::start(BINARY, None, &["--max-connections", "400"]);
    let mut api_server = server.connect().await;
    api_server.review(recorded_review("006")).await.unwrap();
    let mut silent = Vec::new();
    for index in 0..1_200_u32 {
        // The first half comes from one source, the second from a hundred of them.
        let source = if index < 600 { 1 } else { u8::try_from(index % 100).unwrap() };
        silent.push(connect_from(source, server.address).await.unwrap());
        if index == 599 {
            assert_alive(&server).await;
            assert_accepts_connections(&server).await;
        }
    }
    let mut greeted = Vec::new();
    for source in 0..10_u8 {
        for _ in 0..20 {
            let stream = connect_from(source, server.address).await.unwrap();
            greeted.push(tls_over(stream, &server.certificates.authority, &[]).await);
        }
    }
    assert_alive(&server).await;
    assert_accepts_connections(&server).await;
    // The server keeps the connection of a client that connected before and has sent a request.
    assert_eq!(api_server.review(recorded_review("006")).await.unwrap().status, 200);
    assert!(server.metric("opgate_connections ").await <= Some(400.0));
    assert!(server.metric("opgate_connections_evicted_total").await >= Some(600.0));
}

/// Four thousand and more, with what is the default.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_connections_of_one_client_block_no_others() {
    let _turn = wait_for_idle_machine().await;
    let server = Server::start(BINARY, None, &[]);
    let mut silent = Vec::new();
    for _ in 0..4_200 {
        silent.push(connect_from(1, server.address).await.unwrap());
    }
    assert_alive(&server).await;
    assert_accepts_connections(&server).await;
}

/// More of them than places on the ops port, which ask and do not read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_responses_on_the_ops_port_do_not_stop_the_server() {
    let _turn = wait_for_idle_machine().await;
    let server = Server::start(BINARY, None, &[]);
    let requests = "GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n".repeat(2_000);
    let mut deaf = Vec::new();
    for index in 0..300_u16 {
        let source = u8::try_from(index % 50).unwrap();
        let mut stream = connect_from(source, server.ops).await.unwrap();
        // As much as the server takes at once.
        let _ = stream.try_write(requests.as_bytes());
        let _ = stream.flush().await;
        deaf.push(stream);
    }
    for _ in 0..20 {
        assert_alive(&server).await;
    }
    assert_eq!(server.get("/readyz").await.0, 200);
}

/// Descriptors for some dozens of connections, and some hundreds of clients.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_without_descriptors_stays_alive_with_a_short_log() {
    let _turn = wait_for_idle_machine().await;
    let server = Server::start_after("ulimit -n 64", BINARY, None, &[]);
    let mut clients = Vec::new();
    for index in 0..300_u16 {
        let source = u8::try_from(index % 50).unwrap();
        clients.push(connect_from(source, server.address).await.unwrap());
        clients.push(connect_from(source, server.ops).await.unwrap());
    }
    for _ in 0..5 {
        assert_alive(&server).await;
        assert_accepts_connections(&server).await;
    }
    // Taken away while it runs: fewer than are open.
    let pid = rustix::process::Pid::from_raw(i32::try_from(server.id()).unwrap());
    let few = rustix::process::Rlimit { current: Some(24), maximum: Some(24) };
    rustix::process::prlimit(pid, rustix::process::Resource::Nofile, few).unwrap();
    for index in 0..100_u16 {
        clients
            .push(connect_from(u8::try_from(index % 50).unwrap(), server.address).await.unwrap());
    }
    for _ in 0..5 {
        assert_alive(&server).await;
    }
    let lines = server.log().len();
    assert!(lines < 20, "{lines} lines: {:?}", server.log().last());
}

/// An API server opens connections that it uses later, or never; a kubelet does not.
#[tokio::test]
async fn unused_connection_is_kept_on_the_webhook_port_only() {
    let _turn = wait_for_idle_machine().await;
    let server = Server::start(BINARY, None, &[]);
    let authority = &server.certificates.authority;
    let mut unused = tls(server.address, authority, &[b"http/1.1"]).await.unwrap();
    // Two, one after the other: twice the time that the ops port gives a connection.
    for _ in 0..2 {
        let mut ops = TcpStream::connect(server.ops).await.unwrap();
        let started = Instant::now();
        assert!(closes(&mut ops).await);
        println!("the ops port closes it after {:.1} s", started.elapsed().as_secs_f64());
    }
    unused.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let mut answer = [0; 8];
    unused.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1");
}

/// Denials on an h2 connection with a window of 0: they are ready, and the client does not read
/// them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_responses_end_their_connection() {
    let _turn = wait_for_idle_machine().await;
    let evil = misbehaves("evil", &json!({"do": "many-violations", "number": 250}));
    let server = Server::start(BINARY, Some(&configuration(&[evil])), &[]);
    let stream = tls(server.address, &server.certificates.authority, &[b"h2"]).await.unwrap();
    let (sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(0)
        .handshake(TokioIo::new(stream))
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    let mut answers = JoinSet::new();
    for _ in 0..32 {
        let mut sender = sender.clone();
        let body = create_bundle("u", "b", &good_spec()).to_string();
        answers.spawn(async move {
            let request = hyper::Request::post(format!("https://{HOST}/validate"))
                .header("content-type", "application/json")
                .body(Full::new(Bytes::from(body)))
                .unwrap();
            sender.ready().await.unwrap();
            sender.send_request(request).await
        });
    }
    let mut kept = Vec::new();
    while let Some(answer) = answers.join_next().await {
        kept.push(answer.unwrap().unwrap());
    }
    assert!(kept.iter().all(|answer| answer.status() == 200));
    wait_until("held", async || server.metric("opgate_connections ").await == Some(1.0)).await;
    // The connection ends, whatever its client thinks of that.
    let _ = tokio::time::timeout(WAIT_TIMEOUT, connection).await.expect("the connection ends");
    wait_until("gone", async || server.metric("opgate_connections ").await == Some(0.0)).await;
}
