//! The components of the built-in policies, which the build script of this crate builds.
//!
//! ```text
//! build.rs: guest/policies ─▶ components ─▶ build.rs of opgate: native code ─▶ embedded in the binary
//! ```
//!
//! It is a separate crate so that cargo builds policies next to the crates of the host, of which only the last
//! one uses components.
