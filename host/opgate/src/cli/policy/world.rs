//! Selects the WIT world of `wit/policy.wit` for a core module that does not declare one.
//!
//! ```text
//! module ─▶ a section `component-type`? ─┬─ yes: unchanged (the SDK for Rust writes it)
//!                                        └─ no: the WIT world for its imports, of the contract of this binary
//! ```
//!
//! Compilers of C write no such section, so that policies in C need nothing but a compiler and opgate.

use wasmparser::{Parser, Payload};
use wit_component::{StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// The contract of this version.
const CONTRACT: &str = include_str!("../../../../../wit/policy.wit");
const WORLD_SECTION_PREFIX: &str = "component-type";
const CLUSTER_IMPORT_PREFIX: &str = "opgate:policy/cluster@";

/// Adds the WIT world to the module. Other content stays unchanged: the encoder reports its errors.
///
/// # Errors
/// Fails if the WIT world cannot be encoded.
pub(super) fn with_world(mut module: Vec<u8>) -> anyhow::Result<Vec<u8>> {
    let Some(world) = missing_world(&module) else { return Ok(module) };
    let mut contract = Resolve::default();
    let package = contract.push_str("policy.wit", CONTRACT)?;
    let world = contract.select_world(&[package], Some(world))?;
    embed_component_metadata(&mut module, &contract, world, StringEncoding::UTF8)?;
    Ok(module)
}

/// Returns the WIT world that the module lacks.
fn missing_world(module: &[u8]) -> Option<&'static str> {
    let mut world = "policy";
    for payload in Parser::new(0).parse_all(module) {
        match payload.ok()? {
            Payload::CustomSection(section) if section.name().starts_with(WORLD_SECTION_PREFIX) => {
                return None;
            }
            Payload::ComponentSection { .. } | Payload::ComponentTypeSection(_) => return None,
            Payload::ImportSection(imports) => {
                for import in imports.into_imports() {
                    if import.ok()?.module.starts_with(CLUSTER_IMPORT_PREFIX) {
                        world = "cluster-policy";
                    }
                }
            }
            _ => {}
        }
    }
    Some(world)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a module with one import and one custom section, both empty for none.
    fn module(import: &str, section: &str) -> Vec<u8> {
        let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
        let part = |id: u8, content: Vec<u8>| {
            [vec![id, u8::try_from(content.len()).unwrap()], content].concat()
        };
        let mut bytes = b"\0asm\x01\0\0\0".to_vec();
        if !import.is_empty() {
            bytes.extend(part(1, vec![1, 0x60, 0, 0]));
            bytes.extend(part(2, [vec![1], text(import), text("f"), vec![0, 0]].concat()));
        }
        if !section.is_empty() {
            bytes.extend(part(0, text(section)));
        }
        bytes
    }

    #[test]
    fn wit_world_is_derived_from_the_imports() {
        for (import, section, world) in [
            ("", "", Some("policy")),
            ("opgate:policy/document@0.7.0", "opgate-docs", Some("policy")),
            ("opgate:policy/cluster@0.7.0", "", Some("cluster-policy")),
            ("opgate:policy/cluster@0.7.0", "component-type:policy", None),
        ] {
            assert_eq!(missing_world(&module(import, section)), world, "{import} {section}");
        }
        assert_eq!(missing_world(b"no module"), None);
    }

    #[test]
    fn module_with_a_wit_world_is_unchanged() {
        let says = module("", "component-type");
        assert_eq!(with_world(says.clone()).unwrap(), says);
        let says_not = module("", "");
        let packed = with_world(says_not.clone()).unwrap();
        assert!(packed.starts_with(&says_not) && missing_world(&packed).is_none());
    }
}
