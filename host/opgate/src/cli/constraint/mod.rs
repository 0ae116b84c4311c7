//! `opgate constraint`: the requirement of an `olm.constraint`, and whether properties satisfy it. The code
//! is that of the policy `constraint-limits`.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, Subcommand};
use opgate_constraint::constraint::{Options, check};
use opgate_constraint::eval::{Property, evaluate, format_tree};
use opgate_constraint::{Check, Violation};
use serde_json::{Value, json};

use crate::cli::exit::{CommandError, ExitStatus};
use crate::cli::output::{stream, text_or_json};
use opgate_input::yaml::LocatedValue;

/// Arguments of `opgate constraint`.
#[derive(Debug, Args)]
pub(super) struct ConstraintArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Evaluate a constraint and explain the result
    Eval(Eval),
}

/// Exit statuses after the help text.
const AFTER_HELP: &str = "\
Example:
  opgate constraint eval constraint.json --properties properties.yaml

Exit status: 0 the constraint holds, 1 it does not hold or is not valid, 2 wrong usage or unreadable
input, 3 the result depends on a CEL expression that was aborted at a limit. docs/check.md has the
details.";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
struct Eval {
    /// File with the constraint (JSON or YAML): the value of an `olm.constraint`, or the whole property
    #[arg(value_name = "FILE")]
    constraint: PathBuf,
    /// File with the properties of a bundle (JSON or YAML): a list, or an object with the list
    /// `properties`
    #[arg(long, value_name = "FILE")]
    properties: PathBuf,
    /// Output format
    #[arg(long, short, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// A tree of text
    Table,
    /// One JSON object
    Json,
}

/// Returns the level of a check's violations, as text.
fn level_name(check: Check) -> &'static str {
    if check.is_advisory() { "warn" } else { "deny" }
}

/// Returns the text for the omitted violations of a rule.
fn omitted_text(more: usize) -> String {
    format!("{more} more violations of this rule are omitted")
}

impl ConstraintArgs {
    pub(super) fn run(self) -> Result<ExitStatus, CommandError> {
        match self.command {
            Command::Eval(eval) => eval.run(),
        }
    }
}

impl Eval {
    fn run(self) -> Result<ExitStatus, CommandError> {
        let Self { constraint, properties, output } = self;
        let value = constraint_value(&constraint)?;
        let properties = read_properties(&properties)?;
        let report = check(&value, &Options::default());
        let denied = report.violations.iter().any(|finding| !finding.check.is_advisory());
        let outcomes =
            report.constraint.as_ref().filter(|_| !denied).map(|c| evaluate(c, &properties));
        let holds = outcomes.as_ref().and_then(|outcomes| outcomes.first()?.holds);
        let mut out = stream(Some(text_or_json(output == Format::Json)));
        match output {
            Format::Table => {
                for Violation { check, pointer, message } in &report.violations {
                    writeln!(out, "{} {} {pointer}: {message}", level_name(*check), check.id())?;
                }
                for (check, more) in &report.omitted {
                    writeln!(
                        out,
                        "{} {}: {}",
                        level_name(*check),
                        check.id(),
                        omitted_text(*more)
                    )?;
                }
                if let Some(outcomes) = &outcomes {
                    write!(out, "{}", format_tree(outcomes))?;
                }
            }
            Format::Json => {
                let violation = |check: Check, pointer: &str, message: &str| {
                    json!({
                        "rule": check.id(),
                        "level": level_name(check),
                        "pointer": pointer,
                        "message": message,
                    })
                };
                let found = report.violations.iter();
                let found = found.map(|f| violation(f.check, &f.pointer, &f.message));
                let more = report.omitted.iter();
                let more = more.map(|(check, more)| violation(*check, "", &omitted_text(*more)));
                let node = |outcome: &opgate_constraint::eval::Outcome| json!({"holds": outcome.holds, "why": outcome.explanation, "children": outcome.children});
                let document = json!({
                    "holds": holds,
                    "violations": found.chain(more).collect::<Vec<_>>(),
                    "nodes": outcomes.iter().flatten().map(node).collect::<Vec<_>>(),
                });
                writeln!(out, "{document:#}")?;
            }
        }
        Ok(match (outcomes, holds) {
            (Some(_), Some(true)) => ExitStatus::Ok,
            (Some(_), None) => ExitStatus::Engine,
            _ => ExitStatus::Denied,
        })
    }
}

/// Returns the raw text of a constraint. JSON is read verbatim, including white space; YAML is converted to
/// compact JSON.
fn constraint_value(path: &Path) -> anyhow::Result<Vec<u8>> {
    let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
    if path.extension().is_some_and(|ending| ending == "json") {
        // Read no further than the members of the property: its value may be as hostile as it likes.
        let property: Option<ConstraintProperty<'_>> = serde_json::from_slice(&bytes).ok();
        let value = property.and_then(ConstraintProperty::value_of_constraint);
        return Ok(value.map_or_else(|| bytes.trim_ascii().to_vec(), <[u8]>::to_vec));
    }
    let read = read_yaml(path, bytes)?;
    let is_property = read.get("type").and_then(Value::as_str) == Some("olm.constraint");
    let value = read.get("value").filter(|_| is_property).unwrap_or(&read);
    Ok(value.to_string().into_bytes())
}

#[derive(serde::Deserialize)]
struct ConstraintProperty<'a> {
    r#type: String,
    #[serde(borrow)]
    value: &'a serde_json::value::RawValue,
}

impl<'a> ConstraintProperty<'a> {
    fn value_of_constraint(self) -> Option<&'a [u8]> {
        (self.r#type == "olm.constraint").then(|| self.value.get().as_bytes())
    }
}

fn read_properties(path: &Path) -> anyhow::Result<Vec<Property>> {
    let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
    let read = read_yaml(path, bytes)?;
    let list = read.get("properties").unwrap_or(&read).as_array().cloned();
    let list = list.with_context(|| format!("{}: no list of properties", path.display()))?;
    let mut properties = Vec::with_capacity(list.len());
    for (index, property) in list.iter().enumerate() {
        let kind = property.get("type").and_then(Value::as_str).map(str::to_owned);
        let kind = kind.with_context(|| format!("{}: /{index}/type is missing", path.display()))?;
        let value = property.get("value").unwrap_or(&Value::Null).to_string().into_bytes();
        properties.push(Property { kind, value });
    }
    Ok(properties)
}

fn read_yaml(path: &Path, bytes: Vec<u8>) -> anyhow::Result<Value> {
    let named = path.display();
    let text = String::from_utf8(bytes).with_context(|| format!("{named}: not UTF-8"))?;
    let read = LocatedValue::read(&text).map_err(|error| {
        anyhow::anyhow!("{named}:{}:{}: {}", error.line, error.column, error.message)
    })?;
    Ok(read.value)
}
