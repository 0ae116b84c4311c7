//! Annotations of GitHub Actions: workflow commands, a line each.
//!
//! GitHub shows ten annotations of each level for a step, and drops the others without a word. So the first
//! ten of each level are annotations, and the others lines of the log.

use std::io;

use super::page::RulePages;
use super::{ReportItem, ReportedViolation, UnreadableInput};
use opgate_admission::policy::Effect;
use opgate_text::is_control;
use opgate_text::printed::printed;

/// Annotations of each level that GitHub shows for a step.
const MAX_ANNOTATIONS_PER_LEVEL: usize = 10;

/// Most characters of a title that are shown.
const MAX_TITLE_CHARS: usize = 200;

/// Levels of annotations, the most severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum AnnotationLevel {
    Error,
    Warning,
    Notice,
}

impl AnnotationLevel {
    fn of(effect: &str) -> Self {
        match effect {
            level if level == Effect::Deny.as_str() => Self::Error,
            level if level == Effect::Warn.as_str() => Self::Warning,
            _ => Self::Notice,
        }
    }

    fn command(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Notice => "notice",
        }
    }
}

/// A violation before it is written as a line.
struct Annotation {
    level: AnnotationLevel,
    /// Empty for standard input.
    file: String,
    /// From 1: line, column.
    position: Option<(u64, u64)>,
    title: String,
    text: String,
}

/// Writes all violations that count.
pub(in crate::cli) fn write(
    out: &mut impl io::Write,
    items: &[ReportItem<'_>],
    unreadable: &[UnreadableInput],
    pages: &RulePages,
) -> io::Result<()> {
    let mut all: Vec<_> = items.iter().flat_map(|item| annotations(item, pages)).collect();
    all.extend(unreadable.iter().map(|unreadable| {
        let (source, place) = unreadable.position();
        Annotation {
            level: AnnotationLevel::Error,
            file: annotation_path(source),
            position: place,
            title: "unreadable input".to_owned(),
            text: unreadable.line.clone(),
        }
    }));
    write_annotations(out, all)
}

/// Writes errors that are not violations: file, line, title and text of each.
pub(in crate::cli) fn write_failures(
    out: &mut impl io::Write,
    failures: impl Iterator<Item = (String, u64, String, String)>,
) -> io::Result<()> {
    let annotation = |(source, line, title, text): (String, u64, String, String)| Annotation {
        level: AnnotationLevel::Error,
        file: annotation_path(&source),
        position: Some((line, 1)),
        title,
        text,
    };
    write_annotations(out, failures.map(annotation).collect())
}

fn write_annotations(out: &mut impl io::Write, mut all: Vec<Annotation>) -> io::Result<()> {
    all.sort_by(|a, b| (a.level, &a.file, a.position).cmp(&(b.level, &b.file, b.position)));
    let mut counts = [0_usize; 3];
    let mut others = Vec::new();
    for annotation in all {
        let [errors, warnings, notices] = &mut counts;
        let count = match annotation.level {
            AnnotationLevel::Error => errors,
            AnnotationLevel::Warning => warnings,
            AnnotationLevel::Notice => notices,
        };
        *count += 1;
        if *count > MAX_ANNOTATIONS_PER_LEVEL {
            others.push(annotation);
        } else {
            writeln!(out, "{}", annotation.command())?;
        }
    }
    if !others.is_empty() {
        writeln!(out, "{} more, which GitHub would not show as annotations:", others.len())?;
    }
    others.iter().try_for_each(|other| writeln!(out, "{}", other.line()))
}

fn annotations<'i>(
    item: &'i ReportItem<'i>,
    pages: &'i RulePages,
) -> impl Iterator<Item = Annotation> + 'i {
    let counted = item.lines.iter().filter(|line| line.violation.waived.is_none());
    let found = counted.map(move |line: &ReportedViolation<'_>| {
        let violation = line.violation;
        let mut text = line.sentence();
        if !item.is_located {
            text = format!("{}: {text}", item.object);
        }
        for lead in pages.help_lines(std::iter::once(violation)) {
            text = format!("{text}\n{lead}");
        }
        let place = line.location.map(|at| (at.file.as_str(), Some((at.line, at.column))));
        let (source, place) = place.unwrap_or_else(|| item.position());
        Annotation {
            level: AnnotationLevel::of(violation.effect),
            file: annotation_path(source),
            position: place,
            title: format!("opgate: {} {}", violation.effect, violation.rule),
            text,
        }
    });
    let policy_error = item.error.map(|policy_error| {
        let (source, place) = item.position();
        Annotation {
            level: AnnotationLevel::Error,
            file: annotation_path(source),
            position: place,
            title: "opgate: policy error".to_owned(),
            text: format!("{}: {}", item.object, policy_error.sentence()),
        }
    });
    found.chain(policy_error)
}

/// Returns the path in GitHub's format; none for standard input.
fn annotation_path(source: &str) -> String {
    let source = source.strip_prefix("./").unwrap_or(source);
    if source == "-" { String::new() } else { source.to_owned() }
}

impl Annotation {
    fn command(&self) -> String {
        let mut properties = Vec::new();
        if !self.file.is_empty() {
            properties.push(format!("file={}", escape_property(&self.file)));
            if let Some((line, column)) = self.position {
                properties.push(format!("line={line},col={column}"));
            }
        }
        let title: String = self.title.chars().take(MAX_TITLE_CHARS).collect();
        properties.push(format!("title={}", escape_property(&title)));
        format!("::{} {}::{}", self.level.command(), properties.join(","), escape_data(&self.text))
    }

    /// Formats a line of the log. It never begins like a command, whatever the name of the file.
    fn line(&self) -> String {
        let place = self.position.map(|(line, column)| format!(":{line}:{column}"));
        let text =
            format!("{}{}: {}: {}", self.file, place.unwrap_or_default(), self.title, self.text);
        let text = opgate_text::one_line(&text.replace('\n', "; "), 8_192);
        format!("- {}", printed(&text))
    }
}

/// Returns a text after the last `::`, without what a terminal would act on.
fn escape_data(text: &str) -> String {
    let ends = |c: char| c == '\r' || c == '\n';
    let text: String =
        text.chars().map(|c| if is_control(c) && !ends(c) { ' ' } else { c }).collect();
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Returns the value of a property.
fn escape_property(text: &str) -> String {
    escape_data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotation(file: &str, text: &str) -> Annotation {
        Annotation {
            level: AnnotationLevel::Error,
            file: annotation_path(file),
            position: Some((7, 3)),
            title: "opgate: deny X-01".to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn characters_that_end_a_workflow_command_are_escaped() {
        for (file, text, expected) in [
            (
                "./a.yaml",
                "is wrong",
                "::error file=a.yaml,line=7,col=3,title=opgate%3A deny X-01::is wrong",
            ),
            (
                "a,b:c%.yaml",
                "50 %\n::add-mask::x\r",
                "::error file=a%2Cb%3Ac%25.yaml,line=7,col=3,title=opgate%3A deny X-01::50 %25%0A::add-mask::x%0D",
            ),
            ("-", "x", "::error title=opgate%3A deny X-01::x"),
            (
                "a\n::error::b\u{1b}[2J\u{200e}.yaml",
                "x",
                "::error file=a%0A%3A%3Aerror%3A%3Ab [2J .yaml,line=7,col=3,title=opgate%3A deny X-01::x",
            ),
        ] {
            assert_eq!(annotation(file, text).command(), expected);
        }
    }

    #[test]
    fn log_line_contains_no_runner_command() {
        let line = annotation("::stop-commands::x", "##[add-mask]y\nz").line();
        assert_eq!(line, "- ::stop-commands::x:7:3: opgate: deny X-01: ## [add-mask]y; z");
    }
}
