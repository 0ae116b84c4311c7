//! Does in `validate` what its setting `do` says.
#![allow(clippy::panic, clippy::indexing_slicing, reason = "the point of it")]

use std::hint::black_box;

use opgate_hostile::{Handle, Hostile, deny, spin_forever, verdict, warn};
use opgate_sdk::bindings::opgate::policy::types::AuditAnnotation;
use opgate_sdk::{Document, Fix, Verdict};

/// The policy.
#[derive(Debug)]
pub struct Misbehaves;

opgate_hostile::export!(Misbehaves);

const SECRET: u64 = 0x5ec2_e75e_c2e7_5ec2;

/// Words in the 3 MiB that the leak test writes and then reads: three times the initial memory.
const WORDS: usize = 3 << 17;

/// Written by one evaluation, zero again in the next.
static STATIC: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

#[expect(unconditional_recursion, reason = "the point of it")]
fn recurse(depth: u64) -> u64 {
    black_box(recurse(black_box(depth + 1)) + 1)
}

/// A violation for each element of `/spec/list` that names its fix. The fix of a trap is worse than the trap.
fn list_fixes(object: Option<&Document>, verdict: &mut Verdict) {
    let elements = object.map(|object| object.texts("/spec/list")).unwrap_or_default();
    for (index, text) in elements.iter().enumerate() {
        let pointer = format!("/spec/list/{index}");
        let fix = match text.as_str() {
            "remove" => Some(Fix::safe("remove it").remove(pointer)),
            "replace" => Some(Fix::safe("replace it").set_text(pointer, "good")),
            "trap" => Some(Fix::safe("make it worse").set_text(pointer, "worse")),
            "worse" => None,
            _ => continue,
        };
        let count = if text == "worse" { 150 } else { 1 };
        for number in 0..count {
            deny(verdict, "EVIL-1", "spec.list", format!("{text} {index}.{number}"));
        }
        let last = verdict.violations.len() - 1;
        verdict.violations[last].fix = fix.map(Into::into);
    }
}

impl Hostile for Misbehaves {
    /// With `fixes-`, it does the rest only if there are to be fixes.
    fn validate_with_fixes(wants_fixes: bool, object: Option<&Handle>, own: &Handle) -> Verdict {
        let settings = Document::of(own);
        if !wants_fixes && settings.text_or_empty("/do").starts_with("fixes-") {
            let mut verdict = verdict();
            deny(&mut verdict, "EVIL-1", "spec", "no fixes");
            return verdict;
        }
        Self::validate_handles(object, own)
    }

    fn validate(object: Option<&Document>, settings: &Document) -> Verdict {
        use std::sync::atomic::Ordering::Relaxed;

        let mut verdict = verdict();
        let number = settings.integer("/number").unwrap_or(0).unsigned_abs();
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        match settings.text_or_empty("/do").trim_start_matches("fixes-") {
            "spin" => {
                spin_forever();
            }
            // Slow for one kind of object only.
            "spin-for-name" => {
                let name = object.map(|o| o.text_or_empty("/metadata/name")).unwrap_or_default();
                if name == settings.text_or_empty("/name") {
                    spin_forever();
                }
            }
            // So much, and no more.
            "work" => {
                let mut x = 1_u64;
                for _ in 0..number {
                    x = black_box(x.wrapping_mul(31).wrapping_add(1));
                }
            }
            "grow" => {
                let mut hoard: Vec<Vec<u8>> = Vec::new();
                loop {
                    hoard.push(black_box(vec![1; 1 << 20]));
                }
            }
            "recurse" => {
                recurse(0);
            }
            "panic" => panic!("out of cheese\n\u{1b}[31mredo from start"),
            "trap" => std::process::abort(),
            "many-violations" => {
                for _ in 0..number {
                    deny(&mut verdict, "EVIL-1", "spec", "no");
                }
            }
            // Each violation points to the same text: little memory here, a lot to copy.
            "long-violations" => {
                let message = "x".repeat(1 << 20);
                for _ in 0..number {
                    deny(&mut verdict, "EVIL-1", "spec", message.clone());
                }
            }
            "long-warning" => warn(&mut verdict, "EVIL-1", "spec", "y".repeat(number)),
            "many-warnings" => {
                for n in 0..number {
                    warn(
                        &mut verdict,
                        "EVIL-1",
                        "spec",
                        format!("warning {n} {}", "z".repeat(100)),
                    );
                }
            }
            "log" => {
                for _ in 0..number {
                    log(&"l".repeat(1 << 20));
                }
            }
            // Fixes of which only the last one is within the contract.
            "invalid-fixes" => {
                let large = format!("\"{}\"", "f".repeat(70_000));
                let many = (0..17).fold(Fix::safe("many"), |fix, _| fix.remove("/a"));
                for fix in [
                    Fix::safe("no edits"),
                    Fix::safe("t".repeat(300)).remove("/a"),
                    Fix::safe("no pointer").remove("a"),
                    Fix::safe("no JSON").set("/a", "{"),
                    Fix::safe("outside").move_file("/spec/files/0", "../x"),
                    Fix::safe("large").set("/a", large),
                    many,
                    Fix::safe("good").set("/a", "1"),
                ] {
                    deny(&mut verdict, "EVIL-1", "spec", "no");
                    let last = verdict.violations.len() - 1;
                    verdict.violations[last].fix = Some(fix.into());
                    verdict.violations[last].message = format!("no {last}");
                }
            }
            // A fix after which there are more violations.
            "harmful-fix" => {
                let has_more = object.is_some_and(|object| object.has("/spec/more"));
                for number in 0..=usize::from(has_more) {
                    deny(&mut verdict, "EVIL-1", "spec", format!("no {number}"));
                }
                let fix = Fix::safe("add more").set("/spec/more", "true");
                verdict.violations[0].fix = Some(fix.into());
            }
            // A fix after which there is another violation of the same rule.
            "swapping-fix" => {
                let is_other = object.is_some_and(|object| object.has("/spec/other"));
                let name = if is_other { "b" } else { "a" };
                deny(&mut verdict, "EVIL-1", &format!("spec.{name}"), format!("no {name}"));
                let fix = Fix::safe("swap").set("/spec/other", "true");
                verdict.violations[0].fix = (!is_other).then(|| fix.into());
            }
            "list-fixes" => list_fixes(object, &mut verdict),
            "unknown-rule" => deny(&mut verdict, "EVIL-2\n", "spec", "no"),
            "controls" => {
                deny(&mut verdict, "EVIL-1", "spec\u{7}.x", "a\nb\r\u{1b}[2Jc\u{202e}d\0e");
                warn(&mut verdict, "EVIL-1", "", "w\nx");
            }
            "bad-annotation" => verdict
                .audit_annotations
                .push(AuditAnnotation { key: "a/b\n".into(), value: "x".into() }),
            "many-annotations" => {
                let note =
                    |n: usize| AuditAnnotation { key: format!("k{n}"), value: "v".to_owned() };
                verdict.audit_annotations.extend((0..number).map(note));
            }
            "handles" => {
                let kept: Vec<_> = (0..number).filter_map(|_| settings.at("")).collect();
                black_box(kept.len());
            }
            "deep-json" => {
                let json = "[".repeat(number) + &"]".repeat(number);
                if let Err(why) = Document::parse(&json) {
                    deny(&mut verdict, "EVIL-1", "", why);
                }
            }
            // What the host keeps for a guest counts as the guest's.
            "parse" => {
                let json = format!("\"{}\"", "p".repeat(1 << 20));
                let kept: Vec<_> = (0..number).map(|_| Document::parse(&json)).collect();
                black_box(kept.len());
            }
            "chatter-and-panic" => {
                for n in 0..100 {
                    log(&format!("word {n}"));
                }
                panic!("after many words");
            }
            "write-secret" => {
                STATIC.store(SECRET, Relaxed);
                let memory = black_box(vec![SECRET; WORDS]);
                deny(&mut verdict, "EVIL-1", "", format!("{:x}", memory[WORDS - 1]));
            }
            "read-secret" => {
                // The allocator of the SDK returns fresh memory unchanged, so that this reads
                // whatever the host left in it.
                let memory = black_box(vec![0u64; WORDS]);
                let found = memory.iter().filter(|&&word| word != 0).count();
                if found > 0 || STATIC.load(Relaxed) != 0 {
                    deny(&mut verdict, "EVIL-1", "", format!("{found} words of the last call"));
                }
            }
            _ => {}
        }
        verdict
    }
}

fn log(message: &str) {
    use opgate_sdk::bindings::opgate::policy::log::{Severity, log};
    log(Severity::Info, message);
}
