//! Errors of a text alone: of a configuration, of cases, and of what is neither YAML nor JSON.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use opgate_admission::policy::PolicySet;
use opgate_casefile::CaseFileError;
use opgate_input::read::{ReadPurpose, Reader, open_named};
use opgate_lsp::finding::Severity;
use opgate_lsp::outline::is_json;

use crate::cli::config::validate_text;

/// An error at a line and a column, both from 1.
pub(super) type LineError = (Severity, u64, u64, String);

/// Returns the errors of a file with cases.
pub(super) fn case_errors(
    path: &Path,
    text: &str,
    open: &HashMap<PathBuf, Arc<str>>,
    reader: &Reader,
    set: &PolicySet,
) -> Vec<LineError> {
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let file = |path: &Path, text: String| opgate_casefile::File { name: name(path), text };
    let mut files = vec![file(path, text.to_owned())];
    let objects = path.with_file_name(opgate_casefile::OBJECTS_FILE);
    if objects != path {
        let open = open.get(&objects).map(ToString::to_string);
        let read = || {
            let opened = open_named(&objects).ok()?;
            String::from_utf8(reader.read(opened, true, ReadPurpose::Scan).ok()?).ok()
        };
        files.extend(open.or_else(read).map(|text| file(&objects, text)));
    }
    let kinds = case_kinds(set, path);
    let errors = opgate_casefile::read(&files, &kinds).err().unwrap_or_default();
    let own = errors.into_iter().filter(|error| error.file == name(path));
    let line = |error: CaseFileError| {
        let line = u64::try_from(error.line).unwrap_or(1);
        (Severity::Error, line, first_column(text, error.line), error.message)
    };
    own.map(line).collect()
}

/// Returns the column of the first character of a line, from 1.
fn first_column(text: &str, line: usize) -> u64 {
    let line = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
    let indent = line.chars().take_while(|c| c.is_whitespace()).count();
    u64::try_from(indent).unwrap_or_default().saturating_add(1)
}

/// Returns the kinds of directories that the policy of a rule matches.
fn case_kinds(set: &PolicySet, path: &Path) -> Vec<&'static str> {
    let rule = path.file_stem().unwrap_or_default().to_string_lossy();
    let kind = |resource: &String| match resource.as_str() {
        "registrybundles" => Some("RegistryBundle"),
        "plainbundles" => Some("PlainBundle"),
        "operatorprojects" => Some("OperatorProject"),
        _ => None,
    };
    let owner = set.policies().iter().find(|policy| policy.descriptor.rule(&rule).is_some());
    match owner {
        Some(policy) => {
            policy.descriptor.matches.iter().flat_map(|r| &r.resources).filter_map(kind).collect()
        }
        None => vec!["RegistryBundle"],
    }
}

/// Returns the errors of a configuration.
pub(super) fn configuration_errors(path: &Path, text: &str) -> Vec<LineError> {
    match validate_text(path, text) {
        Ok(errors) => errors
            .into_iter()
            .map(|(place, message)| {
                let (line, column) = place.unwrap_or((1, 1));
                (Severity::Error, line, column, message)
            })
            .collect(),
        Err(error) => vec![(Severity::Error, 1, 1, format!("{:#}", error.error))],
    }
}

/// Returns line, column and message of the first error of a text that is neither YAML nor JSON.
pub(super) fn syntax_error(path: &Path, text: &str) -> Option<(u64, u64, String)> {
    let text = text.trim_start_matches('\u{feff}');
    let is_json_file = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
    if is_json_file || is_json(text) {
        let values = serde_json::Deserializer::from_str(text);
        let mut values = values.into_iter::<serde::de::IgnoredAny>();
        let error = values.find_map(Result::err)?;
        if is_json_file {
            let number = |number: usize| u64::try_from(number).unwrap_or(1).max(1);
            let message = error.to_string();
            let message = message.split(" at line ").next().unwrap_or_default().to_owned();
            let (line, column) = (number(error.line()), number(error.column()));
            return Some((line, column, format!("not JSON: {message}")));
        }
    }
    let words = opgate_yaml::BooleanWords::Yaml11;
    let error = opgate_input::yaml::parse_documents_tolerant(text, words).err()?;
    Some((error.line, error.column, format!("not YAML: {}", error.message)))
}
