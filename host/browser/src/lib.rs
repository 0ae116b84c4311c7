//! The host of policies in a browser: a component that evaluates reviews without a server.
//!
//! A policy imports documents, the request, the cluster and a log. This component exports them, from the crates
//! that the server uses: a script gives the exports of one instance as imports to an instance of the policy.
//!
//! ```text
//! text of a user ─▶ inputs ─▶ review ─▶ LoadedPolicy::begin ─▶ Call ─▶ validate (the policy) ─▶ finish ─▶ decision
//!                                          ▲                    │            │
//! descriptor, configuration ─▶ load ───────┘                    └─ cluster ◀─┘ imports: request, document, cluster, log
//! ```
//!
//! The matches, levels and effects of `opgate-admission` are repeated here, because that crate contains the engine
//! and the client of the API server. A test compares all cases of all built-in policies with the binary.
//!
//! Everything runs on one thread, one call at a time. A policy error during an import is recorded in the call, and
//! replaces the verdict: a trap would end this component, too.

#![cfg_attr(
    not(target_arch = "wasm32"),
    allow(dead_code, reason = "only the component has exports; elsewhere, tests use the crate")
)]

mod bindings;
mod call;
mod cases;
mod cluster;
mod configuration;
mod decision;
mod documents;
mod exports;
mod inputs;
mod loaded_policy;
mod matching;
mod queries;
mod requests;
mod review;
mod settings;
