//! The envelope of a review: only valid JSON is read, and the objects are those of the JSON.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opgate::review::{Review, text};
use opgate_fuzz::repeat_input;
use serde::de::IgnoredAny;
use serde_json::Value;

fuzz_target!(|input: &[u8]| {
    check_envelope(input);
    let request = String::from_utf8_lossy(input);
    let review = format!(
        r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{request}}}"#
    );
    check_envelope(review.as_bytes());
    if let Some(repeated) = repeat_input(input, &["", ",", "[", "{\"a\":"]) {
        check_envelope(&repeated);
    }
});

fn check_envelope(input: &[u8]) {
    let Ok(text) = text(input.to_vec()) else { return };
    let Ok(review) = Review::read(&text) else { return };
    assert!(serde_json::from_slice::<IgnoredAny>(input).is_ok(), "a review is valid JSON");
    let _ = (review.resource_path(), review.envelope_bytes());
    let inputs = review.inputs();
    for document in [inputs.object, inputs.old_object].into_iter().flatten() {
        let raw = document.root().raw();
        // `serde_json` rejects lone surrogates and numbers beyond its range.
        if let Ok(value) = serde_json::from_str::<Value>(&raw) {
            assert_eq!(value.is_object(), document.root().kind() == opgate_document::Kind::Object);
        }
    }
}
