//! A difference as text: one section for each kind, `+` for additions, `-` for removals, `~` for
//! what is different.

use std::collections::BTreeMap;
use std::io::{self, Write};

use anstyle::Style;
use serde_json::Value;

use super::change::{Change, Changed, Difference, Field, Requests, Rule};
use super::facts::Wanted;
use super::reviews::{Decision, Reviews};
use crate::cli::report::{ERROR, GOOD, WARNING};
use opgate_text::one_line;

/// Bytes of a value.
const LONGEST: usize = 400;

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
            line(out, Change::Changed, &shown(field))?;
        }
    }
    if !policies.is_empty() {
        writeln!(out, "policies")?;
        for policy in policies {
            self::policy(out, policy)?;
        }
    }
    if !rules.is_empty() {
        self::rules(out, rules)?;
    }
    if !requests.is_empty() {
        writeln!(out, "requests that API servers send")?;
        for one in requests {
            self::requests(out, one)?;
        }
    }
    if !webhooks.is_empty() {
        writeln!(out, "webhooks")?;
        for webhook in webhooks {
            self::webhook(out, webhook)?;
        }
    }
    if !permissions.is_empty() {
        writeln!(out, "permissions")?;
        for one in permissions {
            let place = placed(one.namespace.as_deref());
            let what = resource(&one.group, &one.resource);
            line(out, one.change, &format!("{} {what} {place}", one.verbs.join(", ")))?;
        }
    }
    if !reads.is_empty() {
        writeln!(out, "reads of the cluster")?;
        for one in reads {
            let place = placed(one.namespace.as_deref());
            let differs = match one.differs.as_slice() {
                [] => String::new(),
                differs => format!(" ({})", differs.join(", ")),
            };
            line(out, one.change, &format!("{}: {} {place}{differs}", one.policy, one.resource))?;
        }
    }
    if let Some(reviews) = &difference.reviews {
        self::reviews(out, reviews)?;
    }
    if !difference.different {
        writeln!(out, "no difference")?;
    }
    Ok(())
}

fn style(change: Change) -> (char, Style) {
    match change {
        Change::Added => ('+', GOOD),
        Change::Removed => ('-', ERROR),
        Change::Changed => ('~', WARNING),
    }
}

fn line(out: &mut impl Write, change: Change, text: &str) -> io::Result<()> {
    marked(out, 2, change, text)
}

fn marked(out: &mut impl Write, indent: usize, change: Change, text: &str) -> io::Result<()> {
    let (mark, style) = style(change);
    let text = one_line(text, 4 * LONGEST);
    writeln!(out, "{:indent$}{}{mark}{} {text}", "", style.render(), style.render_reset())
}

fn value(value: &Value) -> String {
    match value {
        Value::Null => "(none)".to_owned(),
        Value::String(text) => one_line(text, LONGEST),
        other => one_line(&other.to_string(), LONGEST),
    }
}

fn shown(field: &Field) -> String {
    format!("{}: {} → {}", field.field, value(&field.old), value(&field.new))
}

fn resource(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{group}/{resource}") }
}

fn placed(namespace: Option<&str>) -> String {
    namespace.map_or_else(|| "in all namespaces".to_owned(), |name| format!("in {name}"))
}

fn policy(out: &mut impl Write, policy: &Changed) -> io::Result<()> {
    let Changed { name, change, fields } = policy;
    if *change == Change::Changed {
        line(out, *change, name)?;
        return fields.iter().try_for_each(|field| marked(out, 4, *change, &shown(field)));
    }
    let field = |name: &str| {
        let found = fields.iter().find(|field| field.field == name);
        let one = found.map(|f| if *change == Change::Added { &f.new } else { &f.old });
        one.map(value).unwrap_or_default()
    };
    line(out, *change, &format!("{name}: mode {}, onError {}", field("mode"), field("onError")))
}

/// Writes the changed rules, but only a count for an added or removed policy.
fn rules(out: &mut impl Write, rules: &[Rule]) -> io::Result<()> {
    writeln!(out, "rules")?;
    let mut counts: BTreeMap<(&str, Change), BTreeMap<&str, usize>> = BTreeMap::new();
    for rule in rules {
        let Rule { policy, rule, title, old, new } = rule;
        match (old, new) {
            (Some(old), Some(new)) => {
                line(out, Change::Changed, &format!("{rule} {old} → {new}  {policy}: {title}"))?;
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
        line(out, change, &format!("{policy}: {}", levels.join(", ")))?;
    }
    Ok(())
}

fn requests(out: &mut impl Write, requests: &Requests) -> io::Result<()> {
    let Requests { change, group, resource, operations, old, new } = requests;
    let operations = operations.join(", ");
    let what = format!("{operations} {}", self::resource(group, resource));
    if *change != Change::Changed {
        let policies: Vec<_> = old.iter().chain(new).map(|one| one.policy.as_str()).collect();
        return line(out, *change, &format!("{what}: {}", policies.join(", ")));
    }
    line(out, *change, &what)?;
    let of = |all: &[Wanted], policy: &str| all.iter().filter(|one| one.policy == policy).count();
    // For a policy in both configurations, only the differences are shown.
    let pair = |one: &Wanted| (of(old, &one.policy), of(new, &one.policy)) == (1, 1);
    for one in old {
        match new.iter().find(|other| pair(one) && other.policy == one.policy) {
            Some(other) => marked(out, 4, Change::Changed, &changed(one, other))?,
            None => marked(out, 4, Change::Removed, &wanted(one))?,
        }
    }
    for one in new.iter().filter(|one| !pair(one)) {
        marked(out, 4, Change::Added, &wanted(one))?;
    }
    Ok(())
}

fn wanted(one: &Wanted) -> String {
    let parts = parts(one);
    let shown: Vec<_> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    format!("{}: {}", one.policy, shown.join(", "))
}

fn changed(old: &Wanted, new: &Wanted) -> String {
    let part = |(old, new): (String, String)| {
        let or_all = |part: String| if part.is_empty() { "always".to_owned() } else { part };
        (old != new).then(|| format!("{} → {}", or_all(old), or_all(new)))
    };
    let parts: Vec<_> = parts(old).into_iter().zip(parts(new)).filter_map(part).collect();
    format!("{}: {}", old.policy, parts.join(", "))
}

/// Returns versions, failure policy, and the conditions of a match.
fn parts(one: &Wanted) -> [String; 5] {
    let Wanted { versions, namespaces, namespace_labels, conditions, failure_policy, .. } = one;
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

fn webhook(out: &mut impl Write, webhook: &Changed) -> io::Result<()> {
    let Changed { name, change, fields } = webhook;
    if *change != Change::Changed {
        let field = |name: &str| {
            let found = fields.iter().find(|field| field.field == name);
            let one = found.map(|f| if *change == Change::Added { &f.new } else { &f.old });
            one.map(value).unwrap_or_default()
        };
        let (path, failure) = (field("path"), field("failurePolicy"));
        let text = format!("{name}: {path}, failurePolicy {failure}, {}s", field("timeoutSeconds"));
        return line(out, *change, &text);
    }
    line(out, *change, name)?;
    for field in fields {
        let (Value::Array(old), Value::Array(new)) = (&field.old, &field.new) else {
            marked(out, 4, Change::Changed, &shown(field))?;
            continue;
        };
        for gone in old.iter().filter(|one| !new.contains(one)) {
            marked(out, 4, Change::Removed, &format!("{}: {}", field.field, value(gone)))?;
        }
        for come in new.iter().filter(|one| !old.contains(one)) {
            marked(out, 4, Change::Added, &format!("{}: {}", field.field, value(come)))?;
        }
    }
    Ok(())
}

fn reviews(out: &mut impl Write, reviews: &Reviews) -> io::Result<()> {
    let Reviews { compared, different, .. } = reviews;
    writeln!(out, "reviews: {compared} compared, {} decided otherwise", different.len())?;
    for one in different {
        let (old, new) = (one.old.decision, one.new.decision);
        line(out, Change::Changed, &format!("{}: {}: {old} → {new}", one.source, one.object))?;
        findings(out, Change::Removed, &one.old, &one.new)?;
        findings(out, Change::Added, &one.new, &one.old)?;
    }
    Ok(())
}

/// Writes the violations that only one of the decisions has.
fn findings(
    out: &mut impl Write,
    change: Change,
    of: &Decision,
    other: &Decision,
) -> io::Result<()> {
    for one in of.violations.iter().filter(|one| !other.violations.contains(one)) {
        let count = if one.count > 1 { format!(" ({} times)", one.count) } else { String::new() };
        marked(out, 4, change, &format!("{} {}: {}{count}", one.level, one.policy, one.rule))?;
    }
    if let Some(error) = of.error.as_ref().filter(|_| of.error != other.error) {
        marked(out, 4, change, error)?;
    }
    Ok(())
}
