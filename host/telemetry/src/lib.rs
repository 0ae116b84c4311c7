//! Traces and metrics over OTLP/HTTP, to an OpenTelemetry collector. Off unless there is an endpoint.
//!
//! ```text
//! traceparent ─▶ sampler ─▶ Trace: spans of one request ─▶ queue, limited in bytes ─▶ thread ─▶ OTLP client
//!                  │ not sampled: nothing is recorded          no room: counted          ▲
//!                  └─────────────────────────────────                                    │
//!                        text of /metrics, at an interval ─▶ open_metrics ─▶ metric_messages
//! ```
//!
//! No request waits for the collector, and no request fails because of it.

mod client;
mod counts;
mod exporter;
mod metric_messages;
mod open_metrics;
mod sampler;
mod settings;
mod trace;
mod trace_context;

pub use counts::Counts;
pub use exporter::{StartError, Telemetry};
pub use sampler::SamplerSettings;
pub use settings::{Settings, SettingsError, SettingsOverrides};
pub use trace::{Attribute, SpanRecord, Trace};
