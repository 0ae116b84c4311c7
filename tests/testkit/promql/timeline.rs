//! Samples over time, from texts of `/metrics` at times that a test chooses.

use std::collections::BTreeMap;

/// Labels of a series, with its name as `__name__`.
pub type Labels = BTreeMap<String, String>;

/// A value is current for this many seconds, unless a later scrape of its target lacks it.
const LOOKBACK_SECONDS: f64 = 300.0;

/// The samples of one target at one time.
struct Scrape {
    target: Labels,
    time: f64,
    samples: BTreeMap<Labels, f64>,
}

/// Scrapes in the order of time.
#[derive(Default)]
pub struct Timeline {
    scrapes: Vec<Scrape>,
}

/// The samples of an `OpenMetrics` text.
///
/// # Panics
/// If it is none.
pub fn parse_metrics(text: &str) -> BTreeMap<Labels, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|line| parse_line(line).unwrap_or_else(|| panic!("no sample: {line}"))).collect()
}

fn parse_line(line: &str) -> Option<(Labels, f64)> {
    let name_end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(name_end);
    let mut labels = Labels::from([("__name__".to_owned(), name.to_owned())]);
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        while !rest.starts_with('}') {
            let (label, after) = rest.trim_start_matches(',').split_once("=\"")?;
            let (value, after) = quoted(after)?;
            labels.insert(label.to_owned(), value);
            rest = after;
        }
        rest = rest.strip_prefix('}')?;
    }
    // An exemplar can follow.
    let value = rest.split_whitespace().next()?;
    Some((labels, value.parse().ok()?))
}

/// The text up to the closing quote, and the rest.
fn quoted(text: &str) -> Option<(String, &str)> {
    let (mut value, mut chars) = (String::new(), text.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            other => value.push(other),
        }
    }
    None
}

impl Timeline {
    /// Adds a scrape of a target, which has these labels: with `honorLabels`, its own take precedence.
    ///
    /// # Panics
    /// If an earlier scrape has a later time.
    pub fn add(&mut self, time: f64, target: &[(&str, &str)], samples: &BTreeMap<Labels, f64>) {
        assert!(self.scrapes.last().is_none_or(|last| last.time <= time), "{time}");
        let target: Labels =
            target.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let with_target = |labels: &Labels| {
            let mut all = target.clone();
            all.extend(labels.clone());
            // An empty label is as none.
            all.retain(|_, value| !value.is_empty());
            all
        };
        let samples = samples.iter().map(|(labels, value)| (with_target(labels), *value)).collect();
        self.scrapes.push(Scrape { target, time, samples });
    }

    /// The time of the last scrape.
    pub fn end(&self) -> f64 {
        self.scrapes.last().map_or(0.0, |scrape| scrape.time)
    }

    /// The samples of a metric in a half-open interval that ends at `until`.
    pub(super) fn range(
        &self,
        metric: &str,
        seconds: f64,
        until: f64,
    ) -> BTreeMap<Labels, Vec<(f64, f64)>> {
        let mut found: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
        let is_in = |scrape: &&Scrape| scrape.time > until - seconds && scrape.time <= until;
        for scrape in self.scrapes.iter().filter(is_in) {
            for (labels, value) in scrape.samples.iter().filter(|sample| is_named(sample, metric)) {
                found.entry(labels.clone()).or_default().push((scrape.time, *value));
            }
        }
        found
    }

    /// The current value of each series of a metric.
    pub(super) fn instant(&self, metric: &str, at: f64) -> BTreeMap<Labels, f64> {
        let mut targets: BTreeMap<&Labels, &Scrape> = BTreeMap::new();
        let is_current =
            |scrape: &&Scrape| scrape.time > at - LOOKBACK_SECONDS && scrape.time <= at;
        for scrape in self.scrapes.iter().filter(is_current) {
            targets.insert(&scrape.target, scrape);
        }
        let samples = targets.values().flat_map(|scrape| &scrape.samples);
        let named = samples.filter(|sample| is_named(sample, metric));
        named.map(|(labels, value)| (labels.clone(), *value)).collect()
    }
}

/// Whether a sample is of a metric; every one is if the selector has no name.
fn is_named((labels, _): &(&Labels, &f64), metric: &str) -> bool {
    metric.is_empty() || labels.get("__name__").is_some_and(|name| name == metric)
}
