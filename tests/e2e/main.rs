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
mod cluster_cache;
mod confined;
mod corpus;
mod diff;
mod doctor;
mod documented;
mod documented_webhooks;
mod documents;
mod fake;
mod files;
mod gallery;
mod http;
mod identities;
mod imports;
mod installation;
mod large_csv;
mod managed_webhooks;
mod manifests;
mod match_conditions;
mod network;
mod partial_snapshot;
mod platform;
mod policy_cases;
mod policy_inspect;
mod policy_new;
mod policy_test;
mod polled_resources;
mod printed;
mod publishable;
mod registry;
mod reload;
mod remediation;
mod repository;
mod review_input;
mod rules;
mod samples;
mod scope;
mod self_managed_certificates;
mod settings;
mod token;
mod undeclared;
mod waivers;
mod webhook_port;
mod words;
