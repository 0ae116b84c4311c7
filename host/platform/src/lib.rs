//! Where operating systems differ, for the whole host: files, processes, signals.
//!
//! ```text
//! other crates ─▶ files, process, signals ─┬▶ unix      (Linux, macOS)
//!                                          └▶ portable  (Windows, and any other system)
//! ```
//!
//! No other crate names an operating system, but `opgate-system` (unsafe code) and the confinement of
//! processes in `opgate-engine`, which is for Linux. `portable` uses the standard library alone. It is
//! also compiled for the tests, which run on both.

pub mod files;
pub mod process;
pub mod signals;

#[cfg(any(not(unix), test))]
mod portable;
mod shared;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
use portable as system;
#[cfg(unix)]
use unix as system;

#[cfg(test)]
mod tests;
