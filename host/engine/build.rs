//! Tells the engine its build target, because policies are compiled for the same target, and its
//! version of wasmtime.

use std::error::Error;
use std::{env, fs};

/// The lock file of the workspace.
const LOCK: &str = "../../Cargo.lock";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=OPGATE_TARGET={}", env::var("TARGET")?);
    println!("cargo::rerun-if-changed={LOCK}");
    let lock = fs::read_to_string(LOCK)?;
    let found = lock.split("[[package]]").find_map(|package| {
        let rest = package.trim_start().strip_prefix("name = \"wasmtime\"\n")?;
        rest.strip_prefix("version = \"")?.split('"').next()
    });
    println!("cargo::rustc-env=OPGATE_WASMTIME={}", found.ok_or("no wasmtime in Cargo.lock")?);
    Ok(())
}
