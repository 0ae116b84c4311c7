//! Compiles the built-in policies to native code, which is embedded with their components.
//!
//! The components come from the build script of `opgate-builtin-components`. Each policy has three files here:
//! the component, whose digest identifies the policy (a host with other settings compiles it again), the
//! deflated component, which is embedded, and the image that wasmtime compiled from it. The list of files is
//! generated as `builtin.rs`.

#[path = "../builtin-components/policies.rs"]
mod policies;
#[path = "../engine/src/settings.rs"]
mod settings;

use std::error::Error;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;
use std::{env, fs};

use aws_lc_rs::digest::{SHA256, digest as hash};
use miniz_oxide::deflate::compress_to_vec;
use opgate_system::Image;

/// Compression level. Higher levels take much longer and save one percent.
const LEVEL: u8 = 9;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../builtin-components/policies.rs");
    println!("cargo::rerun-if-changed=../engine/src/settings.rs");
    let target = env::var("TARGET")?;
    let engine = wasmtime::Engine::new(&settings::config(&target, true)?).map_err(|error| {
        let processor = target.split('-').next().unwrap_or_default();
        format!("policies cannot be compiled for {target}; does `--features precompile-{processor}` help? {error:#}")
    })?;
    let out = env::var("OUT_DIR")?;
    let out = Path::new(&out);
    // Compiling all takes seconds, minutes with a compiler that was built without optimisation. What
    // the last run wrote serves again while neither the component nor the compiler has changed.
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    let compiler = hasher.finish().to_string();
    let stamp = out.join("compiler");
    let kept = fs::read_to_string(&stamp).is_ok_and(|last| last == compiler);
    if !kept && stamp.exists() {
        fs::remove_file(&stamp)?;
    }
    let mut list = String::from("&[\n");
    let components = env::var("DEP_OPGATE_BUILTIN_COMPONENTS_DIRECTORY")?;
    for policy in policies::POLICIES {
        let built = Path::new(&components).join(format!("{policy}.wasm"));
        println!("cargo::rerun-if-changed={}", built.display());
        let component = fs::read(&built)?;
        let wasm = out.join(format!("{policy}.wasm"));
        let (deflated, image) =
            (out.join(format!("{policy}.deflated")), out.join(format!("{policy}.image")));
        let is_there = kept && image.is_file() && deflated.is_file();
        // The component is written last: it identifies the input of the other files.
        if !is_there || fs::read(&wasm).ok().as_ref() != Some(&component) {
            fs::write(&image, Image::compile(&engine, &component)?.bytes())?;
            fs::write(&deflated, compress_to_vec(&component, LEVEL))?;
            fs::write(&wasm, &component)?;
        }
        let digest = digest(&component);
        let (deflated, image) = (deflated.display(), image.display());
        writeln!(
            list,
            "    Builtin {{ name: \"{policy}\", digest: \"{digest}\", deflated: include_bytes!(r\"{deflated}\"), image: opgate_system::embedded_image!(r\"{image}\") }},"
        )?;
    }
    fs::write(stamp, compiler)?;
    list.push_str("]\n");
    fs::write(out.join("builtin.rs"), list)?;
    Ok(())
}

/// `sha256:…` of a component, as the engine has it of others.
fn digest(component: &[u8]) -> String {
    let hash = hash(&SHA256, component);
    let hex = hash.as_ref().iter().map(|byte| format!("{byte:02x}"));
    std::iter::once("sha256:".to_owned()).chain(hex).collect()
}
