//! One rule denies, the other one only warns and does what its setting `do` says, also when it is asked
//! about nothing but the object of another.

#![allow(clippy::panic, clippy::indexing_slicing, reason = "the point of it")]

use opgate_hostile::{DESCRIPTOR, spin};
use opgate_sdk::{Descriptor, Document, Policy, Request, Rule, Verdict};

/// The policy.
#[derive(Debug)]
pub struct Advises;

opgate_sdk::export!(Advises);

const EVIL: Rule = DESCRIPTOR.rules[0];

impl Policy for Advises {
    fn describe() -> Descriptor {
        Descriptor {
            rules: &[
                EVIL,
                Rule { id: "ADVICE-1", title: "advice", enabled_by: &["/strict"], ..WARN },
                Rule { id: "ADVICE-2", title: "more advice", ..WARN },
            ],
            settings_schema: r#"{"type": "object", "properties": {"rules": {"type": "object"}, "do": {}, "strict": {}}}"#,
            ..DESCRIPTOR
        }
    }

    fn validate(
        _: &Request,
        object: Option<&Document>,
        _: Option<&Document>,
        settings: &Document,
    ) -> Verdict {
        let mut verdict = Verdict::default();
        let name = object.map(|object| object.text_or_empty("/metadata/name")).unwrap_or_default();
        if settings.text_or_empty("/rules/ADVICE-1") != "off" {
            match settings.text_or_empty("/do").as_str() {
                "spin" => drop(spin()),
                "grow" => {
                    let mut hoard: Vec<Vec<u8>> = Vec::new();
                    loop {
                        hoard.push(std::hint::black_box(vec![1; 1 << 20]));
                    }
                }
                "panic" => panic!("advice is dear"),
                _ => verdict.warn("ADVICE-1", "spec", "think twice"),
            }
        }
        if settings.text_or_empty("/rules/ADVICE-2") != "off" {
            verdict.warn("ADVICE-2", "spec", "think again");
        }
        if name == "bad" {
            verdict.deny("EVIL-1", "spec", "no");
        }
        verdict
    }
}

const WARN: Rule =
    Rule { kinds: EVIL.kinds, operations: EVIL.operations, source: "tests", ..Rule::WARN };
