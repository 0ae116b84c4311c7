//! Chooses the requests that are traced: those of a trace that the client samples, a share of the others, and
//! never more than a number in a second. API servers can pass on the header of their own clients, so that requests
//! of which the client decides get at most half of that number.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::trace_context::TraceContext;

const PERIOD: Duration = Duration::from_secs(1);

/// Which requests are traced.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SamplerSettings {
    /// The share of requests without a trace of the client, or of all requests.
    pub ratio: f64,
    /// Whether the client decides for requests of its traces.
    pub follows_client: bool,
    /// Maximum number of traced requests in a second.
    pub max_per_second: u32,
}

/// The answer for one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sampling {
    /// It is traced.
    Traced,
    /// It is not chosen.
    NotSampled,
    /// It was chosen, but too many are traced in this second.
    Limited,
}

/// Chooses requests.
#[derive(Debug)]
pub(crate) struct Sampler {
    settings: SamplerSettings,
    /// Random numbers below this are chosen.
    threshold: u64,
    window: Mutex<Option<Window>>,
}

/// A period, and the requests that were traced in it.
#[derive(Debug, Clone, Copy)]
struct Window {
    begin: Instant,
    traced: u32,
    /// Of these, requests of which the client decided.
    traced_for_clients: u32,
}

impl Sampler {
    pub(crate) fn new(settings: SamplerSettings) -> Self {
        Self { settings, threshold: threshold(settings.ratio), window: Mutex::default() }
    }

    /// Whether the client decides for its request.
    pub(crate) fn is_decided_by(&self, client: Option<TraceContext>) -> bool {
        self.settings.follows_client && client.is_some()
    }

    /// Decides for a request. `random` is evenly distributed.
    pub(crate) fn sample(
        &self,
        client: Option<TraceContext>,
        random: u64,
        now: Instant,
    ) -> Sampling {
        let is_chosen = match client {
            Some(client) if self.settings.follows_client => client.is_sampled,
            _ => random >> 1 < self.threshold,
        };
        if !is_chosen {
            return Sampling::NotSampled;
        }
        let is_decided_by_client = self.is_decided_by(client);
        let mut window = self.window.lock();
        let mut current = window
            .filter(|window| now.saturating_duration_since(window.begin) < PERIOD)
            .unwrap_or(Window { begin: now, traced: 0, traced_for_clients: 0 });
        let max = self.settings.max_per_second;
        if current.traced >= max
            || (is_decided_by_client && current.traced_for_clients >= max.div_ceil(2))
        {
            return Sampling::Limited;
        }
        current.traced = current.traced.saturating_add(1);
        if is_decided_by_client {
            current.traced_for_clients = current.traced_for_clients.saturating_add(1);
        }
        *window = Some(current);
        Sampling::Traced
    }
}

/// The share as a number of 63 bits.
#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a share between 0 and 1, of a power of two"
)]
fn threshold(ratio: f64) -> u64 {
    const WHOLE: u64 = 1 << 63;
    (ratio.clamp(0.0, 1.0) * WHOLE as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry::trace::{SpanId, TraceId};

    fn client(is_sampled: bool) -> TraceContext {
        let (trace_id, span_id) = (TraceId::from(1), SpanId::from(1));
        TraceContext { trace_id, span_id, is_sampled }
    }

    #[test]
    fn client_decides_for_its_traces_if_it_may() {
        use Sampling::{NotSampled, Traced};
        for (ratio, follows_client, client, random, expected) in [
            (0.0, true, Some(client(true)), 0, Traced),
            (1.0, true, Some(client(false)), 0, NotSampled),
            (0.0, false, Some(client(true)), 0, NotSampled),
            (1.0, false, Some(client(false)), u64::MAX, Traced),
            (0.0, true, None, 0, NotSampled),
            (1.0, true, None, u64::MAX, Traced),
            (0.5, true, None, u64::MAX / 2 - 1, Traced),
            (0.5, true, None, u64::MAX / 2 + 1, NotSampled),
        ] {
            let settings = SamplerSettings { ratio, follows_client, max_per_second: 1 };
            let sampling = Sampler::new(settings).sample(client, random, Instant::now());
            assert_eq!(sampling, expected, "{ratio} {follows_client} {client:?} {random}");
        }
    }

    #[test]
    fn traced_requests_are_limited_in_each_second() {
        let settings = SamplerSettings { ratio: 1.0, follows_client: true, max_per_second: 2 };
        let (sampler, start) = (Sampler::new(settings), Instant::now());
        let found = [0, 1, 500, 999, 1_000, 1_001, 1_500]
            .map(|ms| sampler.sample(None, 0, start + Duration::from_millis(ms)));
        let (traced, limited) = (Sampling::Traced, Sampling::Limited);
        assert_eq!(found, [traced, traced, limited, limited, traced, traced, limited]);
        assert_eq!(sampler.sample(Some(client(false)), 0, start), Sampling::NotSampled);
    }

    #[test]
    fn clients_get_at_most_half_of_the_traced_requests() {
        for (follows_client, expected) in [(true, [2, 2]), (false, [4, 0])] {
            let settings = SamplerSettings { ratio: 1.0, follows_client, max_per_second: 4 };
            let (sampler, now) = (Sampler::new(settings), Instant::now());
            let traced = [Some(client(true)), None].map(|client| {
                let found = (0..10).map(|_| sampler.sample(client, 0, now));
                found.filter(|sampling| *sampling == Sampling::Traced).count()
            });
            assert_eq!(traced, expected, "{follows_client}");
        }
    }
}
