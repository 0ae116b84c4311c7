//! HTTP over TCP: turns requests into [`ApiRequest`], and replies and watches into responses.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep_until};

use super::read_request::ReadRequest;
use super::reply::Reply;
use super::request::ApiRequest;
use super::state::{ClusterState, PodEndpoint, Shared};
use super::status::status;

type Body = UnsyncBoxBody<Bytes, io::Error>;

pub(super) async fn accept(listener: std::net::TcpListener, shared: Arc<Shared>) {
    let listener = TcpListener::from_std(listener).unwrap();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let shared = shared.clone();
        let service = service_fn(move |request| answer(shared.clone(), request));
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> hyper::Result<Response<Body>> {
    let (head, body) = request.into_parts();
    shared.change(|cluster| cluster.requests.push(format!("{} {}", head.method, head.uri)));
    let call = ApiRequest::new(&head, body.collect().await?.to_bytes());
    shared.wait_until(|cluster| !cluster.paused && !cluster.is_held(&call)).await;
    if let Some(pod) = shared.change(|cluster| cluster.proxied(&call)) {
        let (code, body) = forward_to_pod(pod, head.uri.path()).await;
        return Ok(Response::builder().status(code).body(full_body(&body)).unwrap());
    }
    let (code, body) = match shared.change(|cluster| cluster.serve(call)) {
        Ok(Reply::Watch { lines, seconds, cuts, last }) => {
            (200, stream(shared, lines, seconds, cuts, last.map(|view| *view)))
        }
        Ok(Reply::Json(code, body)) => (code, full_body(&body)),
        Ok(Reply::Text(code, body)) => (code, full_body(&body)),
        Ok(Reply::Prepared(body)) => {
            (200, Full::from(body).map_err(|never| match never {}).boxed_unsync())
        }
        Err(body) => (body["code"].as_u64().unwrap().try_into().unwrap(), full_body(&body)),
    };
    let mut response = Response::builder().status(code).header("content-type", "application/json");
    if code == 429 {
        response = response.header("retry-after", "1");
    }
    Ok(response.body(body).unwrap())
}

/// The answer of a pod, or that of an API server that does not reach it.
async fn forward_to_pod(PodEndpoint(to): PodEndpoint, path: &str) -> (u16, String) {
    let unreached = || (503, status(503, "error trying to reach service: no route").to_string());
    let Some(to) = to else { return unreached() };
    let Ok(mut stream) = tokio::net::TcpStream::connect(to).await else { return unreached() };
    let (_, path) = path.split_once("/proxy").unwrap();
    let request = format!("GET {path} HTTP/1.0\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn full_body(body: &impl ToString) -> Body {
    Full::from(body.to_string()).map_err(|never| match never {}).boxed_unsync()
}

/// The body of a watch. A cut is an error of the body, upon which the connection is closed without
/// the end of the answer.
fn stream(
    shared: Arc<Shared>,
    lines: UnboundedReceiver<Bytes>,
    seconds: u64,
    cuts: u64,
    last: Option<ReadRequest>,
) -> Body {
    // Without a timeout: longer than any test.
    let seconds = if seconds == 0 { 86_400 } else { seconds };
    let end = Instant::now() + Duration::from_secs(seconds);
    let step = move |(mut lines, mut last): (UnboundedReceiver<Bytes>, Option<ReadRequest>)| {
        let shared = shared.clone();
        async move {
            let cut = |cluster: &ClusterState| cluster.watch_cuts != cuts;
            let line = async {
                let line = lines.recv().await;
                shared.wait_until(|cluster| !cluster.paused || cut(cluster)).await;
                if cut(&shared.cluster.lock().unwrap()) {
                    return Some(Err(io::Error::other("the test cut the connection")));
                }
                line.map(|line| Ok(Frame::data(line)))
            };
            let item = tokio::select! {
                line = line => line,
                () = sleep_until(end) => {
                    let cluster = shared.cluster.lock().unwrap();
                    let last = last.take().filter(|_| !cluster.paused);
                    let last = last.filter(|view| cluster.resources.contains_key(&view.of));
                    last.map(|view| Ok(Frame::data(cluster.bookmark(&view, &json!({})))))
                }
            };
            item.map(|item| (item, (lines, last)))
        }
    };
    StreamBody::new(stream::unfold((lines, last), step)).boxed_unsync()
}
