//! Everything that the doctor can find, with its page: one table, by theme.
//!
//! ```text
//! Doc ─┬▶ checks: id and level of a finding
//!      ├▶ explain: the page of one
//!      └▶ pages: docs/doctor
//! ```

pub(super) mod cache;
pub(super) mod certificates;
pub(super) mod cluster;
pub(super) mod identities;
pub(super) mod lockout;
pub(super) mod others;
pub(super) mod permissions;
pub(super) mod reach;
pub(super) mod registration;
pub(super) mod replicas;
pub(super) mod servers;

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

/// How much harm something does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(super) enum Level {
    /// Requests fail now, or nobody judges them, or the cluster may not recover
    Critical,
    /// It hurts at the next update, failure or date
    Warning,
    /// It can be better
    Note,
}

impl Level {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Something that the doctor can find. Texts are Markdown.
#[derive(Debug)]
pub(super) struct Doc {
    /// `DOC-01`; part of the command line's contract.
    pub(super) id: &'static str,
    pub(super) level: Level,
    /// What is found, as a heading.
    pub(super) title: &'static str,
    /// How it is found, and what it does.
    pub(super) harm: &'static str,
    /// What to do.
    pub(super) repair: &'static str,
}

/// Findings about one thing, which share a page.
#[derive(Debug)]
pub(super) struct Theme {
    /// Name of the file, and end of its address.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) docs: &'static [&'static Doc],
}

/// All of them.
pub(super) const THEMES: [&Theme; 11] = [
    &registration::THEME,
    &reach::THEME,
    &certificates::THEME,
    &lockout::THEME,
    &servers::THEME,
    &permissions::THEME,
    &identities::THEME,
    &replicas::THEME,
    &cache::THEME,
    &others::THEME,
    &cluster::THEME,
];

/// All findings, in the order of their ids.
pub(super) fn docs() -> impl Iterator<Item = (&'static Theme, &'static Doc)> {
    THEMES.into_iter().flat_map(|theme| theme.docs.iter().map(move |doc| (theme, *doc)))
}

/// One by its id.
pub(super) fn doc(id: &str) -> Option<&'static Doc> {
    docs().map(|(_, doc)| doc).find(|doc| doc.id.eq_ignore_ascii_case(id))
}

/// `docs/doctor/reach.md#doc-10`
pub(super) fn page_of(id: &str) -> String {
    let theme = docs().find(|(_, doc)| doc.id == id).map_or("", |(theme, _)| theme.name);
    format!("docs/doctor/{theme}.md#{}", id.to_ascii_lowercase())
}

/// The section of a finding.
pub(super) fn section(doc: &Doc) -> String {
    let Doc { id, level, title, harm, repair } = doc;
    format!(
        "## {id}\n\n**{title}** ({level})\n\n{}\n\n### Repair\n\n{}\n",
        harm.trim(),
        repair.trim()
    )
}

/// The pages, by the names of their files.
pub(super) fn pages() -> BTreeMap<String, String> {
    const MADE: &str = "<!-- Made by `opgate doctor pages`. Change host/opgate/src/cli/doctor/catalog instead. -->";
    let mut files = BTreeMap::new();
    let mut index = format!(
        "# What the doctor finds\n\n[`opgate doctor`](../doctor.md) names each finding by its id. `opgate doctor explain ID` prints its section.\n\n{MADE}\n"
    );
    for Theme { name, title, docs } in THEMES {
        // Writing to a text does not fail.
        let _ = write!(
            index,
            "\n## [{title}]({name}.md)\n\n| id | level | what is found |\n|---|---|---|\n"
        );
        let mut page = format!("# {title}\n\n{MADE}\n");
        for doc in *docs {
            let Doc { id, level, title, .. } = doc;
            let anchor = id.to_ascii_lowercase();
            let _ = writeln!(index, "| [{id}]({name}.md#{anchor}) | {level} | {title} |");
            let _ = write!(page, "\n{}", section(doc));
        }
        files.insert(format!("{name}.md"), page);
    }
    files.insert("README.md".to_owned(), index);
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_in_order_and_texts_are_whole() {
        let ids: Vec<_> = docs().map(|(_, doc)| doc.id).collect();
        let mut sorted = ids.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(ids, sorted);
        for (theme, doc) in docs() {
            assert!(doc.id.starts_with("DOC-") && doc.id.len() == 6, "{doc:?}");
            assert!(!doc.title.ends_with('.') && doc.harm.trim().ends_with('.'), "{doc:?}");
            assert!(doc.repair.trim().len() > 20, "{doc:?}");
            let address = page_of(doc.id);
            let expected = format!("docs/doctor/{}.md#{}", theme.name, doc.id.to_lowercase());
            assert_eq!(address, expected);
        }
    }
}
