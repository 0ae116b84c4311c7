//! One rule denies, the other one only warns and does what its setting `do` says, also when it is asked
//! about nothing but the object of another.

#![allow(clippy::panic, clippy::indexing_slicing, reason = "the point of it")]

use opgate_hostile::{Hostile, deny, descriptor, rule, spin_forever, verdict, warn};
use opgate_sdk::bindings::opgate::policy::types::{Descriptor, Rule};
use opgate_sdk::{DefaultLevel, Document, Verdict};

/// The policy.
#[derive(Debug)]
pub struct Advises;

opgate_hostile::export!(Advises);

impl Hostile for Advises {
    fn describe() -> Descriptor {
        Descriptor {
            rules: vec![
                rule("EVIL-1", DefaultLevel::Deny),
                Rule { enabled_by: vec!["/strict".into()], ..rule("ADVICE-1", DefaultLevel::Warn) },
                rule("ADVICE-2", DefaultLevel::Warn),
            ],
            settings_schema: r#"{"type": "object", "properties": {"rules": {"type": "object"}, "do": {}, "strict": {}}}"#.into(),
            ..descriptor()
        }
    }

    fn validate(object: Option<&Document>, settings: &Document) -> Verdict {
        let mut verdict = verdict();
        let name = object.map(|object| object.text_or_empty("/metadata/name")).unwrap_or_default();
        if settings.text_or_empty("/rules/ADVICE-1") != "off" {
            match settings.text_or_empty("/do").as_str() {
                "spin" => drop(spin_forever()),
                "grow" => {
                    let mut hoard: Vec<Vec<u8>> = Vec::new();
                    loop {
                        hoard.push(std::hint::black_box(vec![1; 1 << 20]));
                    }
                }
                "panic" => panic!("advice is dear"),
                _ => warn(&mut verdict, "ADVICE-1", "spec", "think twice"),
            }
        }
        if settings.text_or_empty("/rules/ADVICE-2") != "off" {
            warn(&mut verdict, "ADVICE-2", "spec", "think again");
        }
        if name == "bad" {
            deny(&mut verdict, "EVIL-1", "spec", "no");
        }
        verdict
    }
}
