//! `opgate policy new`: creates a directory that builds, tests and packs with one command each.
//!
//! ```text
//! templates/LANGUAGE (embedded) ─▶ names filled in ─▶ a new or empty directory ─▶ next steps
//! ```
//!
//! Nothing is downloaded, and no file outside the directory is written.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::Args;

use super::language::Language;
use crate::cli::exit::{CommandError, ExitStatus};

/// The SDKs that the templates use. Their minor version is that of the contract.
const SDK_VERSION: &str = "0.6.0";

/// Maximum bytes of the name of a policy.
const MAX_NAME_BYTES: usize = 40;

/// Words that cannot name a crate, a module or a package.
const RESERVED_NAMES: [&str; 40] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate",
    "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl",
    "import", "in", "let", "loop", "match", "mod", "move", "mut", "opgate", "pub", "ref", "return",
    "self", "static", "struct", "super", "test", "true",
];

const AFTER_HELP: &str = "\
Examples:
  opgate policy new house-images --lang rust
  opgate policy new house-images --lang typescript --out policies/house-images

Exit status: 0 written, 2 wrong name, or the directory is not empty. docs/write-a-policy.md describes the next steps.";

/// The files of one language.
struct Template {
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
    if RESERVED_NAMES.contains(&text) {
        return Err("a word of a language: choose another name, such as house-images".to_owned());
    }
    Ok(text.to_owned())
}

impl New {
    pub(super) fn run(self) -> Result<ExitStatus, CommandError> {
        let Self { name, lang, out } = self;
        let template = TEMPLATES.iter().find(|template| template.language == lang.as_str());
        let template = template
            .ok_or_else(|| anyhow!("this build of opgate has no template for {}", lang.as_str()))?;
        let directory = out.unwrap_or_else(|| PathBuf::from(&name));
        write(template, &name, &directory)?;
        let mut out = anstream::stdout();
        writeln!(out, "{}: {} files\n\nNext:", directory.display(), template.files.len())?;
        let component = format!("{}.component.wasm", name.replace('-', "_"));
        writeln!(out, "  cd {}", shell_quoted(&directory))?;
        let steps = lang.steps(&component, SDK_VERSION);
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
        _ => "Evaluate a Pod that violates its rules",
    }
}

/// Returns a path for a shell.
fn shell_quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "-_./~".contains(c);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// Writes the files to a directory that has none.
fn write(template: &Template, name: &str, directory: &Path) -> anyhow::Result<()> {
    let named = || directory.display().to_string();
    fs::create_dir_all(directory).with_context(named)?;
    if fs::read_dir(directory).with_context(named)?.next().is_some() {
        return Err(anyhow!("{}: is not empty: name a new directory with --out", named()));
    }
    let snake = name.replace('-', "_");
    let filled = |text: &str| {
        text.replace("{{name}}", name).replace("{{snake}}", &snake).replace("{{sdk}}", SDK_VERSION)
    };
    for (path, content) in template.files {
        let inside = PathBuf::from(filled(path));
        // Templates are part of this program. Still, no name may lead out of the directory.
        if !inside.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(anyhow!("{path}: leads out of the directory"));
        }
        let path = directory.join(inside);
        let named = || path.display().to_string();
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).with_context(named)?;
        }
        // Never over a file, nor through a link, that has appeared meanwhile.
        let mut file =
            OpenOptions::new().write(true).create_new(true).open(&path).with_context(named)?;
        file.write_all(filled(content).as_bytes()).with_context(named)?;
    }
    Ok(())
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
        for wrong in ["", "1a", "-a", "a-", "A", "a_b", "a.b", "../a", "a b", "fn", "test", &long] {
            assert!(name(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn sdk_version_matches_the_contract() {
        let wit = include_str!("../../../../../wit/policy.wit");
        let version = wit.lines().find_map(|line| line.strip_prefix("package opgate:policy@"));
        let minor = |version: &str| version.rsplit_once('.').unwrap().0.to_owned();
        assert_eq!(minor(version.unwrap()), minor(SDK_VERSION));
    }
}
