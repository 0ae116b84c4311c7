//! The symbols of a document: objects by kind and name, and what is in them.

use lsp_types::{DocumentSymbol, Range, SymbolKind};

use crate::lines::LineIndex;
use crate::outline::{Key, Outline};

/// Maximum number of symbols, and levels of them.
const MAX_SYMBOLS: usize = 10_000;
const MAX_LEVELS: usize = 6;

/// Returns the symbols of a text.
#[must_use]
pub fn symbols(text: &str, lines: &LineIndex, outline: &Outline) -> Vec<DocumentSymbol> {
    let mut left = MAX_SYMBOLS;
    let documents: Vec<_> = outline.documents().collect();
    let writer = SymbolWriter { text, lines, outline };
    match documents.as_slice() {
        // The members of a single document that is no object are shown without a symbol around them.
        [only] if writer.title(*only).is_none() => writer.children(*only, 1, &mut left),
        all => all.iter().filter_map(|document| writer.symbol(*document, 0, &mut left)).collect(),
    }
}

struct SymbolWriter<'t> {
    text: &'t str,
    lines: &'t LineIndex,
    outline: &'t Outline,
}

impl SymbolWriter<'_> {
    fn children(&self, node: usize, level: usize, left: &mut usize) -> Vec<DocumentSymbol> {
        if level > MAX_LEVELS {
            return Vec::new();
        }
        let children = self.outline.children(node);
        children.filter_map(|child| self.symbol(child, level, left)).collect()
    }

    #[allow(deprecated, reason = "the type has the member")]
    fn symbol(&self, node: usize, level: usize, left: &mut usize) -> Option<DocumentSymbol> {
        *left = left.checked_sub(1)?;
        let found = self.outline.nodes().get(node)?;
        let value = self.outline.text_of(self.text, node);
        let children = self.children(node, level + 1, left);
        let (name, kind) = match &found.key {
            Key::Document => {
                (self.title(node).unwrap_or_else(|| "document".to_owned()), SymbolKind::Class)
            }
            Key::Name(name) if children.is_empty() => (name.clone(), SymbolKind::Property),
            Key::Name(name) => (name.clone(), SymbolKind::Object),
            Key::Item(index) => {
                let named = ["name", "kind", "type", "rule"]
                    .iter()
                    .find_map(|key| self.outline.text_at(self.text, node, &[key]));
                (
                    named.or_else(|| value.clone()).unwrap_or_else(|| index.to_string()),
                    SymbolKind::Array,
                )
            }
        };
        let selection_range = self.range(&found.key_range);
        let range = self.range(&(found.key_range.start..found.end));
        Some(DocumentSymbol {
            // Clients reject empty names.
            name: if name.trim().is_empty() { "\"\"".to_owned() } else { name },
            detail: value.filter(|_| matches!(found.key, Key::Name(_))),
            kind,
            tags: None,
            deprecated: None,
            range,
            selection_range,
            children: (!children.is_empty()).then_some(children),
        })
    }

    fn range(&self, bytes: &std::ops::Range<usize>) -> Range {
        self.lines.range(self.text, bytes)
    }

    /// Returns `Deployment web`, or `olm.channel stable`.
    fn title(&self, document: usize) -> Option<String> {
        let text_at = |names: &[&str]| self.outline.text_at(self.text, document, names);
        let (kind, name) = match text_at(&["kind"]) {
            Some(kind) => (kind, text_at(&["metadata", "name"])),
            None => (text_at(&["schema"])?, text_at(&["name"])),
        };
        Some(name.map_or_else(|| kind.clone(), |name| format!("{kind} {name}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(text: &str) -> Vec<String> {
        fn add(symbols: &[DocumentSymbol], indent: usize, lines: &mut Vec<String>) {
            for symbol in symbols {
                let (start, end) = (symbol.range.start.line, symbol.range.end.line);
                let detail = symbol.detail.as_deref().map_or(String::new(), |d| format!(" ({d})"));
                lines.push(format!("{}{}{detail} {start}-{end}", " ".repeat(indent), symbol.name));
                add(symbol.children.as_deref().unwrap_or_default(), indent + 1, lines);
            }
        }
        let mut lines = Vec::new();
        add(&symbols(text, &LineIndex::of(text), &Outline::of(text)), 0, &mut lines);
        lines
    }

    #[test]
    fn objects_have_kind_and_name() {
        let text = "kind: Pod\nmetadata:\n  name: web\n---\nschema: olm.channel\nname: stable\nentries:\n- name: a.v1\n- x\n";
        assert_eq!(
            describe(text),
            [
                "Pod web 0-2",
                " kind (Pod) 0-0",
                " metadata 1-2",
                "  name (web) 2-2",
                "olm.channel stable 3-8",
                " schema (olm.channel) 4-4",
                " name (stable) 5-5",
                " entries 6-8",
                "  a.v1 7-7",
                "   name (a.v1) 7-7",
                "  x 8-8",
            ]
        );
        assert_eq!(describe("annotations:\n  a: b\n"), ["annotations 0-1", " a (b) 1-1"]);
        assert_eq!(describe("{\"\": 1}"), ["\"\" (1) 0-0"]);
    }
}
