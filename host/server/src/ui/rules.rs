//! `/ui/rules` lists the rules of the active policies; `/ui/rules/ID` shows the documentation of one.

use maud::{Markup, html};
use opgate_admission::policy::{Policy, PolicySet, Rule};
use opgate_text::html::{render_docs, visible, visible_line};

use super::table::Table;

/// Maximum bytes of a search text, of a text in the list, and of the documentation of a rule.
const MAX_QUERY_BYTES: usize = 200;
const MAX_TEXT_BYTES: usize = 512;
const MAX_DOCS_BYTES: usize = 32 << 10;

/// Maximum bytes of the rows of the list.
const MAX_ROWS_BYTES: usize = 400 << 10;

/// Maximum number of kinds of a rule in the list.
const MAX_KINDS: usize = 6;

/// Maximum number of policies that have the same rule.
const MAX_SAME_RULES: usize = 4;

/// The last section of the documentation of a rule whose level depends on the input type. Requests have
/// no input type.
const LEVEL_HEADING: &str = "\n# Level\n";

fn rules(set: &PolicySet) -> impl Iterator<Item = (&Policy, &Rule)> {
    set.policies()
        .iter()
        .flat_map(|policy| policy.descriptor.rules.iter().map(move |rule| (policy.as_ref(), rule)))
}

/// Renders the rules in which the text occurs.
pub(super) fn render_list(set: &PolicySet, query: &str) -> Markup {
    let query = visible_line(query.trim(), MAX_QUERY_BYTES);
    let wanted = query.to_lowercase();
    let found: Vec<_> =
        rules(set).filter(|(policy, rule)| matches(policy, rule, &wanted)).collect();
    let table = Table {
        id: "rules",
        caption: "Rules of the active policies",
        headings: &["Rule", "Title", "Level", "Kinds", "Policy"],
        empty: "No rule contains this text.",
        max_bytes: MAX_ROWS_BYTES,
    };
    html! {
        h1 { "Rules" }
        form role="search" action="rules" method="get" {
            label for="q" { "Search" }
            input #q type="search" name="q" value=(query) maxlength=(MAX_QUERY_BYTES);
            button type="submit" { "Search" }
        }
        p { (found.len()) " of " (rules(set).count()) " rules" }
        (table.render(found.into_iter().map(|(policy, rule)| render_row(policy, rule))))
    }
}

/// Whether the id, the name, the title, a kind or the policy contains a text in lower case.
fn matches(policy: &Policy, rule: &Rule, wanted: &str) -> bool {
    let texts = [&rule.id, &rule.name, &rule.title, &policy.name];
    let mut texts = texts.into_iter().chain(&rule.kinds);
    wanted.is_empty() || texts.any(|text| text.to_lowercase().contains(wanted))
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
pub(super) fn render_rule(set: &PolicySet, id: &str) -> Option<Markup> {
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

fn render_source(source: &str) -> Markup {
    let is_url = source.starts_with("https://") && !source.contains(char::is_whitespace);
    html! {
        @if is_url { a href=(source) rel="noreferrer" { (visible(source)) } } @else { (visible(source)) }
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
