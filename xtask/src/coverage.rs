//! `docs/coverage.md`: for each chapter of the documents, the rules that cite its lines.
//!
//! ```text
//! docs/rules/*.md  "* Source: OCP 4.12 L1152, …" of each rule ─┐
//! docs/gaps.md     lines that no rule decides ─────────────────┼─▶ docs/coverage.md
//! headings.tsv     where chapters and sections start ──────────┘
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};

/// The page, below the root of the workspace.
pub(crate) const PAGE_PATH: &str = "docs/coverage.md";
const RULES_DIR: &str = "docs/rules";
const GAPS_PATH: &str = "docs/gaps.md";

/// Editions as rules cite them, with their titles.
const EDITIONS: [(&str, &str); 4] = [
    ("OCP 4.12", "OpenShift Container Platform 4.12, Operators"),
    ("OCP 4.15", "OpenShift Container Platform 4.15, Operators (in Chinese)"),
    ("OCP 4.5", "OpenShift Container Platform 4.5, Operators"),
    ("OKD", "OKD 4.12, Operator Framework packaging format"),
];

const PAGE_HEADER: &str = "\
# Coverage of the documents

What opgate enforces of each chapter: the lines that rules cite in their sources, and the rules. Lines are those of the documents as plain
text; chapters and sections that are not listed say nothing that a rule decides. *Not decided* leads to the
[statements that no rule decides](gaps.md), with who does.

<!-- Made by `cargo xtask coverage`. Change the `source` of a rule instead. -->
";

/// Lines of an edition, the first and the last.
type LineRange = (usize, usize);

/// A chapter, a section or a part of one.
struct Heading<'t> {
    line: usize,
    /// 1 for a chapter.
    depth: usize,
    title: &'t str,
}

/// Returns the page, as it should be.
pub(crate) fn render_page(root: &Path) -> Result<String> {
    let mut cited = Citations::new();
    let mut files: Vec<_> = fs::read_dir(root.join(RULES_DIR))
        .context(RULES_DIR)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.sort();
    for path in files {
        let policy = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        read_rules(policy, &text, &mut cited)?;
    }
    let gaps = fs::read_to_string(root.join(GAPS_PATH)).context(GAPS_PATH)?;
    read_gaps(&gaps, &mut cited)?;
    render_citations(&cited, include_str!("../../host/ui/src/headings.tsv"))
}

/// By edition and lines: the links to what is said of them, in the order of the IDs.
type Citations = BTreeMap<&'static str, BTreeMap<LineRange, BTreeSet<(String, String)>>>;

/// Adds the citations of the editions in a source; other parts of it describe code.
fn add_citations(source: &str, key: &str, shown: &str, cited: &mut Citations) -> Result<()> {
    for part in source.split("; ") {
        let edition = EDITIONS.iter().find_map(|(edition, _)| {
            let rest = part.strip_prefix(edition)?.strip_prefix(" L")?;
            Some((*edition, rest))
        });
        let Some((edition, ranges)) = edition else {
            let is_code = !part.starts_with("OCP ") && !part.starts_with("OKD");
            ensure!(is_code, "{key}: {part:?} cites no known edition");
            continue;
        };
        for range in ranges.split(", L") {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let line = |text: &str| {
                text.parse().with_context(|| format!("{key}: {part:?} does not name lines"))
            };
            let lines = (line(first)?, line(last)?);
            ensure!(lines.0 <= lines.1, "{key}: {part:?} ends before it starts");
            let found = cited.entry(edition).or_default().entry(lines).or_default();
            found.insert((sort_key(key), shown.to_owned()));
        }
    }
    Ok(())
}

/// Returns `CSV-99` before `CSV-100`.
fn sort_key(id: &str) -> String {
    let (prefix, number) = id.split_once('-').unwrap_or((id, ""));
    format!("{prefix}-{number:0>3}")
}

/// Reads the sources of a page of rules.
fn read_rules(policy: &str, text: &str, cited: &mut Citations) -> Result<()> {
    let mut rule = None;
    for line in text.lines() {
        if let Some(id) = line.strip_prefix("## ") {
            rule = Some(id);
        } else if let (Some(source), Some(id)) = (line.strip_prefix("* Source: "), rule) {
            let link = format!("[{id}](rules/{policy}.md#{})", id.to_ascii_lowercase());
            add_citations(source, id, &link, cited)?;
            rule = None;
        }
    }
    Ok(())
}

/// Reads the second cell of each row of the tables.
fn read_gaps(text: &str, cited: &mut Citations) -> Result<()> {
    let rows = text.lines().filter(|line| line.starts_with("| "));
    for source in rows.filter_map(|row| row.split(" | ").nth(1)) {
        if source.starts_with("OCP ") || source.starts_with("OKD") {
            // After all rules.
            add_citations(source, "~", "[*not decided*](gaps.md)", cited)?;
        }
    }
    Ok(())
}

fn headings<'t>(table: &'t str, edition: &str) -> Result<Vec<Heading<'t>>> {
    let mut headings: Vec<Heading<'t>> = Vec::new();
    for row in table.lines().filter(|row| !row.starts_with('#')) {
        let [of, line, depth, title] = row.split('\t').collect::<Vec<_>>()[..] else {
            bail!("headings.tsv: {row:?} has not four cells");
        };
        if of == edition {
            let (line, depth) = (line.parse()?, depth.parse()?);
            let is_later = headings.last().is_none_or(|last| last.line <= line);
            ensure!(is_later, "headings.tsv: {row:?} is out of order");
            headings.push(Heading { line, depth, title });
        }
    }
    Ok(headings)
}

fn render_citations(cited: &Citations, table: &str) -> Result<String> {
    let mut page = PAGE_HEADER.to_owned();
    for (edition, title) in EDITIONS {
        let headings = headings(table, edition)?;
        // Writing to a text does not fail.
        let _ = write!(page, "\n## {edition}\n\n{title}.\n");
        let (mut chapter, mut section) = (None, None);
        for ((first, last), links) in cited.get(edition).into_iter().flatten() {
            let path = titles_above(&headings, *first);
            let [name, rest @ ..] = &path[..] else {
                bail!("{edition}: no chapter has line {first}");
            };
            if chapter != Some(*name) {
                let _ =
                    write!(page, "\n### {name}\n\n| section | lines | rules |\n|---|---|---|\n");
                (chapter, section) = (Some(*name), None);
            }
            let rest = rest.join(" › ");
            let shown = if section.as_ref() == Some(&rest) { "" } else { &rest };
            let range =
                if first == last { format!("L{first}") } else { format!("L{first}-{last}") };
            let links: Vec<_> = links.iter().map(|(_, link)| link.as_str()).collect();
            let _ = writeln!(page, "| {shown} | {range} | {} |", links.join(", "));
            section = Some(rest);
        }
    }
    Ok(page)
}

/// Returns the titles above a line, the chapter first.
fn titles_above<'t>(headings: &[Heading<'t>], line: usize) -> Vec<&'t str> {
    let mut path: Vec<&str> = Vec::new();
    for heading in headings.iter().take_while(|heading| heading.line <= line) {
        path.truncate(heading.depth.saturating_sub(1));
        path.push(heading.title);
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADINGS: &str = "\
# edition, line, depth, title
OCP 4.12\t10\t1\tChapter 1. One
OCP 4.12\t20\t2\tFirst
OCP 4.12\t30\t3\tPart
OCP 4.12\t40\t2\tSecond
OCP 4.12\t50\t1\tChapter 2. Two
OKD\t1\t1\tAll
";

    fn cited(sources: &[(&str, &str)]) -> Result<Citations> {
        let mut cited = Citations::new();
        for (id, source) in sources {
            read_rules("p", &format!("# p\n\n## {id}\n\nx\n\n* Source: {source}\n"), &mut cited)?;
        }
        Ok(cited)
    }

    #[test]
    fn rules_stand_where_their_lines_are() {
        let mut cited = cited(&[
            ("A-100", "OCP 4.12 L31-35, L12; code a/b.go, c.go"),
            ("A-99", "OCP 4.12 L31-35; OKD L2"),
            ("A-1", "OCP 4.12 L33, L55"),
        ])
        .unwrap();
        read_gaps("| a | OCP 4.12 L41, L31-35 | x |\n| a | pkg/x.go | y |\n", &mut cited).unwrap();
        let page = render_citations(&cited, HEADINGS).unwrap();
        let (_, page) = page.split_once("## OCP 4.12\n").unwrap();
        let expected = "
OpenShift Container Platform 4.12, Operators.

### Chapter 1. One

| section | lines | rules |
|---|---|---|
|  | L12 | [A-100](rules/p.md#a-100) |
| First › Part | L31-35 | [A-99](rules/p.md#a-99), [A-100](rules/p.md#a-100), [*not decided*](gaps.md) |
|  | L33 | [A-1](rules/p.md#a-1) |
| Second | L41 | [*not decided*](gaps.md) |

### Chapter 2. Two

| section | lines | rules |
|---|---|---|
|  | L55 | [A-1](rules/p.md#a-1) |

## OCP 4.15
";
        assert!(page.starts_with(expected), "{page}");
        assert!(page.ends_with("|  | L2 | [A-99](rules/p.md#a-99) |\n"), "{page}");
    }

    #[test]
    fn sources_that_cite_nothing_known_are_refused() {
        for source in ["OCP 4.13 L1", "OCP 4.12 lines 1", "OCP 4.12 L1-x", "OKD L9-8"] {
            assert!(cited(&[("A-1", source)]).is_err(), "{source}");
        }
        let early = render_citations(&cited(&[("A-1", "OCP 4.12 L3")]).unwrap(), HEADINGS);
        assert_eq!(early.unwrap_err().to_string(), "OCP 4.12: no chapter has line 3");
    }

    #[test]
    fn the_page_is_up_to_date() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let published = fs::read_to_string(root.join(PAGE_PATH)).unwrap_or_default();
        assert!(render_page(root).unwrap() == published, "run `cargo xtask coverage`");
    }
}
