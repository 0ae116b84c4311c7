//! Findings as a tree, drawn as `opm validate` draws it.
//!
//! ```text
//! invalid index:
//! └── invalid package "etcd":
//!     ├── channel must contain …
//!     └── invalid channel "stable":
//!         └── …
//! ```

use std::collections::BTreeMap;
use std::io;

use crate::cli::output::DIMMED;

/// A node: what is said about it, and what is in it.
#[derive(Debug, Default)]
pub(super) struct Tree<'t> {
    lines: Vec<String>,
    /// By title, in the order of the titles.
    children: BTreeMap<&'t str, Tree<'t>>,
}

impl<'t> Tree<'t> {
    /// Says something about the node that the titles lead to.
    pub(super) fn add(&mut self, titles: impl IntoIterator<Item = &'t str>, line: String) {
        let mut node = self;
        for title in titles {
            node = node.children.entry(title).or_default();
        }
        node.lines.push(line);
    }

    /// Draws what is below the node. Calls go as deep as titles do, which are no more than five.
    pub(super) fn draw(&self, out: &mut impl io::Write, margin: &str) -> io::Result<()> {
        let mut left = self.lines.len() + self.children.len();
        let mut branch = || {
            left -= 1;
            if left == 0 { ("└── ", "    ") } else { ("├── ", "│   ") }
        };
        for line in &self.lines {
            let (branch, _) = branch();
            writeln!(out, "{DIMMED}{margin}{branch}{DIMMED:#}{line}")?;
        }
        for (title, node) in &self.children {
            let (branch, below) = branch();
            writeln!(out, "{DIMMED}{margin}{branch}{DIMMED:#}invalid {title}:")?;
            node.draw(out, &format!("{margin}{below}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_match_opm() {
        let mut tree = Tree::default();
        tree.add(["package \"b\"", "channel \"x\""], "one".to_owned());
        tree.add(["package \"a\"", "channel \"x\"", "bundle \"y\""], "two".to_owned());
        tree.add(["package \"a\"", "channel \"x\""], "three".to_owned());
        tree.add(["package \"a\"", "channel \"x\""], "four".to_owned());
        tree.add([], "five".to_owned());
        let mut out = Vec::new();
        tree.draw(&mut out, "").unwrap();
        let drawn = anstream::adapter::strip_str(&String::from_utf8(out).unwrap()).to_string();
        let expected = "\
├── five
├── invalid package \"a\":
│   └── invalid channel \"x\":
│       ├── three
│       ├── four
│       └── invalid bundle \"y\":
│           └── two
└── invalid package \"b\":
    └── invalid channel \"x\":
        └── one
";
        assert_eq!(drawn, expected);
    }
}
