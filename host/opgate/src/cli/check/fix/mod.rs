//! `opgate check --fix`: fixes of violations in files.
//!
//! ```text
//! unit ─▶ evaluate ─▶ fixes, by the order of their rules ─▶ those that do not meet ─▶ new texts ─┐
//!            ▲                                                                                  │
//!            └────────────── the same unit with the new texts, at most ten rounds ◀─────────────┘
//! all units ─▶ write: each file as a whole, by rename    or    diff
//! ```
//!
//! Nothing is written before the last round of all units. A fix that would add a violation of any rule is undone.

mod added;
mod candidates;
mod evaluation;
mod moves;
mod one_file;
mod outcome;
mod plan;
mod real_paths;
mod rounds;
mod trial;
mod unit;
mod write;

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

use clap::Args;

pub(in crate::cli) use self::moves::real_target;
pub(super) use self::one_file::FileToFix;
pub(super) use self::unit::UnitSources;
use super::waivers::KnownRules;
use crate::cli::exit::CommandError;
use opgate_admission::policy::PolicySet;

/// Arguments about fixes.
#[derive(Debug, Args)]
pub(super) struct FixArgs {
    /// Fix violations in the files, if the fix needs no review
    #[arg(long)]
    pub(super) fix: bool,
    /// Print the changes of --fix as a diff, and write nothing
    #[arg(long)]
    pub(super) diff: bool,
    /// With --fix or --diff: include fixes that change the meaning or guess a value
    #[arg(long)]
    unsafe_fixes: bool,
    /// With --fix or --diff: fix only violations of this rule; may be repeated
    #[arg(long, value_name = "RULE")]
    fix_only: Vec<String>,
}

impl FixArgs {
    /// Reports whether files are fixed, or the changes are printed.
    pub(super) fn is_requested(&self) -> bool {
        self.fix || self.diff
    }

    /// Reports whether files are written.
    pub(super) fn writes(&self) -> bool {
        self.fix && !self.diff
    }

    /// Checks the arguments, which do not fit every input.
    ///
    /// # Errors
    /// What does not fit.
    pub(super) fn check(&self, is_cluster: bool, has_stdin: bool) -> Result<(), CommandError> {
        let is_incomplete = self.unsafe_fixes || !self.fix_only.is_empty();
        let error = match self.is_requested() {
            false if is_incomplete => {
                "--unsafe-fixes and --fix-only need --fix, which writes the files, or --diff, which prints the changes"
            }
            true if is_cluster => {
                "--fix and --diff change files, not the objects of a cluster: name the files"
            }
            true if self.writes() && has_stdin => {
                "--fix cannot write to standard input: name a file, or print the changes with --diff"
            }
            _ => return Ok(()),
        };
        Err(CommandError::usage(anyhow::anyhow!(error)))
    }

    /// Creates the fixer; none if no fixes are requested.
    ///
    /// # Errors
    /// An unknown rule.
    pub(super) fn fixer(
        &self,
        set: &PolicySet,
        known: &KnownRules<'_>,
    ) -> Result<Option<Fixer>, CommandError> {
        if !self.is_requested() {
            return Ok(None);
        }
        let mut only = BTreeSet::new();
        for rule in &self.fix_only {
            only.insert(known.resolve(rule).map_err(|unknown| {
                CommandError::usage(anyhow::anyhow!(
                    "--fix-only: no policy has a rule {rule:?}{}",
                    unknown.hint
                ))
            })?);
        }
        Ok(Some(Fixer {
            includes_unsafe: self.unsafe_fixes,
            only: Some(only).filter(|only| !only.is_empty()),
            file: None,
            rule_order: rule_order(set),
        }))
    }
}

fn rule_order(set: &PolicySet) -> HashMap<(String, String), usize> {
    let rules = set.policies().iter().flat_map(|policy| {
        policy.descriptor.rules.iter().map(|rule| (policy.name.clone(), rule.id.clone()))
    });
    rules.enumerate().map(|(number, rule)| (rule, number)).collect()
}

/// Selects and applies fixes.
pub(super) struct Fixer {
    includes_unsafe: bool,
    /// The only rules whose violations are fixed.
    only: Option<BTreeSet<String>>,
    /// The real path of the only file that is edited.
    file: Option<PathBuf>,
    /// The position of each rule of each policy.
    rule_order: HashMap<(String, String), usize>,
}
