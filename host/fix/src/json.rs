//! JSON as nodes, as `opgate_yaml::tree` has them for YAML. The text was found to be JSON before.

use opgate_yaml::tree::{CollectionStyle, Element, Member, Node, NodeKind, ScalarStyle};

/// Parses the value that starts at an offset; none if there is none.
pub(crate) fn parse(text: &str, start: usize) -> Option<Node> {
    Parser { text, at: start }.value(0)
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
}

impl Parser<'_> {
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.byte(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Steps over a byte after white space, if it is there.
    fn take(&mut self, byte: u8) -> bool {
        self.skip_space();
        let is_there = self.byte() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    /// The depth is limited, and so is the recursion.
    fn value(&mut self, depth: usize) -> Option<Node> {
        self.skip_space();
        if depth > opgate_yaml::MAX_DEPTH {
            return None;
        }
        let start = self.at;
        let kind = match self.byte()? {
            b'{' => NodeKind::Map(CollectionStyle::Flow, self.members(depth)?),
            b'[' => NodeKind::List(CollectionStyle::Flow, self.elements(depth)?),
            b'"' => {
                self.string()?;
                NodeKind::Scalar(ScalarStyle::DoubleQuoted)
            }
            _ => {
                while self
                    .byte()
                    .is_some_and(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
                {
                    self.at += 1;
                }
                NodeKind::Scalar(ScalarStyle::Plain)
            }
        };
        (self.at > start).then_some(Node { start, end: self.at, is_marked: false, kind })
    }

    fn members(&mut self, depth: usize) -> Option<Vec<Member>> {
        self.at += 1;
        let mut members = Vec::new();
        if self.take(b'}') {
            return Some(members);
        }
        loop {
            self.skip_space();
            let start = self.at;
            self.string()?;
            let kind = NodeKind::Scalar(ScalarStyle::DoubleQuoted);
            let key = Node { start, end: self.at, is_marked: false, kind };
            let name = serde_json::from_str(self.text.get(start..self.at)?).ok();
            if !self.take(b':') {
                return None;
            }
            let value = self.value(depth.saturating_add(1))?;
            members.push(Member { name, is_merge: false, key, value });
            if self.take(b'}') {
                return Some(members);
            }
            if !self.take(b',') {
                return None;
            }
        }
    }

    fn elements(&mut self, depth: usize) -> Option<Vec<Element>> {
        self.at += 1;
        let mut elements = Vec::new();
        if self.take(b']') {
            return Some(elements);
        }
        loop {
            let value = self.value(depth.saturating_add(1))?;
            elements.push(Element { dash: value.start, value });
            if self.take(b']') {
                return Some(elements);
            }
            if !self.take(b',') {
                return None;
            }
        }
    }

    /// Steps over a text in quotes.
    fn string(&mut self) -> Option<()> {
        if self.byte() != Some(b'"') {
            return None;
        }
        self.at += 1;
        loop {
            match self.byte()? {
                b'"' => {
                    self.at += 1;
                    return Some(());
                }
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
    }
}
