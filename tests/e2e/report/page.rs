//! Reads a page: its elements and attributes, and its text.

/// Elements without content and end tag.
const VOID_ELEMENTS: [&str; 1] = ["meta"];

/// An element of a page.
pub(super) struct Element {
    pub(super) name: String,
    attributes: Vec<(String, String)>,
}

impl Element {
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(is, _)| is == name).map(|(_, value)| value.as_str())
    }
}

/// A page in which every element is closed.
pub(super) struct Page {
    pub(super) elements: Vec<Element>,
    /// The texts, each on a line, without white space around them.
    pub(super) lines: Vec<String>,
    pub(super) style: String,
}

impl Page {
    pub(super) fn parse(html: &str) -> Self {
        let html = html.strip_prefix("<!DOCTYPE html>").unwrap_or_else(|| panic!("{html}"));
        let (head, rest) = html.split_once("<style>").unwrap();
        let (style, body) = rest.split_once("</style>").unwrap();
        assert!(!style.contains('<'), "{style}");
        let (mut elements, mut lines, mut open) = (Vec::new(), Vec::new(), Vec::new());
        for part in format!("{head}{body}").split('<').skip(1) {
            let (tag, text) = part.split_once('>').unwrap_or_else(|| panic!("{part}"));
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop().as_deref(), Some(name), "{part}");
            } else {
                let element = Element::parse(tag);
                if !VOID_ELEMENTS.contains(&element.name.as_str()) {
                    open.push(element.name.clone());
                }
                elements.push(element);
            }
            let text = unescape(text);
            lines.extend(Some(text.trim()).filter(|text| !text.is_empty()).map(str::to_owned));
        }
        assert!(open.is_empty(), "{open:?}");
        Self { elements, lines, style: style.to_owned() }
    }

    pub(super) fn has_line(&self, text: &str) -> bool {
        self.lines.iter().any(|line| line == text)
    }

    /// The line behind the one with this text.
    pub(super) fn line_behind(&self, text: &str) -> &str {
        let index = self.lines.iter().position(|line| line == text);
        &self.lines[index.unwrap_or_else(|| panic!("no {text}: {:?}", self.lines)) + 1]
    }

    pub(super) fn all<'p>(&'p self, name: &'p str) -> impl Iterator<Item = &'p Element> {
        self.elements.iter().filter(move |element| element.name == name)
    }
}

impl Element {
    fn parse(tag: &str) -> Self {
        let (name, mut rest) = tag.split_once(' ').unwrap_or((tag, ""));
        let mut attributes = Vec::new();
        while !rest.is_empty() {
            let (name, value) = rest.split_once("=\"").unwrap_or_else(|| panic!("{tag}"));
            let (value, more) = value.split_once('"').unwrap_or_else(|| panic!("{tag}"));
            attributes.push((name.to_owned(), unescape(value)));
            rest = more.trim_start();
        }
        Self { name: name.to_owned(), attributes }
    }
}

fn unescape(text: &str) -> String {
    let mut parts = text.split('&');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (entity, rest) = part.split_once(';').unwrap_or_else(|| panic!("{text}"));
        plain.push(match entity {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            _ => {
                let code = entity.strip_prefix('#').and_then(|code| code.parse().ok());
                code.and_then(char::from_u32).unwrap_or_else(|| panic!("&{entity};"))
            }
        });
        plain.push_str(rest);
    }
    plain
}
