//! Tables.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;

use super::page::RulePages;
use super::tree::Tree;
use super::{
    AppliedWaiver, Counts, Excerpt, MAX_EXCERPT_CHARS, PolicyErrorRecord, ReportItem,
    ReportLocation, ReportedViolation, UnreadableInput, Violation,
};
use crate::cli::exit::ExitStatus;
use crate::cli::output::{DIMMED, ERROR, SUCCESS, WARNING};
use crate::cli::verbosity::is_quiet;
use opgate_text::one_line;

/// Writes a review: the request, and its violations below it.
pub(in crate::cli) fn write_review(
    out: &mut impl io::Write,
    item: &ReportItem<'_>,
) -> io::Result<()> {
    let (word, style) = match item.outcome {
        ExitStatus::Ok if item.not_evaluated.is_some() => ("not evaluated", WARNING),
        ExitStatus::Ok if item.lines.is_empty() => ("allow", SUCCESS),
        ExitStatus::Ok => ("allow", WARNING),
        ExitStatus::Denied | ExitStatus::Usage => ("deny", ERROR),
        ExitStatus::Engine => ("error", ERROR),
    };
    let (object, source) = (&item.object, one_line(item.source, 512));
    writeln!(out, "{style}{word:6}{style:#} {object}  {DIMMED}{source}{DIMMED:#}")?;
    for line in &item.lines {
        let Violation { effect: level, rule, .. } = line.violation;
        let (style, sentence) = (line.violation.style(), line.sentence());
        writeln!(out, "       {style}{level:5}{style:#} {rule} {sentence}")?;
    }
    if let Some(why) = item.not_evaluated {
        writeln!(out, "       not evaluated: {why}")?;
    }
    if let Some(PolicyErrorRecord { policy, cause }) = item.error {
        writeln!(out, "       {ERROR}error{ERROR:#} policy {policy}: {cause}")?;
    }
    Ok(())
}

/// Number of other locations that one line names. Repeated warnings share a line, unless all are requested.
const MAX_OTHER_LOCATIONS: usize = 3;

/// A violation in a file.
type ViolationRow<'i> = (&'i str, &'i ReportItem<'i>, &'i ReportedViolation<'i>);

/// Findings in files, in the order of a reader of the files.
pub(in crate::cli) fn write_violations<'i>(
    out: &mut impl io::Write,
    items: &'i [ReportItem<'i>],
    is_verbose: bool,
) -> io::Result<()> {
    let mut rows: Vec<ViolationRow<'i>> = Vec::new();
    for item in items {
        for line in item.lines.iter().filter(|line| line.violation.waived.is_none()) {
            rows.push((line.location.map_or(item.source, |place| &place.file), item, line));
        }
    }
    rows.sort_by_key(|(file, _, line)| (*file, line.location.map(|p| (p.line, p.column))));
    // A repeated violation is listed at its first location. Denials are always listed.
    let mut same: HashMap<(&str, &str), Vec<&ViolationRow<'i>>> = HashMap::new();
    let key = |line: &'i ReportedViolation<'i>| {
        (line.violation.rule.as_str(), line.violation.message.as_str())
    };
    for row in rows.iter().filter(|row| !is_verbose && !row.2.violation.denies()) {
        same.entry(key(row.2)).or_default().push(row);
    }
    let mut last = None;
    for (file, item, line) in &rows {
        let others = match same.remove(&key(line)) {
            Some(all) => all,
            None if is_verbose || line.violation.denies() => Vec::new(),
            // It is listed at the first location.
            None => continue,
        };
        if last.is_some_and(|last| last != file) {
            writeln!(out)?;
        }
        last = Some(file);
        let Violation { effect: level, rule, .. } = line.violation;
        let (at, style) = (line.describe_position(item.source), line.violation.style());
        write!(out, "{at}: {style}{level}{style:#} {rule} {}", line.sentence())?;
        match others.as_slice() {
            [] | [_] => writeln!(out)?,
            [_, others @ ..] => {
                writeln!(out, " {DIMMED}({}){DIMMED:#}", format_occurrences(others))?;
            }
        }
        if let Some(place) = line.location {
            write_excerpt(out, place)?;
        }
    }
    Ok(())
}

/// Formats the number of occurrences, and their other locations.
fn format_occurrences(others: &[&ViolationRow<'_>]) -> String {
    let count = format_thousands(others.len() + 1);
    if others.len() > MAX_OTHER_LOCATIONS {
        return format!("{count} times, first here; --verbose shows all");
    }
    let places: Vec<_> =
        others.iter().map(|(_, item, line)| line.describe_position(item.source)).collect();
    format!("{count} times, also at {}", places.join(", "))
}

/// Writes the waived violations: a line for each waiver, and its violations if all are requested.
pub(in crate::cli) fn write_waived(
    out: &mut impl io::Write,
    items: &[ReportItem<'_>],
    is_verbose: bool,
) -> io::Result<()> {
    // By the locations of the waivers, each with its violations.
    let mut waivers: BTreeMap<_, (&AppliedWaiver, Vec<_>)> = BTreeMap::new();
    let mut is_first = true;
    for item in items {
        for line in &item.lines {
            let Some(waived) = &line.violation.waived else {
                is_first = false;
                continue;
            };
            let place = (waived.at.file.as_str(), waived.at.line, waived.at.column);
            waivers.entry(place).or_insert((waived, Vec::new())).1.push((item, line));
        }
    }
    if !waivers.is_empty() && !is_first {
        writeln!(out)?;
    }
    for (waived, findings) in waivers.into_values() {
        let rule = findings.first().map_or("", |(_, line)| line.violation.rule.as_str());
        let (at, count) = (waived.at.describe(), format_thousands(findings.len()));
        let s = if findings.len() == 1 { "" } else { "s" };
        let why = waived.sentence();
        writeln!(out, "{at}: {SUCCESS}waived{SUCCESS:#} {rule} ({count} violation{s}): {why}")?;
        for (item, line) in findings.into_iter().filter(|_| is_verbose) {
            let (at, Violation { effect: level, rule, .. }) =
                (line.describe_position(item.source), line.violation);
            writeln!(out, "  {DIMMED}{at}: {level} {rule} {}{DIMMED:#}", line.sentence())?;
        }
    }
    Ok(())
}

/// Returns `5,000`.
pub(super) fn format_thousands(count: usize) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Writes the denials of a catalog in the format of `opm validate`: for each line its titles, from the
/// outermost to the innermost.
pub(in crate::cli) fn write_trees<'r>(
    out: &mut impl io::Write,
    denials: impl Iterator<Item = (&'r str, Vec<&'r str>, ReportedViolation<'r>)>,
) -> io::Result<()> {
    let mut trees: BTreeMap<&str, Tree<'_>> = BTreeMap::new();
    for (source, titles, line) in denials {
        let text = format!(
            "{}: {} {}",
            line.describe_position(source),
            line.violation.rule,
            line.sentence()
        );
        trees.entry(source).or_default().add(titles, text);
    }
    for (source, tree) in trees {
        writeln!(out, "\n{}: invalid index:", one_line(source, 1_024))?;
        tree.draw(out, "")?;
    }
    Ok(())
}

/// Writes the policy errors.
pub(in crate::cli) fn write_policy_errors(
    out: &mut impl io::Write,
    items: &[ReportItem<'_>],
) -> io::Result<()> {
    for item in items {
        if let Some(PolicyErrorRecord { policy, cause }) = item.error {
            let (source, object) = (one_line(item.source, 512), &item.object);
            writeln!(out, "{source}: {ERROR}error{ERROR:#} {object}: policy {policy}: {cause}")?;
        }
    }
    Ok(())
}

/// Maximum number of lines about objects that were not evaluated.
const MAX_NOT_EVALUATED_LINES: usize = 20;

/// Writes the objects that were not evaluated, with reasons.
pub(in crate::cli) fn write_not_evaluated(
    out: &mut impl io::Write,
    items: &[ReportItem<'_>],
    is_verbose: bool,
) -> io::Result<()> {
    let max = if is_verbose { usize::MAX } else { MAX_NOT_EVALUATED_LINES };
    let all: Vec<_> = items.iter().filter_map(|item| Some((item, item.not_evaluated?))).collect();
    for (item, why) in all.iter().take(max) {
        let (source, object) = (one_line(item.source, 512), &item.object);
        writeln!(out, "{source}: {WARNING}not evaluated{WARNING:#} {object}: {why}")?;
    }
    match all.len().saturating_sub(max) {
        0 => Ok(()),
        more => {
            writeln!(out, "and {} more not evaluated; --verbose shows all", format_thousands(more))
        }
    }
}

/// Writes the objects of a cluster that would be denied, each with the rules. There are `others` without results to
/// show.
pub(in crate::cli) fn write_denied_objects(
    out: &mut impl io::Write,
    items: &[ReportItem<'_>],
    others: usize,
) -> io::Result<()> {
    let rules = |item: &ReportItem<'_>| -> BTreeSet<String> {
        let denials = item.lines.iter().map(|line| line.violation).filter(|v| v.denies());
        denials.map(|violation| violation.rule.clone()).collect()
    };
    let refused = items.iter().map(|item| (item, rules(item))).filter(|(_, r)| !r.is_empty());
    let refused: Vec<_> = refused.collect();
    let (count, all) = (format_thousands(refused.len()), format_thousands(items.len() + others));
    let (style, end) = if refused.is_empty() { (SUCCESS, ".") } else { (ERROR, ":") };
    if items.iter().any(|item| !item.lines.is_empty()) {
        writeln!(out)?;
    }
    writeln!(out, "{style}{count} of {all} objects would be denied today{end}{style:#}")?;
    for (item, rules) in refused {
        let rules = rules.into_iter().collect::<Vec<_>>().join(" ");
        writeln!(out, "  {}  {DIMMED}{rules}{DIMMED:#}", item.object)?;
    }
    Ok(())
}

/// Writes the command that explains the rules that deny.
pub(in crate::cli) fn write_help_lines<'v>(
    out: &mut impl io::Write,
    pages: &RulePages,
    violations: impl Iterator<Item = &'v Violation>,
) -> io::Result<()> {
    if is_quiet() {
        return Ok(());
    }
    let lines = pages.help_lines(violations.filter(|violation| violation.denies()));
    if !lines.is_empty() {
        writeln!(out)?;
    }
    lines.iter().try_for_each(|line| writeln!(out, "{DIMMED}{line}{DIMMED:#}"))
}

/// Returns `3 passed, 1 denied, 0 errors`, with the counts of results that are not among the items.
pub(in crate::cli) fn summary(
    items: &[ReportItem<'_>],
    mut counts: Counts,
    unread: &[UnreadableInput],
) -> String {
    for item in items {
        counts.add(item.result_kind);
    }
    let unread = match unread.len() {
        0 => String::new(),
        count => format!(", {count} unreadable"),
    };
    format!("{}{unread}", counts.summary("passed"))
}

/// Writes the line of a location, with a mark below the column.
fn write_excerpt(out: &mut impl io::Write, place: &ReportLocation) -> io::Result<()> {
    let Some(Excerpt { text, column: mark }) = place.excerpt() else { return Ok(()) };
    let shown = one_line(&text, MAX_EXCERPT_CHARS * 4);
    let (number, space) = (place.line.to_string(), "");
    let margin = number.len();
    writeln!(out, "  {DIMMED}{number} |{DIMMED:#} {shown}")?;
    writeln!(out, "  {DIMMED}{space:margin$} |{DIMMED:#} {space:mark$}{ERROR}^{ERROR:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render_excerpt(line: u64, column: u64, excerpt: &str) -> String {
        let at = ReportLocation { file: String::new(), line, column, excerpt: excerpt.to_owned() };
        let mut out = Vec::new();
        write_excerpt(&mut out, &at).unwrap();
        anstream::adapter::strip_str(&String::from_utf8(out).unwrap()).to_string()
    }

    #[test]
    fn marker_is_printed_below_the_column() {
        assert_eq!(render_excerpt(12, 3, "  ä: x\r"), "  12 |   ä: x\n     |   ^\n");
        assert_eq!(render_excerpt(7, 2, "\tkey:"), "  7 |  key:\n    |  ^\n");
        assert_eq!(render_excerpt(1, 1, "  "), "");
        assert_eq!(render_excerpt(1, 9, "short"), "");
        let long = format!("{}X{}", "a".repeat(500), "b".repeat(500));
        let lines = render_excerpt(1, 501, &long);
        let (first, second) = lines.split_once('\n').unwrap();
        assert_eq!(first.find('X').unwrap(), second.find('^').unwrap());
        assert!(first.len() < 140);
    }

    #[test]
    fn counts_are_printed_with_thousands_separators() {
        let shown = [0, 999, 5_000, 1_234_567].map(format_thousands);
        assert_eq!(shown, ["0", "999", "5,000", "1,234,567"]);
    }
}
