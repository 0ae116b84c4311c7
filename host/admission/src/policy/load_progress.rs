//! The policies that are being loaded, for readiness messages.

use parking_lot::Mutex;

/// The policies that do not serve yet.
#[derive(Debug, Default)]
pub struct LoadProgress(Mutex<Vec<Entry>>);

#[derive(Debug)]
struct Entry {
    policy: String,
    is_started: bool,
}

impl LoadProgress {
    /// The reasons why the server is not ready, one for each line.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let entries = self.0.lock();
        if entries.is_empty() {
            return vec!["the server is starting".to_owned()];
        }
        let line = |Entry { policy, is_started: began }: &Entry| {
            let what = if *began { "is being loaded" } else { "waits to be loaded" };
            format!("policy {policy}: {what}")
        };
        entries.iter().map(line).collect()
    }

    /// Adds policies that are going to be loaded.
    pub(super) fn expect<'p>(&self, policies: impl Iterator<Item = &'p str>) {
        let entry = |policy: &str| Entry { policy: policy.to_owned(), is_started: false };
        *self.0.lock() = policies.map(entry).collect();
    }

    pub(super) fn mark_started(&self, policy: &str) {
        let mut entries = self.0.lock();
        if let Some(entry) = entries.iter_mut().find(|entry| entry.policy == policy) {
            entry.is_started = true;
        }
    }

    pub(super) fn mark_finished(&self, policy: &str) {
        self.0.lock().retain(|entry| entry.policy != policy);
    }
}
