//! Gives the hostile policies the memory that small policies have, see `host/pack`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|architecture| architecture == "wasm32") {
        for flag in ["-zstack-size=65536", "--initial-memory=131072"] {
            println!("cargo::rustc-link-arg={flag}");
        }
    }
}
