//! Arguments about traces and metrics over OTLP.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use opgate_server::ExternalMetrics;
use opgate_telemetry::{Settings, SettingsOverrides, Telemetry};
use opgate_text::units::parse_duration;

use crate::cli::exit::CommandError;

/// Flags that export traces and metrics.
#[derive(Debug, Args)]
pub(super) struct TelemetryArgs {
    /// Export traces of reviews and the metrics to this OpenTelemetry collector, OTLP over HTTP: `http://HOST:4318`
    #[arg(long, value_name = "URL", env = "OTEL_EXPORTER_OTLP_ENDPOINT")]
    otlp_endpoint: Option<String>,
    /// Share of the requests to trace if the client does not decide, from 0 to 1 [default: 0.01]
    #[arg(long, value_name = "RATE", value_parser = parse_rate, requires = "otlp_endpoint")]
    trace_sample: Option<f64>,
    /// Maximum number of requests to trace in a second, whatever clients send
    #[arg(long, value_name = "NUMBER", default_value_t = 100, requires = "otlp_endpoint")]
    max_traces_per_second: u32,
    /// Interval between exports of the metrics [default: 60s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "otlp_endpoint")]
    otlp_metrics_interval: Option<Duration>,
}

impl TelemetryArgs {
    /// Starts the export, if there is an endpoint. Wrong variables only turn it off: reviews do not depend on it.
    pub(super) fn start(self) -> Result<Option<Arc<Telemetry>>, CommandError> {
        let Self { otlp_endpoint, trace_sample, max_traces_per_second, otlp_metrics_interval } =
            self;
        let overrides = SettingsOverrides {
            endpoint: otlp_endpoint,
            ratio: trace_sample,
            max_traces_per_second,
            metrics_interval: otlp_metrics_interval,
        };
        let settings = match Settings::resolve(overrides, |name| std::env::var(name).ok()) {
            Err(error) if error.is_of_flag() => return Err(CommandError::usage(error)),
            Err(error) => {
                log_off(&error);
                return Ok(None);
            }
            Ok(settings) => settings,
        };
        let Some(settings) = settings else { return Ok(None) };
        if settings.has_unprotected_headers() {
            tracing::warn!(
                "OTEL_EXPORTER_OTLP_HEADERS are sent without TLS; set an https endpoint if they have credentials"
            );
        }
        let telemetry = Telemetry::start(settings).inspect_err(|error| log_off(error));
        Ok(telemetry.ok().map(Arc::new))
    }
}

fn log_off(error: &dyn std::error::Error) {
    tracing::error!(
        error = error.to_string(),
        "telemetry is off; correct the setting and restart the server"
    );
}

fn parse_rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (0.0..=1.0).contains(rate));
    rate.ok_or_else(|| format!("{text:?} is not a number from 0 to 1"))
}

/// The metrics of the export.
pub(super) fn metrics(telemetry: &Telemetry) -> ExternalMetrics {
    let counts = telemetry.counts();
    ExternalMetrics::new(move |registry| counts.register(registry))
}
