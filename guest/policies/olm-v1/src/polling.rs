//! The interval at which a Catalog checks for newer content.

use opgate_sdk::go::{duration, quote};
use opgate_sdk::{Document, Fix, Kind, Report, Review, Shape, corrections, go_format, rule, rules};

use crate::reference::REF;
use crate::targets::CATALOG;

rules![OL1_18, OL1_19];

const INTERVAL: &str = "/spec/source/image/pollInterval";
const FIELD: &str = "spec.source.image.pollInterval";

pub(crate) fn check(review: &Review<'_>, catalog: &Document, report: &mut Report<'_>) {
    if !catalog.has(INTERVAL) {
        return;
    }
    let value = go_format::format_value(catalog, INTERVAL, false);
    let is_text = catalog.kind(INTERVAL) == Kind::Text;
    // An empty string is no interval.
    if is_text && value.is_empty() {
        return;
    }
    let touches = |pointer| review.touches(catalog, pointer, &Shape::Scalar);
    if touches(INTERVAL) && !(is_text && is_interval(&value)) {
        check_interval(&value, report);
    }
    if catalog.text_or_empty(REF).contains("@sha256:") && (touches(INTERVAL) || touches(REF)) {
        let message = "cannot specify PollInterval while using digest-based image";
        report.add(&OL1_19, FIELD, message);
        report.set_fix(&OL1_19, || {
            let fix = Fix::safe("remove the interval: the content of a digest does not change");
            Some(fix.remove(INTERVAL))
        });
    }
}

rule! {
    /// the poll interval of a Catalog of OLM 1.0 has hours, minutes and seconds
    ///
    /// `spec.source.image.pollInterval`, if it is set, is a Go duration with the units `h`, `m` and
    /// `s` and without a sign: `24h`, `1h30m`, `1.5h`. Zero (`0s`, `0`) turns polling off. An empty
    /// string counts as not set. The rule evaluates an UPDATE only if it changes the field.
    ///
    /// # Why
    ///
    /// The documents name these units (OpenShift 4.15, Operators, *Red Hat-provided Operator
    /// catalogs in OLM 1.0*). A value that Go cannot parse causes every client of the Catalog to
    /// fail.
    ///
    /// # Remediation
    ///
    /// Write `24h` for a day, and put the duration in quotes.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// pollInterval: 24h
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// pollInterval: 1d
    /// ```
    ///
    /// `message: spec.source.image.pollInterval: Invalid value: "1d": valid units include seconds
    /// (s), minutes (m), and hours (h)`
    OL1_18: Deny {
        name: "valid-olm-v1-catalog-poll-interval",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.15 L20214, L20350, L20516"],
    }
}

fn check_interval(value: &str, report: &mut Report<'_>) {
    let message = format!(
        "{FIELD}: Invalid value: {}: valid units include seconds (s), minutes (m), and hours (h)",
        quote(value)
    );
    report.add(&OL1_18, FIELD, message);
    report.set_fix(&OL1_18, || {
        let interval = corrections::go_duration(value).filter(|text| is_interval(text))?;
        Some(corrections::write(INTERVAL, &interval))
    });
}

/// A Go duration with the units of the documents.
fn is_interval(text: &str) -> bool {
    let is_documented = |c: char| c.is_ascii_digit() || matches!(c, '.' | 'h' | 'm' | 's');
    // `ms` is also a Go unit.
    text.chars().all(is_documented) && !text.contains("ms") && duration::check(text).is_ok()
}

rule! {
    /// a Catalog of OLM 1.0 with a digest has no poll interval
    ///
    /// If `spec.source.image.ref` has a digest (`@sha256:`), `spec.source.image.pollInterval` is
    /// not set. An empty string counts as not set. The rule evaluates an UPDATE only if it changes
    /// one of the two fields.
    ///
    /// # Why
    ///
    /// The content of a digest never changes: there is nothing to poll, and the schema of Catalogs
    /// rejects the two together (catalogd v0.9.0 `api/core/v1alpha1/catalog_types.go`).
    ///
    /// # Remediation
    ///
    /// Remove the interval, or name the image by a tag.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// image: {ref: 'quay.io/x/y@sha256:0123'}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// image: {ref: 'quay.io/x/y@sha256:0123', pollInterval: 24h}
    /// ```
    ///
    /// `message: cannot specify PollInterval while using digest-based image`
    OL1_19: Deny {
        name: "no-olm-v1-poll-interval-with-digest",
        on: [CATALOG: Create | Update],
        source: ["catalogd v0.9.0 api/core/v1alpha1/catalog_types.go"],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals() {
        for text in ["24h", "0s", "0", "1h30m", "1.5h", "90s", "1h1m1s", "00h"] {
            assert!(is_interval(text), "{text}");
        }
        for text in
            ["1d", "30", "-1h", "+1h", "100ms", "1us", "1h 30m", "h", " 1h", "24H", "9999999999h"]
        {
            assert!(!is_interval(text), "{text}");
        }
    }
}
