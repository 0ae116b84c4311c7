//! Features that a `ClusterServiceVersion` claims in its annotations.
//!
//! Two spellings exist: a list of all features as JSON, and one annotation for each feature. In a
//! file, both can be written without quotes; then the list or the boolean itself counts
//! (decision E-9).

use opgate_sdk::{Document, Kind};

use crate::csv::annotation;

/// The list of features.
const LIST: &str = "operators.openshift.io/infrastructure-features";
/// What the names of the other annotations start with.
pub(super) const PREFIX: &str = "features.operators.openshift.io/";

/// Whether the list of features has this one.
fn lists(csv: &Document, feature: &str) -> bool {
    let pointer = annotation(LIST);
    let has = |document: &Document, pointer: &str| {
        document.rows(pointer, &[""]).iter().any(|row| row.text(0) == Some(feature))
    };
    match csv.kind(&pointer) {
        Kind::Text => {
            let text = csv.text(&pointer).filter(|text| text.contains(feature));
            text.and_then(|text| Document::parse(&text).ok()).is_some_and(|list| has(&list, ""))
        }
        _ => has(csv, &pointer),
    }
}

/// Whether the annotation of a feature says `true`.
pub(super) fn declares(csv: &Document, feature: &str) -> bool {
    let pointer = annotation(&format!("{PREFIX}{feature}"));
    match csv.kind(&pointer) {
        Kind::Text => csv.text(&pointer).is_some_and(|text| text == "true"),
        _ => csv.boolean(&pointer) == Some(true),
    }
}

/// Whether it claims a feature that has a name in the list, and another one as an annotation.
pub(super) fn claims(csv: &Document, listed: &str, declared: &str) -> bool {
    lists(csv, listed) || declares(csv, declared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_claimed_in_a_list_or_by_name() {
        let fips = |annotations: &str| {
            let csv = format!(r#"{{"metadata":{{"annotations":{annotations}}}}}"#);
            claims(&Document::parse(&csv).unwrap(), "fips", "fips-compliant")
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
