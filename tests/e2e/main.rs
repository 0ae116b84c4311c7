//! opgate from end to end: the binary as people, pipelines and API servers use it, and the host with
//! policies in process. One executable, because each that links the engine takes 110 to 150 MB and
//! seconds to link.
//!
//! Tests run at the same time, in any order and with any other: the system chooses the ports, each
//! test has a separate directory for files, and commands get their environment and current
//! directory as arguments. What needs the machine to itself is in `tests/serial`.

/// The binary under test.
const BINARY: &str = env!("CARGO_BIN_EXE_opgate-under-test");

mod alerts;
mod audit;
mod certs;
mod check;
mod cli;
mod config;
mod constraint;
mod diff;
mod doctor;
mod fix;
mod lsp;
mod manifests;
mod policy;
mod replay;
mod report;
mod repository;
mod rules;
mod serve;
mod ui;
