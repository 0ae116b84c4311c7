//! `opgate rules`: every rule of the configured policies, and the pages that explain them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::{Args, Subcommand};
use serde_json::json;

use super::report::page::{RulePages, denies_in, escape_markdown, levels_note, unevaluated_part};
use crate::cli::args::ConfigArgs;
use crate::cli::exit::{CommandError, ExitStatus};
use crate::cli::output::{stream, text_or_json};
use opgate_admission::cluster::Source;
use opgate_admission::policy::{Configuration, Policy, PolicySet, Rule, RuleLevel};
use opgate_files::GROUP;

/// Hints after the help text.
const AFTER_HELP: &str = "\
Examples:
  opgate rules                            All rules and their levels
  opgate rules --config opgate.yaml       Those of a configuration
  opgate rules explain OPG-22             The requirement of a rule and its remediation

To change the level of a rule, set `rules` of its policy in opgate.yaml (docs/configuration.md):
  policies:
    - name: operator-group
      rules: {OPG-22: warn}";

/// Arguments of `opgate rules`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, after_help = AFTER_HELP)]
pub(super) struct Rules {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    config: ConfigArgs,
    /// Output format
    #[arg(long, short, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Explain rules: requirement, rationale, remediation and examples
    Explain {
        #[command(flatten)]
        config: ConfigArgs,
        /// Ids such as RPK-01, as `opgate rules` lists them
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
    /// Generate the documentation of all rules: one file for each policy, and an index
    Docs {
        #[command(flatten)]
        config: ConfigArgs,
        /// The directory; files of the same names are replaced
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Format {
    /// Human-readable text
    Table,
    /// One JSON list
    Json,
    /// A Markdown table for documents
    Markdown,
}

impl Rules {
    pub(super) fn run(self) -> Result<ExitStatus, CommandError> {
        let Self { command, config, output } = self;
        match command {
            Some(Command::Explain { config, ids }) => explain(&config, &ids),
            Some(Command::Docs { config, directory }) => write_pages(&config, &directory),
            None => list(&config, output),
        }
    }
}

fn list(config: &ConfigArgs, output: Format) -> Result<ExitStatus, CommandError> {
    let configuration = config.configuration()?;
    let set = config.load_all_or_fail(&configuration, Source::Absent)?;
    let docs = RuleDocs::of(&configuration, &set);
    let rules = rules_of(&set);
    let mut out = stream(Some(text_or_json(matches!(output, Format::Json))));
    match output {
        Format::Json => {
            let json = |(policy, rule)| as_json(policy, rule, docs.get(policy, rule));
            let list: Vec<_> = rules.map(json).collect();
            writeln!(out, "{:#}", json!(list))?;
        }
        Format::Markdown => {
            writeln!(out, "| id | name | default | kinds | operations | requirement | sources |")?;
            writeln!(out, "|---|---|---|---|---|---|---|")?;
            for (policy, rule) in rules {
                let Rule { id, name, default, kinds, title, sources, .. } = rule;
                let default = format!("{}{}", default.as_str(), docs.levels_note(policy, rule));
                let (kinds, operations) = (kinds.join(", "), operations(rule).join(", "));
                let cell = |text: &str| text.replace('|', "\\|");
                writeln!(
                    out,
                    "| {id} | {name} | {default} | {kinds} | {operations} | {} | {} |",
                    cell(title),
                    cell(&sources.join("; "))
                )?;
            }
        }
        Format::Table => {
            let names = set.policies().iter().map(|policy| policy.name.len());
            let width = names.max().unwrap_or_default();
            let names = rules_of(&set).map(|(_, rule)| rule.name.len());
            let name_width = names.max().unwrap_or_default();
            for (policy, rule) in rules {
                let level = policy.level(&rule.id);
                let level = level.map_or(rule.default.as_str(), RuleLevel::as_str);
                let Rule { id, name, title, .. } = rule;
                let only = WebhookConditions::of(policy, rule).summary();
                let part = docs.gap(policy, rule).map_or("", |_| " (evaluated in part)");
                let differs = match policy.level(&rule.id) {
                    None => docs.levels_note(policy, rule),
                    Some(_) => String::new(),
                };
                let differs = differs.strip_prefix(' ').map(|note| format!(" (denies {note})"));
                let differs =
                    differs.unwrap_or_default().replace("warn elsewhere", "warns elsewhere");
                writeln!(
                    out,
                    "{id:8} {level:4} {:width$} {name:name_width$} {title}{differs}{only}{part}",
                    policy.name
                )?;
            }
        }
    }
    Ok(ExitStatus::Ok)
}

/// Prints the pages of some rules.
fn explain(config: &ConfigArgs, ids: &[String]) -> Result<ExitStatus, CommandError> {
    let configuration = config.configuration()?;
    let set = config.load_all_or_fail(&configuration, Source::Absent)?;
    let pages = RulePages::of(&configuration, &set, true);
    let mut out = stream(Some(text_or_json(false)));
    for (index, id) in ids.iter().enumerate() {
        let found = || {
            rules_of(&set).filter(|(_, rule)| rule.id.eq_ignore_ascii_case(id) || rule.is_named(id))
        };
        if found().next().is_none() {
            let known = rules_of(&set).flat_map(|(_, rule)| [rule.id.as_str(), rule.name.as_str()]);
            let hint = opgate_text::hint(id, known.filter(|known| !known.is_empty()));
            let text =
                format!("no configured policy has a rule {id:?}: `opgate rules` lists them{hint}");
            return Err(CommandError::usage(anyhow::anyhow!(text)));
        }
        for (policy, rule) in found() {
            if index > 0 {
                writeln!(out)?;
            }
            write!(out, "{}", pages.page(&policy.name, &rule.id).unwrap_or_default())?;
            if let Some(url) = pages.url(&policy.name, &rule.id) {
                writeln!(out, "\n{url}")?;
            }
        }
    }
    Ok(ExitStatus::Ok)
}

/// Writes the pages of all policies.
fn write_pages(config: &ConfigArgs, directory: &Path) -> Result<ExitStatus, CommandError> {
    let configuration = config.configuration()?;
    let set = config.load_all_or_fail(&configuration, Source::Absent)?;
    let pages = RulePages::of(&configuration, &set, true);
    let docs = RuleDocs::of(&configuration, &set);
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    let mut index = String::from(
        "# Rules\n\nThe rules of the built-in policies: requirement, rationale and remediation.\n\
         `opgate rules explain ID|NAME` prints the same page. [The configuration](../configuration.md#rule-levels) sets levels.\n\n\
         <!-- Generated by `opgate rules docs`. Change the documentation of the rule in its source instead. -->\n",
    );
    for policy in set.policies() {
        // Links use the name of the descriptor, not the configured one; two copies have one page.
        let name = &policy.descriptor.name;
        let file = format!("{name}.md");
        if files.contains_key(&file) {
            continue;
        }
        let title = escape_markdown(&policy.descriptor.title);
        let mut page = format!("# {name}\n\n{title}.\n");
        // Writing to a text does not fail.
        let _ = write!(index, "\n## [{name}]({file})\n\n{title}.\n\n");
        let _ = writeln!(index, "| rule | name | default | requirement |\n|---|---|---|---|");
        for rule in &policy.descriptor.rules {
            let (id, anchor) = (&rule.id, rule.id.to_ascii_lowercase());
            let title = escape_markdown(&rule.title);
            let default = format!("{}{}", rule.default.as_str(), docs.levels_note(policy, rule));
            let part = docs.gap(policy, rule).map_or("", |_| " ([in part](../gaps.md))");
            let _ = writeln!(
                index,
                "| [{id}]({file}#{anchor}) | `{}` | {default} | {title}{part} |",
                rule.name
            );
            let section = pages.page(&policy.name, id).unwrap_or_default();
            let _ = write!(page, "\n{section}");
        }
        files.insert(file, page);
    }
    files.insert("README.md".to_owned(), index);
    let written = || -> io::Result<()> {
        fs::create_dir_all(directory)?;
        files.iter().try_for_each(|(name, text)| fs::write(directory.join(name), text))
    };
    written().map_err(|e| anyhow::anyhow!("{}: {e}", directory.display()))?;
    Ok(ExitStatus::Ok)
}

fn rules_of(set: &PolicySet) -> impl Iterator<Item = (&Policy, &Rule)> {
    let policies = set.policies().iter();
    policies.flat_map(|policy| policy.descriptor.rules.iter().map(move |rule| (&**policy, rule)))
}

/// The documentation of rules, by policy and rule.
struct RuleDocs(BTreeMap<(String, String), String>);

impl RuleDocs {
    /// Creates a component that is gone by now has none.
    fn of(configuration: &Configuration, set: &PolicySet) -> Self {
        let mut all = BTreeMap::new();
        for policy in set.policies() {
            let docs = configuration.docs_of(&policy.source).unwrap_or_default();
            all.extend(docs.into_iter().map(|(rule, text)| ((policy.name.clone(), rule), text)));
        }
        Self(all)
    }

    fn get(&self, policy: &Policy, rule: &Rule) -> &str {
        self.0.get(&(policy.name.clone(), rule.id.clone())).map_or("", String::as_str)
    }

    /// Returns the part of the requirement that the rule does not decide.
    fn gap(&self, policy: &Policy, rule: &Rule) -> Option<String> {
        unevaluated_part(self.get(policy, rule))
    }

    /// Returns ` in a bundle, warn elsewhere`.
    fn levels_note(&self, policy: &Policy, rule: &Rule) -> String {
        levels_note(self.get(policy, rule))
    }
}

/// How the webhook limits the requests for a rule. Other rules can need the remaining ones.
#[derive(Default)]
struct WebhookConditions {
    /// `resources: condition`, each once.
    texts: Vec<String>,
    /// Resources of which not all requests are sent.
    resources: BTreeSet<String>,
    /// Whether all requests for other resources are sent.
    is_partial: bool,
}

impl WebhookConditions {
    fn of(policy: &Policy, rule: &Rule) -> Self {
        let mut all = Self::default();
        let matches = policy.descriptor.matches.iter();
        let matches = matches.filter(|one| one.rules.contains(&rule.id) && one.groups != [GROUP]);
        for one in matches {
            let conditions = one.conditions.iter().map(|c| c.expression.clone());
            let labels = Some(&one.namespace_labels).filter(|labels| !labels.is_empty());
            let labels = labels.map(|labels| format!("namespaces {labels}"));
            let settings = one.enabled_by.iter().map(|pointer| {
                format!("the setting {}", pointer.trim_start_matches('/').replace('/', "."))
            });
            let texts: Vec<_> = settings.chain(labels).chain(conditions).collect();
            all.is_partial |= texts.is_empty();
            let resources = one.resources.join(", ");
            for text in texts {
                let text = format!("{resources}: {text}");
                if !all.texts.contains(&text) {
                    all.texts.push(text);
                }
                all.resources.extend(one.resources.iter().cloned());
            }
        }
        all
    }

    /// Returns its text for the table.
    fn summary(&self) -> String {
        let resources: Vec<_> = self.resources.iter().map(String::as_str).collect();
        match (self.texts.is_empty(), self.is_partial) {
            (true, _) => String::new(),
            (false, false) => " (sent only where it can matter)".to_owned(),
            (false, true) => format!(" ({}: sent only where it can matter)", resources.join(", ")),
        }
    }
}

fn operations(rule: &Rule) -> Vec<&'static str> {
    rule.operations.iter().map(|operation| operation.as_str()).collect()
}

/// Converts a rule to JSON. The members are part of the stable interface.
fn as_json(policy: &Policy, rule: &Rule, docs: &str) -> serde_json::Value {
    json!({
        "id": rule.id,
        "name": rule.name,
        "policy": policy.name,
        "kinds": rule.kinds,
        "operations": operations(rule),
        "default": rule.default.as_str(),
        "deniesIn": denies_in(docs),
        "title": rule.title,
        "sources": rule.sources,
        "sentOnlyWhere": WebhookConditions::of(policy, rule).texts,
        "gap": unevaluated_part(docs),
    })
}
