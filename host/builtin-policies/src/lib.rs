//! The components of the built-in policies, which the build script of this crate builds.
//!
//! ```text
//! build.rs: guest/policies ─▶ components ─▶ build.rs of opgate: native code ─▶ embedded in the binary
//! ```
//!
//! It is a crate of its own so that cargo builds policies next to the crates of the host, of which none uses
//! a component before the last one.
