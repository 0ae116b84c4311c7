//! `opgate rules`: every rule of the configured policies.

use std::io::Write as _;

use clap::Args;
use serde_json::json;

use super::{ConfigArgs, Failure, Outcome};
use opgate_admission::cluster::Source;
use opgate_admission::policy::{Policy, Rule};

/// What to do with a rule.
const NEXT: &str = "\
To change the level of a rule, set `rules` of its policy in opgate.yaml (docs/configuration.md):
  policies:
    - name: operator-group
      rules: {OPG-22: warn}
`opgate rules --config opgate.yaml` then checks the file.";

/// Arguments of `opgate rules`.
#[derive(Debug, Args)]
#[command(after_help = NEXT)]
pub(super) struct Rules {
    #[command(flatten)]
    config: ConfigArgs,
    /// Output format
    #[arg(long, value_name = "FORM", default_value = "table")]
    output: Format,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Format {
    /// For people
    Table,
    /// One JSON list
    Json,
    /// A Markdown table for documents
    Markdown,
}

impl Rules {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let Self { config, output } = self;
        let set = config.complete_set(Source::Absent)?;
        let rules =
            set.policies().iter().flat_map(|p| p.descriptor.rules.iter().map(move |r| (p, r)));
        let mut out = anstream::AutoStream::auto(std::io::stdout());
        match output {
            Format::Json => {
                let list: Vec<_> = rules.map(|(policy, rule)| as_json(policy, rule)).collect();
                writeln!(out, "{:#}", json!(list))?;
            }
            Format::Markdown => {
                writeln!(out, "| id | default | kinds | operations | rule | source |")?;
                writeln!(out, "|---|---|---|---|---|---|")?;
                for (_, rule) in rules {
                    let Rule { id, default, kinds, title, source, .. } = rule;
                    let default = default.as_str();
                    let (kinds, operations) = (kinds.join(", "), operations(rule).join(", "));
                    let cell = |text: &str| text.replace('|', "\\|");
                    writeln!(
                        out,
                        "| {id} | {default} | {kinds} | {operations} | {} | {} |",
                        cell(title),
                        cell(source)
                    )?;
                }
            }
            Format::Table => {
                for (policy, rule) in rules {
                    let level = policy.level(&rule.id);
                    let level = level
                        .map_or(rule.default.as_str(), opgate_admission::policy::RuleLevel::as_str);
                    writeln!(out, "{:8} {:4} {:20} {}", rule.id, level, policy.name, rule.title)?;
                }
            }
        }
        Ok(Outcome::Ok)
    }
}

fn operations(rule: &Rule) -> Vec<&'static str> {
    rule.operations.iter().map(|operation| operation.as_str()).collect()
}

/// The members are part of the command line's contract.
fn as_json(policy: &Policy, rule: &Rule) -> serde_json::Value {
    json!({
        "id": rule.id,
        "policy": policy.name,
        "kinds": rule.kinds,
        "operations": operations(rule),
        "default": rule.default.as_str(),
        "title": rule.title,
        "source": rule.source,
    })
}
