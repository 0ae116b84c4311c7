//! The rule browser: a list with a search and filters, and the documentation of one rule.

use std::collections::BTreeSet;

use maud::{Markup, html};
use opgate_admission::policy::{Policy, PolicySet, Rule};
use opgate_text::html::{render_docs, visible, visible_line};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::chapters::headings_of;
use super::query::parameter;
use super::table::Table;

/// Maximum bytes of a search text, of a text in the list, and of the documentation of a rule.
const MAX_QUERY_BYTES: usize = 200;
const MAX_TEXT_BYTES: usize = 512;
const MAX_DOCS_BYTES: usize = 32 << 10;

/// Maximum bytes of the rows of the list.
const MAX_ROWS_BYTES: usize = 380 << 10;

/// Maximum number of kinds of a rule in the list.
const MAX_KINDS: usize = 6;

/// Maximum number of choices of a filter, and bytes of one.
const MAX_CHOICES: usize = 200;
const MAX_CHOICE_BYTES: usize = 200;

/// Maximum number of policies that have the same rule.
const MAX_SAME_RULES: usize = 4;

/// The last section of the documentation of a rule whose level depends on the input type. Requests have
/// no input type.
const LEVEL_HEADING: &str = "\n# Level\n";

/// The rules that a list shows; all without texts.
#[derive(Debug, Default)]
pub struct RuleFilter {
    text: String,
    kind: String,
    chapter: String,
}

impl RuleFilter {
    /// Reads the parameters `q`, `kind` and `chapter` of a query.
    #[must_use]
    pub fn of(query: Option<&str>) -> Self {
        let value =
            |name, limit| visible_line(parameter(query, name).unwrap_or_default().trim(), limit);
        Self {
            text: value("q", MAX_QUERY_BYTES),
            kind: value("kind", MAX_CHOICE_BYTES),
            chapter: value("chapter", MAX_CHOICE_BYTES),
        }
    }

    fn matches(&self, policy: &Policy, rule: &Rule) -> bool {
        let is_of_kind =
            self.kind.is_empty() || rule.kinds.iter().any(|kind| choice(kind) == self.kind);
        is_of_kind
            && self.contains_text(policy, rule)
            && (self.chapter.is_empty() || chapters_of(rule).any(|chapter| chapter == self.chapter))
    }

    /// Whether the id, the name, the title, a kind, a source or the policy contains the text in any case.
    fn contains_text(&self, policy: &Policy, rule: &Rule) -> bool {
        let wanted = self.text.to_lowercase();
        let texts = [&rule.id, &rule.name, &rule.title, &policy.name];
        let mut texts = texts.into_iter().chain(&rule.kinds).chain(&rule.sources);
        wanted.is_empty() || texts.any(|text| text.to_lowercase().contains(&wanted))
    }
}

fn rules(set: &PolicySet) -> impl Iterator<Item = (&Policy, &Rule)> {
    set.policies()
        .iter()
        .flat_map(|policy| policy.descriptor.rules.iter().map(move |rule| (policy.as_ref(), rule)))
}

/// A text of a policy as a value of a filter.
fn choice(text: &str) -> String {
    visible_line(text, MAX_CHOICE_BYTES)
}

/// The chapters of the documents that a rule cites.
fn chapters_of(rule: &Rule) -> impl Iterator<Item = &'static str> {
    let found = rule.sources.iter().flat_map(|source| headings_of(source));
    found.map(|heading| heading.chapter.as_str())
}

/// Renders the rules that a filter matches.
#[must_use]
pub fn render_list(set: &PolicySet, filter: &RuleFilter) -> Markup {
    let found: Vec<_> = rules(set).filter(|(policy, rule)| filter.matches(policy, rule)).collect();
    let table = Table {
        id: "rules",
        caption: "Rules of the active policies",
        headings: &["Rule", "Title", "Level", "Kinds", "Policy"],
        empty: "No rule matches the search.",
        max_bytes: MAX_ROWS_BYTES,
    };
    html! {
        h1 { "Rules" }
        (render_form(set, filter))
        p #found role="status" { (found.len()) " of " (rules(set).count()) " rules" }
        (table.render(found.into_iter().map(|(policy, rule)| render_row(policy, rule))))
    }
}

fn render_form(set: &PolicySet, filter: &RuleFilter) -> Markup {
    let kinds: BTreeSet<_> =
        rules(set).flat_map(|(_, rule)| rule.kinds.iter().map(|kind| choice(kind))).collect();
    let chapters: BTreeSet<_> =
        rules(set).flat_map(|(_, rule)| chapters_of(rule).map(str::to_owned)).collect();
    html! {
        form role="search" action="rules" method="get" {
            div {
                label for="q" { "Search" }
                input #q type="search" name="q" value=(filter.text) maxlength=(MAX_QUERY_BYTES);
            }
            (render_select("kind", "Kind", "All kinds", &kinds, &filter.kind))
            @if !chapters.is_empty() {
                (render_select("chapter", "Chapter", "All chapters", &chapters, &filter.chapter))
            }
            button type="submit" { "Search" }
        }
    }
}

fn render_select(
    name: &str,
    label: &str,
    all: &str,
    choices: &BTreeSet<String>,
    selected: &str,
) -> Markup {
    html! {
        div {
            label for=(name) { (label) }
            select id=(name) name=(name) {
                option value="" { (all) }
                @for choice in choices.iter().take(MAX_CHOICES) {
                    option value=(choice) selected[choice == selected] { (choice) }
                }
            }
        }
    }
}

fn render_row(policy: &Policy, rule: &Rule) -> Markup {
    let kinds = rule.kinds.iter().take(MAX_KINDS).map(String::as_str).collect::<Vec<_>>();
    let more = rule.kinds.len().saturating_sub(MAX_KINDS);
    html! { tr {
        th scope="row" { a.nowrap href={ "rules/" (rule.id) } { (rule.id) } }
        td { (visible_line(&rule.title, MAX_TEXT_BYTES)) }
        td { (render_level(policy, rule)) }
        td {
            (visible_line(&kinds.join(", "), MAX_TEXT_BYTES))
            @if more > 0 { " and " (more) " more" }
        }
        td { (policy.name) }
    } }
}

fn render_level(policy: &Policy, rule: &Rule) -> Markup {
    let level = policy.effective_level(rule);
    let class = match level {
        "deny" => "deny",
        "warn" => "warn",
        _ => "muted",
    };
    html! { span.(class) { (level) } }
}

/// Renders a rule, from each policy that has it. None if no active policy has it.
#[must_use]
pub fn render_rule(set: &PolicySet, id: &str) -> Option<Markup> {
    let found: Vec<_> = rules(set).filter(|(_, rule)| rule.id == id).take(MAX_SAME_RULES).collect();
    let (_, first) = found.first()?;
    Some(html! {
        h1 { (first.id) }
        @for (policy, rule) in &found {
            section aria-labelledby={ "policy-" (policy.name) } {
                h2 id={ "policy-" (policy.name) } { (visible_line(&rule.title, MAX_TEXT_BYTES)) }
                (render_facts(set, policy, rule))
                (render_documentation(set, policy, rule))
            }
        }
    })
}

fn render_facts(set: &PolicySet, policy: &Policy, rule: &Rule) -> Markup {
    let operations: Vec<_> = rule.operations.iter().map(|operation| operation.as_str()).collect();
    let line = |texts: &[String]| visible_line(&texts.join(", "), MAX_TEXT_BYTES * 4);
    html! {
        dl {
            dt { "Policy" } dd { (policy.name) " (" (policy.mode.as_str()) ")" }
            @if !rule.name.is_empty() { dt { "Name" } dd { code { (rule.name) } } }
            dt { "Level" } dd { (render_level(policy, rule)) " (default: " (rule.default.as_str()) ")" }
            @if !rule.enabled_by.is_empty() {
                dt { "Settings" } dd { code { (line(&rule.enabled_by)) } }
            }
            dt { "Kinds" } dd { (line(&rule.kinds)) }
            dt { "Operations" } dd { (operations.join(", ")) }
            @for source in &rule.sources {
                dt { "Source" } dd { (render_source(source)) }
            }
            dt { "Details" }
            dd { @match set.rule_docs().page_of(&policy.descriptor.name, &rule.id) {
                Some(url) => a href=(url) rel="noreferrer" { (visible(&url)) },
                None => code { "opgate rules explain " (rule.id) },
            } }
        }
    }
}

/// Renders a source, with the chapters of the documents that it names. A chapter leads to its rules.
fn render_source(source: &str) -> Markup {
    let is_url = source.starts_with("https://") && !source.contains(char::is_whitespace);
    let cited = headings_of(source);
    html! {
        @if is_url { a href=(source) rel="noreferrer" { (visible(source)) } } @else { (visible(source)) }
        @if !cited.is_empty() {
            ul {
                @for heading in &cited {
                    @let parameter = utf8_percent_encode(&heading.chapter, NON_ALPHANUMERIC);
                    li {
                        a href={ "../rules?chapter=" (parameter) } { (heading.chapter) }
                        @if !heading.sections.is_empty() { " › " (heading.sections) }
                    }
                }
            }
        }
    }
}

fn render_documentation(set: &PolicySet, policy: &Policy, rule: &Rule) -> Markup {
    let docs = set.rule_docs().text(&policy.name, &rule.id).unwrap_or_default();
    let docs = docs.split(LEVEL_HEADING).next().unwrap_or_default();
    html! {
        @if docs.is_empty() {
            p { "The policy contains no documentation of the rule." }
        } @else if docs.len() > MAX_DOCS_BYTES {
            p { "The documentation is too long for this page." }
        } @else {
            (render_docs(docs))
        }
    }
}
