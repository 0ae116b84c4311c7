//! Builds the built-in policies, each into a component in the directory that it passes on.

mod policies;

use std::error::Error;
use std::path::Path;
use std::{env, fs};

use opgate_pack::{Guest, build_components};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=policies.rs");
    let out = env::var("OUT_DIR")?;
    for policy in policies::POLICIES {
        for (_, component) in build_components(Guest::Package(&format!("opgate-{policy}")))? {
            let path = Path::new(&out).join(format!("{policy}.wasm"));
            // An unchanged file causes no further build.
            if fs::read(&path).ok().as_ref() != Some(&component) {
                fs::write(path, component)?;
            }
        }
    }
    println!("cargo::metadata=directory={out}");
    Ok(())
}
