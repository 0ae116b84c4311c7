//! Answers more than a verdict may hold.

use opgate_hostile::{Hostile, deny, verdict};
use opgate_sdk::bindings::opgate::policy::types::SkippedRule;
use opgate_sdk::{Document, Verdict};

/// The policy.
#[derive(Debug)]
pub struct Floods;

opgate_hostile::export!(Floods);

impl Hostile for Floods {
    fn validate(_: Option<&Document>, settings: &Document) -> Verdict {
        let number = |pointer: &str| {
            usize::try_from(settings.integer(pointer).unwrap_or_default()).unwrap_or_default()
        };
        let mut verdict = verdict();
        for _ in 0..number("/number") {
            deny(&mut verdict, "EVIL-1", "spec", "x".repeat(number("/length")));
        }
        let skipped = SkippedRule { rule: "EVIL-1".into(), reason: "x".repeat(number("/length")) };
        verdict.skipped = vec![skipped; number("/skipped")];
        verdict
    }
}
