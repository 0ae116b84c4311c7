//! What strangers get of the server without being anybody.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicUsize;

use bytes::Bytes;
use futures_util::stream;
use tower_service::Service as _;

use super::*;
use opgate_admission::cluster::{Options as View, Source};
use opgate_admission::policy::{Configuration, Set};

/// A server without policies.
fn app() -> Arc<App> {
    let text = r#"{"apiVersion": "opgate.dev/v1alpha1", "kind": "Configuration", "policies": []}"#;
    let configuration =
        Configuration::parse(std::path::Path::new("opgate.yaml"), text, &[]).unwrap();
    let set = Set::load(&configuration, None, 1, View::of(Source::Absent)).unwrap();
    App::new(set.into(), &Options::default())
}

#[tokio::test]
async fn bodies_that_nobody_wants_are_read_to_an_end_that_all_share() {
    const FRAME: usize = 1 << 20;
    let (app, read) = (app(), Arc::new(AtomicUsize::new(0)));
    let (mut router, frame) = (app.webhook(), Bytes::from(vec![0; FRAME]));
    let (alive, mut ended) = tokio::sync::mpsc::channel::<()>(1);
    for _ in 0..50 {
        let (read, alive, frame) = (read.clone(), alive.clone(), frame.clone());
        let frames = stream::repeat_with(move || {
            let _ = &alive;
            read.fetch_add(FRAME, Ordering::Relaxed);
            Ok::<_, std::convert::Infallible>(frame.clone())
        });
        let request = Request::post("/nowhere").body(Body::from_stream(frames)).unwrap();
        assert_eq!(router.call(request).await.unwrap().status(), 404);
    }
    drop(alive);
    // All of them have been let go.
    assert_eq!(ended.recv().await, None);
    let read = read.load(Ordering::Relaxed) >> 20;
    println!("{read} MiB of 50 bodies were thrown away");
    assert!(read < 1_600, "{read} MiB");
}

#[tokio::test]
async fn clients_that_do_not_read_share_the_metrics() {
    let app = app();
    let (checks, limit) = (std::net::SocketAddr::from(([127, 0, 0, 1], 1)), Duration::ZERO);
    let check = super::super::check::testing::check(checks, limit);
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
    // Those at once, and one for each 100 ms that this takes.
    assert!(texts.len() < 200, "{}", texts.len());
}
