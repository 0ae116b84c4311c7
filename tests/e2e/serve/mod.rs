//! `opgate serve`: the webhook, its cluster state, and what it writes to its cluster.

mod bypass;
mod cluster;
mod cluster_cache;
mod denial_events;
mod http;
mod identities;
mod large_csv;
mod log_lines;
mod managed_webhooks;
mod platform;
mod polled_resources;
mod recording;
mod reload;
mod samples;
mod scope;
mod self_managed_certificates;
mod settings;
mod shared_reservations;
mod token;
mod traces;
mod ui;
mod webhook_port;
