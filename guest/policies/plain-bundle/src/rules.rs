//! The rules, with their levels and sources: PBF-01 to PBF-04 are in `manifests`, PBF-05 is in
//! `objects`.

use opgate_sdk::{Operation, Rule};

const KINDS: &[&str] = &["PlainBundle"];

/// A folder is judged as it is, whether it is new or was published before.
pub(crate) const OPERATIONS: &[Operation] = &[Operation::Create, Operation::Update];

/// Every rule of the policy, in the order of their ids.
pub const RULES: &[Rule] = &[
    Rule {
        id: "PBF-01",
        title: "a plain bundle has the directory manifests/",
        kinds: KINDS,
        operations: OPERATIONS,
        source: "OCP 4.12 L1195-1213; OCP 4.15 L1048-1062, L21761-21772; OKD L441-455; rukpak v0.16.0 internal/provisioner/plain/plain.go",
        ..Rule::DENY
    },
    Rule {
        id: "PBF-02",
        title: "manifests/ holds at least one object",
        kinds: KINDS,
        operations: OPERATIONS,
        source: "OCP 4.12 L1213; OCP 4.15 L1062; OKD L453-456; rukpak v0.16.0 internal/provisioner/plain/plain.go",
        ..Rule::DENY
    },
    Rule {
        id: "PBF-03",
        title: "manifests/ has no subdirectories",
        kinds: KINDS,
        operations: OPERATIONS,
        source: "OCP 4.12 L1213; OCP 4.15 L1062; OKD L456; rukpak v0.16.0 internal/provisioner/plain/plain.go",
        ..Rule::DENY
    },
    Rule {
        id: "PBF-04",
        title: "manifests/ holds static manifests only",
        kinds: KINDS,
        operations: OPERATIONS,
        source: "OCP 4.12 L1215-1217; OCP 4.15 L1066-1068; OKD L457; rukpak v0.16.0 internal/provisioner/plain/plain.go",
        ..Rule::DENY
    },
    Rule {
        id: "PBF-05",
        title: "every object has apiVersion, kind and a name",
        kinds: KINDS,
        operations: OPERATIONS,
        source: "OCP 4.12 L1217; OCP 4.15 L1068; OKD L457",
        ..Rule::DENY
    },
];
