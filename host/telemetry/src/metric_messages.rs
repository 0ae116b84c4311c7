//! Converts the text of `/metrics` to OTLP. The names are those of `/metrics`, so that dashboards and alerts work with
//! both.

use std::time::SystemTime;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Exemplar, Gauge, Histogram, HistogramDataPoint, Metric,
    NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, exemplar, metric, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;

use crate::open_metrics::{self, Family, Kind, Labels, Sample};
use crate::trace::unix_nanos;

/// The label with the upper bound of a bucket.
const BOUND_LABEL: &str = "le";

/// The process and the time of the values.
pub(crate) struct MetricTimes {
    /// When all counters were zero.
    pub(crate) since: SystemTime,
    pub(crate) now: SystemTime,
}

/// Converts a text.
pub(crate) fn request(
    text: &str,
    times: &MetricTimes,
    resource: Resource,
    scope: InstrumentationScope,
) -> ExportMetricsServiceRequest {
    let families = open_metrics::read(text);
    let metrics = families.iter().filter_map(|family| to_metric(family, times)).collect();
    let scope_metrics = vec![ScopeMetrics { scope: Some(scope), metrics, ..Default::default() }];
    let resource = Some(resource);
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics { resource, scope_metrics, ..Default::default() }],
    }
}

fn to_metric(family: &Family<'_>, times: &MetricTimes) -> Option<Metric> {
    let first = family.samples.first()?;
    let temporality = AggregationTemporality::Cumulative.into();
    let (name, data) = match family.kind {
        Kind::Histogram => {
            let data_points = histogram_points(family, times);
            let histogram = Histogram { data_points, aggregation_temporality: temporality };
            (family.name, metric::Data::Histogram(histogram))
        }
        Kind::Counter => {
            let data_points = number_points(family, times);
            let sum = Sum { data_points, aggregation_temporality: temporality, is_monotonic: true };
            (first.name, metric::Data::Sum(sum))
        }
        Kind::Gauge => {
            (first.name, metric::Data::Gauge(Gauge { data_points: number_points(family, times) }))
        }
    };
    Some(Metric {
        name: name.to_owned(),
        description: family.help.clone().into_owned(),
        unit: unit(family.unit).to_owned(),
        data: Some(data),
        ..Default::default()
    })
}

/// The unit in UCUM.
fn unit(unit: &str) -> &str {
    match unit {
        "seconds" => "s",
        "bytes" => "By",
        other => other,
    }
}

fn number_points(family: &Family<'_>, times: &MetricTimes) -> Vec<NumberDataPoint> {
    let points = family.samples.iter().filter_map(|sample| {
        Some(NumberDataPoint {
            attributes: attributes(&sample.labels),
            start_time_unix_nano: start_time(family.kind, times),
            time_unix_nano: unix_nanos(times.now),
            value: Some(number(sample.value)?),
            ..Default::default()
        })
    });
    points.collect()
}

/// The begin of a sum. A gauge has none.
fn start_time(kind: Kind, times: &MetricTimes) -> u64 {
    if kind == Kind::Gauge { 0 } else { unix_nanos(times.since) }
}

fn number(text: &str) -> Option<number_data_point::Value> {
    if let Ok(whole) = text.parse::<i64>() {
        return Some(number_data_point::Value::AsInt(whole));
    }
    text.parse::<f64>().ok().map(number_data_point::Value::AsDouble)
}

fn attributes(labels: &Labels<'_>) -> Vec<KeyValue> {
    let attributes = labels.iter().map(|(key, value)| KeyValue {
        key: (*key).to_owned(),
        value: Some(AnyValue { value: Some(Value::StringValue(value.clone().into_owned())) }),
        ..Default::default()
    });
    attributes.collect()
}

/// One point for each series: its sum, its count, and its buckets, which follow one another.
fn histogram_points(family: &Family<'_>, times: &MetricTimes) -> Vec<HistogramDataPoint> {
    let mut points: Vec<HistogramDataPoint> = Vec::new();
    // Buckets of the text include those below.
    let mut below = 0;
    for sample in &family.samples {
        let bound = sample.labels.iter().find(|(key, _)| *key == BOUND_LABEL);
        match (sample.name.strip_prefix(family.name), points.last_mut(), bound) {
            (Some("_sum"), _, _) => {
                below = 0;
                points.push(HistogramDataPoint {
                    attributes: attributes(&sample.labels),
                    start_time_unix_nano: start_time(family.kind, times),
                    time_unix_nano: unix_nanos(times.now),
                    sum: sample.value.parse().ok(),
                    ..Default::default()
                });
            }
            (Some("_count"), Some(point), _) => {
                point.count = sample.value.parse().unwrap_or_default();
            }
            (Some("_bucket"), Some(point), Some((_, bound))) => {
                let count: u64 = sample.value.parse().unwrap_or_default();
                point.bucket_counts.push(count.saturating_sub(below));
                below = count;
                // The last bucket has no upper bound.
                point.explicit_bounds.extend(bound.parse().ok().filter(|b: &f64| b.is_finite()));
                point.exemplars.extend(exemplar(sample));
            }
            _ => {}
        }
    }
    points
}

fn exemplar(sample: &Sample<'_>) -> Option<Exemplar> {
    let found = sample.exemplar.as_ref()?;
    let id = |name: &str| {
        let (_, text) = found.labels.iter().find(|(key, _)| *key == name)?;
        hex_bytes(text)
    };
    let seconds: f64 = found.timestamp?.parse().ok()?;
    let since_epoch = std::time::Duration::try_from_secs_f64(seconds).ok()?;
    Some(Exemplar {
        time_unix_nano: u64::try_from(since_epoch.as_nanos()).ok()?,
        trace_id: id("trace_id")?,
        span_id: id("span_id")?,
        value: Some(exemplar::Value::AsDouble(found.value.parse().ok()?)),
        ..Default::default()
    })
}

fn hex_bytes(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::exemplar::HistogramWithExemplars;
    use prometheus_client::metrics::family::Family as Metrics;
    use prometheus_client::metrics::gauge::Gauge as Level;
    use prometheus_client::metrics::info::Info;
    use prometheus_client::registry::{Registry, Unit};

    type Label = [(&'static str, &'static str); 1];

    fn registry() -> Registry {
        let mut registry = Registry::with_prefix("opgate");
        let requests = Metrics::<Label, Counter>::default();
        requests.get_or_create(&[("code", "200")]).inc_by(3);
        requests.get_or_create(&[("code", "a\"\\\nb")]).inc_by(4);
        registry.register("requests", "Responses by \"code\"", requests);
        registry.register("empty", "No series", Metrics::<Label, Counter>::default());
        let memory = Level::<i64>::default();
        memory.set(-5);
        registry.register_with_unit("memory", "Bytes", Unit::Bytes, memory);
        let duration = HistogramWithExemplars::new([0.1, 1.0].into_iter());
        let trace =
            [("trace_id", "0af7651916cd43dd8448eb211c80319c"), ("span_id", "b7ad6b7169203331")];
        let at = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
        duration.observe(0.05, None, None);
        duration.observe(0.5, Some(trace), Some(at));
        duration.observe(5.0, None, None);
        registry.register_with_unit("duration", "Time", Unit::Seconds, duration);
        registry.register("build", "This build", Info::new([("version", "1")]));
        registry
    }

    fn convert() -> Vec<Metric> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry()).unwrap();
        let times = MetricTimes { since: SystemTime::UNIX_EPOCH, now: SystemTime::now() };
        let request = request(&text, &times, Resource::default(), InstrumentationScope::default());
        request
            .resource_metrics
            .into_iter()
            .flat_map(|of| of.scope_metrics)
            .flat_map(|of| of.metrics)
            .collect()
    }

    #[test]
    fn metrics_keep_their_names_types_and_values() {
        let metrics = convert();
        let shown = metrics.iter().map(|metric| {
            let points = |points: &[NumberDataPoint]| -> Vec<String> {
                let shown = points.iter().map(|point| {
                    let labels = point.attributes.iter().map(|attribute| {
                        let value = attribute.value.clone().and_then(|value| value.value);
                        let Some(Value::StringValue(text)) = value else { panic!("{value:?}") };
                        format!("{}={text:?}", attribute.key)
                    });
                    let Some(number_data_point::Value::AsInt(value)) = point.value else {
                        panic!()
                    };
                    format!("{} {value}", labels.collect::<String>())
                });
                let mut shown: Vec<_> = shown.collect();
                shown.sort();
                shown
            };
            let data = match metric.data.as_ref().unwrap() {
                metric::Data::Sum(sum) => {
                    assert!(sum.is_monotonic);
                    format!("sum {:?}", points(&sum.data_points))
                }
                metric::Data::Gauge(gauge) => format!("gauge {:?}", points(&gauge.data_points)),
                metric::Data::Histogram(_) => "histogram".to_owned(),
                other => panic!("{other:?}"),
            };
            format!("{} [{}] {data}", metric.name, metric.unit)
        });
        let shown: Vec<_> = shown.collect();
        assert_eq!(
            shown,
            [
                r#"opgate_requests_total [] sum ["code=\"200\" 3", "code=\"a\\\"\\\\\\nb\" 4"]"#,
                r#"opgate_memory_bytes [By] gauge [" -5"]"#,
                "opgate_duration_seconds [s] histogram",
                r#"opgate_build_info [] gauge ["version=\"1\" 1"]"#,
            ]
        );
    }

    #[test]
    fn histograms_keep_buckets_and_exemplars() {
        let metrics = convert();
        let duration = metrics.into_iter().find(|m| m.name == "opgate_duration_seconds").unwrap();
        let Some(metric::Data::Histogram(histogram)) = duration.data else { panic!() };
        let [point] = histogram.data_points.try_into().unwrap();
        assert_eq!((point.count, point.sum), (3, Some(5.55)));
        assert_eq!(point.explicit_bounds, [0.1, 1.0]);
        assert_eq!(point.bucket_counts, [1, 1, 1]);
        let [exemplar] = point.exemplars.try_into().unwrap();
        assert_eq!(exemplar.value, Some(exemplar::Value::AsDouble(0.5)));
        assert_eq!(exemplar.time_unix_nano, 1_700_000_000_000_000_000);
        assert_eq!((exemplar.trace_id.len(), exemplar.span_id.len()), (16, 8));
        assert_eq!(exemplar.trace_id.first(), Some(&0x0a));
    }
}
