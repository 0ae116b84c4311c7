//! `opgate policy new`: creates a directory that builds, tests and packs with one command each.
//!
//! ```text
//! templates/SIZE/LANGUAGE (embedded) ─▶ names and SDK filled in ─▶ a new or empty directory ─▶ next steps
//! ```
//!
//! Nothing is downloaded, and no file outside the directory is written.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::Args;

use super::language::{Language, OPGATE};
use super::reserved_names;
use super::sdk::{SDK_VERSION, Sdk};
use crate::cli::exit::{CommandError, ExitStatus};

/// Maximum bytes of the name of a policy.
const MAX_NAME_BYTES: usize = 40;

const AFTER_HELP: &str = "\
Examples:
  opgate policy new house-rules --lang rust
  opgate policy new house-rules --lang typescript --out policies/house-rules
  opgate policy new house-images --lang python --example

Exit status: 0 written, 2 wrong name, the directory is not empty, or there is no SDK. docs/write-a-policy.md describes the next steps.";

/// The files of one language.
struct Template {
    /// `start` or `example`.
    size: &'static str,
    language: &'static str,
    /// Path inside the directory, and content.
    files: &'static [(&'static str, &'static str)],
}

static TEMPLATES: &[Template] = include!(concat!(env!("OUT_DIR"), "/templates.rs"));

/// Arguments of `opgate policy new`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct New {
    /// Name of the policy: lower case letters, digits and hyphens
    #[arg(value_parser = name)]
    name: String,
    /// Language to write it in
    #[arg(long, short, value_name = "LANGUAGE")]
    lang: Language,
    /// Directory to write, new or empty [default: the name of the policy]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write a larger policy: three rules with settings, ratcheting and a read of the cluster
    #[arg(long)]
    example: bool,
    /// Source of the SDK: a checkout of opgate, or `packages` [default: the checkout that contains this program]
    #[arg(long, value_name = "DIR")]
    sdk: Option<PathBuf>,
}

/// Returns a name that is one in all languages: of a policy, of a crate, and of other packages.
fn name(text: &str) -> Result<String, String> {
    let is_inside = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let is_label = text.len() <= MAX_NAME_BYTES
        && text.bytes().all(is_inside)
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && !text.ends_with('-');
    if !is_label {
        return Err(format!(
            "write lower case letters, digits and hyphens, at most {MAX_NAME_BYTES}, with a letter first and no hyphen last: house-images"
        ));
    }
    match reserved_names::refuse(text) {
        Some(why) => Err(format!("{why}: choose another name, such as house-images")),
        None => Ok(text.to_owned()),
    }
}

impl New {
    pub(super) fn run(self) -> Result<ExitStatus, CommandError> {
        let Self { name, lang, out, example, sdk } = self;
        if lang == Language::Python && reserved_names::is_python_module(&name) {
            let text = format!(
                "{name}: Python has a module of this name, which the policy would replace: choose another name, such as house-{name}"
            );
            return Err(CommandError::usage(anyhow!(text)));
        }
        let size = if example { "example" } else { "start" };
        let is_wanted = |it: &&Template| it.size == size && it.language == lang.as_str();
        let template = TEMPLATES
            .iter()
            .find(is_wanted)
            .ok_or_else(|| anyhow!("this build of opgate has no template for {}", lang.as_str()))?;
        let sdk = Sdk::find(sdk.as_deref())?;
        let directory = out.unwrap_or_else(|| PathBuf::from(&name));
        let filled =
            Filled { name: &name, dependency: sdk.dependency(lang)?, patch: sdk.patch(lang)? };
        write(template, &filled, &directory)?;
        let npmrc = sdk.npm_configuration(lang);
        if let Some(content) = npmrc {
            write_file(&directory.join(".npmrc"), content)?;
        }
        let mut out = anstream::stdout();
        let count = template.files.len().saturating_add(usize::from(npmrc.is_some()));
        writeln!(out, "{}: {count} files\n\nNext:", directory.display())?;
        let component = format!("{}.component.wasm", name.replace('-', "_"));
        writeln!(out, "  cd {}", shell_quoted(&directory))?;
        let manifest = if example { "pod.yaml" } else { "namespace.yaml" };
        let steps = lang.steps(&component, sdk.archive(), manifest, &program());
        let width = steps.iter().map(|(_, command)| command.len()).max().unwrap_or_default();
        for (what, command) in steps {
            writeln!(out, "  {command:width$}  {}", step_title(what))?;
        }
        writeln!(out, "\nTools:")?;
        for tool in lang.tools() {
            match tool.find() {
                Some(path) => writeln!(out, "  {:14}  {}", tool.name, path.display())?,
                None => writeln!(out, "  {:14}  not found: {}", tool.name, tool.install)?,
            }
        }
        Ok(ExitStatus::Ok)
    }
}

/// Returns the purpose of a step.
fn step_title(step: &str) -> &str {
    match step {
        "prepare" => "Fetch the build dependencies, once",
        "build" => "Build it",
        "pack" => "Package the module as a component",
        "test" => "Build it, and run its cases",
        _ => "Evaluate an object that violates a rule",
    }
}

/// Returns this program as a shell calls it: by its name, if the name finds it.
fn program() -> String {
    let Ok(own) = std::env::current_exe() else { return "opgate".to_owned() };
    let resolve = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let is_own = |path: PathBuf| resolve(&path) == resolve(&own);
    if OPGATE.find().is_some_and(is_own) { "opgate".to_owned() } else { shell_quoted(&own) }
}

/// Returns a path for a shell.
fn shell_quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "-_./~".contains(c);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// The values of the places in a template.
struct Filled<'n> {
    name: &'n str,
    dependency: String,
    patch: String,
}

impl Filled<'_> {
    fn fill(&self, text: &str) -> String {
        text.replace("{{name}}", self.name)
            .replace("{{snake}}", &self.name.replace('-', "_"))
            .replace("{{sdk}}", SDK_VERSION)
            .replace("{{dependency}}", &self.dependency)
            .replace("{{patch}}", &self.patch)
    }
}

/// Writes the files to a directory that has none.
fn write(template: &Template, filled: &Filled<'_>, directory: &Path) -> anyhow::Result<()> {
    let named = || directory.display().to_string();
    fs::create_dir_all(directory).with_context(named)?;
    if fs::read_dir(directory).with_context(named)?.next().is_some() {
        return Err(anyhow!("{}: is not empty: name a new directory with --out", named()));
    }
    for (path, content) in template.files {
        let inside = PathBuf::from(filled.fill(path));
        // Templates are part of this program. Still, no name may lead out of the directory.
        if !inside.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(anyhow!("{path}: leads out of the directory"));
        }
        let path = directory.join(inside);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).with_context(|| path.display().to_string())?;
        }
        write_file(&path, &filled.fill(content))?;
    }
    Ok(())
}

/// Writes a file: never over a file, nor through a link, that has appeared meanwhile.
fn write_file(path: &Path, content: &str) -> anyhow::Result<()> {
    let named = || path.display().to_string();
    let mut file =
        OpenOptions::new().write(true).create_new(true).open(path).with_context(named)?;
    file.write_all(content.as_bytes()).with_context(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn project_name_is_valid_in_every_language() {
        for right in ["a", "house-images", "a1", &"a".repeat(40)] {
            assert_eq!(name(right).as_deref(), Ok(right));
        }
        let long = "a".repeat(41);
        for wrong in ["", "1a", "-a", "a-", "A", "a_b", "a.b", "../a", "a b", &long] {
            assert!(name(wrong).is_err(), "{wrong:?}");
        }
        for wrong in
            ["fn", "trait", "type", "use", "while", "class", "lambda", "opgate-policy", "test"]
        {
            let error = name(wrong).unwrap_err();
            assert!(error.contains("choose another name"), "{wrong:?}: {error}");
        }
    }
}
