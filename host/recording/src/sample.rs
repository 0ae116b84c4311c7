//! Which reviews are recorded: a share of each outcome, and of each rule.
//!
//! The uid of a review decides, not chance: all replicas and all servers with the same rates record the same
//! reviews.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::str::FromStr;

use opgate_admission::policy::{Decision, Effect, PolicySet, Violation};

/// A share of the reviews with an outcome, or with a violation of a rule.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleRate {
    /// `allowed`, `warned`, `denied`, `failed`, or a rule in lower case.
    of: String,
    rate: f64,
}

impl FromStr for SampleRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let hint = "write OUTCOME=RATE or RULE=RATE, such as allowed=0.01 or OPG-01=1";
        let (of, rate) = text.split_once('=').ok_or(hint)?;
        let rate: f64 = rate.trim().parse().map_err(|_| hint)?;
        if of.trim().is_empty() {
            return Err(hint.to_owned());
        }
        if !(0.0..=1.0).contains(&rate) {
            return Err(format!("{rate} is not between 0 and 1"));
        }
        Ok(Self { of: of.trim().to_ascii_lowercase(), rate })
    }
}

const OUTCOMES: [&str; 4] = ["allowed", "warned", "denied", "failed"];

/// The shares of all reviews. Without a rate, everything is recorded.
#[derive(Debug, Clone, Default)]
pub struct SampleRates {
    rates: BTreeMap<String, f64>,
}

impl SampleRates {
    /// The last rate of each outcome and rule.
    #[must_use]
    pub fn of(rates: Vec<SampleRate>) -> Self {
        Self { rates: rates.into_iter().map(|SampleRate { of, rate }| (of, rate)).collect() }
    }

    /// Names that are neither an outcome nor a rule of the set: a typing error would record nothing.
    pub(crate) fn unknown(&self, set: &PolicySet) -> Vec<&str> {
        let is_rule = |name: &str| {
            set.policies().iter().flat_map(|policy| &policy.descriptor.rules).any(|rule| {
                rule.id.eq_ignore_ascii_case(name) || rule.name.eq_ignore_ascii_case(name)
            })
        };
        let names = self.rates.keys().map(String::as_str);
        names.filter(|name| !OUTCOMES.contains(name) && !is_rule(name)).collect()
    }

    /// Whether a review with this uid can be recorded, whatever its decision is.
    pub(crate) fn can_record(&self, uid: &str) -> bool {
        let outcomes = OUTCOMES.iter().map(|outcome| self.rate(outcome));
        let most = outcomes.chain(self.rates.values().copied()).fold(0.0, f64::max);
        is_below(uid, most)
    }

    /// Whether a review is recorded: by the largest of the rates of its outcome and of its rules.
    pub(crate) fn records(&self, uid: &str, decision: &Decision, set: &PolicySet) -> bool {
        let has_warning = || decision.violations.iter().any(|v| v.effect == Effect::Warn);
        let outcome = match decision {
            Decision { failure: Some(_), .. } => "failed",
            Decision { denial: Some(_), .. } => "denied",
            _ if has_warning() => "warned",
            _ => "allowed",
        };
        let rates =
            decision.violations.iter().filter_map(|violation| self.rule_rate(violation, set));
        is_below(uid, rates.fold(self.rate(outcome), f64::max))
    }

    fn rate(&self, outcome: &str) -> f64 {
        self.rates.get(outcome).copied().unwrap_or(1.0)
    }

    fn rule_rate(&self, violation: &Violation, set: &PolicySet) -> Option<f64> {
        if self.rates.is_empty() {
            return None;
        }
        let by_id = self.rates.get(&violation.rule.to_ascii_lowercase());
        let by_name = || {
            let policy = set.policies().iter().find(|policy| policy.name == violation.policy)?;
            let rule = policy.descriptor.rule(&violation.rule)?;
            self.rates.get(&rule.name.to_ascii_lowercase())
        };
        by_id.or_else(by_name).copied()
    }
}

/// Whether a uid is among this share of all uids.
fn is_below(uid: &str, rate: f64) -> bool {
    if rate >= 1.0 {
        return true;
    }
    // The hasher without keys: the same on every server.
    let mut hasher = DefaultHasher::new();
    uid.hash(&mut hasher);
    let position = f64::from(u32::try_from(hasher.finish() >> 32).unwrap_or(u32::MAX));
    position / f64::from(u32::MAX) < rate
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_without_a_share_is_an_error() {
        for (text, expected) in [
            ("allowed", "write OUTCOME=RATE"),
            ("allowed=x", "write OUTCOME=RATE"),
            ("=1", "write OUTCOME=RATE"),
            ("allowed=2", "2 is not between 0 and 1"),
            ("allowed=-1", "-1 is not between 0 and 1"),
            ("allowed=NaN", "NaN is not between 0 and 1"),
        ] {
            let error = text.parse::<SampleRate>().unwrap_err();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }

    #[test]
    fn share_of_uids_is_about_the_rate() {
        let uids: Vec<_> = (0..10_000).map(|number| format!("uid-{number}")).collect();
        for (rate, least, most) in [(0.0, 0, 0), (0.1, 800, 1_200), (1.0, 10_000, 10_000)] {
            let count = uids.iter().filter(|uid| is_below(uid, rate)).count();
            assert!((least..=most).contains(&count), "{rate}: {count}");
        }
    }

    #[test]
    fn uid_above_all_rates_is_not_recorded() {
        let rates = |texts: &[&str]| {
            SampleRates::of(texts.iter().map(|text| text.parse().unwrap()).collect())
        };
        assert!(rates(&[]).can_record("u"));
        assert!(rates(&["allowed=0"]).can_record("u"), "denials are recorded");
        let none = rates(&["allowed=0", "warned=0", "denied=0", "failed=0"]);
        assert!(!none.can_record("u"));
    }
}
