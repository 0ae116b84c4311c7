//! Untrusted texts on HTML pages: visible control characters, and documentation as paragraphs.

use std::borrow::Cow;
use std::fmt::Write as _;

use maud::{Markup, html};

use crate::{is_control, one_line};

/// Returns a text in which control characters, and characters that change the direction or the width of the
/// text around them, are visible: `\u{202e}`. A line break stays, and is a space unless the style keeps it.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    let is_hidden = |c: char| is_control(c) && c != '\n' && c != '\t';
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) {
            // Writing to a text does not fail.
            let _ = write!(shown, "{}", c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// Returns a text as one line of at most `limit` bytes in which control characters are visible. The time does not
/// depend on the length of the text.
#[must_use]
pub fn visible_line(text: &str, limit: usize) -> String {
    let start: String = text.chars().take(limit.saturating_add(1)).collect();
    one_line(&visible(&start), limit)
}

/// A part of a documentation text.
#[derive(Debug, PartialEq, Eq)]
enum Block<'d> {
    Heading(&'d str),
    Paragraph(Vec<&'d str>),
    /// The items of a list, each with its lines.
    List(Vec<Vec<&'d str>>),
    Code(Vec<&'d str>),
}

/// Renders the Markdown of a documentation text: headings, paragraphs, lists, blocks of code, and code in a line.
/// Other markup is shown unchanged.
#[must_use]
pub fn render_docs(text: &str) -> Markup {
    html! {
        @for block in blocks(text) {
            @match block {
                Block::Heading(line) => h3 { (render_inline(&[line])) },
                Block::Paragraph(lines) => p { (render_inline(&lines)) },
                Block::List(items) => ul { @for lines in items { li { (render_inline(&lines)) } } },
                Block::Code(lines) => pre { code { (visible(&lines.join("\n"))) } },
            }
        }
    }
}

/// Returns the text below a heading, up to the next heading of the same depth. A comment in an example is no
/// heading.
#[must_use]
pub fn docs_section(docs: &str, heading: &str) -> Option<String> {
    let (mut is_code, mut found) = (false, None::<String>);
    for line in docs.lines() {
        is_code ^= line.starts_with("```");
        let is_heading = line.starts_with("# ") && !is_code;
        match &mut found {
            Some(_) if is_heading => break,
            Some(text) => {
                text.push_str(line);
                text.push('\n');
            }
            None if is_heading && line == heading => found = Some(String::new()),
            None => {}
        }
    }
    found.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    let (mut is_code, mut is_new) = (false, true);
    for line in text.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
            if is_code {
                blocks.push(Block::Code(Vec::new()));
            }
            is_new = true;
            continue;
        }
        let item = line.strip_prefix("* ").or_else(|| line.strip_prefix("- "));
        let heading = line.strip_prefix("# ").filter(|_| !is_code);
        if let Some(heading) = heading {
            blocks.push(Block::Heading(heading));
            is_new = true;
            continue;
        }
        match (blocks.last_mut(), item) {
            (Some(Block::Code(lines)), _) if is_code => lines.push(line),
            _ if line.trim().is_empty() => is_new = true,
            (Some(Block::List(items)), Some(item)) => items.push(vec![item]),
            (_, Some(item)) => blocks.push(Block::List(vec![vec![item]])),
            (Some(Block::Paragraph(lines)), None) if !is_new => lines.push(line),
            (Some(Block::List(items)), None) if !is_new => {
                items.last_mut().into_iter().for_each(|lines| lines.push(line.trim_start()));
            }
            (_, None) => blocks.push(Block::Paragraph(vec![line])),
        }
        is_new &= is_code || line.trim().is_empty();
    }
    blocks
}

/// Renders lines as one, with the texts between back quotes as code.
fn render_inline(lines: &[&str]) -> Markup {
    let line = lines.join(" ");
    let parts: Vec<_> = line.split('`').collect();
    // Without its second back quote, the last part is no code.
    let is_code = |index: usize| index % 2 == 1 && index + 1 < parts.len();
    html! {
        @for (index, part) in parts.iter().enumerate() {
            @if is_code(index) {
                code { (visible(part)) }
            } @else {
                @if index % 2 == 1 { "`" }
                (visible(part))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_made_visible() {
        for (text, expected) in [
            ("plain <b> ä", "plain <b> ä"),
            ("a\nb\tc", "a\nb\tc"),
            ("a\u{202e}b\u{1b}[31m\r", "a\\u{202e}b\\u{1b}[31m\\u{d}"),
        ] {
            assert_eq!(visible(text), expected, "{text:?}");
        }
    }

    #[test]
    fn visible_line_is_bounded() {
        let cases = [
            ("a<b>\u{202e}c\nd", "a<b>\\u{202e}c d".to_owned()),
            (&*"é".repeat(1_000), format!("{}…", "é".repeat(125))),
            (&*"\u{200b}".repeat(1_000), "\\u{200b}".repeat(31) + "\\u…"),
        ];
        for (text, expected) in cases {
            assert_eq!(visible_line(text, 253), expected);
        }
    }

    #[test]
    fn documentation_becomes_escaped_paragraphs_lists_and_code() {
        for (text, expected) in [
            ("Set `a: <b>`,\nor not.", "<p>Set <code>a: &lt;b&gt;</code>, or not.</p>"),
            ("One.\n\nTwo ` <i>.", "<p>One.</p><p>Two ` &lt;i&gt;.</p>"),
            (
                "Both:\n* one\n  more\n* two\n\nEnd.",
                "<p>Both:</p><ul><li>one more</li><li>two</li></ul><p>End.</p>",
            ),
            (
                "See:\n\n```yaml\na:\n\n  - `b`\n```\nEnd.",
                "<p>See:</p><pre><code>a:\n\n  - `b`</code></pre><p>End.</p>",
            ),
            ("```\nnot closed", "<pre><code>not closed</code></pre>"),
            (
                "One.\n# Why\nTwo.\n```\n# a comment\n```",
                "<p>One.</p><h3>Why</h3><p>Two.</p><pre><code># a comment</code></pre>",
            ),
        ] {
            assert_eq!(render_docs(text).into_string(), expected, "{text:?}");
        }
    }

    #[test]
    fn section_is_the_text_below_its_heading() {
        let docs =
            "x\n\n# Remediation\n\nSet it:\n\n```yaml\n# a comment\na: 1\n```\n\n# Accepted\n\ny\n";
        let remediation = docs_section(docs, "# Remediation");
        assert_eq!(remediation.as_deref(), Some("Set it:\n\n```yaml\n# a comment\na: 1\n```"));
        assert_eq!(docs_section("```\n# Remediation\n```\n", "# Remediation"), None);
        assert_eq!(docs_section("# Remediation\n\n# Why\n", "# Remediation"), None);
    }
}
