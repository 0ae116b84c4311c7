//! Output of `opgate policy inspect`: text or JSON.

use std::io;

use serde_json::{Value, json};

use super::SettingsEffect;
use super::lint::Finding;
use crate::cli::output::{ERROR, WARNING};
use crate::cli::policy::bench::format_kib;
use crate::cli::policy::load::LoadedComponent;
use opgate_admission::policy::NamePatterns;

fn string_items<'v>(value: &'v Value, name: &str) -> Vec<&'v str> {
    let list = value.get(name).and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).collect()
}

/// Returns the display name of a group.
fn group_name(value: &Value) -> String {
    let name = |group: &str| if group.is_empty() { "core".to_owned() } else { group.to_owned() };
    string_items(value, "apiGroups").into_iter().map(name).collect::<Vec<_>>().join(", ")
}

pub(super) fn write_table(
    out: &mut impl io::Write,
    loaded: &LoadedComponent,
    imports: &[String],
    effect: &SettingsEffect,
    findings: &[Finding],
) -> io::Result<()> {
    let (d, limits) = (&loaded.descriptor, loaded.limits);
    writeln!(out, "{} {}: {}", d.name, d.version, d.title)?;
    writeln!(out, "source   {}\ndigest   {}", loaded.source, loaded.module.digest())?;
    writeln!(out, "size     {}", format_kib(loaded.bytes.len()))?;
    let imports: Vec<_> = imports.iter().map(|import| short_import_name(import)).collect();
    writeln!(
        out,
        "imports  {}",
        if imports.is_empty() { "nothing".to_owned() } else { imports.join(", ") }
    )?;
    writeln!(
        out,
        "limits   {} of memory, {}ms, {} at a time",
        opgate_text::units::bytes(limits.memory),
        limits.cpu_time.as_millis(),
        limits.concurrency
    )?;
    for rule in &d.matches {
        let operations: Vec<_> = rule.operations.iter().map(|o| o.as_str()).collect();
        writeln!(
            out,
            "matches  {} of {}/{}: {}",
            rule.resources.join(", "),
            rule.groups.join(", "),
            rule.versions.join(", "),
            operations.join(", ")
        )?;
    }
    for read in &d.reads {
        writeln!(out, "reads    {}", read.resource)?;
    }
    if !d.samples.is_empty() {
        writeln!(out, "samples  custom resources of any kind")?;
    }
    for rule in &effect.permissions {
        let (verbs, resources) = (string_items(rule, "verbs"), string_items(rule, "resources"));
        let inside = rule.get("namespace").and_then(Value::as_str);
        let inside = inside.map(|name| format!(" in namespace {name}")).unwrap_or_default();
        let (verbs, resources) = (verbs.join(", "), resources.join(", "));
        writeln!(out, "rbac     {verbs} {resources} of {}{inside}", group_name(rule))?;
    }
    for webhook in &effect.webhooks {
        let text = |name: &str| webhook.get(name).and_then(Value::as_str).unwrap_or_default();
        for rule in webhook.get("rules").and_then(Value::as_array).into_iter().flatten() {
            let list = |name: &str| string_items(rule, name).join(", ");
            writeln!(
                out,
                "webhook  {}: {} of {}/{}: {} (failurePolicy {})",
                text("name"),
                list("resources"),
                group_name(rule),
                list("apiVersions"),
                list("operations"),
                text("failurePolicy")
            )?;
        }
    }
    for rule in &d.rules {
        writeln!(out, "rule     {:8} {:4} {}", rule.id, rule.default.as_str(), rule.title)?;
    }
    if let Ok(schema) = serde_json::from_str::<Value>(&d.settings_schema) {
        writeln!(out, "settings {schema:#}")?;
    }
    for finding in findings {
        let (style, message) = (WARNING, opgate_text::one_line(&finding.message, 4_096));
        let (start, end) = (style.render(), style.render_reset());
        writeln!(out, "{start}finding{end}  {}: {message}", finding.kind)?;
    }
    if !findings.is_empty() {
        let count = findings.len();
        let (start, end) = (ERROR.render(), ERROR.render_reset());
        writeln!(out, "\n{start}{count} finding{}{end}", if count == 1 { "" } else { "s" })?;
    }
    Ok(())
}

/// Returns `document` for `opgate:policy/document@0.7.0`.
fn short_import_name(import: &str) -> String {
    let name = import.strip_prefix("opgate:policy/").and_then(|rest| rest.split('@').next());
    name.unwrap_or(import).to_owned()
}

fn names_to_json(names: &NamePatterns) -> Value {
    json!({"include": names.include(), "exclude": names.exclude()})
}

/// Converts the result to JSON. The members are part of the stable interface.
pub(super) fn to_json(
    loaded: &LoadedComponent,
    imports: &[String],
    effect: &SettingsEffect,
    findings: &[Finding],
) -> Value {
    let d = &loaded.descriptor;
    let operations = |operations: &[opgate_admission::review::Operation]| -> Vec<&str> {
        operations.iter().map(|o| o.as_str()).collect()
    };
    let rules = d.rules.iter().map(|rule| {
        json!({
            "id": rule.id,
            "name": rule.name,
            "title": rule.title,
            "default": rule.default.as_str(),
            "enabledBy": rule.enabled_by,
            "kinds": rule.kinds,
            "operations": operations(&rule.operations),
            "sources": rule.sources,
        })
    });
    let matches = d.matches.iter().map(|rule| {
        let conditions = rule.conditions.iter();
        let conditions = conditions.map(|c| json!({"name": c.name, "expression": c.expression}));
        let namespace = rule.namespace.as_ref();
        let selector = serde_json::from_str::<Value>(&rule.namespace_labels).unwrap_or_default();
        json!({
            "groups": rule.groups,
            "versions": rule.versions,
            "resources": rule.resources,
            "operations": operations(&rule.operations),
            "route": rule.route,
            "rules": rule.rules,
            "advisory": rule.advisory,
            "enabledBy": rule.enabled_by,
            "namespace": namespace.map(|n| json!({"pointer": n.pointer, "default": n.default})),
            "namespaces": names_to_json(&rule.namespaces),
            "names": names_to_json(&rule.names),
            "namespaceLabels": selector,
            "conditions": conditions.collect::<Vec<_>>(),
        })
    });
    json!({
        "name": d.name,
        "version": d.version,
        "title": d.title,
        "source": loaded.source,
        "digest": loaded.module.digest(),
        "size": loaded.bytes.len(),
        "imports": imports,
        "matches": matches.collect::<Vec<_>>(),
        "reads": d.reads.iter().map(|read| read.resource.to_string()).collect::<Vec<_>>(),
        "samples": !d.samples.is_empty(),
        "rules": rules.collect::<Vec<_>>(),
        "settingsSchema": serde_json::from_str::<Value>(&d.settings_schema).unwrap_or_default(),
        "settingsErrors": effect.errors,
        "rbac": effect.permissions,
        "webhooks": effect.webhooks,
        "findings": findings,
    })
}
