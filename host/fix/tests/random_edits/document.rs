//! Random documents of YAML, in random style. Each comment is `# cN.`, with its own number.

use serde_json::Value;

use crate::choices::Choices;

const WORDS: &[&str] =
    &["x", "some words", "1", "1.0.0", "true", "~", "http://a.b/c", "it's", "a-b", "2024-01-01"];
const QUOTED: &[&str] = &["'x'", "\"y\"", "'it''s # no'", "\"a \\\"b\\\" # no\"", "''", "\"\""];
const ON_LINES: &[&str] = &["long|text", "'quoted|  text'", "\"more|quoted\\|text\"", "a|b|c"];
const LINES: &[&str] = &["text", "# no comment", "  deeper", "trailing  ", "key: value", "- item"];

/// Makes a document.
pub(crate) fn document(choices: &mut Choices<'_>) -> String {
    let mut writer = Writer {
        indent: choices.of(&[&2, &4, &1, &3]),
        list_indent: choices.of(&[&0, &2, &4]),
        line_ends: choices.of(&[&["\n"][..], &["\r\n"], &["\n", "\r\n"]]),
        comments: 0,
        names: 0,
        anchors: Vec::new(),
        has_marks: false,
        text: String::new(),
        choices,
    };
    writer.stream();
    writer.text
}

struct Writer<'c, 'b> {
    choices: &'c mut Choices<'b>,
    indent: &'static usize,
    list_indent: &'static usize,
    line_ends: &'static [&'static str],
    comments: usize,
    names: usize,
    anchors: Vec<String>,
    has_marks: bool,
    text: String,
}

impl Writer<'_, '_> {
    fn stream(&mut self) {
        self.has_marks = self.choices.one_in(4);
        let documents = 1 + self.choices.pick(8) / 7;
        for number in 0..documents {
            if number > 0 || self.choices.one_in(4) {
                if number == 0 && self.choices.one_in(6) {
                    self.text.push_str("%YAML 1.1");
                    self.line_end();
                }
                self.text.push_str("---");
                self.comment();
                self.line_end();
            }
            self.anchors.clear();
            match self.choices.pick(8) {
                7 => self.list(0, false, 0),
                6 => {
                    self.flow(2, 0);
                    self.comment();
                    self.line_end();
                }
                _ => self.map(0, false, 0),
            }
            self.comment_lines(0);
            if self.choices.one_in(12) {
                self.text.push_str("...");
                self.line_end();
            }
        }
        if self.choices.one_in(4) {
            self.text.truncate(self.text.trim_end_matches(['\r', '\n']).len());
        }
    }

    fn add(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn line_end(&mut self) {
        let end = self.choices.of(self.line_ends);
        self.text.push_str(end);
    }

    fn spaces(&mut self, count: usize) {
        self.text.push_str(&" ".repeat(count));
    }

    fn comment_text(&mut self) {
        self.comments += 1;
        self.add(&format!("# c{}.", self.comments));
    }

    /// A comment behind something.
    fn comment(&mut self) {
        if self.choices.one_in(4) {
            let space = self.choices.of(&[" ", "  ", "\t"]);
            self.text.push_str(space);
            self.comment_text();
        } else if self.choices.one_in(16) {
            self.text.push(' ');
        }
    }

    /// Comments and empty lines above something.
    fn comment_lines(&mut self, column: usize) {
        while self.choices.one_in(5) {
            if self.choices.one_in(3) {
                let count = self.choices.of(&[&0, &2]);
                self.spaces(*count);
            } else {
                let deeper = self.choices.of(&[&0, &0, &0, &2]);
                self.spaces(column + deeper);
                self.comment_text();
            }
            self.line_end();
        }
    }

    fn name(&mut self) -> String {
        self.names += 1;
        let number = self.names;
        match self.choices.pick(12) {
            8 => format!("'k{number}'"),
            9 => format!("\"k{number}\""),
            10 => format!("{number}0"),
            11 => format!("a.b/k-{number}"),
            _ => format!("k{number}"),
        }
    }

    fn map(&mut self, column: usize, is_behind_dash: bool, depth: usize) {
        for number in 0..=self.choices.pick(4) {
            if number > 0 || !is_behind_dash {
                self.comment_lines(column);
                self.spaces(column);
            }
            if self.has_marks && self.choices.one_in(10) && !self.anchors.is_empty() && number == 0
            {
                let anchor = self.anchors[self.choices.pick(self.anchors.len())].clone();
                self.add(&format!("<<: *{anchor}"));
                self.comment();
                self.line_end();
                continue;
            }
            let name = self.name();
            if self.choices.one_in(40) {
                self.add(&format!("? {name}"));
                self.comment();
                self.line_end();
                self.spaces(column);
                self.text.push(':');
            } else {
                let colon = self.choices.of(&[":", ":", ":", ":", ":", " :"]);
                self.add(&format!("{name}{colon}"));
            }
            self.value(column, depth, false);
        }
    }

    fn list(&mut self, column: usize, is_behind_dash: bool, depth: usize) {
        for number in 0..=self.choices.pick(4) {
            if number > 0 || !is_behind_dash {
                self.comment_lines(column);
                self.spaces(column);
            }
            self.text.push('-');
            self.value(column, depth, true);
        }
    }

    /// A value behind a colon or a dash, with the end of its line.
    fn value(&mut self, column: usize, depth: usize, is_element: bool) {
        if self.has_marks {
            self.mark();
        }
        let deeper = column + self.indent;
        let kind = self.choices.pick(if depth > 3 { 10 } else { 18 });
        match kind {
            3 => self.end_of_line(),
            4 => self.block_scalar(column),
            5 => self.text_on_lines(deeper),
            6 if !self.anchors.is_empty() && !self.text.ends_with(['g', 'z']) => {
                let anchor = self.anchors[self.choices.pick(self.anchors.len())].clone();
                self.add(&format!(" *{anchor}"));
                self.end_of_line();
            }
            7 | 8 => {
                self.text.push(' ');
                self.flow(0, deeper);
                self.end_of_line();
            }
            9 => {
                self.end_of_line();
                self.comment_lines(deeper);
                self.spaces(deeper);
                self.scalar(false);
                self.end_of_line();
            }
            10..=12 if is_element && !self.text.ends_with(['g', 'z']) => {
                let spaces = self.choices.of(&[&1, &1, &3]);
                self.spaces(*spaces);
                self.map(column + 1 + spaces, true, depth + 1);
            }
            13 if is_element && !self.text.ends_with(['g', 'z']) => {
                self.spaces(1);
                self.list(column + 2, true, depth + 1);
            }
            10..=14 => {
                self.end_of_line();
                self.map(deeper, false, depth + 1);
            }
            15..=17 => {
                self.end_of_line();
                let column = if is_element { deeper } else { column + self.list_indent };
                self.list(column, false, depth + 1);
            }
            _ => {
                let space = self.choices.of(&[" ", " ", " ", "  "]);
                self.text.push_str(space);
                self.scalar(false);
                self.end_of_line();
            }
        }
    }

    fn end_of_line(&mut self) {
        self.comment();
        self.line_end();
    }

    /// An anchor, which ends with `z`, or a tag, which ends with `g`.
    fn mark(&mut self) {
        if self.choices.one_in(8) {
            let anchor = format!("a{}z", self.anchors.len());
            self.add(&format!(" &{anchor}"));
            self.anchors.push(anchor);
        } else if self.choices.one_in(12) {
            self.text.push_str(" !tag");
        }
    }

    fn scalar(&mut self, is_in_brackets: bool) {
        let text = match self.choices.pick(3) {
            1 => self.choices.of(QUOTED),
            _ => self.choices.of(WORDS),
        };
        self.text.push_str(if is_in_brackets && text.contains(':') { "x" } else { text });
    }

    fn text_on_lines(&mut self, column: usize) {
        let text = self.choices.of(ON_LINES);
        self.text.push(' ');
        for (number, line) in text.split('|').enumerate() {
            if number > 0 {
                self.line_end();
                self.spaces(column);
            }
            self.text.push_str(line);
        }
        self.end_of_line();
    }

    fn block_scalar(&mut self, column: usize) {
        let header = self.choices.of(&["|", "|-", ">", ">-", "|+", ">+", "|2", "|2-"]);
        let indent = if header.contains('2') { &2 } else { self.choices.of(&[&2, &4, &1]) };
        self.add(&format!(" {header}"));
        self.end_of_line();
        for number in 0..=self.choices.pick(4) {
            if number > 0 && self.choices.one_in(4) {
                self.line_end();
                continue;
            }
            self.spaces(column + indent);
            let line = if number == 0 { "first" } else { self.choices.of(LINES) };
            self.text.push_str(line);
            self.line_end();
        }
    }

    /// A collection in brackets; `column` is that of its lines.
    fn flow(&mut self, depth: usize, column: usize) {
        let is_map = self.choices.one_in(2) || depth == 2;
        let is_on_lines = self.choices.one_in(2);
        let count = self.choices.pick(4);
        self.text.push(if is_map { '{' } else { '[' });
        for number in 0..count {
            self.space_in_brackets(is_on_lines, column);
            if is_map {
                let name = self.name();
                self.add(&format!("{name}: "));
            }
            if depth < 2 && self.choices.one_in(5) {
                self.flow(depth + 1, column + self.indent);
            } else {
                self.scalar(true);
            }
            if number + 1 < count || self.choices.one_in(6) {
                self.text.push(',');
                if number + 1 < count && !is_on_lines {
                    self.text.push(' ');
                }
            }
        }
        if is_on_lines {
            self.comment();
            self.line_end();
            let less = self.choices.of(&[&0, &1]);
            self.spaces(column.max(1) - less.min(&column));
        }
        self.text.push(if is_map { '}' } else { ']' });
    }

    fn space_in_brackets(&mut self, is_on_lines: bool, column: usize) {
        if is_on_lines {
            self.comment();
            self.line_end();
            self.comment_lines(column + 1);
            self.spaces(column + 1);
        }
    }
}

/// Writes a value as JSON, in random style.
pub(crate) fn json(choices: &mut Choices<'_>, value: &Value) -> String {
    let indent = choices.of(&["  ", "    ", "\t", ""]);
    let mut json = value.to_string();
    if !indent.is_empty() {
        let pretty = serde_json::to_string_pretty(value).unwrap();
        let lines = pretty.split('\n').map(|line| {
            let content = line.trim_start();
            indent.repeat((line.len() - content.len()) / 2) + content
        });
        json = lines.collect::<Vec<_>>().join("\n");
    }
    if choices.one_in(2) {
        json.push('\n');
    }
    if choices.one_in(4) { json.replace('\n', "\r\n") } else { json }
}
