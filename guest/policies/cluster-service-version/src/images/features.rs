//! Features that a `ClusterServiceVersion` claims in its annotations.
//!
//! Two notations exist: a list of all features as JSON, and one annotation for each feature. In a
//! file, both can be written without quotes, as documents print them; then the list or the boolean
//! itself counts, and MSC-20 warns.

use opgate_sdk::{Document, Kind, Row};

use crate::csv::annotation;

/// The list of features.
const INFRASTRUCTURE_ANNOTATION: &str = "operators.openshift.io/infrastructure-features";
/// The prefix of the names of the other annotations.
pub(super) const FEATURE_PREFIX: &str = "features.operators.openshift.io/";

/// Whether the annotation of a feature is `true`.
pub(super) fn declares_feature(csv: &Document, feature: &str) -> bool {
    let fields = csv.fields("", &[&annotation(&format!("{FEATURE_PREFIX}{feature}"))]);
    fields.iter().any(|row| is_declared(row, 0))
}

/// Whether it claims a feature, which has one name in the list and another one as an annotation.
pub(super) fn claims_feature(csv: &Document, listed: &str, declared: &str) -> bool {
    let list = annotation(INFRASTRUCTURE_ANNOTATION);
    let fields = csv.fields("", &[&list, &annotation(&format!("{FEATURE_PREFIX}{declared}"))]);
    fields.iter().any(|row| is_declared(row, 1) || is_listed(csv, &list, row, listed))
}

fn is_declared(row: Row<'_>, column: usize) -> bool {
    row.text(column) == Some("true") || row.boolean(column) == Some(true)
}

/// Whether the list of features, the first column, has this one.
fn is_listed(csv: &Document, pointer: &str, row: Row<'_>, feature: &str) -> bool {
    let has = |document: &Document, pointer: &str| {
        document.rows(pointer, &[""]).iter().any(|row| row.text(0) == Some(feature))
    };
    match row.text(0) {
        Some(text) => {
            text.contains(feature) && Document::parse(text).is_ok_and(|list| has(&list, ""))
        }
        None => row.kind(0) == Kind::List && has(csv, pointer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_claimed_in_a_list_or_by_name() {
        let fips = |annotations: &str| {
            let csv = format!(r#"{{"metadata":{{"annotations":{annotations}}}}}"#);
            claims_feature(&Document::parse(&csv).unwrap(), "fips", "fips-compliant")
        };
        for claim in [
            r#"{"operators.openshift.io/infrastructure-features":"[\"cnf\", \"fips\"]"}"#,
            r#"{"operators.openshift.io/infrastructure-features":["fips"]}"#,
            r#"{"features.operators.openshift.io/fips-compliant":"true"}"#,
            r#"{"features.operators.openshift.io/fips-compliant":true}"#,
        ] {
            assert!(fips(claim), "{claim}");
        }
        for none in [
            "{}",
            "7",
            r#"{"operators.openshift.io/infrastructure-features":"[\"FIPS\", \"fips-compliant\"]"}"#,
            r#"{"operators.openshift.io/infrastructure-features":"fips"}"#,
            r#"{"operators.openshift.io/infrastructure-features":"{\"fips\":\"fips\"}"}"#,
            r#"{"features.operators.openshift.io/fips-compliant":"True"}"#,
            r#"{"features.operators.openshift.io/fips-compliant":"false"}"#,
            r#"{"features.operators.openshift.io/fips":"true"}"#,
        ] {
            assert!(!fips(none), "{none}");
        }
    }
}
