//! Where telemetry goes, and how much of it: flags, and the variables of the OpenTelemetry specification. A flag has
//! priority over its variable.

use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use percent_encoding::percent_decode_str;

use crate::sampler::SamplerSettings;

/// The share of requests that is traced if nothing sets one.
const DEFAULT_RATIO: f64 = 0.01;

const ENDPOINT_FLAG: &str = "--otlp-endpoint";
const ENDPOINT_VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// Interval between exports of metrics.
const DEFAULT_METRICS_INTERVAL: Duration = Duration::from_secs(60);
const MIN_METRICS_INTERVAL: Duration = Duration::from_millis(100);

/// Time limit of an export.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// Values of flags.
#[derive(Debug, Clone, Default)]
pub struct SettingsOverrides {
    /// The endpoint: `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub endpoint: Option<String>,
    /// The share of requests to trace: `OTEL_TRACES_SAMPLER_ARG`.
    pub ratio: Option<f64>,
    /// Maximum number of traced requests in a second.
    pub max_traces_per_second: u32,
    /// Interval between exports of metrics: `OTEL_METRIC_EXPORT_INTERVAL`.
    pub metrics_interval: Option<Duration>,
}

/// Where telemetry goes, and how much of it.
#[derive(Clone)]
pub struct Settings {
    /// The address for traces; none if traces are off.
    pub(crate) traces: Option<Uri>,
    /// The address for metrics; none if metrics are off.
    pub(crate) metrics: Option<Uri>,
    /// Headers of each export. They can have credentials.
    pub(crate) headers: HeaderMap,
    /// A file with the CAs of the collector, instead of those of the system.
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) timeout: Duration,
    pub(crate) sampler: SamplerSettings,
    pub(crate) metrics_interval: Duration,
    /// The name of this server among others of the service.
    pub(crate) instance: Option<String>,
}

/// The reason why settings are invalid. It has no values of headers.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {reason}")]
pub struct SettingsError {
    /// A flag or a variable.
    name: &'static str,
    reason: String,
}

impl SettingsError {
    /// Whether the value is that of a flag, and not that of a variable.
    #[must_use]
    pub fn is_of_flag(&self) -> bool {
        self.name.starts_with("--")
    }
}

fn invalid(name: &'static str, reason: impl Into<String>) -> SettingsError {
    SettingsError { name, reason: reason.into() }
}

impl Settings {
    /// Combines flags with variables, which `variable` looks up. `None` if there is no endpoint or everything is off.
    ///
    /// # Errors
    /// If a value is invalid.
    pub fn resolve(
        overrides: SettingsOverrides,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, SettingsError> {
        // An empty variable counts as unset.
        let variable = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let flag = overrides.endpoint.filter(|endpoint| !endpoint.trim().is_empty());
        let of_variable = variable(ENDPOINT_VARIABLE);
        // The parser of the flags reads the variable, too.
        let is_flag = flag.is_some() && flag != of_variable;
        let name = if is_flag { ENDPOINT_FLAG } else { ENDPOINT_VARIABLE };
        let Some(endpoint) = flag.or(of_variable) else { return Ok(None) };
        if variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        check_protocol(&variable)?;
        let traces = is_exported("OTEL_TRACES_EXPORTER", &variable)?;
        let metrics = is_exported("OTEL_METRICS_EXPORTER", &variable)?;
        if !traces && !metrics {
            return Ok(None);
        }
        let interval = milliseconds("OTEL_METRIC_EXPORT_INTERVAL", &variable)?;
        let interval = overrides.metrics_interval.or(interval).unwrap_or(DEFAULT_METRICS_INTERVAL);
        // An export without any time would always fail.
        let timeout = milliseconds("OTEL_EXPORTER_OTLP_TIMEOUT", &variable)?;
        let timeout = timeout.filter(|timeout| !timeout.is_zero());
        let headers = variable("OTEL_EXPORTER_OTLP_HEADERS").unwrap_or_default();
        let (ratio, max) = (overrides.ratio, overrides.max_traces_per_second);
        Ok(Some(Self {
            traces: traces.then(|| signal_uri(name, &endpoint, "v1/traces")).transpose()?,
            metrics: metrics.then(|| signal_uri(name, &endpoint, "v1/metrics")).transpose()?,
            headers: read_headers(&headers)?,
            certificate: variable("OTEL_EXPORTER_OTLP_CERTIFICATE").map(PathBuf::from),
            timeout: timeout.unwrap_or(DEFAULT_TIMEOUT),
            sampler: sampler(ratio, max, &variable)?,
            metrics_interval: interval.max(MIN_METRICS_INTERVAL),
            instance: variable("POD_NAME").or_else(|| variable("HOSTNAME")),
        }))
    }

    /// Whether exports have headers, which can have credentials, and no TLS protects them.
    #[must_use]
    pub fn has_unprotected_headers(&self) -> bool {
        let uri = self.traces.as_ref().or(self.metrics.as_ref());
        !self.headers.is_empty() && uri.and_then(Uri::scheme_str) != Some("https")
    }
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Headers can have credentials.
        f.debug_struct("Settings")
            .field("traces", &self.traces)
            .field("metrics", &self.metrics)
            .field("sampler", &self.sampler)
            .finish_non_exhaustive()
    }
}

fn check_protocol(variable: &impl Fn(&str) -> Option<String>) -> Result<(), SettingsError> {
    const NAME: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
    match variable(NAME) {
        Some(protocol) if protocol != "http/protobuf" => {
            let reason =
                format!("{protocol:?} is not supported: set http/protobuf, usually on port 4318");
            Err(invalid(NAME, reason))
        }
        _ => Ok(()),
    }
}

/// Whether a signal goes to the endpoint.
fn is_exported(
    name: &'static str,
    variable: &impl Fn(&str) -> Option<String>,
) -> Result<bool, SettingsError> {
    match variable(name).as_deref() {
        None | Some("otlp") => Ok(true),
        Some("none") => Ok(false),
        Some(other) => Err(invalid(name, format!("{other:?} is not supported: set otlp or none"))),
    }
}

fn milliseconds(
    name: &'static str,
    variable: &impl Fn(&str) -> Option<String>,
) -> Result<Option<Duration>, SettingsError> {
    let Some(text) = variable(name) else { return Ok(None) };
    let time = text.trim().parse().map(Duration::from_millis);
    time.map(Some).map_err(|_| invalid(name, format!("{text:?} is not a number of milliseconds")))
}

/// The address for one signal below an endpoint.
fn signal_uri(name: &'static str, endpoint: &str, path: &str) -> Result<Uri, SettingsError> {
    let wrong = || {
        let reason = "not the URL of a collector: write http://HOST:4318 or https://HOST:4318";
        invalid(name, reason)
    };
    let uri: Uri = endpoint.trim().parse().map_err(|_| wrong())?;
    let has_scheme = matches!(uri.scheme_str(), Some("http" | "https"));
    let authority = uri.authority().filter(|_| has_scheme && uri.query().is_none());
    if authority.ok_or_else(wrong)?.as_str().contains('@') {
        let reason = "credentials belong into OTEL_EXPORTER_OTLP_HEADERS, not into the URL";
        return Err(invalid(name, reason));
    }
    format!("{}/{path}", endpoint.trim().trim_end_matches('/')).parse().map_err(|_| wrong())
}

/// Reads `name=value,…` with percent-encoded values.
fn read_headers(text: &str) -> Result<HeaderMap, SettingsError> {
    const NAME: &str = "OTEL_EXPORTER_OTLP_HEADERS";
    let mut headers = HeaderMap::new();
    let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    for entry in entries {
        // The value can be a token: errors do not have it.
        let (name, value) = entry
            .split_once('=')
            .ok_or_else(|| invalid(NAME, "an entry has no `=`: write NAME=VALUE,…"))?;
        let name: HeaderName = name
            .trim()
            .parse()
            .map_err(|_| invalid(NAME, "an entry has a name that no header can have"))?;
        let decoded: Vec<u8> = percent_decode_str(value.trim()).collect();
        let mut value = HeaderValue::from_bytes(&decoded)
            .map_err(|_| invalid(NAME, format!("{name}: a value that no header can have")))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

fn sampler(
    ratio: Option<f64>,
    max_per_second: u32,
    variable: &impl Fn(&str) -> Option<String>,
) -> Result<SamplerSettings, SettingsError> {
    const NAME: &str = "OTEL_TRACES_SAMPLER";
    let argument = || -> Result<f64, SettingsError> {
        const NAME: &str = "OTEL_TRACES_SAMPLER_ARG";
        let Some(text) = variable(NAME) else { return Ok(1.0) };
        let ratio = text.trim().parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
        ratio.ok_or_else(|| invalid(NAME, format!("{text:?} is not a number from 0 to 1")))
    };
    let (sampled, follows_client) = match variable(NAME).as_deref() {
        None => (DEFAULT_RATIO, true),
        Some("always_on") => (1.0, false),
        Some("always_off") => (0.0, false),
        Some("traceidratio") => (argument()?, false),
        Some("parentbased_always_on") => (1.0, true),
        Some("parentbased_always_off") => (0.0, true),
        Some("parentbased_traceidratio") => (argument()?, true),
        Some(other) => {
            let reason =
                format!("{other:?} is not supported: set parentbased_traceidratio, for example");
            return Err(invalid(NAME, reason));
        }
    };
    Ok(SamplerSettings { ratio: ratio.unwrap_or(sampled), follows_client, max_per_second })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(
        overrides: SettingsOverrides,
        variables: &[(&str, &str)],
    ) -> Result<Option<Settings>, String> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let resolved = Settings::resolve(overrides, variable);
        resolved.map_err(|error| format!("{error} (flag: {})", error.is_of_flag()))
    }

    fn endpoint() -> SettingsOverrides {
        let endpoint = Some("http://collector:4318/".to_owned());
        SettingsOverrides { endpoint, max_traces_per_second: 9, ..Default::default() }
    }

    #[test]
    fn telemetry_is_off_without_an_endpoint() {
        let none = SettingsOverrides::default;
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://c");
        for (overrides, variables, is_on) in [
            (none(), vec![], false),
            (none(), vec![("OTEL_EXPORTER_OTLP_ENDPOINT", " ")], false),
            (none(), vec![base], true),
            (none(), vec![base, ("OTEL_SDK_DISABLED", "true")], false),
            (none(), vec![base, ("OTEL_TRACES_EXPORTER", "none")], true),
            (
                none(),
                vec![base, ("OTEL_TRACES_EXPORTER", "none"), ("OTEL_METRICS_EXPORTER", "none")],
                false,
            ),
            (endpoint(), vec![], true),
        ] {
            let settings = resolve(overrides, &variables).unwrap();
            assert_eq!(settings.is_some(), is_on, "{variables:?}");
        }
    }

    #[test]
    fn flags_have_priority_over_variables() {
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://other/base"),
            ("OTEL_TRACES_SAMPLER", "traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.5"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "2000"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20a%3Db, x-tenant=1"),
        ];
        let settings = resolve(SettingsOverrides::default(), &variables).unwrap().unwrap();
        let shown = settings.traces.map(|uri| uri.to_string());
        assert_eq!(shown.as_deref(), Some("https://other/base/v1/traces"));
        assert_eq!(settings.metrics_interval, Duration::from_secs(2));
        assert_eq!((settings.sampler.ratio, settings.sampler.follows_client), (0.5, false));
        assert_eq!(settings.headers["authorization"], "Bearer a=b");
        assert_eq!(settings.headers["x-tenant"], "1");
        let interval = Some(Duration::from_secs(9));
        let flags =
            SettingsOverrides { ratio: Some(0.25), metrics_interval: interval, ..endpoint() };
        let settings = resolve(flags, &variables).unwrap().unwrap();
        let shown = settings.metrics.map(|uri| uri.to_string());
        assert_eq!(shown.as_deref(), Some("http://collector:4318/v1/metrics"));
        assert_eq!(settings.metrics_interval, Duration::from_secs(9));
        let expected = SamplerSettings { ratio: 0.25, follows_client: false, max_per_second: 9 };
        assert_eq!(settings.sampler, expected);
        let settings = resolve(endpoint(), &[]).unwrap().unwrap();
        assert_eq!(
            (settings.sampler.ratio, settings.sampler.follows_client),
            (DEFAULT_RATIO, true)
        );
    }

    #[test]
    fn timeout_of_zero_is_the_default() {
        for (value, expected) in [("0", DEFAULT_TIMEOUT), ("20", Duration::from_millis(20))] {
            let variables = [("OTEL_EXPORTER_OTLP_TIMEOUT", value)];
            let settings = resolve(endpoint(), &variables).unwrap().unwrap();
            assert_eq!(settings.timeout, expected, "{value}");
        }
    }

    #[test]
    fn headers_without_tls_are_unprotected() {
        for (address, headers, expected) in
            [("http://c", "a=b", true), ("https://c", "a=b", false), ("http://c", "", false)]
        {
            let variables = [
                ("OTEL_EXPORTER_OTLP_ENDPOINT", address),
                ("OTEL_EXPORTER_OTLP_HEADERS", headers),
                ("OTEL_TRACES_EXPORTER", "none"),
            ];
            let settings = resolve(SettingsOverrides::default(), &variables).unwrap().unwrap();
            assert_eq!(settings.has_unprotected_headers(), expected, "{address} {headers}");
        }
    }

    #[test]
    fn invalid_values_are_errors_without_credentials() {
        for (name, value, error) in [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318", "not the URL of a collector"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "ftp://collector", "not the URL of a collector"),
            (
                "OTEL_EXPORTER_OTLP_ENDPOINT",
                "http://secret@collector",
                "OTEL_EXPORTER_OTLP_HEADERS",
            ),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "http/protobuf"),
            ("OTEL_TRACES_EXPORTER", "zipkin", "otlp or none"),
            ("OTEL_TRACES_SAMPLER", "jaeger_remote", "parentbased_traceidratio"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "60s", "milliseconds"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "secret", "no `=`"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=secret%0A", "a: a value"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a b=secret", "a name"),
        ] {
            let variables = [(name, value), ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c")];
            let found = resolve(SettingsOverrides::default(), &variables).unwrap_err();
            assert!(found.contains(error) && !found.contains("secret"), "{value}: {found}");
            assert!(found.contains("(flag: false)"), "{found}");
        }
        let overrides =
            SettingsOverrides { endpoint: Some("collector:4318".to_owned()), ..endpoint() };
        let found = resolve(overrides, &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c")]);
        let found = found.unwrap_err();
        assert!(
            found.starts_with("--otlp-endpoint: ") && found.contains("(flag: true)"),
            "{found}"
        );
        let variables = [("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "2")];
        let found = resolve(endpoint(), &variables).unwrap_err();
        assert!(found.contains("0 to 1"), "{found}");
    }
}
