//! The repository itself: architecture, words, what is published, and the fake API server of the tests.

mod architecture;
mod fake_api_server;
mod published_crates;
mod words;
