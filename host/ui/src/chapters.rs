//! Chapters of the documents that rules cite: `OCP 4.12 L1099-1152` is in `Chapter 2. Understanding Operators`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Headings of the documents: edition, line, depth, title. `docs/coverage.md` has the same.
const TABLE: &str = include_str!("headings.tsv");

/// A chapter or a section.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Heading {
    /// The first line.
    line: usize,
    /// `OCP 4.12: Chapter 2. Understanding Operators`, which identifies the chapter.
    pub(crate) chapter: String,
    /// The titles of the sections, the outer one first: empty for a chapter.
    pub(crate) sections: String,
}

/// The headings of each edition, in the order of their lines.
static HEADINGS: LazyLock<BTreeMap<&'static str, Vec<Heading>>> =
    LazyLock::new(|| parse(TABLE).unwrap_or_default());

/// Parses the table. None if it is damaged.
fn parse(table: &'static str) -> Option<BTreeMap<&'static str, Vec<Heading>>> {
    let mut editions = BTreeMap::<_, Vec<Heading>>::new();
    let mut titles: Vec<&str> = Vec::new();
    for row in table.lines().filter(|row| !row.starts_with('#')) {
        let mut cells = row.split('\t');
        let edition = cells.next()?;
        let (line, depth) = (cells.next()?.parse().ok()?, cells.next()?.parse::<usize>().ok()?);
        titles.truncate(depth.checked_sub(1)?);
        titles.push(cells.next()?);
        let (chapter, sections) = titles.split_first()?;
        editions.entry(edition).or_default().push(Heading {
            line,
            chapter: format!("{edition}: {chapter}"),
            sections: sections.join(" › "),
        });
    }
    Some(editions)
}

/// Returns the headings above the lines that a source names, each once; none if it names no document.
pub(crate) fn headings_of(source: &str) -> Vec<&'static Heading> {
    let mut found: Vec<&Heading> = Vec::new();
    for part in source.split("; ") {
        let Some((edition, ranges)) = part.split_once(" L") else { continue };
        let Some(headings) = HEADINGS.get(edition) else { continue };
        for range in ranges.split(", L") {
            let first = range.split('-').next().and_then(|line| line.parse::<usize>().ok());
            let Some(first) = first else { continue };
            let above = headings.partition_point(|heading| heading.line <= first).checked_sub(1);
            let heading = above.and_then(|index| headings.get(index));
            found.extend(heading.filter(|heading| !found.contains(heading)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_name_chapters_and_sections() {
        let source = "OCP 4.12 L1099-1152, L1246, L1100; rukpak v0.16.0 x.go; OCP 4.12 Lx";
        let found: Vec<_> =
            headings_of(source).iter().map(|h| (&*h.chapter, &*h.sections)).collect();
        let chapter = "OCP 4.12: Chapter 2. Understanding Operators";
        assert_eq!(
            found,
            [
                (chapter, "Operator Framework packaging format › RukPak (Technology Preview)"),
                (chapter, "Operator Framework packaging format › BundleDeployment"),
            ]
        );
        for source in ["", "OCP 9.9 L1", "OCP 4.12 L1", "api deploy.go L5"] {
            assert!(headings_of(source).is_empty(), "{source}");
        }
    }

    #[test]
    fn every_row_of_the_table_is_read() {
        let rows = TABLE.lines().filter(|row| !row.starts_with('#')).count();
        assert!(rows > 500, "{rows}");
        assert_eq!(HEADINGS.values().map(Vec::len).sum::<usize>(), rows);
    }
}
