//! Exemplars: observations of response times with the trace of their request. Only `OpenMetrics` has them: a client
//! that does not accept it would fail on them.

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use bytes::Bytes;
use prometheus_client::encoding::EncodeLabelSet;

/// The series that can have exemplars. It has no labels that a client determines.
const SERIES: &str = "opgate_request_duration_seconds_bucket{";

/// The begin of an exemplar, after the value of a series.
const EXEMPLAR: &str = " # {";

/// The labels of an exemplar.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct TraceLabels {
    pub(super) trace_id: String,
    pub(super) span_id: String,
}

/// Whether a client of `/metrics` accepts `OpenMetrics`.
pub(crate) fn accepts_exemplars(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut types = accepted.flat_map(|value| value.split(',')).map(|value| {
        let mut parts = value.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        (name, parts.any(|part| matches!(part, "q=0" | "q=0.0")))
    });
    types.any(|(name, is_excluded)| {
        name.eq_ignore_ascii_case("application/openmetrics-text") && !is_excluded
    })
}

/// The text without its exemplars.
pub(super) fn without_exemplars(text: Bytes) -> Bytes {
    let Ok(lines) = std::str::from_utf8(&text) else { return text };
    if !lines.contains(EXEMPLAR) {
        return text;
    }
    let mut plain = String::with_capacity(lines.len());
    for line in lines.lines() {
        let cut = line.split_once(EXEMPLAR).filter(|_| line.starts_with(SERIES));
        plain.push_str(cut.map_or(line, |(series, _)| series));
        plain.push('\n');
    }
    plain.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn only_openmetrics_clients_get_exemplars() {
        for (accept, expected) in [
            ("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5", true),
            ("text/plain, Application/OpenMetrics-Text; q=0.7", true),
            ("application/openmetrics-text;q=0, text/plain", false),
            ("text/plain;version=0.0.4", false),
            ("*/*", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(accepts_exemplars(&headers), expected, "{accept}");
        }
        assert!(!accepts_exemplars(&HeaderMap::new()));
    }

    #[test]
    fn only_exemplars_are_removed() {
        let text = "opgate_audit_annotations_total{key=\"a # {b\"} 1\n\
            opgate_request_duration_seconds_bucket{le=\"0.1\"} 2 # {trace_id=\"0a\"} 0.05 1700000000.0\n\
            opgate_request_duration_seconds_bucket{le=\"+Inf\"} 2\n# EOF\n";
        let plain = "opgate_audit_annotations_total{key=\"a # {b\"} 1\n\
            opgate_request_duration_seconds_bucket{le=\"0.1\"} 2\n\
            opgate_request_duration_seconds_bucket{le=\"+Inf\"} 2\n# EOF\n";
        assert_eq!(without_exemplars(Bytes::from_static(text.as_bytes())), plain);
        assert_eq!(without_exemplars(Bytes::from_static(plain.as_bytes())), plain);
    }
}
