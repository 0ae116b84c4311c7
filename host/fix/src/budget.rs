//! A limit of the work of many edits: each one reads the whole text again.

/// Maximum bytes that the edits of a file in one round, or of one report, read.
const MAX_EDITED_BYTES: usize = 16 << 20;

/// What is left of the work.
#[derive(Debug, Clone, Copy, Default)]
pub struct EditBudget {
    spent: usize,
}

impl EditBudget {
    /// Takes the bytes of a text for an edit. Reports whether they were left: the first edit always has enough.
    pub fn take(&mut self, bytes: usize) -> bool {
        let spent = self.spent.saturating_add(bytes);
        let is_left = self.spent == 0 || spent <= MAX_EDITED_BYTES;
        if is_left {
            self.spent = spent;
        }
        is_left
    }
}
