//! Tells the engine for which target it is built: policies are compiled for the same one.

use std::env;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=OPGATE_TARGET={}", env::var("TARGET")?);
    Ok(())
}
