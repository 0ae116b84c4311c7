//! The bytes of results that wait for the session, which waits for the editor.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use opgate_lsp::finding::Finding;

use super::file_findings::FileFindings;

/// Maximum bytes of waiting results: above them, no unit of the background is evaluated.
const MAX_BYTES: usize = 16 << 20;

/// Counts the bytes of waiting results.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    bytes: AtomicUsize,
}

/// The bytes of a waiting result.
#[derive(Debug)]
pub(super) struct BacklogCharge {
    backlog: Arc<Backlog>,
    bytes: usize,
}

impl Backlog {
    /// Counts findings until the charge is dropped.
    pub(super) fn charge(self: &Arc<Self>, findings: &FileFindings) -> BacklogCharge {
        let bytes = findings.values().flatten().map(Finding::size).sum();
        self.bytes.fetch_add(bytes, Ordering::AcqRel);
        BacklogCharge { backlog: self.clone(), bytes }
    }

    /// Returns whether there are too many.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.load(Ordering::Acquire) > MAX_BYTES
    }
}

impl Drop for BacklogCharge {
    fn drop(&mut self) {
        self.backlog.bytes.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use opgate_lsp::finding::Severity;

    use super::super::file_findings::error_finding;
    use super::*;

    #[test]
    fn waiting_results_are_bounded_until_they_are_taken() {
        let backlog = Arc::new(Backlog::default());
        let finding = error_finding(Severity::Error, &"x".repeat(4_000));
        let list = vec![finding; 1_000];
        let findings = FileFindings::from([(PathBuf::from("a"), list)]);
        let mut charges = Vec::new();
        while !backlog.is_full() {
            charges.push(backlog.charge(&findings));
            assert!(charges.len() < 6);
        }
        charges.pop();
        assert!(!backlog.is_full() && charges.len() > 2);
    }
}
