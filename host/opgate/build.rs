//! Embeds the templates of `opgate policy new`, and sets the linker's options.

mod templates;

use std::env;
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=templates.rs");
    fold_identical_code();
    templates::embed(Path::new(&env::var("OUT_DIR")?))
}

/// Has the linker keep one of several functions with the same code, of which generic ones leave many:
/// a fortieth of the program. Nothing here compares functions by their addresses. Only LLD does it, which
/// is what the compiler comes with on this target.
fn fold_identical_code() {
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    // `-C link-arg=…`, `-Clinker=…`; paths in other flags may have these letters, too.
    let is_about_linking = |flag: &str| flag.trim_start_matches("-C").starts_with("link");
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let has_own_linker =
        env::var_os("RUSTC_LINKER").is_some() || flags.split('\u{1f}').any(is_about_linking);
    if is("TARGET", "x86_64-unknown-linux-gnu") && is("PROFILE", "release") && !has_own_linker {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
}
