//! A problem of an installation over time, from its metrics before, during and after it.
//!
//! Time does not pass in the test. Each state of a server stays for a while: before and after the problem as if the
//! server went on, so that its Unix times move; during the problem as if nothing happened any more. A second
//! installation in another namespace has no problem.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

use testkit::Server;
use testkit::promql::{Alert, INTERVAL_SECONDS, Labels, Timeline, parse_metrics};

/// How long the states before and after last: longer than any range and duration of an alert.
pub(super) const QUIET_SECONDS: f64 = 3_600.0;

/// How long the problem lasts beyond the duration of the alert.
const EXTRA_SECONDS: f64 = 120.0;

/// How long an alert may fire after the problem, beyond the samples that its expression needs.
const LATE_SECONDS: f64 = 120.0;

/// The namespaces of two installations. The alerts are of the first one.
const NAMESPACE: &str = "opgate-system";
const OTHER_NAMESPACE: &str = "opgate-other";

/// The metric that Prometheus adds to a scrape: 1 if the target responded.
const UP: &str = "up";

/// A target of Prometheus.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    /// A server of an installation, by its number.
    Replica(usize),
    ApiServer,
}

impl Target {
    fn add(self, timeline: &mut Timeline, time: f64, namespace: &str, samples: &Samples) {
        let (pod, instance) = match self {
            Self::Replica(number) => (format!("opgate-{number}"), format!("{namespace}-{number}")),
            Self::ApiServer => (String::new(), "api-server".to_owned()),
        };
        let (job, namespace) = match self {
            Self::Replica(_) => ("opgate-metrics", namespace),
            Self::ApiServer => ("apiserver", "default"),
        };
        let labels =
            [("job", job), ("namespace", namespace), ("pod", &pod), ("instance", &instance)];
        timeline.add(time, &labels, samples);
    }
}

type Samples = BTreeMap<Labels, f64>;

fn sample(labels: &[(&str, &str)], value: f64) -> (Labels, f64) {
    let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    (labels.collect(), value)
}

/// What Prometheus got from targets at a time.
#[derive(Clone)]
pub(super) struct Scrape {
    at: f64,
    targets: Vec<(Target, Samples)>,
}

impl Scrape {
    /// The current metrics of a server.
    pub(super) async fn of(server: &Server) -> Self {
        let (status, text) = server.get("/metrics").await;
        assert_eq!(status, 200);
        let mut samples = parse_metrics(&text);
        samples.extend([sample(&[("__name__", UP)], 1.0)]);
        Self::from_samples(Target::Replica(0), samples)
    }

    /// A server that did not respond.
    pub(super) fn none() -> Self {
        let samples = [sample(&[("__name__", UP)], 0.0)].into();
        Self::from_samples(Target::Replica(0), samples)
    }

    /// An API server that allowed this number of requests without a response of a webhook. It has no series before
    /// the first one.
    pub(super) fn of_api_server(failures: f64) -> Self {
        let metric = "apiserver_admission_webhook_fail_open_count";
        let labels =
            [("__name__", metric), ("name", "vbundles.core.rukpak.io"), ("type", "validating")];
        let failures = (failures > 0.0).then(|| sample(&labels, failures));
        let samples = failures.into_iter().chain([sample(&[("__name__", UP)], 1.0)]).collect();
        Self::from_samples(Target::ApiServer, samples)
    }

    /// An API server that did not respond.
    pub(super) fn unreachable_api_server() -> Self {
        let samples = [sample(&[("__name__", UP)], 0.0)].into();
        Self::from_samples(Target::ApiServer, samples)
    }

    /// No scrape, as if Prometheus did not run.
    pub(super) fn of_nothing() -> Self {
        Self { at: unix_now(), targets: Vec::new() }
    }

    fn from_samples(target: Target, samples: Samples) -> Self {
        Self { at: unix_now(), targets: vec![(target, samples)] }
    }

    /// The metrics of this server and of another replica.
    pub(super) fn with_replica(&self, other: &Self) -> Self {
        let mut scrape = self.clone();
        scrape.targets.push((Target::Replica(1), other.targets[0].1.clone()));
        scrape
    }

    /// The metrics with another value of the first series of one.
    pub(super) fn with(&self, metric: &str, value: f64) -> Self {
        let mut scrape = self.clone();
        let samples = &mut scrape.targets[0].1;
        let is_it = |labels: &&Labels| labels["__name__"] == metric;
        let known = samples.keys().find(is_it).unwrap_or_else(|| panic!("no {metric}")).clone();
        samples.insert(known, value);
        scrape
    }

    /// When it was made, Unix time.
    pub(super) fn time(&self) -> f64 {
        self.at
    }

    /// The value of a metric: of its first series.
    pub(super) fn value(&self, metric: &str) -> f64 {
        let mut samples = self.targets[0].1.iter();
        samples.find(|(labels, _)| labels["__name__"] == metric).map(|(_, value)| *value).unwrap()
    }

    fn is_of_installation(&self) -> bool {
        self.targets.iter().all(|(target, _)| matches!(target, Target::Replica(_)))
    }
}

/// Scrapes of one or two installations, at each interval.
struct Recording {
    timeline: Timeline,
    /// The metrics that the alert needs.
    metrics: BTreeSet<String>,
    start: f64,
    /// The time of the next scrape.
    time: f64,
}

impl Recording {
    fn new(alert: &Alert, start: f64) -> Self {
        let metrics = alert.expression.metrics().into_iter().map(|(metric, _)| metric).collect();
        Self { timeline: Timeline::default(), metrics, start, time: start }
    }

    /// Adds a scrape, whose Unix times are later by some seconds.
    fn add(&mut self, namespace: &str, scrape: &Scrape, moved: f64) {
        for (target, samples) in &scrape.targets {
            let samples =
                samples.iter().filter(|(labels, _)| self.metrics.contains(&labels["__name__"]));
            let samples = samples.map(|(labels, value)| {
                let is_time = is_unix_time(&labels["__name__"]) && *value > 0.0;
                (labels.clone(), if is_time { value + moved } else { *value })
            });
            target.add(&mut self.timeline, self.time, namespace, &samples.collect());
        }
    }

    /// Adds a current scrape of an installation.
    fn add_current(&mut self, namespace: &str, scrape: &Scrape) {
        self.add(namespace, scrape, self.time - scrape.at);
    }

    fn end(&self) -> f64 {
        self.time - INTERVAL_SECONDS
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

/// A recording of a problem, and when the problem began and was last seen.
struct RecordedEpisode {
    recording: Recording,
    begun: f64,
    last: f64,
}

impl Episode {
    pub(super) fn new(before: Scrape, during: Scrape, after: Scrape) -> Self {
        Self { before: Some(before), during: vec![during], after }
    }

    pub(super) fn from_start(during: Scrape, after: Scrape) -> Self {
        Self { before: None, during: vec![during], after }
    }

    /// Fails unless an alert fires at the end of the problem, and neither before its duration has passed, nor later
    /// than its expression can see the problem, nor for a problem of another installation.
    pub(super) fn check(&self, alert: &Alert) -> Result<(), String> {
        let RecordedEpisode { recording, begun, last } = self.record(alert, NAMESPACE);
        let quiet_after = last + alert.expression.history_seconds() + LATE_SECONDS;
        for (time, firing) in alert.firing(&recording.timeline, recording.start, recording.end()) {
            let must_fire = time + INTERVAL_SECONDS > last && time <= last;
            let must_not_fire = time < begun + alert.duration || time > quiet_after;
            let is_wrong = if firing.is_empty() { must_fire } else { must_not_fire };
            if is_wrong {
                let (name, seconds) = (&alert.name, time - begun);
                return Err(format!("{name} after {seconds} seconds of the problem: {firing:?}"));
            }
        }
        if !self.after.is_of_installation() {
            return Ok(());
        }
        let RecordedEpisode { recording, .. } = self.record(alert, OTHER_NAMESPACE);
        recording.check_quiet(alert).map_err(|error| format!("another installation: {error}"))
    }

    /// Records the problem of an installation in a namespace; the other installation has none.
    fn record(&self, alert: &Alert, namespace: &str) -> RecordedEpisode {
        let start = self.before.as_ref().unwrap_or(&self.during[0]).at.floor();
        let mut recording = Recording::new(alert, start);
        let other = if namespace == NAMESPACE { OTHER_NAMESPACE } else { NAMESPACE };
        let step = |recording: &mut Recording| {
            if self.after.is_of_installation() {
                recording.add_current(other, &self.after);
            }
            recording.time += INTERVAL_SECONDS;
        };
        if let Some(before) = &self.before {
            while recording.time < start + QUIET_SECONDS {
                recording.add_current(namespace, before);
                step(&mut recording);
            }
        }
        let (begun, first) = (recording.time, self.during[0].at);
        let mut states = self.during.iter();
        let mut state = states.next().unwrap();
        while recording.time < begun + alert.duration + EXTRA_SECONDS {
            recording.add(namespace, state, begun - first);
            state = states.next().unwrap_or(state);
            step(&mut recording);
        }
        let last = recording.end();
        while recording.time < last + QUIET_SECONDS {
            recording.add_current(namespace, &self.after);
            step(&mut recording);
        }
        RecordedEpisode { recording, begun, last }
    }
}

impl Recording {
    fn check_quiet(&self, alert: &Alert) -> Result<(), String> {
        let steps = alert.firing(&self.timeline, self.start, self.end());
        match steps.into_iter().find(|(_, firing)| !firing.is_empty()) {
            None => Ok(()),
            Some((time, firing)) => {
                let (name, seconds) = (&alert.name, time - self.start);
                Err(format!("{name} fires after {seconds} seconds: {firing:?}"))
            }
        }
    }
}

/// Fails if an alert fires while these states follow each other, each for some seconds.
pub(super) fn check_quiet(alert: &Alert, states: &[(Scrape, f64)]) -> Result<(), String> {
    let mut recording = Recording::new(alert, states[0].0.at.floor());
    for (state, seconds) in states {
        let end = recording.time + seconds;
        while recording.time < end {
            recording.add_current(NAMESPACE, state);
            recording.time += INTERVAL_SECONDS;
        }
    }
    recording.check_quiet(alert)
}

fn is_unix_time(metric: &str) -> bool {
    metric.ends_with("_timestamp_seconds") || metric == "opgate_lease_last_renewed_seconds"
}

fn unix_now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}
