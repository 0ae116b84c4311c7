//! What the hostile policies under `examples/` share: a descriptor that matches every Bundle.

use opgate_sdk::{Descriptor, MatchRule, Operation, Rule};

/// Every CREATE and UPDATE of a Bundle, one rule, any settings.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "hostile",
    version: "0.0.1",
    title: "misbehaves",
    rules: &[Rule {
        id: "EVIL-1",
        title: "the policy behaves",
        kinds: &["Bundle"],
        operations: &[Operation::Create, Operation::Update],
        source: "tests",
        ..Rule::DENY
    }],
    matches: &[MatchRule {
        groups: &["core.rukpak.io"],
        versions: &["*"],
        resources: &["bundles"],
        operations: &[Operation::Create, Operation::Update],
        ..MatchRule::EMPTY
    }],
    reads: &[],
    settings_schema: r#"{"type": "object"}"#,
};

/// Goes on for ever, without the compiler noticing.
pub fn spin() -> u64 {
    let mut x = 0u64;
    loop {
        x = std::hint::black_box(x.wrapping_mul(31).wrapping_add(1));
        if x == u64::MAX && std::hint::black_box(false) {
            return x;
        }
    }
}
