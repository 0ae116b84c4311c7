//! The safe fixes of one file in an editor: its text is that of the editor.
//!
//! ```text
//! unit, texts of the editor ─▶ the rounds of `opgate check --fix`, for fixes of this file ─▶ its new text
//! ```

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use opgate_admission::policy::PolicySet;
use opgate_files::DetectedInput;
use opgate_input::read::Reader;

use super::unit::{Texts, UnitSource};
use super::{Fixer, rule_order};
use crate::cli::check::units::UnitResult;

/// A file, and the unit that it belongs to.
pub(in crate::cli::check) struct FileToFix<'f> {
    pub(in crate::cli::check) input: &'f DetectedInput,
    pub(in crate::cli::check) file: &'f Path,
    /// It has the texts of the editor.
    pub(in crate::cli::check) reader: &'f Reader,
    /// The rules that are waived there.
    pub(in crate::cli::check) waived: Option<&'f BTreeSet<String>>,
}

impl FileToFix<'_> {
    /// Returns the text after the fixes; none if it does not change. `evaluate` returns the result of a unit with the texts
    /// of a reader.
    pub(in crate::cli::check) fn new_text(
        &self,
        set: &PolicySet,
        evaluate: &(dyn Fn(&DetectedInput, &Reader) -> UnitResult + Sync),
    ) -> Option<Arc<str>> {
        let Self { input, file, reader, waived } = *self;
        let real = file.canonicalize().ok()?;
        let fixer = Fixer {
            includes_unsafe: false,
            only: None,
            file: Some(real.clone()),
            rule_order: rule_order(set),
        };
        let unit = UnitSource { input, reader, evaluate, waived };
        let (_, made) = fixer.fix_unit(&unit, &unit.evaluate_files(), Texts::new());
        made.files.get(&real)?.new.clone()
    }
}
