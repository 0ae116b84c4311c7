//! Builds the hostile policies; each is a component in the folder that `HOSTILE` names.

use std::error::Error;
use std::path::Path;
use std::{env, fs};

use opgate_pack::{Guest, components};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let out = env::var("OUT_DIR")?;
    println!("cargo::rustc-env=HOSTILE={out}");
    let hostile = Guest::Examples { package: "opgate-hostile", folder: "tests/hostile" };
    for (name, component) in components(hostile)? {
        fs::write(Path::new(&out).join(format!("{name}.wasm")), component)?;
    }
    Ok(())
}
