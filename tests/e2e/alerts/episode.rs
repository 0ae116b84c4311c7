//! A problem of a server over time, from its metrics before, during and after it.
//!
//! Time does not pass in the test. Each state of a server stays for a while: before and after the problem as if the
//! server went on, so that its Unix times move; during the problem as if nothing happened any more.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

use testkit::Server;
use testkit::promql::{Alert, Labels, Timeline, parse_metrics};

/// Interval of scrapes.
const INTERVAL_SECONDS: f64 = 30.0;

/// How long the states before and after last: longer than any range and duration of an alert.
const QUIET_SECONDS: f64 = 3_600.0;

/// How long the problem lasts beyond the duration of the alert.
const EXTRA_SECONDS: f64 = 120.0;

const TARGET: [(&str, &str); 3] =
    [("job", "opgate-metrics"), ("namespace", "opgate-system"), ("pod", "opgate-0")];

/// The metrics of a server at a time; none if it did not respond.
#[derive(Clone)]
pub(super) struct Scrape {
    at: f64,
    samples: BTreeMap<Labels, f64>,
}

impl Scrape {
    /// The current metrics of a server.
    pub(super) async fn of(server: &Server) -> Self {
        let (status, text) = server.get("/metrics").await;
        assert_eq!(status, 200);
        Self { at: unix_now(), samples: parse_metrics(&text) }
    }

    /// No response.
    pub(super) fn none() -> Self {
        Self { at: unix_now(), samples: BTreeMap::new() }
    }

    /// The metrics with another value of the first series of one.
    pub(super) fn with(&self, metric: &str, value: f64) -> Self {
        let mut scrape = self.clone();
        let is_it = |labels: &&Labels| labels["__name__"] == metric;
        let known = scrape.samples.keys().find(is_it).unwrap_or_else(|| panic!("no {metric}"));
        scrape.samples.insert(known.clone(), value);
        scrape
    }

    /// The metrics with another series.
    pub(super) fn with_series(&self, labels: &[(&str, &str)], value: f64) -> Self {
        let mut scrape = self.clone();
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        scrape.samples.insert(labels.collect(), value);
        scrape
    }

    /// When it was made, Unix time.
    pub(super) fn time(&self) -> f64 {
        self.at
    }

    /// The value of a metric: of its first series.
    pub(super) fn value(&self, metric: &str) -> f64 {
        let mut samples = self.samples.iter();
        samples.find(|(labels, _)| labels["__name__"] == metric).map(|(_, value)| *value).unwrap()
    }
}

/// A problem.
pub(super) struct Episode {
    /// None if the server had the problem from the start.
    pub(super) before: Option<Scrape>,
    /// The last one stays.
    pub(super) during: Vec<Scrape>,
    pub(super) after: Scrape,
}

impl Episode {
    pub(super) fn new(before: Scrape, during: Scrape, after: Scrape) -> Self {
        Self { before: Some(before), during: vec![during], after }
    }

    pub(super) fn from_start(during: Scrape, after: Scrape) -> Self {
        Self { before: None, during: vec![during], after }
    }

    /// Fails unless an alert is quiet before, fires at the end of the problem, and stops after it.
    pub(super) fn check(&self, alert: &Alert) -> Result<(), String> {
        let mut timeline = Timeline::default();
        let start = self.before.as_ref().unwrap_or(&self.during[0]).at.floor();
        let mut time = start;
        let metrics: BTreeSet<_> =
            alert.expression.metrics().into_iter().map(|(metric, _)| metric).collect();
        let add = |timeline: &mut Timeline, time: f64, scrape: &Scrape, moved: f64| {
            let samples = scrape.samples.iter();
            let samples = samples.filter(|(labels, _)| metrics.contains(&labels["__name__"]));
            let samples = samples.map(|(labels, value)| {
                let is_time = is_unix_time(&labels["__name__"]) && *value > 0.0;
                (labels.clone(), if is_time { value + moved } else { *value })
            });
            timeline.add(time, &TARGET, &samples.collect());
        };
        let firing =
            |timeline: &Timeline, time: f64| alert.firing(timeline, start, time - INTERVAL_SECONDS);
        let name = &alert.name;
        if let Some(before) = &self.before {
            let end = time + QUIET_SECONDS;
            while time < end {
                add(&mut timeline, time, before, time - before.at);
                time += INTERVAL_SECONDS;
            }
            let early = firing(&timeline, time);
            if !early.is_empty() {
                return Err(format!("{name} fires before the problem: {early:?}"));
            }
        }
        let (begun, first) = (time, self.during[0].at);
        let mut states = self.during.iter();
        let mut state = states.next().unwrap();
        while time < begun + alert.duration + EXTRA_SECONDS {
            add(&mut timeline, time, state, begun - first);
            state = states.next().unwrap_or(state);
            time += INTERVAL_SECONDS;
        }
        if firing(&timeline, time).is_empty() {
            return Err(format!("{name} does not fire"));
        }
        let end = time + QUIET_SECONDS;
        while time < end {
            add(&mut timeline, time, &self.after, time - self.after.at);
            time += INTERVAL_SECONDS;
        }
        let late = firing(&timeline, time);
        if late.is_empty() { Ok(()) } else { Err(format!("{name} does not stop: {late:?}")) }
    }
}

fn is_unix_time(metric: &str) -> bool {
    metric.ends_with("_timestamp_seconds") || metric == "opgate_lease_last_renewed_seconds"
}

fn unix_now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}
