//! The bindings of the SDK for C: `guest/c/src/wit.{h,c}`, generated from `wit/policy.wit`.
//!
//! They are in the repository, so that a policy in C needs a compiler and opgate, and no generator.

use std::path::Path;

use anyhow::{Context as _, Result};
use wit_bindgen_c::{Enabled, Opts};
use wit_bindgen_core::Files;
use wit_parser::Resolve;

/// Their directory.
const DIRECTORY: &str = "guest/c/src";

/// Returns the files by name.
fn generate_files(root: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let mut contract = Resolve::default();
    let package = contract.push_file(root.join("wit/policy.wit"))?;
    let world = contract.select_world(&[package], Some("cluster-policy"))?;
    let options = Opts {
        // `opgate policy pack` adds the type of the component.
        no_object_file: true,
        rename_world: Some("wit".to_owned()),
        // Handles that a call lends must be given back before it ends.
        autodrop_borrows: Enabled::Yes,
        ..Opts::default()
    };
    let mut files = Files::default();
    options.build().generate(&mut contract, world, &mut files)?;
    Ok(files.iter().map(|(name, content)| (name.to_owned(), content.to_vec())).collect())
}

/// Writes the files, and gives their names.
pub(crate) fn write(root: &Path) -> Result<String> {
    let directory = root.join(DIRECTORY);
    let mut written = Vec::new();
    for (name, content) in generate_files(root)? {
        let path = directory.join(&name);
        std::fs::write(&path, content).with_context(|| path.display().to_string())?;
        written.push(format!("{DIRECTORY}/{name}"));
    }
    Ok(format!("wrote {}", written.join(" and ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bindings_of_c_are_current() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for (name, content) in generate_files(root).unwrap() {
            let found = std::fs::read(root.join(DIRECTORY).join(&name)).unwrap();
            assert!(found == content, "{name} is stale: run `cargo xtask c-bindings`");
        }
    }
}
