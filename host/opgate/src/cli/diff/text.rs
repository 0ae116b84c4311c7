//! A difference as text: one section for each kind, `+` for additions, `-` for removals, `~` for
//! what is different.

use std::collections::BTreeMap;
use std::io::{self, Write};

use anstyle::Style;
use serde_json::Value;

use super::change::{Change, Difference, FieldChange, ObjectChange, RequestChange, RuleChange};
use super::facts::PolicyMatch;
use super::reviews::{DecisionSummary, ReviewDifferences};
use crate::cli::output::{ERROR, SUCCESS, WARNING};
use opgate_text::one_line;

/// Bytes of a value.
const MAX_VALUE_BYTES: usize = 400;

/// Writes everything that differs.
///
/// # Errors
/// Writes the differences as text.
pub(super) fn write(out: &mut impl Write, difference: &Difference) -> io::Result<()> {
    let Difference { general, policies, rules, requests, webhooks, permissions, reads, .. } =
        difference;
    if !general.is_empty() {
        writeln!(out, "configuration")?;
        for field in general {
            write_line(out, Change::Changed, &format_field(field))?;
        }
    }
    if !policies.is_empty() {
        writeln!(out, "policies")?;
        for policy in policies {
            write_policy(out, policy)?;
        }
    }
    if !rules.is_empty() {
        write_rules(out, rules)?;
    }
    if !requests.is_empty() {
        writeln!(out, "requests that API servers send")?;
        for one in requests {
            write_requests(out, one)?;
        }
    }
    if !webhooks.is_empty() {
        writeln!(out, "webhooks")?;
        for webhook in webhooks {
            write_webhook(out, webhook)?;
        }
    }
    if !permissions.is_empty() {
        writeln!(out, "permissions")?;
        for one in permissions {
            let place = format_namespace(one.namespace.as_deref());
            let what = format_resource(&one.group, &one.resource);
            write_line(out, one.change, &format!("{} {what} {place}", one.verbs.join(", ")))?;
        }
    }
    if !reads.is_empty() {
        writeln!(out, "reads of the cluster")?;
        for one in reads {
            let place = format_namespace(one.namespace.as_deref());
            let differs = match one.differs.as_slice() {
                [] => String::new(),
                differs => format!(" ({})", differs.join(", ")),
            };
            write_line(
                out,
                one.change,
                &format!("{}: {} {place}{differs}", one.policy, one.resource),
            )?;
        }
    }
    if let Some(reviews) = &difference.reviews {
        write_reviews(out, reviews)?;
    }
    if !difference.different {
        writeln!(out, "no difference")?;
    }
    Ok(())
}

fn style(change: Change) -> (char, Style) {
    match change {
        Change::Added => ('+', SUCCESS),
        Change::Removed => ('-', ERROR),
        Change::Changed => ('~', WARNING),
    }
}

fn write_line(out: &mut impl Write, change: Change, text: &str) -> io::Result<()> {
    write_marked(out, 2, change, text)
}

fn write_marked(out: &mut impl Write, indent: usize, change: Change, text: &str) -> io::Result<()> {
    let (mark, style) = style(change);
    let text = one_line(text, 4 * MAX_VALUE_BYTES);
    writeln!(out, "{:indent$}{}{mark}{} {text}", "", style.render(), style.render_reset())
}

fn format_value(value: &Value) -> String {
    match value {
        Value::Null => "(none)".to_owned(),
        Value::String(text) => one_line(text, MAX_VALUE_BYTES),
        other => one_line(&other.to_string(), MAX_VALUE_BYTES),
    }
}

fn format_field(field: &FieldChange) -> String {
    format!("{}: {} → {}", field.field, format_value(&field.old), format_value(&field.new))
}

fn format_resource(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{group}/{resource}") }
}

fn format_namespace(namespace: Option<&str>) -> String {
    namespace.map_or_else(|| "in all namespaces".to_owned(), |name| format!("in {name}"))
}

fn write_policy(out: &mut impl Write, policy: &ObjectChange) -> io::Result<()> {
    let ObjectChange { name, change, fields } = policy;
    if *change == Change::Changed {
        write_line(out, *change, name)?;
        return fields
            .iter()
            .try_for_each(|field| write_marked(out, 4, *change, &format_field(field)));
    }
    let field = |name: &str| {
        let found = fields.iter().find(|field| field.field == name);
        let one = found.map(|f| if *change == Change::Added { &f.new } else { &f.old });
        one.map(format_value).unwrap_or_default()
    };
    write_line(
        out,
        *change,
        &format!("{name}: mode {}, onError {}", field("mode"), field("onError")),
    )
}

/// Writes the changed rules, but only a count for an added or removed policy.
fn write_rules(out: &mut impl Write, rules: &[RuleChange]) -> io::Result<()> {
    writeln!(out, "rules")?;
    let mut counts: BTreeMap<(&str, Change), BTreeMap<&str, usize>> = BTreeMap::new();
    for rule in rules {
        let RuleChange { policy, rule, title, old, new } = rule;
        match (old, new) {
            (Some(old), Some(new)) => {
                write_line(
                    out,
                    Change::Changed,
                    &format!("{rule} {old} → {new}  {policy}: {title}"),
                )?;
            }
            (None, Some(level)) => {
                *counts.entry((policy, Change::Added)).or_default().entry(level).or_default() += 1;
            }
            (Some(level), None) => {
                *counts.entry((policy, Change::Removed)).or_default().entry(level).or_default() +=
                    1;
            }
            (None, None) => {}
        }
    }
    for ((policy, change), levels) in counts {
        let levels: Vec<_> =
            levels.iter().map(|(level, count)| format!("{count} {level}")).collect();
        write_line(out, change, &format!("{policy}: {}", levels.join(", ")))?;
    }
    Ok(())
}

fn write_requests(out: &mut impl Write, requests: &RequestChange) -> io::Result<()> {
    let RequestChange { change, group, resource, operations, old, new } = requests;
    let operations = operations.join(", ");
    let what = format!("{operations} {}", format_resource(group, resource));
    if *change != Change::Changed {
        let policies: Vec<_> = old.iter().chain(new).map(|one| one.policy.as_str()).collect();
        return write_line(out, *change, &format!("{what}: {}", policies.join(", ")));
    }
    write_line(out, *change, &what)?;
    let of =
        |all: &[PolicyMatch], policy: &str| all.iter().filter(|one| one.policy == policy).count();
    // For a policy in both configurations, only the differences are shown.
    let pair = |one: &PolicyMatch| (of(old, &one.policy), of(new, &one.policy)) == (1, 1);
    for one in old {
        match new.iter().find(|other| pair(one) && other.policy == one.policy) {
            Some(other) => write_marked(out, 4, Change::Changed, &format_match_change(one, other))?,
            None => write_marked(out, 4, Change::Removed, &format_match(one))?,
        }
    }
    for one in new.iter().filter(|one| !pair(one)) {
        write_marked(out, 4, Change::Added, &format_match(one))?;
    }
    Ok(())
}

fn format_match(one: &PolicyMatch) -> String {
    let parts = match_parts(one);
    let shown: Vec<_> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    format!("{}: {}", one.policy, shown.join(", "))
}

fn format_match_change(old: &PolicyMatch, new: &PolicyMatch) -> String {
    let part = |(old, new): (String, String)| {
        let or_all = |part: String| if part.is_empty() { "always".to_owned() } else { part };
        (old != new).then(|| format!("{} → {}", or_all(old), or_all(new)))
    };
    let parts: Vec<_> =
        match_parts(old).into_iter().zip(match_parts(new)).filter_map(part).collect();
    format!("{}: {}", old.policy, parts.join(", "))
}

/// Returns versions, failure policy, and the conditions of a match.
fn match_parts(one: &PolicyMatch) -> [String; 5] {
    let PolicyMatch { versions, namespaces, namespace_labels, conditions, failure_policy, .. } =
        one;
    let namespaces = namespaces.as_ref().map(|names| format!("in {}", names.join(", ")));
    let labels = Some(namespace_labels).filter(|labels| !labels.is_empty());
    let lists: Vec<_> = conditions.iter().map(|list| list.join(" && ")).collect();
    let conditions = (!lists.is_empty()).then(|| format!("where {}", lists.join(" || ")));
    [
        versions.join(", "),
        (*failure_policy).to_owned(),
        namespaces.unwrap_or_default(),
        labels.map(|labels| format!("in namespaces {labels}")).unwrap_or_default(),
        conditions.unwrap_or_default(),
    ]
}

fn write_webhook(out: &mut impl Write, webhook: &ObjectChange) -> io::Result<()> {
    let ObjectChange { name, change, fields } = webhook;
    if *change != Change::Changed {
        let field = |name: &str| {
            let found = fields.iter().find(|field| field.field == name);
            let one = found.map(|f| if *change == Change::Added { &f.new } else { &f.old });
            one.map(format_value).unwrap_or_default()
        };
        let (path, failure) = (field("path"), field("failurePolicy"));
        let text = format!("{name}: {path}, failurePolicy {failure}, {}s", field("timeoutSeconds"));
        return write_line(out, *change, &text);
    }
    write_line(out, *change, name)?;
    for field in fields {
        let (Value::Array(old), Value::Array(new)) = (&field.old, &field.new) else {
            write_marked(out, 4, Change::Changed, &format_field(field))?;
            continue;
        };
        for removed in old.iter().filter(|one| !new.contains(one)) {
            write_marked(
                out,
                4,
                Change::Removed,
                &format!("{}: {}", field.field, format_value(removed)),
            )?;
        }
        for come in new.iter().filter(|one| !old.contains(one)) {
            write_marked(
                out,
                4,
                Change::Added,
                &format!("{}: {}", field.field, format_value(come)),
            )?;
        }
    }
    Ok(())
}

fn write_reviews(out: &mut impl Write, reviews: &ReviewDifferences) -> io::Result<()> {
    let ReviewDifferences { compared, different, .. } = reviews;
    writeln!(out, "reviews: {compared} compared, {} decided otherwise", different.len())?;
    for one in different {
        let (old, new) = (one.old.decision, one.new.decision);
        write_line(
            out,
            Change::Changed,
            &format!("{}: {}: {old} → {new}", one.source, one.object),
        )?;
        write_violations(out, Change::Removed, &one.old, &one.new)?;
        write_violations(out, Change::Added, &one.new, &one.old)?;
    }
    Ok(())
}

/// Writes the violations that only one of the decisions has.
fn write_violations(
    out: &mut impl Write,
    change: Change,
    of: &DecisionSummary,
    other: &DecisionSummary,
) -> io::Result<()> {
    for one in of.violations.iter().filter(|one| !other.violations.contains(one)) {
        let count = if one.count > 1 { format!(" ({} times)", one.count) } else { String::new() };
        write_marked(
            out,
            4,
            change,
            &format!("{} {}: {}{count}", one.effect, one.policy, one.rule),
        )?;
    }
    if let Some(error) = of.error.as_ref().filter(|_| of.error != other.error) {
        write_marked(out, 4, change, error)?;
    }
    Ok(())
}
