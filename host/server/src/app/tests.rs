//! The responses of the server to clients without a certificate.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicUsize;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use tower_service::Service as _;

use super::*;
use opgate_admission::cluster::{ClusterOptions as View, Source};
use opgate_admission::policy::{Configuration, PolicySet};
use opgate_telemetry::{Settings, SettingsOverrides};

/// A server without policies.
fn app() -> Arc<App> {
    app_with(&Options::default())
}

fn app_with(options: &Options) -> Arc<App> {
    let text = r#"{"apiVersion": "opgate.dev/v1alpha1", "kind": "Configuration", "policies": []}"#;
    let configuration =
        Configuration::parse(std::path::Path::new("opgate.yaml"), text, &[]).unwrap();
    let set = PolicySet::load(&configuration, None, 1, View::of(Source::Absent)).unwrap();
    App::new(set.into(), options)
}

#[tokio::test]
async fn unwanted_bodies_are_discarded_up_to_a_shared_limit() {
    const FRAME_BYTES: usize = 1 << 20;
    let (app, read) = (app(), Arc::new(AtomicUsize::new(0)));
    let (mut router, frame) = (app.webhook(), Bytes::from(vec![0; FRAME_BYTES]));
    let (alive, mut ended) = tokio::sync::mpsc::channel::<()>(1);
    for _ in 0..50 {
        let (read, alive, frame) = (read.clone(), alive.clone(), frame.clone());
        let frames = stream::repeat_with(move || {
            let _ = &alive;
            read.fetch_add(FRAME_BYTES, Ordering::Relaxed);
            Ok::<_, std::convert::Infallible>(frame.clone())
        });
        let request = Request::post("/nowhere").body(Body::from_stream(frames)).unwrap();
        assert_eq!(router.call(request).await.unwrap().status(), 404);
    }
    drop(alive);
    // All of them have been released.
    assert_eq!(ended.recv().await, None);
    let read = read.load(Ordering::Relaxed) >> 20;
    println!("{read} MiB of 50 bodies were thrown away");
    assert!(read < 1_600, "{read} MiB");
}

#[tokio::test]
async fn clients_that_do_not_read_share_the_metrics() {
    let app = app();
    let (checks, limit) = (std::net::SocketAddr::from(([127, 0, 0, 1], 1)), Duration::ZERO);
    let check = super::super::self_check::testing::check(checks, limit);
    let liveness = Arc::new(Liveness::new(opgate_supervise::Supervisor::default(), check));
    let mut router = app.ops(liveness);
    let mut kept = Vec::new();
    for _ in 0..400 {
        let request = Request::get("/metrics").body(Body::empty()).unwrap();
        let answer = router.call(request).await.unwrap();
        kept.push(answer.into_body().collect().await.unwrap().to_bytes());
    }
    let texts: BTreeSet<_> = kept.iter().map(|text| text.as_ptr()).collect();
    println!("{} texts of {} bytes for 400 clients", texts.len(), kept[0].len());
    // The ones at once, and one for each 100 ms of the test.
    assert!(texts.len() < 200, "{}", texts.len());
}

#[test]
fn panic_in_a_report_is_counted_and_goes_no_further() {
    let app = app();
    app.report("event", || panic!("a mistake in a report"));
    assert_eq!(app.metrics.panics.get(), 1);
    let mut is_called = false;
    app.report("event", || is_called = true);
    assert!(is_called);
    assert_eq!(app.metrics.panics.get(), 1);
}

/// A body that arrives in frames, with a pause before each, and ends or hangs.
fn slow_body(frames: usize, pause: Duration, ends: bool) -> Body {
    let frame = Bytes::from(vec![b' '; 64 << 10]);
    let sent = stream::iter(0..frames).then(move |_| {
        let frame = frame.clone();
        async move {
            tokio::time::sleep(pause).await;
            Ok::<_, std::convert::Infallible>(frame)
        }
    });
    if ends {
        return Body::from_stream(sent);
    }
    Body::from_stream(sent.chain(stream::pending()))
}

fn post_from(address: [u8; 4], body: Body) -> Request {
    let mut request = Request::post("/validate?timeout=30s").body(body).unwrap();
    let json = HeaderValue::from_static("application/json");
    request.headers_mut().insert(CONTENT_TYPE, json);
    request.extensions_mut().insert(Origin::of(address.into()));
    request
}

/// The response to a body of blanks that was read completely.
const COMPLETELY_READ: StatusCode = StatusCode::BAD_REQUEST;

#[tokio::test(start_paused = true)]
async fn unfinished_bodies_do_not_block_other_reviews() {
    for pods in [1, 40] {
        let app = app();
        let router = app.webhook();
        let mut unfinished = tokio::task::JoinSet::new();
        for number in 0..120_u8 {
            let mut router = router.clone();
            let body = slow_body(110, Duration::ZERO, false);
            let request = post_from([10, 0, 1, number % pods], body);
            unfinished.spawn(async move { router.call(request).await.unwrap().status() });
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        let mut honest = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let (mut router, body) =
                (router.clone(), slow_body(110, Duration::from_millis(1), true));
            let request = post_from([10, 0, 0, 1], body);
            honest.spawn(async move { router.call(request).await.unwrap().status() });
        }
        for status in honest.join_all().await {
            assert_eq!(status, COMPLETELY_READ, "{pods}");
        }
        // All of them end, and hold nothing.
        let ended = unfinished.join_all().await;
        let too_slow =
            ended.iter().filter(|status| **status == StatusCode::REQUEST_TIMEOUT).count();
        let shed =
            ended.iter().filter(|status| **status == StatusCode::SERVICE_UNAVAILABLE).count();
        assert_eq!(too_slow + shed, 120);
        assert!(too_slow > 0 && shed > 0, "{too_slow} {shed}");
        assert!(app.memory.used() < 1 << 20, "{}", app.memory.used());
    }
}

#[tokio::test(start_paused = true)]
async fn request_of_a_client_that_disconnects_is_traced() {
    let overrides = SettingsOverrides {
        endpoint: Some("http://127.0.0.1:1".to_owned()),
        ratio: Some(1.0),
        max_traces_per_second: 10,
        ..Default::default()
    };
    let settings = Settings::resolve(overrides, |_| None).unwrap().unwrap();
    let telemetry = Arc::new(Telemetry::start(settings).unwrap());
    let options = Options { telemetry: Some(telemetry.clone()), ..Options::default() };
    let mut router = app_with(&options).webhook();
    let request = post_from([10, 0, 0, 1], slow_body(1, Duration::from_secs(1), true));
    let call = tokio::time::timeout(Duration::from_millis(1), router.call(request));
    assert!(call.await.is_err(), "the client disconnects before the response");
    telemetry.finish();
    let mut registry = prometheus_client::registry::Registry::default();
    telemetry.counts().register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    // No collector is there to accept it.
    assert!(text.contains("spans_total{result=\"failed\"} 1\n"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn slow_client_alone_is_served() {
    let app = app();
    // 7 MiB at 1 MiB a second.
    let body = slow_body(112, Duration::from_micros(62_500), true);
    let answer = app.webhook().call(post_from([10, 0, 0, 1], body)).await.unwrap();
    assert_eq!(answer.status(), COMPLETELY_READ);
}
