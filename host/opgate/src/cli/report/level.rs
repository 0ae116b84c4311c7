//! Selection of the violations to show, and the number of hidden ones.

use super::Violation;
use opgate_admission::policy::Effect;

/// The lowest level that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(in crate::cli) enum MinEffect {
    /// Only what denies
    Deny,
    /// Violations that deny or warn
    Warn,
    /// Everything
    #[default]
    Audit,
}

/// Findings below the level that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::cli) struct HiddenCounts {
    warnings: usize,
    audits: usize,
}

impl MinEffect {
    /// Reports whether a violation is shown. Counts a hidden one.
    pub(in crate::cli) fn show_or_count(
        self,
        violation: &Violation,
        hidden: &mut HiddenCounts,
    ) -> bool {
        let is_warning = violation.effect == Effect::Warn.as_str();
        let is_audit = violation.effect == Effect::Audit.as_str();
        match self {
            Self::Deny if is_warning => hidden.warnings += 1,
            Self::Deny | Self::Warn if is_audit => hidden.audits += 1,
            _ => return true,
        }
        false
    }
}

impl HiddenCounts {
    pub(in crate::cli) fn add(&mut self, other: Self) {
        self.warnings += other.warnings;
        self.audits += other.audits;
    }

    /// Returns the numbers of hidden violations, and the flag that shows them.
    pub(in crate::cli) fn summary(self) -> Option<String> {
        let some = |count: usize, what: &str| match count {
            0 => None,
            1 => Some(format!("1 {what}")),
            _ => Some(format!("{count} {what}s")),
        };
        let parts = [some(self.warnings, "warning"), some(self.audits, "audit violation")];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        let level = if self.audits > 0 { "audit" } else { "warn" };
        let hidden = parts.join(" and ");
        (!parts.is_empty()).then(|| format!("{hidden} hidden; --min-effect {level} shows them"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_violations_are_counted() {
        let violation = |level| Violation {
            policy: String::new(),
            rule: String::new(),
            effect: level,
            field: String::new(),
            message: String::new(),
            waived: None,
            fix: None,
        };
        for (level, expected) in [
            (MinEffect::Audit, None),
            (MinEffect::Warn, Some("1 audit violation hidden; --min-effect audit shows them")),
            (
                MinEffect::Deny,
                Some("2 warnings and 1 audit violation hidden; --min-effect audit shows them"),
            ),
        ] {
            let mut hidden = HiddenCounts::default();
            let all = ["deny", "warn", "warn", "audit"].map(violation);
            let shown = all.iter().filter(|v| level.show_or_count(v, &mut hidden)).count();
            assert_eq!(hidden.summary().as_deref(), expected);
            assert_eq!(shown + hidden.warnings + hidden.audits, 4);
        }
        let hidden = HiddenCounts { warnings: 3, audits: 0 };
        assert_eq!(hidden.summary().unwrap(), "3 warnings hidden; --min-effect warn shows them");
    }
}
