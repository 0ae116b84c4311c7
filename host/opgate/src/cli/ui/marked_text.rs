//! The texts of an input, with the locations of violations marked.

use std::collections::BTreeMap;

use maud::{Markup, html};
use opgate_text::html::{visible, visible_line};

use crate::cli::report::{ReportItem, ReportedViolation};

/// Maximum number of texts, of marks in one, and of its lines that are shown completely.
const MAX_TEXTS: usize = 20;
const MAX_MARKS: usize = 200;
const MAX_WHOLE_LINES: usize = 300;

/// Lines around a mark that are shown of a longer text.
const CONTEXT_LINES: u64 = 3;

/// Maximum characters of a line, and bytes of a message below it.
const MAX_LINE_CHARS: usize = 400;
const MAX_MESSAGE_BYTES: usize = 1_024;

/// The violations at lines of a text, by line.
type Marks<'r> = BTreeMap<u64, Vec<&'r ReportedViolation<'r>>>;

/// Renders the texts in which violations have locations. `text_of` returns the text of a file.
pub(super) fn render_marked_texts<'t>(
    items: &[ReportItem<'_>],
    text_of: impl Fn(&str) -> Option<&'t str>,
) -> Markup {
    let mut marks = BTreeMap::<&str, Marks<'_>>::new();
    for line in items.iter().flat_map(|item| &item.lines) {
        if let Some(location) = line.location {
            let of_file = marks.entry(&location.file).or_default();
            of_file.entry(location.line).or_default().push(line);
        }
    }
    let texts = marks.iter().filter_map(|(name, marks)| Some((*name, marks, text_of(name)?)));
    let texts: Vec<_> = texts.take(MAX_TEXTS).collect();
    html! {
        @if !texts.is_empty() {
            section {
                h2 #text { "Locations" }
                @for (name, marks, text) in texts {
                    h3 { (visible_line(name, MAX_MESSAGE_BYTES)) }
                    (render_text(text, marks))
                }
            }
        }
    }
}

fn render_text(text: &str, marks: &Marks<'_>) -> Markup {
    let is_whole = text.lines().take(MAX_WHOLE_LINES + 1).count() <= MAX_WHOLE_LINES;
    let is_near = |line: u64| {
        let around = line.saturating_sub(CONTEXT_LINES)..=line.saturating_add(CONTEXT_LINES);
        marks.range(around).next().is_some()
    };
    let shown = (1..).zip(text.lines()).filter(|(line, _)| is_whole || is_near(*line));
    let (mut before, mut rest) = (0, MAX_MARKS);
    html! {
        pre { @for (number, line) in shown {
            @if number > before + 1 { span.line { span.muted { "…" } } }
            @let found = marks.get(&number).map(Vec::as_slice).unwrap_or_default();
            @let found = found.get(..rest.min(found.len())).unwrap_or_default();
            (render_line(number, line, found))
            @let () = { before = number; rest -= found.len(); };
        } }
    }
}

fn render_line(number: u64, line: &str, violations: &[&ReportedViolation<'_>]) -> Markup {
    let column = violations.iter().filter_map(|violation| Some(violation.location?.column)).min();
    let start = column.map_or(u64::MAX, |column| column.saturating_sub(1));
    let start = usize::try_from(start).unwrap_or(usize::MAX);
    let mut characters = line.chars().take(MAX_LINE_CHARS);
    let before: String = characters.by_ref().take(start).collect();
    let marked: String = characters.collect();
    html! {
        span.line {
            span.count { (number) } "  " (visible(&before))
            @if column.is_some() {
                mark { (visible(if marked.is_empty() { " " } else { &marked })) }
            }
            @for violation in violations { (render_note(violation)) }
        }
    }
}

fn render_note(line: &ReportedViolation<'_>) -> Markup {
    let violation = line.violation;
    let class = if violation.waived.is_some() { "good" } else { violation.effect };
    html! {
        span.note {
            span.badge.(class) { @if violation.waived.is_some() { "waived " } (violation.effect) } " "
            a href={ "rules/" (violation.rule) } { (visible(&violation.rule)) } " "
            (visible_line(&violation.message, MAX_MESSAGE_BYTES))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::exit::ExitStatus;
    use crate::cli::report::{ReportLocation, ResultKind, Violation};

    fn render(text: &str, line: u64, column: u64) -> String {
        let violation = Violation {
            policy: "p".to_owned(),
            rule: "R-1".to_owned(),
            effect: "deny",
            field: String::new(),
            message: "no <b>".to_owned(),
            waived: None,
            fix: None,
        };
        let location =
            ReportLocation { file: "a.yaml".to_owned(), line, column, excerpt: String::new() };
        let item = ReportItem {
            source: "a.yaml",
            region: None,
            object: String::new(),
            outcome: ExitStatus::Denied,
            message: String::new(),
            time: None,
            lines: vec![ReportedViolation { violation: &violation, location: Some(&location) }],
            is_located: true,
            error: None,
            not_evaluated: None,
            result_kind: ResultKind::Denied,
        };
        render_marked_texts(&[item], |_| Some(text)).into_string()
    }

    #[test]
    fn location_is_marked_with_its_message() {
        let text = render("a: 1\n  b: <i>\u{202e}\nc: 3", 2, 6);
        let marked = "  b: <mark>&lt;i&gt;\\u{202e}</mark>";
        assert!(text.contains(marked), "{text}");
        assert!(text.contains("<a href=\"rules/R-1\">R-1</a> no &lt;b&gt;"), "{text}");
        assert_eq!(text.matches("class=\"line\"").count(), 3, "{text}");
    }

    #[test]
    fn long_text_is_shown_around_the_mark() {
        let lines: Vec<_> = (1..=1_000).map(|number| format!("line{number}:")).collect();
        let long = lines.join("\n");
        let text = render(&long, 500, 1);
        assert!(text.contains("<mark>line500:</mark>"), "{text}");
        for (line, expected) in [("line496:", false), ("line497:", true), ("line504:", false)] {
            assert_eq!(text.contains(line), expected, "{line}: {text}");
        }
    }

    #[test]
    fn location_outside_of_the_text_marks_nothing() {
        for (line, column) in [(9, 1), (u64::MAX, u64::MAX), (0, 0)] {
            assert!(!render("a: 1", line, column).contains("<mark>"), "{line}");
        }
        assert!(render("a: 1", 1, 99).contains("<mark> </mark>"));
    }
}
