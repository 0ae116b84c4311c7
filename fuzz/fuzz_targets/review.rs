//! The envelope of a review: what `serde_json` takes for JSON is read or refused, nothing else is read,
//! and what is read says what the JSON says.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opgate::review::{Review, text};
use opgate_fuzz::large;
use serde::de::IgnoredAny;
use serde_json::Value;

fuzz_target!(|input: &[u8]| {
    envelope(input);
    let inner = String::from_utf8_lossy(input);
    let around = format!(
        r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{inner}}}"#
    );
    envelope(around.as_bytes());
    if let Some(large) = large(input, &["", ",", "[", "{\"a\":"]) {
        envelope(&large);
    }
});

fn envelope(input: &[u8]) {
    let Ok(text) = text(input.to_vec()) else { return };
    let Ok(review) = Review::read(&text) else { return };
    assert!(serde_json::from_slice::<IgnoredAny>(input).is_ok(), "what is read is JSON");
    let _ = (review.resource_path(), review.weight());
    let inputs = review.inputs();
    for document in [inputs.object, inputs.old_object].into_iter().flatten() {
        let raw = document.root().raw();
        // Half of a pair of surrogates and numbers without end are JSON for one of both only.
        if let Ok(value) = serde_json::from_str::<Value>(&raw) {
            assert_eq!(value.is_object(), document.root().kind() == opgate_document::Kind::Object);
        }
    }
}
