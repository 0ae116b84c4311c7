//! Receives denied requests.

use std::sync::Arc;

use opgate_admission::policy::Decision;
use opgate_admission::review::Review;

type Observe = dyn Fn(&Review<'_>, &Decision) + Send + Sync;

/// Receives each denied request before the response is sent. It must not wait.
#[derive(Clone)]
pub struct DenialObserver(Arc<Observe>);

impl std::fmt::Debug for DenialObserver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DenialObserver").finish_non_exhaustive()
    }
}

impl DenialObserver {
    /// Creates an observer that calls `observe`.
    pub fn new(observe: impl Fn(&Review<'_>, &Decision) + Send + Sync + 'static) -> Self {
        Self(Arc::new(observe))
    }

    pub(super) fn on_denial(&self, review: &Review<'_>, decision: &Decision) {
        (self.0)(review, decision);
    }
}
