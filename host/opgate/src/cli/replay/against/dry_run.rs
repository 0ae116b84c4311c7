//! The dry run of a review: the same request, which is not going to be stored.

use std::collections::BTreeMap;

use opgate_admission::review::{self, ReviewError};
use opgate_text::one_line;
use serde_json::value::{RawValue, to_raw_value};

use crate::cli::review_input::ReviewInput;

/// Makes a review a dry run. All other values keep their text. A server knows no recorded inputs, and the policies
/// that decide are those of its URL: the review is decided without the recorded ones.
///
/// # Errors
/// If it is no review.
pub(in crate::cli::replay) fn as_dry_run(input: ReviewInput) -> Result<ReviewInput, ReviewError> {
    if input.review()?.dry_run {
        return Ok(ReviewInput { recorded: None, ..input });
    }
    let changed = with_dry_run(&input.text)
        .map_err(|error| ReviewError::Shape(one_line(&error.to_string(), 512)))?;
    let text = review::text(changed)?;
    Ok(ReviewInput { text, recorded: None, ..input })
}

fn with_dry_run(text: &str) -> serde_json::Result<Vec<u8>> {
    let mut review: BTreeMap<String, &RawValue> = serde_json::from_str(text)?;
    let request = review.get("request").map_or("{}", |request| request.get());
    let mut request: BTreeMap<String, &RawValue> = serde_json::from_str(request)?;
    let dry_run = to_raw_value(&true)?;
    request.insert("dryRun".to_owned(), &dry_run);
    let request = to_raw_value(&request)?;
    review.insert("request".to_owned(), &request);
    serde_json::to_vec(&review)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dry_run_changes_no_other_value() {
        let object =
            r#"{"n": 1.00, "big": 12345678901234567890123, "a": 1, "a": 2, "s": "\u00e9"}"#;
        for dry_run in ["", r#""dryRun": false, "#, r#""dryRun": null, "#] {
            let text = format!(
                r#"{{"kind": "AdmissionReview", "request": {{{dry_run}"object": {object}}}}}"#
            );
            let changed = String::from_utf8(with_dry_run(&text).unwrap()).unwrap();
            let request = format!(r#"{{"dryRun":true,"object":{object}}}"#);
            assert_eq!(changed, format!(r#"{{"kind":"AdmissionReview","request":{request}}}"#));
        }
    }
}
