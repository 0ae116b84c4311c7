//! The documentation of rules, from the component that carries them.
//!
//! A component may have custom sections `opgate-docs` (in itself or in its modules). Together they are
//! Markdown: for each rule a heading `## OPG_25` and what follows it. The SDK writes them from the
//! documentation comments of rules; nothing of them is ever in the memory of a call.

use std::collections::BTreeMap;

use opgate_text::one_line;
use wasmparser::{Parser, Payload};

const SECTION: &str = "opgate-docs";
/// Bytes of all sections together, and of a line: more is left out.
const MAX_SIZE: usize = 4 << 20;
const MAX_LINE: usize = 4 << 10;

/// Markdown by the id of its rule.
pub type Docs = BTreeMap<String, String>;

/// The documentation that a component brings. What cannot be read brings none.
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

    #[test]
    fn sections_of_strangers_are_made_fit_to_print() {
        let mut component = b"\0asm\x0d\0\x01\0".to_vec();
        let data = b"## X_1\n a\x1b[31mb\n\n # Why\n c \n## Y\n";
        let name = SECTION.as_bytes();
        let length = u8::try_from(1 + name.len() + data.len()).unwrap();
        component.extend([0, length, u8::try_from(name.len()).unwrap()]);
        component.extend(name);
        component.extend(data);
        let docs = docs(&component);
        assert_eq!(docs["X-1"], "a [31mb\n\n# Why\nc");
        assert_eq!(docs["Y"], "");
        assert!(super::docs(b"no wasm").is_empty() && super::docs(&component[..20]).is_empty());
    }
}
