//! Reports of findings, as text and as JSON.

use std::io::{self, Write};

use serde::Serialize;

use crate::cli::output::{ERROR, WARNING};
use opgate_admission::policy::Trust;
use opgate_doctor::finding_docs::{Level, page_of};
use opgate_doctor::{Facts, Finding, Findings, Installation};
use opgate_text::one_line;

/// Maximum bytes of the line about the profile.
const MAX_TRUST_LINE_BYTES: usize = 4 << 10;

/// Structure of the JSON; a part of the stable interface.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'r> {
    api_version: &'static str,
    kind: &'static str,
    installation: String,
    /// The profile and the identities, if they are known.
    trust: Option<&'r Trust>,
    findings: Vec<Record<'r>>,
    /// Omitted findings, by id.
    omitted: &'r std::collections::BTreeMap<&'static str, usize>,
    unchecked: Vec<NotChecked<'r>>,
    summary: Summary,
}

#[derive(Serialize)]
struct Record<'r> {
    id: &'r str,
    level: &'r str,
    message: &'r str,
    object: Object<'r>,
    field: &'r str,
    remediation: &'r str,
    page: String,
}

#[derive(Serialize)]
struct Object<'r> {
    kind: &'r str,
    namespace: &'r str,
    name: &'r str,
}

#[derive(Serialize)]
struct NotChecked<'r> {
    check: &'r str,
    reason: &'r str,
}

#[derive(Serialize)]
struct Summary {
    critical: usize,
    warning: usize,
    note: usize,
}

fn summarize(found: &Findings) -> Summary {
    let count = |level: Level| found.all().iter().filter(|one| one.level == level).count();
    Summary {
        critical: count(Level::Critical),
        warning: count(Level::Warning),
        note: count(Level::Note),
    }
}

fn installation_name(installation: &Installation) -> String {
    installation.url.clone().unwrap_or_else(|| installation.owner())
}

/// Writes one JSON object.
///
/// # Errors
/// Fails if the output is not writable.
pub(super) fn write_json(
    out: &mut impl Write,
    Facts { installation, expected, .. }: &Facts,
    found: &Findings,
) -> io::Result<()> {
    let report = Report {
        api_version: "opgate.dev/v1alpha1",
        kind: "DoctorReport",
        installation: installation_name(installation),
        trust: expected.trust.as_ref(),
        findings: found.all().iter().map(record).collect(),
        omitted: found.omitted(),
        unchecked: found
            .not_checked()
            .iter()
            .map(|(what, why)| NotChecked { check: what, reason: why })
            .collect(),
        summary: summarize(found),
    };
    serde_json::to_writer_pretty(&mut *out, &report)?;
    writeln!(out)
}

fn record(finding: &Finding) -> Record<'_> {
    Record {
        id: finding.doc,
        level: finding.level.as_str(),
        message: &finding.message,
        object: Object {
            kind: &finding.object.kind,
            namespace: &finding.object.namespace,
            name: &finding.object.name,
        },
        field: &finding.field,
        remediation: &finding.remediation,
        page: page_of(finding.doc),
    }
}

/// Writes lines, most severe first.
///
/// # Errors
/// If they cannot be written.
pub(super) fn write_text(
    out: &mut impl Write,
    Facts { installation, expected, .. }: &Facts,
    found: &Findings,
) -> io::Result<()> {
    for finding in found.all() {
        let Finding { doc, level, object: at, field, message: what, remediation: repair } = finding;
        let style = match level {
            Level::Critical => ERROR,
            Level::Warning => WARNING,
            Level::Note => anstyle::Style::new(),
        };
        let (on, off) = (style.render(), style.render_reset());
        let place = match field.as_str() {
            "" => at.to_string(),
            field => format!("{at} {field}"),
        };
        writeln!(out, "{on}{level:8}{off} {doc} {}: {what}", place.trim())?;
        writeln!(out, "         fix: {repair}")?;
    }
    for (id, count) in found.omitted() {
        writeln!(out, "{id}: {count} more")?;
    }
    for (what, why) in found.not_checked() {
        writeln!(out, "unchecked: {what}: {why}")?;
    }
    if let Some(trust) = &expected.trust {
        writeln!(out, "{}", one_line(&trust.to_string(), MAX_TRUST_LINE_BYTES))?;
    }
    let Summary { critical, warning, note } = summarize(found);
    let name = installation_name(installation);
    match found.all().len() {
        0 if found.not_checked().is_empty() => writeln!(out, "{name}: no findings"),
        0 => writeln!(out, "{name}: no findings in the completed checks"),
        _ => {
            let s = |count: usize| if count == 1 { "" } else { "s" };
            writeln!(
                out,
                "{name}: {critical} critical, {warning} warning{}, {note} note{}",
                s(warning),
                s(note)
            )?;
            writeln!(out, "details: opgate doctor explain ID")
        }
    }
}
