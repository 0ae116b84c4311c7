//! AdmissionReviews among the files of a check: they are evaluated unchanged.

use opgate_document::Value;

/// A request from an API server.
#[derive(Debug)]
pub struct RecordedReview {
    /// The review.
    pub(crate) json: Box<str>,
    /// `UPDATE`
    pub(crate) operation: String,
    /// The user who sent it.
    pub(crate) user: String,
}

/// Group of AdmissionReviews.
pub(crate) const GROUP: &str = "admission.k8s.io";

impl RecordedReview {
    /// Reads the request.
    pub(crate) fn of(review: Value<'_>) -> Self {
        let text = |pointer: &str| {
            review.get(pointer).and_then(|value| value.text()).unwrap_or_default().to_owned()
        };
        Self {
            json: review.raw().into(),
            operation: text("/request/operation"),
            user: text("/request/userInfo/username"),
        }
    }
}
