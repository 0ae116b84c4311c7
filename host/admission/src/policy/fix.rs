//! Fixes of violations, as policies return them: those that are valid and within the limits of the contract.
//!
//! A fix is for files and editors. A server, which accounts for the memory of a request, keeps none. A fix that
//! is not valid or too large is dropped, with a line in the debug log: it never changes the decision.

use opgate_edit::{Edit, Fix, MAX_VERDICT_BYTES, Safety};
use opgate_engine::wit;
use opgate_text::one_line;

use super::Policy;

/// The fixes of one verdict.
pub(super) struct FixLimiter<'p> {
    policy: &'p Policy,
    is_kept: bool,
    bytes: usize,
}

impl<'p> FixLimiter<'p> {
    /// Creates it for a verdict of a policy, whose fixes are kept or not.
    pub(super) fn new(policy: &'p Policy, is_kept: bool) -> Self {
        Self { policy, is_kept, bytes: 0 }
    }

    /// Returns the fix of a violation, if it is kept.
    pub(super) fn accept(&mut self, rule: &str, fix: Option<wit::Fix>) -> Option<Box<Fix>> {
        let fix = convert(fix.filter(|_| self.is_kept)?);
        let bytes = self.bytes.saturating_add(fix.byte_size());
        let reason = match fix.check() {
            Err(invalid) => invalid.to_string(),
            Ok(()) if bytes > MAX_VERDICT_BYTES => {
                format!("the fixes of the verdict have more than {MAX_VERDICT_BYTES} bytes")
            }
            Ok(()) => {
                self.bytes = bytes;
                let title = one_line(&fix.title, opgate_edit::MAX_TITLE_BYTES);
                return Some(Box::new(Fix { title, ..fix }));
            }
        };
        let (policy, reason) = (&self.policy.name, one_line(&reason, 512));
        tracing::debug!(policy, rule, reason, "fix ignored");
        None
    }
}

fn convert(fix: wit::Fix) -> Fix {
    let edit = |edit| match edit {
        wit::Edit::Set(wit::ValueEdit { pointer, value }) => Edit::Set { pointer, value },
        wit::Edit::Insert(wit::ValueEdit { pointer, value }) => Edit::Insert { pointer, value },
        wit::Edit::Remove(pointer) => Edit::Remove { pointer },
        wit::Edit::RenameKey(wit::RenameEdit { pointer, name }) => {
            Edit::RenameKey { pointer, name }
        }
        wit::Edit::MoveFile(wit::MoveEdit { pointer, path }) => Edit::MoveFile { pointer, path },
    };
    let safety = match fix.safety {
        wit::FixSafety::Safe => Safety::Safe,
        wit::FixSafety::Unsafe => Safety::Unsafe,
    };
    Fix { title: fix.title, safety, edits: fix.edits.into_iter().map(edit).collect() }
}
