//! Test results for pipelines: a test case for each item.

use std::io;
use std::time::Duration;

use super::page::RulePages;
use super::{ReportItem, ReportedViolation, UnreadableInput, count_outcomes};
use crate::cli::exit::ExitStatus;

/// Writes a suite of this name.
pub(in crate::cli) fn write(
    out: &mut impl io::Write,
    suite: &str,
    items: &[ReportItem<'_>],
    unread: &[UnreadableInput],
    pages: &RulePages,
) -> io::Result<()> {
    let [_, denied, failed] = count_outcomes(items);
    let (tests, errors) = (items.len() + unread.len(), failed + unread.len());
    let all: Duration = items.iter().filter_map(|item| item.time).sum();
    let time = all.as_secs_f64();
    let counts =
        format!("tests=\"{tests}\" failures=\"{denied}\" errors=\"{errors}\" time=\"{time:.6}\"");
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    writeln!(out, "<testsuites {counts}>")?;
    writeln!(out, "  <testsuite name=\"{suite}\" {counts}>")?;
    for item in items {
        let (class, name) = (escape_xml(item.source), escape_xml(&item.object));
        let time = item.time.map(|time| format!(" time=\"{:.6}\"", time.as_secs_f64()));
        let time = time.unwrap_or_default();
        writeln!(out, "    <testcase classname=\"{class}\" name=\"{name}\"{time}>")?;
        let line = |line: &ReportedViolation<'_>| {
            let at = item.is_located.then(|| format!("{}: ", line.describe_position(item.source)));
            let (at, v) = (at.unwrap_or_default(), line.violation);
            let text = format!("{} {} {}", v.effect, v.rule, line.sentence());
            escape_xml(&match &v.waived {
                None => format!("{at}{text}"),
                Some(waived) => format!("{at}waived {text} ({})", waived.sentence()),
            })
        };
        let (waived, counted): (Vec<_>, Vec<_>) =
            item.lines.iter().partition(|line| line.violation.waived.is_some());
        let mut lines: Vec<_> = counted.into_iter().map(line).collect();
        let mut output: Vec<_> = waived.into_iter().map(line).collect();
        let denials = item.lines.iter().map(|line| line.violation).filter(|v| v.denies());
        lines.extend(pages.help_lines(denials).iter().map(|lead| escape_xml(lead)));
        if item.outcome == ExitStatus::Ok {
            output = [std::mem::take(&mut lines), output].concat();
        }
        let (lines, message) = (lines.join("\n"), escape_xml(&item.message));
        match item.outcome {
            ExitStatus::Ok => {
                if let Some(why) = item.not_evaluated {
                    writeln!(
                        out,
                        "      <skipped message=\"not evaluated: {}\"/>",
                        escape_xml(why)
                    )?;
                }
            }
            ExitStatus::Denied | ExitStatus::Usage => {
                writeln!(out, "      <failure message=\"{message}\">{lines}</failure>")?;
            }
            ExitStatus::Engine => {
                writeln!(out, "      <error message=\"{message}\">{lines}</error>")?;
            }
        }
        if !output.is_empty() {
            writeln!(out, "      <system-out>{}</system-out>", output.join("\n"))?;
        }
        writeln!(out, "    </testcase>")?;
    }
    for UnreadableInput { source, line } in unread {
        let (source, line) = (escape_xml(source), escape_xml(line));
        writeln!(out, "    <testcase classname=\"{source}\" name=\"input\">")?;
        writeln!(out, "      <error message=\"{line}\"></error>")?;
        writeln!(out, "    </testcase>")?;
    }
    writeln!(out, "  </testsuite>\n</testsuites>")
}

/// Returns a text inside of XML.
pub(in crate::cli) fn escape_xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push_str("&#10;"),
            // XML 1.0 has no way to write other controls.
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}
