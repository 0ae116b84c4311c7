//! Builds the hostile policies and the examples in Rust. Each one is a component in the directory
//! that `HOSTILE` or `EXAMPLES` names.

use std::error::Error;
use std::path::Path;
use std::{env, fs};

use opgate_pack::{Guest, build_components};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let out = env::var("OUT_DIR")?;
    println!("cargo::rustc-env=HOSTILE={out}");
    let hostile = Guest::Examples { package: "opgate-hostile", directory: "tests/hostile" };
    for (name, component) in build_components(hostile)? {
        fs::write(Path::new(&out).join(format!("{name}.wasm")), component)?;
    }
    let examples = Path::new(&out).join("examples");
    fs::create_dir_all(&examples)?;
    println!("cargo::rustc-env=EXAMPLES={}", examples.display());
    for name in examples_in_rust()? {
        for (_, component) in build_components(Guest::Package(&name))? {
            fs::write(examples.join(&name).with_extension("wasm"), component)?;
        }
    }
    Ok(())
}

/// Names of the directories, which are the names of the packages. Cargo watches only their sources,
/// and not what other builds leave there.
fn examples_in_rust() -> Result<Vec<String>, Box<dyn Error>> {
    let directory = Path::new("../examples");
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let manifest = path.join("Cargo.toml");
        if manifest.is_file() {
            println!("cargo::rerun-if-changed={}", manifest.display());
            println!("cargo::rerun-if-changed={}", path.join("src").display());
            names.extend(path.file_name().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}
