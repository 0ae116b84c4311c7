//! Reviews from several connections at a time, and the same load on several servers in turns: throughput, times and CPU
//! time of each, and the ratios to the first.
//!
//! The CPU time is that of the server's process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use crate::reviews::{GOOSE_API, WriteMode, create, group};
use crate::{Server, csv, recorded_review};

const ROUNDS: usize = 7;
const CONNECTIONS: usize = 16;
const PACED_PER_SECOND: usize = 2_000;
const ROUND_DURATION: Duration = Duration::from_secs(2);

/// How fast the clients send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// 2,000 reviews a second, evenly over time, for two seconds.
    Even,
    /// As many as the server answers in two seconds.
    Unlimited,
}

/// The load on a server.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Number of connections with one review at a time.
    pub connections: usize,
    /// Reviews a second, evenly over time; without it, as many as the server answers.
    pub per_second: Option<usize>,
    /// Its duration.
    pub duration: Duration,
}

impl Pace {
    fn load(self) -> Load {
        let per_second = match self {
            Self::Even => Some(PACED_PER_SECOND),
            Self::Unlimited => None,
        };
        Load { connections: CONNECTIONS, per_second, duration: ROUND_DURATION }
    }
}

/// The result of the load on one server.
pub struct LoadResult {
    /// Reviews a second.
    rate: f64,
    /// Microseconds of each review, sorted.
    times: Vec<u64>,
    cpu_micros_each: f64,
}

impl LoadResult {
    /// Microseconds in which this many of a thousand reviews were answered.
    pub fn percentile(&self, permille: usize) -> f64 {
        self.times[(self.times.len() - 1) * permille / 1_000] as f64
    }
}

/// CPU time of a process so far, in microseconds.
fn cpu_micros(process: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    ticks * 10_000.0
}

/// Three of four reviews are of small objects, the others of ClusterServiceVersions. A fourth reads the cluster, and is
/// denied if the namespace has an OperatorGroup.
pub fn mixed_reviews(namespace: &str) -> Arc<Vec<String>> {
    let denied = group(namespace, "second", &[namespace], GOOSE_API);
    let large = create(&csv::csv(csv::USUAL_SHAPE, namespace), WriteMode::DryRun);
    Arc::new(vec![
        create(&denied, WriteMode::DryRun),
        recorded_review("008"),
        recorded_review("007"),
        large,
    ])
}

/// Sends reviews to a server.
pub fn drive_load(
    clients: &Runtime,
    server: &Server,
    reviews: &Arc<Vec<String>>,
    load: Load,
) -> LoadResult {
    let Load { connections, per_second, duration } = load;
    let (started, before) = (Instant::now(), cpu_micros(server.id()));
    let next = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..connections)
        .map(|_| {
            let (reviews, next) = (reviews.clone(), next.clone());
            let mut client = clients.block_on(server.connect());
            clients.spawn(async move {
                let mut times = Vec::with_capacity(100_000);
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let due = per_second
                        .map(|rate| Duration::from_micros(1_000_000 * number as u64 / rate as u64));
                    if due.unwrap_or_else(|| started.elapsed()) >= duration {
                        return times;
                    }
                    if let Some(due) = due {
                        tokio::time::sleep_until((started + due).into()).await;
                    }
                    let review = reviews[number % reviews.len()].clone();
                    let sent = Instant::now();
                    let answer =
                        client.post("/validate", "application/json", review).await.unwrap();
                    assert_eq!(answer.status, 200, "{}", answer.body);
                    times.push(u64::try_from(sent.elapsed().as_micros()).unwrap());
                }
            })
        })
        .collect();
    let mut times: Vec<u64> = Vec::new();
    for task in tasks {
        times.extend(clients.block_on(task).unwrap());
    }
    times.sort_unstable();
    let count = times.len() as f64;
    let cpu_micros_each = (cpu_micros(server.id()) - before) / count;
    LoadResult { rate: count / started.elapsed().as_secs_f64(), times, cpu_micros_each }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Sends reviews to the servers in turns, and prints the medians of the rounds, with the ratios to the first server.
pub fn compare(
    clients: &Runtime,
    servers: &[(&str, &Server)],
    reviews: &Arc<Vec<String>>,
    pace: Pace,
) {
    let mut results: Vec<Vec<LoadResult>> = servers.iter().map(|_| Vec::new()).collect();
    for round in 0..=ROUNDS {
        for ((_, server), results) in servers.iter().zip(&mut results) {
            let result = drive_load(clients, server, reviews, pace.load());
            // The first round warms up.
            if round > 0 {
                results.push(result);
            }
        }
    }
    match pace {
        Pace::Even => println!("{PACED_PER_SECOND}/s:"),
        Pace::Unlimited => println!("as many as possible:"),
    }
    for ((name, _), of) in servers.iter().zip(&results) {
        let each = |what: fn(&LoadResult) -> f64| median(of.iter().map(what).collect());
        let ratio = |what: fn(&LoadResult) -> f64| {
            median(of.iter().zip(&results[0]).map(|(one, first)| what(one) / what(first)).collect())
        };
        println!(
            "  {name}: {:.0}/s, p50 {:.0} us, p99 {:.0} us, CPU {:.1} us each; ratio: rate {:.3}, CPU {:.3}",
            each(|result| result.rate),
            each(|result| result.percentile(500)),
            each(|result| result.percentile(990)),
            each(|result| result.cpu_micros_each),
            ratio(|result| result.rate),
            ratio(|result| result.cpu_micros_each),
        );
    }
}
