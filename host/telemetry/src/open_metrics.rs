//! Reads the `OpenMetrics` text that the server writes for `/metrics`, so that the metrics have one source.
//!
//! It reads the subset that `prometheus-client` writes: metadata before the samples of a family, and one space between
//! fields. Lines that it does not know are ignored.

use std::borrow::Cow;

/// The type of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// A family of metrics.
#[derive(Debug, PartialEq)]
pub(crate) struct Family<'t> {
    pub(crate) name: &'t str,
    pub(crate) kind: Kind,
    pub(crate) help: Cow<'t, str>,
    pub(crate) unit: &'t str,
    pub(crate) samples: Vec<Sample<'t>>,
}

/// Labels in their order.
pub(crate) type Labels<'t> = Vec<(&'t str, Cow<'t, str>)>;

/// One line.
#[derive(Debug, PartialEq)]
pub(crate) struct Sample<'t> {
    /// With the suffix for its part of a family, such as `_total`.
    pub(crate) name: &'t str,
    pub(crate) labels: Labels<'t>,
    pub(crate) value: &'t str,
    pub(crate) exemplar: Option<Exemplar<'t>>,
}

/// An observation that a bucket counts.
#[derive(Debug, PartialEq)]
pub(crate) struct Exemplar<'t> {
    pub(crate) labels: Labels<'t>,
    pub(crate) value: &'t str,
    /// Unix time in seconds.
    pub(crate) timestamp: Option<&'t str>,
}

/// Reads the families of a text.
pub(crate) fn read(text: &str) -> Vec<Family<'_>> {
    let mut families: Vec<Family<'_>> = Vec::new();
    for line in text.lines() {
        let Some(metadata) = line.strip_prefix("# ") else {
            if let (Some(family), Some(sample)) = (families.last_mut(), read_sample(line)) {
                family.samples.push(sample);
            }
            continue;
        };
        let mut fields = metadata.splitn(3, ' ');
        let (Some(key), Some(name)) = (fields.next(), fields.next()) else { continue };
        let value = fields.next().unwrap_or_default();
        if families.last().is_none_or(|last| last.name != name) {
            let (kind, help, unit) = (Kind::Gauge, Cow::Borrowed(""), "");
            families.push(Family { name, kind, help, unit, samples: Vec::new() });
        }
        let Some(family) = families.last_mut() else { continue };
        match key {
            "HELP" => family.help = unescape(value),
            "UNIT" => family.unit = value,
            "TYPE" => {
                family.kind = match value {
                    "counter" => Kind::Counter,
                    "histogram" => Kind::Histogram,
                    _ => Kind::Gauge,
                };
            }
            _ => {}
        }
    }
    families
}

fn read_sample(line: &str) -> Option<Sample<'_>> {
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at_checked(end)?;
    let (labels, rest) = read_labels(rest)?;
    let (value, exemplar) = match rest.trim_start().split_once(" # ") {
        Some((value, exemplar)) => (value, read_exemplar(exemplar)),
        None => (rest.trim_start(), None),
    };
    Some(Sample { name, labels, value, exemplar })
}

fn read_exemplar(text: &str) -> Option<Exemplar<'_>> {
    let (labels, rest) = read_labels(text)?;
    let mut fields = rest.split_ascii_whitespace();
    Some(Exemplar { labels, value: fields.next()?, timestamp: fields.next() })
}

/// Reads `{name="value",…}` if it is there, and returns the rest.
fn read_labels(text: &str) -> Option<(Labels<'_>, &str)> {
    let mut labels = Vec::new();
    let Some(mut rest) = text.strip_prefix('{') else { return Some((labels, text)) };
    loop {
        if let Some(rest) = rest.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, quoted) = rest.split_once("=\"")?;
        let (value, after) = quoted.split_at_checked(closing_quote(quoted)?)?;
        labels.push((name, unescape(value)));
        let after = after.strip_prefix('"')?;
        rest = after.strip_prefix(',').unwrap_or(after);
    }
}

/// The position of the first quote that is not escaped.
fn closing_quote(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.char_indices().find_map(|(at, c)| {
        let is_end = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_end.then_some(at)
    })
}

fn unescape(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => plain.push('\n'),
                Some(other) => plain.push(other),
                None => plain.push('\\'),
            },
            c => plain.push(c),
        }
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_read_with_labels_and_exemplars() {
        let labels = |sample: &Sample<'_>| {
            let shown: Vec<_> = sample.labels.iter().map(|(k, v)| format!("{k}:{v}")).collect();
            shown.join(" ")
        };
        for (line, name, shown, value) in [
            ("a 1", "a", "", "1"),
            ("a{b=\"c\"} 2.5", "a", "b:c", "2.5"),
            ("a{b=\"c,} \",d=\"e # {\"} 3", "a", "b:c,}  d:e # {", "3"),
            (r#"a{b="\"\\\n"} 4"#, "a", "b:\"\\\n", "4"),
            ("a{b=\"\"} +Inf", "a", "b:", "+Inf"),
        ] {
            let sample = read_sample(line).unwrap();
            assert_eq!(
                (sample.name, labels(&sample), sample.value),
                (name, shown.to_owned(), value)
            );
            assert_eq!(sample.exemplar, None);
        }
        for line in ["", "a", "a{b=\"c} 1", "a{b} 1", "a{b=\"c\" 1"] {
            assert_eq!(read_sample(line), None, "{line}");
        }
        let line = r#"a_bucket{le="0.5"} 7 # {trace_id="0a"} 0.25 1700000000.5"#;
        let exemplar = read_sample(line).unwrap().exemplar.unwrap();
        let expected = (vec![("trace_id", "0a".into())], "0.25", Some("1700000000.5"));
        assert_eq!((exemplar.labels, exemplar.value, exemplar.timestamp), expected);
    }
}
