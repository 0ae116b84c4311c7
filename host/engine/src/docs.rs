//! The documentation of rules, from the component that contains it.
//!
//! A component can have custom sections `opgate-docs`, in itself or in its modules. Together they
//! are Markdown: for each rule a heading `## OPG_25` and the text after it. The SDK writes them
//! from the documentation comments of rules. They are never in the memory of a call.

use std::collections::BTreeMap;

use opgate_text::one_line;
use wasmparser::{Parser, Payload};

const SECTION: &str = "opgate-docs";
/// Maximum bytes of all sections together, and of a line. The rest is left out.
const MAX_SIZE: usize = 4 << 20;
const MAX_LINE: usize = 4 << 10;

/// Markdown by the ID of its rule.
pub type Docs = BTreeMap<String, String>;

/// The documentation in a component. Unreadable sections are ignored.
#[must_use]
pub fn docs(component: &[u8]) -> Docs {
    let mut pages = Docs::new();
    let mut room = MAX_SIZE;
    for payload in Parser::new(0).parse_all(component) {
        let Ok(payload) = payload else { return pages };
        let Payload::CustomSection(section) = payload else { continue };
        if section.name() != SECTION || section.data().len() > room {
            continue;
        }
        room = room.saturating_sub(section.data().len());
        let text = String::from_utf8_lossy(section.data());
        let mut page: Option<&mut String> = None;
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("## ") {
                page = Some(pages.entry(one_line(name, 64).replace('_', "-")).or_default());
            } else if let Some(page) = &mut page {
                // A documentation comment has a space after its slashes.
                let line = line.strip_prefix(' ').unwrap_or(line);
                page.push_str(one_line(line, MAX_LINE).trim_end());
                page.push('\n');
            }
        }
    }
    for page in pages.values_mut() {
        *page = page.trim().to_owned();
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A component with one section.
    fn component(data: &[u8]) -> Vec<u8> {
        let leb = |mut number: usize| {
            let mut bytes = Vec::new();
            loop {
                let byte = u8::try_from(number & 0x7f).unwrap();
                number >>= 7;
                bytes.push(if number > 0 { byte | 0x80 } else { byte });
                if number == 0 {
                    return bytes;
                }
            }
        };
        let name = [leb(SECTION.len()), SECTION.as_bytes().to_vec()].concat();
        let section = [leb(name.len() + data.len()), name, data.to_vec()].concat();
        [b"\0asm\x0d\0\x01\0\0".to_vec(), section].concat()
    }

    #[test]
    fn oversized_documentation_is_truncated_or_omitted() {
        let line = "x".repeat(10_000);
        let page = &docs(&component(format!("## A\n{line}\n").as_bytes()))["A"];
        assert!(page.len() <= MAX_LINE && page.ends_with('…'), "{}", page.len());
        let fits = format!("## A\n{}", "y\n".repeat(MAX_SIZE / 2 - 4));
        assert_eq!(docs(&component(fits.as_bytes())).len(), 1);
        let large = format!("## A\n{}", "y\n".repeat(MAX_SIZE / 2));
        assert!(docs(&component(large.as_bytes())).is_empty());
    }

    #[test]
    fn sections_of_components_are_sanitized() {
        let component = component(b"## X_1\n a\x1b[31mb\n\n # Why\n c \n## Y\n");
        let pages = docs(&component);
        assert_eq!(pages["X-1"], "a [31mb\n\n# Why\nc");
        assert_eq!(pages["Y"], "");
        assert!(docs(b"no wasm").is_empty() && docs(&component[..20]).is_empty());
    }
}
