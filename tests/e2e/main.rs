//! opgate from end to end: the binary as people, pipelines and API servers use it, and the host with
//! policies in process. One executable, because each that links the engine takes 110 to 150 MB and
//! seconds to link.
//!
//! Tests run at the same time, in any order and with any other: ports are of the system's choice, files
//! are in folders of their own, and commands get their environment and current directory as arguments.
//! What cannot share the machine is in `alone`.

/// The binary under test.
const BINARY: &str = env!("CARGO_BIN_EXE_opgate-under-test");

mod architecture;
mod audit;
mod bypass;
mod check;
mod cli;
mod cli_config;
mod cli_help;
mod cli_pipelines;
mod cli_sarif;
mod cli_tools;
mod cli_voice;
mod cluster;
mod confined;
mod corpus;
mod diff;
mod doctor;
mod documented;
mod documents;
mod excerpt;
mod fake;
mod files;
mod follow;
mod gallery;
mod given;
mod hostile;
mod http;
mod identities;
mod imports;
mod installation;
mod kept;
mod manifests;
mod narrowed;
mod network;
mod platform;
mod policy_inspect;
mod policy_new;
mod policy_test;
mod polled;
mod port;
mod printed;
mod publishable;
mod registry;
mod reload;
mod repairs;
mod repository;
mod rules;
mod samples;
mod scope;
mod sent;
mod settings;
mod token;
mod undeclared;
mod vectors;
mod view;
mod waivers;
mod words;
mod worst;
