//! Random edits of random documents: the result means what the edit says, and everything else stays.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests may panic"
)]

mod check;
mod choices;
mod document;
mod edit;

use check::Case;
use choices::Choices;
use opgate_yaml::BooleanWords;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::Value;

/// Makes a case of bytes; none if its text is no YAML.
fn case(bytes: &[u8]) -> Option<Case> {
    // The first bytes are those of the edit, so that it does not depend on the size of the document.
    let (mut edit_choices, mut choices) =
        (Choices::new(&bytes[..bytes.len().min(8)]), Choices::new(bytes.get(8..)?));
    let is_json = choices.one_in(8);
    let mut text = document::document(&mut choices);
    let parts = opgate_yaml::documents(&text, BooleanWords::Yaml11, 1 << 20).ok()?;
    let nodes = opgate_yaml::tree::documents(&text, BooleanWords::Yaml11).ok()?;
    if parts.is_empty() || parts.len() != nodes.len() {
        return None;
    }
    let mut document = choices.pick(parts.len());
    let value: Value = serde_json::from_str(&parts[document].json).ok()?;
    let edit = edit::edit(&mut edit_choices, &value);
    let mut name = "a.yaml";
    if is_json {
        (name, document) = ("a.json", 0);
        text = document::json(&mut choices, &value);
    } else if choices.one_in(10) {
        text = format!("\u{feff}{text}");
    }
    Some(Case { text, name, document, edit })
}

/// Makes the edit of a case, and checks the text. Returns the reason if the edit is refused.
fn run(case: &Case) -> Result<Option<String>, String> {
    let edits = std::slice::from_ref(&case.edit);
    match opgate_fix::apply(&case.text, case.name, case.document, edits) {
        Ok(new) => match check::check(case, &new) {
            Ok(()) => Ok(None),
            Err(why) => Err(format!("{why}\n{:?}\n{}\n{new}", case.edit, case.text)),
        },
        Err(refusal) => Ok(Some(refusal.to_string())),
    }
}

proptest! {
    // The same cases in each run. PROPTEST_CASES makes more.
    #![proptest_config(ProptestConfig {
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn edits_keep_the_rest_of_random_documents(bytes in vec(any::<u8>(), 8..250)) {
        if let Some(case) = case(&bytes) {
            let result = run(&case);
            prop_assert!(result.is_ok(), "{}", result.unwrap_err());
        }
    }
}

/// Documents in random style have far more anchors, comments and odd keys than those of users.
#[test]
fn few_edits_of_random_documents_are_refused() {
    let (mut count, mut refused) = (0, Vec::new());
    for seed in 0..300_u64 {
        let mut state = (seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut byte = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[4]
        };
        let bytes: Vec<_> = (0..120).map(|_| byte()).collect();
        let Some(case) = case(&bytes) else { continue };
        count += 1;
        refused.extend(run(&case).unwrap());
    }
    assert!(count > 250, "{count}");
    assert!(refused.len() * 8 < count, "{} of {count}: {refused:#?}", refused.len());
}
