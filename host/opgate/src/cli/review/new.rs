//! `opgate review new`: prints the AdmissionReview that an API server would send for a manifest.
//!
//! ```text
//! -f, --old, --cluster-state ─▶ Manifests ─▶ make ─▶ stdout: JSON, JSON Lines or YAML
//!                                        └───▶ stderr: what was guessed
//! ```

use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::Args;
use opgate_admission::review::Operation;
use opgate_document::Document;
use opgate_files::unsupported_type;
use opgate_input::objects;
use opgate_input::read::Reader;
use serde_json::Value;

use crate::cli::args::ReadArgs;
use crate::cli::exit::{CommandError, ExitStatus};
use crate::cli::input::{self, InputError};
use crate::cli::kinds::Kinds;
use crate::cli::make_review as make;
use crate::cli::make_review::{Manifest, RequestOptions};

const AFTER_HELP: &str = "\
Examples:
  opgate review new -f pod.yaml | opgate replay -      Evaluate the creation of a Pod
  opgate review new -f new.yaml --old old.yaml         An UPDATE
  opgate review new -f pod.yaml --operation DELETE     A DELETE
  opgate review new -f pod.yaml --user jane --group devs
  opgate review new -f pod.yaml --sub-resource exec    A CONNECT, as of `kubectl exec`

Several manifests give several reviews, one a line. docs/replay.md has the details.";

/// Arguments of `opgate review new`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct New {
    /// Files with manifests, directories, or - for standard input; may be repeated
    #[arg(long = "file", short = 'f', value_name = "PATH", required = true)]
    files: Vec<PathBuf>,
    /// The previous versions of the objects: the operation is UPDATE; may be repeated
    #[arg(long, value_name = "PATH")]
    old: Vec<PathBuf>,
    /// Operation of the request [default: UPDATE with --old, otherwise CREATE]
    #[arg(long, value_name = "OPERATION", ignore_case = true)]
    operation: Option<OperationArg>,
    /// Name of the user who sends it
    #[arg(long, value_name = "NAME", default_value = make::DEFAULT_USER)]
    user: String,
    /// Group of the user; may be repeated [default: those that an API server gives to such a user]
    #[arg(long = "group", value_name = "GROUP")]
    groups: Vec<String>,
    /// Namespace of manifests that name none [default: default]
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,
    /// The request is a dry run
    #[arg(long)]
    dry_run: bool,
    /// Sub-resource of the request: status, scale, exec, …
    #[arg(long, alias = "subresource", value_name = "NAME", default_value = "")]
    sub_resource: String,
    /// Resource of the kind, if it cannot be derived from it: `sheep` for a Sheep
    #[arg(long, value_name = "PLURAL")]
    resource: Option<String>,
    /// Files with cluster state: custom resource definitions define the resource of a kind, and the objects are
    /// the previous versions for --operation UPDATE and DELETE; may be repeated
    #[arg(long, value_name = "PATH")]
    cluster_state: Vec<PathBuf>,
    /// Output format
    #[arg(long, short, value_name = "FORMAT", default_value = "json")]
    output: Format,
    #[command(flatten)]
    read: ReadArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// JSON: one review indented, several one a line
    Json,
    /// One review a line
    Jsonl,
    /// YAML documents
    Yaml,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum OperationArg {
    #[value(name = "CREATE")]
    Create,
    #[value(name = "UPDATE")]
    Update,
    #[value(name = "DELETE")]
    Delete,
    #[value(name = "CONNECT")]
    Connect,
}

impl From<OperationArg> for Operation {
    fn from(operation_arg: OperationArg) -> Self {
        match operation_arg {
            OperationArg::Create => Self::Create,
            OperationArg::Update => Self::Update,
            OperationArg::Delete => Self::Delete,
            OperationArg::Connect => Self::Connect,
        }
    }
}

impl New {
    pub(super) fn run(self) -> Result<ExitStatus, CommandError> {
        let reader = self.read.reader();
        let mut kinds = Kinds::default();
        let context = read_manifests(&self.cluster_state, &reader, &mut kinds)?;
        let new = read_manifests(&self.files, &reader, &mut kinds)?;
        let old = read_manifests(&self.old, &reader, &mut kinds)?;
        let request_options = RequestOptions {
            operation: self.operation.map(Operation::from),
            user: Some(self.user),
            groups: self.groups,
            namespace: self.namespace,
            dry_run: self.dry_run,
            sub_resource: self.sub_resource,
            resource: self.resource,
        };
        let needs_old =
            matches!(request_options.operation, Some(Operation::Update | Operation::Delete));
        let mut reviews = Vec::new();
        let mut errors = Vec::new();
        for manifest in &new {
            let mut before = old.iter().find(|old| old.is_same_object(manifest));
            if before.is_none() && needs_old {
                before = context.iter().find(|old| old.is_same_object(manifest));
            }
            if before.is_none() && !old.is_empty() {
                let has: Vec<_> = old.iter().take(3).map(Manifest::display_name).collect();
                let (what, has) = (manifest.display_name(), has.join(", "));
                if new.len() == 1 {
                    errors.push(format!("{}: --old has no {what}: it has {has}", manifest.source));
                    continue;
                }
                tracing::warn!("{}: --old has no {what}: it would be created", manifest.source);
            }
            match make::make_review(manifest, before, &request_options, &kinds) {
                Ok(generated) => {
                    for note in &generated.notes {
                        tracing::warn!("{note}; name another one with --resource");
                    }
                    reviews.push(generated.json);
                }
                Err(why) => errors.push(why.to_string()),
            }
        }
        if !errors.is_empty() {
            return Err(CommandError::usage(anyhow::anyhow!(errors.join("\n"))));
        }
        match print_reviews(&reviews, self.output) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            other => other?,
        }
        Ok(ExitStatus::Ok)
    }
}

/// Returns the objects in files. Definitions of kinds are learned.
fn read_manifests(
    paths: &[PathBuf],
    reader: &Reader,
    kinds: &mut Kinds,
) -> anyhow::Result<Vec<Manifest>> {
    let (mut all, mut errors) = (Vec::new(), Vec::new());
    let files = input::list_review_files(paths)?;
    for item in files.iter().flat_map(|file| input::read(file, reader)) {
        match parse_manifests(&item, kinds) {
            Ok(manifests) => all.extend(manifests),
            Err(why) => errors.push(why.to_string()),
        }
    }
    anyhow::ensure!(errors.is_empty(), "{}", errors.join("\n"));
    Ok(all)
}

fn parse_manifests(
    item: &input::ReviewItem,
    kinds: &mut Kinds,
) -> Result<Vec<Manifest>, InputError> {
    let source = &item.source;
    let document: Document = item.document()?;
    if let Some(what) = unsupported_type(document.root()) {
        return Err(InputError::Line(format!("{source}: {what}")));
    }
    let (mut all, mut wrong) = (Vec::new(), None);
    objects::for_each_object(document.root(), None, &mut |found| match found {
        Ok(found) if found.kind == "AdmissionReview" => {
            let why = "an AdmissionReview already: give it to `opgate replay`";
            let _ = wrong.get_or_insert(why.to_owned());
        }
        Ok(found) => {
            kinds.add_definition(found.group_version().0, found.kind, found.value);
            all.push(Manifest::of(source, &found));
        }
        Err(why) => drop(wrong.get_or_insert(why.to_string())),
    });
    match wrong {
        Some(why) => Err(InputError::Line(format!("{source}: {why}"))),
        None if all.is_empty() => {
            Err(InputError::Line(format!("{source}: a list without objects")))
        }
        None => Ok(all),
    }
}

fn print_reviews(reviews: &[String], output_format: Format) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match (output_format, reviews) {
        (Format::Json, [one]) => writeln!(out, "{}", indent_json(one))?,
        (Format::Json | Format::Jsonl, all) => {
            for one in all {
                writeln!(out, "{one}")?;
            }
        }
        (Format::Yaml, all) => {
            let all = all.iter().map(|one| serde_json::from_str(one));
            let all = all.collect::<Result<Vec<Value>, _>>()?;
            let text = opgate_manifests::yaml::documents(&all).map_err(io::Error::other)?;
            out.write_all(text.as_bytes())?;
        }
    }
    out.flush()
}

/// Formats JSON with one member per line, in the given order.
fn indent_json(json: &str) -> String {
    let mut text = String::with_capacity(json.len().saturating_mul(2));
    let (mut depth, mut is_text, mut is_escaped) = (0_usize, false, false);
    let mut characters = json.chars().peekable();
    let line = |text: &mut String, depth: usize| {
        text.push('\n');
        text.extend(std::iter::repeat_n("  ", depth));
    };
    while let Some(c) = characters.next() {
        if is_text {
            text.push(c);
            is_text = is_escaped || c != '"';
            is_escaped = !is_escaped && c == '\\';
            continue;
        }
        match c {
            ' ' | '\t' | '\n' | '\r' => {}
            '"' => {
                is_text = true;
                text.push(c);
            }
            '{' | '[' => {
                text.push(c);
                while characters.next_if(char::is_ascii_whitespace).is_some() {}
                if let Some(end) = characters.next_if(|c| matches!(c, '}' | ']')) {
                    text.push(end);
                } else {
                    depth += 1;
                    line(&mut text, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut text, depth);
                text.push(c);
            }
            ',' => {
                text.push(c);
                line(&mut text, depth);
            }
            ':' => text.push_str(": "),
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_indented_without_other_changes() {
        for json in [
            r#"{"b":[1.50,{}],"a":{"c":"x, {y}: \" \\","d":[]},"e":null}"#,
            r#"{ "b" : [ ] , "a":1e3}"#,
        ] {
            let shown = indent_json(json);
            let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
            assert_eq!(read(&shown), read(json), "{shown}");
            assert!(shown.starts_with("{\n  \"b\": ["), "{shown}");
        }
        assert_eq!(indent_json(r#"{"a":[1,2]}"#), "{\n  \"a\": [\n    1,\n    2\n  ]\n}");
    }
}
