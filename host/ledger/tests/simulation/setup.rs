//! The parameters of a run, and the random numbers of its seed.

use opgate_ledger::Limits;

pub(crate) const TIMEOUT: u64 = 10_000;
pub(crate) const TTL: u64 = 2_000;

/// Splitmix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.next() % (to - from + 1)
    }

    pub(crate) fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(count).unwrap()).unwrap()
    }

    fn one_of<const N: usize>(&mut self, values: [u64; N]) -> u64 {
        values[self.below(N)]
    }

    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
}

/// The knobs of a run.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) replicas: usize,
    pub(crate) requests: usize,
    /// Time in which the requests arrive.
    pub(crate) load_time: u64,
    pub(crate) colors: u64,
    pub(crate) tenants: u64,
    pub(crate) max_latency: u64,
    pub(crate) max_watch_lag: u64,
    pub(crate) limits: Limits,
    /// Of reads and writes.
    pub(crate) timeout_percent: u64,
    /// Of allowed requests that are never stored.
    pub(crate) lost_percent: u64,
    pub(crate) crashes: u64,
    pub(crate) pauses: u64,
    pub(crate) deletions: u64,
    pub(crate) breaks: u64,
    pub(crate) object_deletions: u64,
    /// Of requests that equal another one.
    pub(crate) repeat_percent: u64,
    /// Whether the ledger exists and is established in the beginning.
    pub(crate) is_established: bool,
}

impl Setup {
    pub(crate) fn calm() -> Self {
        Self {
            replicas: 3,
            requests: 30,
            load_time: 2_000,
            colors: 1_000_000,
            tenants: 4,
            max_latency: 10,
            max_watch_lag: 40,
            limits: Limits::default(),
            timeout_percent: 0,
            lost_percent: 10,
            crashes: 0,
            pauses: 0,
            deletions: 0,
            breaks: 0,
            object_deletions: 0,
            repeat_percent: 0,
            is_established: true,
        }
    }

    /// Different failures for each seed.
    pub(crate) fn rough(random: &mut Random) -> Self {
        let entries = [2_048, 2_048, 12][random.below(3)];
        let projection_bytes = if random.percent(25) { 40 } else { 28 << 10 };
        let longest = if random.percent(50) { 2_000 } else { 60_000 };
        let load_time = random.between(10, longest);
        Self {
            replicas: 1 + random.below(5),
            requests: 10 + random.below(31),
            load_time,
            colors: random.between(1, 8),
            tenants: random.between(1, 6),
            max_latency: random.one_of([2, 20, 300]),
            max_watch_lag: random.one_of([5, 100, 6_000]),
            limits: Limits { entries, projection_bytes, ..Limits::default() },
            timeout_percent: random.one_of([0, 5, 40]),
            lost_percent: random.one_of([0, 30, 90]),
            crashes: random.between(0, 2),
            pauses: random.between(0, 2),
            deletions: random.between(0, 3) / 2,
            breaks: random.between(0, 3) / 3,
            object_deletions: random.between(0, 8),
            repeat_percent: random.one_of([0, 20, 60]),
            is_established: random.percent(80),
        }
    }
}
