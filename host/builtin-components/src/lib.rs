//! The components of the built-in policies, which the build script of this crate builds.
//!
//! ```text
//! build.rs: guest/policies ─▶ components ─▶ build.rs of builtin-policies: native code ─▶ embedded
//! ```
//!
//! It is a separate crate so that cargo builds policies next to the crates of the host, before the compiler of
//! native code is there.
