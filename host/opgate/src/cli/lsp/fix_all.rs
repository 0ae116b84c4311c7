//! Requests for all safe fixes of a file, until the evaluator has made them.
//!
//! ```text
//! codeAction with `source.fixAll`, command opgate.fixAll ─▶ PendingFixes ─▶ evaluator
//! response, or edit that the editor applies                     ◀── new text
//! ```

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::PathBuf;

use lsp_server::RequestId;
use lsp_types::CodeActionKind;
use serde_json::Value;

use super::messages::FixAllTicket;

/// The kind of the action.
pub(super) const KIND: &str = "source.fixAll.opgate";
/// Title of the action.
pub(super) const TITLE: &str = "Fix all violations in this file that need no review";

/// Maximum number of requests that wait. Older ones are answered without fixes.
const MAX_PENDING: usize = 16;

/// Where the fixes go.
#[derive(Debug)]
pub(super) enum FixAllTarget {
    /// To the response of a request, with other actions.
    Response { id: RequestId, actions: Vec<Value> },
    /// To the editor, which applies them.
    Editor,
}

/// A request for the fixes of a file.
#[derive(Debug)]
pub(super) struct FixAllRequest {
    pub(super) path: PathBuf,
    /// The number of the text that is fixed.
    pub(super) revision: u64,
    pub(super) target: FixAllTarget,
}

/// The requests that wait for the evaluator.
#[derive(Debug, Default)]
pub(super) struct PendingFixes {
    last: u64,
    requests: HashMap<FixAllTicket, FixAllRequest>,
}

/// The kinds of actions that an editor asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WantedActions {
    pub(super) quick_fixes: bool,
    /// Whether the edit of all fixes is wanted, as when a file is saved.
    pub(super) fix_all: bool,
    /// Whether all fixes are offered as a command.
    pub(super) fix_all_command: bool,
}

impl WantedActions {
    /// Reads the kinds; none are all kinds.
    pub(super) fn of(only: Option<&[CodeActionKind]>) -> Self {
        let Some(only) = only.filter(|only| !only.contains(&CodeActionKind::Empty)) else {
            return Self { quick_fixes: true, fix_all: false, fix_all_command: true };
        };
        let is_fix_all = |kind: &CodeActionKind| match kind {
            CodeActionKind::Source | CodeActionKind::SourceFixAll => true,
            CodeActionKind::Custom(name) => name == KIND,
            _ => false,
        };
        Self {
            quick_fixes: only.contains(&CodeActionKind::QuickFix),
            fix_all: only.iter().any(is_fix_all),
            fix_all_command: false,
        }
    }
}

/// Returns the kind of the action.
pub(super) fn kind() -> CodeActionKind {
    CodeActionKind::Custom(Cow::Borrowed(KIND))
}

impl PendingFixes {
    /// Adds a request. Returns its number, and the oldest request if there are too many.
    pub(super) fn add(&mut self, request: FixAllRequest) -> (FixAllTicket, Option<FixAllRequest>) {
        let oldest = self.requests.keys().copied().min_by_key(|ticket| ticket.0);
        let oldest = oldest.filter(|_| self.requests.len() >= MAX_PENDING);
        let oldest = oldest.and_then(|ticket| self.requests.remove(&ticket));
        self.last = self.last.wrapping_add(1);
        let ticket = FixAllTicket(self.last);
        self.requests.insert(ticket, request);
        (ticket, oldest)
    }

    /// Takes a request that is done.
    pub(super) fn take(&mut self, ticket: FixAllTicket) -> Option<FixAllRequest> {
        self.requests.remove(&ticket)
    }

    /// Takes all requests: nothing can be evaluated.
    pub(super) fn take_all(&mut self) -> Vec<FixAllRequest> {
        self.requests.drain().map(|(_, request)| request).collect()
    }

    /// Removes the request that the editor cancels. Returns whether there is one.
    pub(super) fn cancel(&mut self, cancelled: &RequestId) -> bool {
        let before = self.requests.len();
        self.requests.retain(|_, request| match &request.target {
            FixAllTarget::Response { id, .. } => id != cancelled,
            FixAllTarget::Editor => true,
        });
        self.requests.len() != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(number: u8) -> FixAllRequest {
        let target = FixAllTarget::Response { id: i32::from(number).into(), actions: Vec::new() };
        FixAllRequest { path: PathBuf::from("/a"), revision: number.into(), target }
    }

    #[test]
    fn waiting_requests_are_bounded_and_can_be_cancelled() {
        let mut pending = PendingFixes::default();
        let oldest: Vec<_> = (0..20)
            .filter_map(|number| pending.add(request(number)).1.map(|request| request.revision))
            .collect();
        assert_eq!(oldest, [0, 1, 2, 3]);
        assert!(pending.cancel(&19.into()) && !pending.cancel(&19.into()));
        assert!(
            pending.take(FixAllTicket(19)).is_some() && pending.take(FixAllTicket(1)).is_none()
        );
        assert_eq!(pending.take_all().len(), MAX_PENDING - 2);
    }

    #[test]
    fn kinds_select_the_actions() {
        let custom = |name: &'static str| CodeActionKind::Custom(name.into());
        for (only, expected) in [
            (None, (true, false, true)),
            (Some(vec![CodeActionKind::Empty]), (true, false, true)),
            (Some(vec![CodeActionKind::QuickFix]), (true, false, false)),
            (Some(vec![CodeActionKind::Source]), (false, true, false)),
            (Some(vec![CodeActionKind::SourceFixAll]), (false, true, false)),
            (Some(vec![custom("source.fixAll.opgate")]), (false, true, false)),
            (Some(vec![custom("source.fixAll.eslint")]), (false, false, false)),
            (Some(vec![CodeActionKind::QuickFix, CodeActionKind::Source]), (true, true, false)),
            (Some(vec![CodeActionKind::SourceOrganizeImports]), (false, false, false)),
        ] {
            let wanted = WantedActions::of(only.as_deref());
            let found = (wanted.quick_fixes, wanted.fix_all, wanted.fix_all_command);
            assert_eq!(found, expected, "{only:?}");
        }
    }
}
