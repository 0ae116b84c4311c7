//! Ends of decisions that the model does not reach.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use opgate_context::Query;
use tokio::time::Instant;

use super::*;

/// Denies where there is anything but what it writes itself.
struct Alone<'a> {
    cluster: &'a Cluster,
    judged: AtomicUsize,
}

impl<'a> Alone<'a> {
    fn new(cluster: &'a Cluster) -> Self {
        Self { cluster, judged: AtomicUsize::new(0) }
    }
}

impl Judge for Alone<'_> {
    type Verdict = String;
    type Overload = Unsettled;

    async fn judge(&self, lens: &Lens) -> Result<Asked<String>, Unsettled> {
        self.judged.fetch_add(1, Ordering::Relaxed);
        let asked = vec![(0, Scope::All)];
        let fresh = lens.fresh.as_ref().and_then(|fresh| fresh.listing(0, &Scope::All));
        let kind = &self.cluster.kinds[0];
        match kind.select(&Query::default(), usize::MAX, fresh, lens.world) {
            Ok(found) => {
                let allows = found.objects.iter().all(|object| *object.key().name == *"mine");
                let touched = found.touched.into_iter().map(|key| (0, key)).collect();
                let verdict = if allows { "allowed" } else { "denied" }.to_owned();
                Ok(Asked { verdict, allows, is_sound: true, asked, touched })
            }
            Err(why) => {
                let (verdict, touched) = (format!("{why:?}"), Vec::new());
                Ok(Asked { verdict, allows: false, is_sound: false, asked, touched })
            }
        }
    }

    fn without_answer(&self, _: String, why: &str) -> String {
        why.to_owned()
    }

    fn resting_on(&self, verdict: String, objects: &[String]) -> String {
        format!("{verdict}: {}", objects.join(", "))
    }

    fn without_room(&self, _: String) -> Result<String, Unsettled> {
        Err(Unsettled::NoRoom)
    }

    fn change(&self) -> Option<Write> {
        let object = Some(object("mine", "", "m", "x"));
        Some(Write { kinds: vec![0], key: key("mine"), object, old: None })
    }
}

/// Answers with nothing, or not at all.
struct Answers(Option<&'static str>);

impl Api for Answers {
    fn list<'a>(&'a self, kind: &'a Kind, _: &'a Scope) -> BoxFuture<'a, Result<Listing, String>> {
        let listing = Listing { version: "9".to_owned(), ..kind.empty() };
        let answer = self.0.map_or(Ok(listing), |why| Err(why.to_owned()));
        Box::pin(async move { answer })
    }
}

fn view(options: Options) -> Cluster {
    let cluster = cluster(options);
    list(&cluster.kinds[0], "1", &[]);
    cluster
}

async fn ask(
    cluster: &Cluster,
    direct: Option<&Direct>,
    seconds: u64,
) -> Result<String, Unsettled> {
    let exactness = Exactness { direct, always: false, contested: &[0] };
    let deadline = Instant::now() + Duration::from_secs(seconds);
    decide(cluster, exactness, deadline, &Alone::new(cluster)).await
}

fn reserved(cluster: &Cluster) -> usize {
    cluster.kinds[0].status().reservations
}

#[tokio::test(start_paused = true)]
async fn nothing_is_reserved_for_who_has_given_up() {
    let cluster = view(Options::of(Source::Live));
    assert_eq!(ask(&cluster, None, 0).await, Err(Unsettled::Late));
    assert_eq!(reserved(&cluster), 0);
    assert_eq!(ask(&cluster, None, 1).await, Ok("allowed".to_owned()));
    assert_eq!(reserved(&cluster), 1);
}

#[tokio::test(start_paused = true)]
async fn without_room_there_is_no_verdict() {
    let bounds = Bounds { count: 0, bytes: 0 };
    let cluster = view(Options { bounds, ..Options::of(Source::Live) });
    assert_eq!(ask(&cluster, None, 1).await, Err(Unsettled::NoRoom));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_known_is_denied_in_time() {
    let reserve = |cluster: &Cluster, name: &str| {
        let other = object(name, "", "o", "x");
        cluster.kinds[0].reserve(&key(name), other.root(), "").unwrap();
    };
    let rests = Ok("denied: r ns/other".to_owned());
    let silent = Direct::new(Answers(Some("500: no answer")));
    let empty = Direct::new(Answers(None));
    for (direct, seconds, expected, took) in [
        // Nobody to ask.
        (None, 10, &rests, 0..=60),
        (Some(&silent), 10, &rests, 50..=60),
        // It could still be stored when the time is up.
        (Some(&empty), 1, &rests, 50..=60),
        (Some(&empty), 10, &Ok("allowed".to_owned()), 2_000..=2_010),
    ] {
        let cluster = view(Options::of(Source::Live));
        reserve(&cluster, "other");
        let began = Instant::now();
        assert_eq!(ask(&cluster, direct, seconds).await, *expected);
        let milliseconds = began.elapsed().as_millis();
        assert!(took.contains(&milliseconds), "{expected:?} after {milliseconds} ms");
    }
    // So is what hangs on too many.
    let cluster = view(Options::of(Source::Live));
    for number in 0..40 {
        reserve(&cluster, &format!("other-{number}"));
    }
    let denied = ask(&cluster, Some(&empty), 10).await.unwrap();
    assert_eq!(denied, "denied: r ns/other-0, r ns/other-1, r ns/other-10");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_fails_is_replaced_or_a_fault() {
    let direct = Direct::new(Answers(None));
    let silent = Direct::new(Answers(Some("500: no answer")));
    let failing = "the watch of g/v1/r fails, it was last heard of 6 s ago: cut";
    for (interrupted, direct, expected) in [
        (Interrupted::Read, Some(&direct), "allowed"),
        (Interrupted::Read, Some(&silent), &format!("{failing}; read directly: 500: no answer")),
        (Interrupted::Read, None, failing),
        (Interrupted::Fail, Some(&direct), failing),
    ] {
        let cluster = view(Options { interrupted, ..Options::of(Source::Live) });
        cluster.kinds[0].apply(object("stored", "2", "s", "x").root(), "");
        cluster.kinds[0].failed("cut".to_owned());
        assert_eq!(ask(&cluster, direct, 10).await.unwrap(), "denied", "it may pass");
        tokio::time::advance(Duration::from_secs(6)).await;
        assert_eq!(ask(&cluster, direct, 10).await.unwrap(), expected);
    }
}
