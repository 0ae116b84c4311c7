//! Pages of rules: requirement, rationale and remediation.
//!
//! The documentation comes from the components. A page is a section of Markdown, the same for
//! `opgate rules explain`, in SARIF and in `docs/rules/`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::Violation;
use opgate_admission::policy::{Configuration, Docs, Policy, PolicySet, Rule};
use opgate_text::html::docs_section;
use opgate_text::one_line;

/// The pages of the configured policies, and where they are published.
#[derive(Default)]
pub(in crate::cli) struct RulePages {
    /// By policy and rule.
    sections: BTreeMap<(String, String), String>,
    titles: BTreeMap<(String, String), String>,
    summaries: BTreeMap<(String, String), String>,
    remediations: BTreeMap<(String, String), String>,
    urls: BTreeMap<(String, String), String>,
    /// Policies whose rules are known only with the configuration: all but the built-in ones.
    foreign: BTreeSet<String>,
    /// The file of the configuration.
    configuration: Option<PathBuf>,
}

impl RulePages {
    /// Collects the addresses of all pages; their text only if it is `wanted`. A component that was removed
    /// meanwhile has none.
    pub(in crate::cli) fn of(configuration: &Configuration, set: &PolicySet, wanted: bool) -> Self {
        let configuration_file = configuration.path().map(Path::to_owned);
        let mut pages = Self { configuration: configuration_file, ..Self::default() };
        for policy in set.policies() {
            if policy.source.is_foreign() {
                pages.foreign.insert(policy.name.clone());
            }
            let docs = if wanted { configuration.docs_of(&policy.source) } else { Ok(Docs::new()) };
            let docs = docs.unwrap_or_default();
            for rule in &policy.descriptor.rules {
                let key = (policy.name.clone(), rule.id.clone());
                if let Some(url) = configuration.page_of(&policy.descriptor.name, &rule.id) {
                    pages.urls.insert(key.clone(), url);
                }
                if wanted {
                    let text = docs.get(&rule.id).map(String::as_str).unwrap_or_default();
                    pages.sections.insert(key.clone(), render_section(policy, rule, text));
                    pages.titles.insert(key.clone(), rule.title.clone());
                    if let Some(remediation) = docs_section(text, "# Remediation") {
                        pages.remediations.insert(key.clone(), remediation);
                    }
                    let summary = first_paragraph(text);
                    if !summary.is_empty() {
                        pages.summaries.insert(key, summary);
                    }
                }
            }
        }
        pages
    }

    /// Returns the page of a rule.
    pub(in crate::cli) fn page(&self, policy: &str, rule: &str) -> Option<&str> {
        self.sections.get(&(policy.to_owned(), rule.to_owned())).map(String::as_str)
    }

    /// Returns the requirement in one sentence.
    pub(in crate::cli) fn title(&self, policy: &str, rule: &str) -> Option<&str> {
        self.titles.get(&(policy.to_owned(), rule.to_owned())).map(String::as_str)
    }

    /// Returns the remediation, in Markdown.
    pub(in crate::cli) fn remediation(&self, policy: &str, rule: &str) -> Option<&str> {
        self.remediations.get(&(policy.to_owned(), rule.to_owned())).map(String::as_str)
    }

    /// Returns the requirement in a few sentences.
    pub(in crate::cli) fn summary(&self, policy: &str, rule: &str) -> Option<&str> {
        self.summaries.get(&(policy.to_owned(), rule.to_owned())).map(String::as_str)
    }

    /// Returns the address of the published page.
    pub(in crate::cli) fn url(&self, policy: &str, rule: &str) -> Option<&str> {
        self.urls.get(&(policy.to_owned(), rule.to_owned())).map(String::as_str)
    }

    /// Replaces the addresses of all pages.
    pub(in crate::cli) fn set_urls(&mut self, address: impl Fn(&str) -> String) {
        let keys = self.titles.keys();
        self.urls = keys.map(|key| (key.clone(), address(&key.1))).collect();
    }

    /// Lines that lead from violations to their pages: addresses, or else the command that prints them.
    pub(in crate::cli) fn help_lines<'v>(
        &self,
        violations: impl Iterator<Item = &'v Violation>,
    ) -> Vec<String> {
        let rules: BTreeSet<_> = violations.map(|v| (v.policy.as_str(), v.rule.as_str())).collect();
        let mut unpublished = BTreeSet::new();
        let mut lines = Vec::new();
        for (policy, rule) in rules {
            match self.url(policy, rule) {
                Some(url) => lines.push(format!("{rule}: {url}")),
                None => drop(unpublished.insert((rule, policy))),
            }
        }
        if !unpublished.is_empty() {
            let policies = unpublished.iter().map(|(_, policy)| *policy);
            let command = self.explain_command(policies);
            let mut rules: Vec<_> = unpublished.into_iter().map(|(rule, _)| rule).collect();
            rules.dedup();
            lines.push(format!("details: {command} {}", rules.join(" ")));
        }
        lines
    }

    /// Returns the command that prints pages of rules, which follow it. Those of the built-in policies need no
    /// configuration.
    pub(in crate::cli) fn explain_command<'p>(
        &self,
        mut policies: impl Iterator<Item = &'p str>,
    ) -> String {
        let command = "opgate rules explain".to_owned();
        match &self.configuration {
            Some(path) if policies.any(|policy| self.foreign.contains(policy)) => {
                format!("{command} --config {}", shell_word(&path.display().to_string()))
            }
            _ => command,
        }
    }
}

/// Returns a text as one argument of a shell.
pub(in crate::cli) fn shell_word(text: &str) -> String {
    let text = one_line(text, 1_024);
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+:@%=,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// Returns the section of a rule.
pub(in crate::cli) fn render_section(policy: &Policy, rule: &Rule, docs: &str) -> String {
    let mut page = format!("## {}\n\n{}\n\n", rule.id, escape_markdown(&rule.title));
    let operations: Vec<_> = rule.operations.iter().map(|o| o.as_str()).collect();
    // Writing to a text does not fail.
    if !rule.name.is_empty() {
        let _ = writeln!(page, "* Name: `{}`", rule.name);
    }
    let _ = writeln!(page, "* Policy: `{}`", policy.name);
    let default = rule.default.as_str();
    match policy.level(&rule.id) {
        Some(level) if level.as_str() != default => {
            let _ = writeln!(page, "* Level: {} (default: {default})", level.as_str());
        }
        _ => drop(writeln!(page, "* Level: {default}{}", levels_note(docs))),
    }
    if !rule.enabled_by.is_empty() {
        let settings = rule.enabled_by.iter().map(|pointer| format!("`{}`", dotted_path(pointer)));
        let settings = settings.collect::<Vec<_>>().join(", ");
        let what = if default == "off" { "Turned on by" } else { "Denies with" };
        let _ = writeln!(page, "* {what} the setting: {settings}");
    }
    let (files, requests): (Vec<_>, Vec<_>) =
        rule.kinds.iter().partition(|kind| represented_files(kind).is_some());
    if !requests.is_empty() {
        let requests = requests.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let _ = writeln!(page, "* Requests: {requests} ({})", operations.join(", "));
    }
    if !files.is_empty() {
        let files =
            files.into_iter().filter_map(|kind| represented_files(kind)).collect::<Vec<_>>();
        let _ = writeln!(page, "* Files: {}", files.join(", "));
    }
    for source in &rule.sources {
        let _ = writeln!(page, "* Source: {}", escape_markdown(source));
    }
    if !docs.is_empty() {
        page.push('\n');
        let mut is_code = false;
        let text = docs.split(LEVEL_HEADING).next().unwrap_or_default().trim_end();
        for line in text.lines() {
            is_code ^= line.starts_with("```");
            // The headings of a rule are below its own.
            let heading = if line.starts_with("# ") && !is_code { "##" } else { "" };
            let _ = writeln!(page, "{heading}{line}");
        }
    }
    page
}

/// Returns the files that a kind of `opgate.dev` represents; none for a kind of requests.
fn represented_files(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "RegistryBundle" => "registry+v1 bundles",
        "PlainBundle" => "plain+v0 bundles",
        "FileBasedCatalog" => "file-based catalogs",
        "OperatorProject" => "projects (watches.yaml)",
        "any manifest" => "manifests",
        _ => return None,
    })
}

/// Returns the text above the first heading, in one line.
fn first_paragraph(docs: &str) -> String {
    let lines = docs.lines().take_while(|line| !line.starts_with("# ")).map(str::trim);
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Returns the part of a requirement that a rule does not evaluate, and the component that does: the section
/// `# Gap` of its documentation, in one line.
pub(in crate::cli) fn unevaluated_part(docs: &str) -> Option<String> {
    let mut lines = docs.lines().skip_while(|line| *line != "# Gap");
    lines.next()?;
    let lines: Vec<_> = lines.take_while(|line| !line.starts_with("# ")).map(str::trim).collect();
    Some(lines.join(" ").trim().to_owned())
}

/// The last section of the documentation of a rule whose level depends on the input type: a list of the
/// input types in which it denies. The SDK writes it.
const LEVEL_HEADING: &str = "\n# Level\n";

/// Returns the input types in which a rule denies, if it does not deny in all: `bundle`.
pub(in crate::cli) fn denies_in(docs: &str) -> Option<Vec<String>> {
    let (_, list) = docs.split_once(LEVEL_HEADING)?;
    let names = list.lines().filter_map(|line| line.strip_prefix("* "));
    Some(names.map(str::to_lowercase).collect())
}

/// Returns ` in a bundle, warn elsewhere`.
pub(in crate::cli) fn levels_note(docs: &str) -> String {
    denies_in(docs).map_or_else(String::new, |names| {
        let mut names = names.iter().map(|name| format!("a {name}"));
        let first = names.next().unwrap_or_default();
        let names = names.fold(first, |text, name| format!("{text} and {name}"));
        format!(" in {names}, warn elsewhere")
    })
}

/// Converts `/rukpak/strictPaths` to the notation of the configuration.
fn dotted_path(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}

/// Escapes a text so that no part of it is markup.
pub(in crate::cli) fn escape_markdown(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "\\<")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_one_word_for_a_shell() {
        for (path, expected) in [
            ("../opgate.yaml", "../opgate.yaml"),
            ("my policies/opgate.yaml", "'my policies/opgate.yaml'"),
            ("it's.yaml", r"'it'\''s.yaml'"),
            ("$(reboot)", "'$(reboot)'"),
        ] {
            assert_eq!(shell_word(path), expected);
        }
    }

    #[test]
    fn gap_is_the_text_of_its_section() {
        let docs = "x\n\n# Gap\n\nNobody sees it,\nor nearly.\n\n# Why\n\ny\n";
        assert_eq!(unevaluated_part(docs).as_deref(), Some("Nobody sees it, or nearly."));
        assert_eq!(unevaluated_part("x\n\n# Gap").as_deref(), Some(""));
        let docs = "x\n\n# Why\n\ny\n\n# Level\n\n* Bundle\n* Catalog";
        assert_eq!(levels_note(docs), " in a bundle and a catalog, warn elsewhere");
        assert_eq!(levels_note("x"), "");
        assert_eq!(unevaluated_part("x\n\n# Why\n\n## Gap\n"), None);
    }
}
