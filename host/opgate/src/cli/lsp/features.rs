//! The answers to requests about a place in an open text.

use std::fmt::Write as _;
use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lsp_types::{
    CodeAction, CodeActionKind, CodeActionParams, Command, Contents, Diagnostic, Hover, Location,
    MarkupContent, MarkupKind, Range, TextEdit, Uri,
};
use opgate_files::{directory, waivers};
use opgate_input::read::{ReadPurpose, Reader, open_named};
use opgate_input::yaml::{YamlDocument, parse_documents};
use opgate_lsp::annotations::{self, AnnotationPlace};
use opgate_lsp::completion::{CompletionContext, Vocabulary};
use opgate_lsp::definition::reference_at;
use opgate_lsp::finding::{ApplyFix, FileMove, Finding, Fix, FixEffect};
use opgate_lsp::lines::LineIndex;
use opgate_lsp::names::{self, DefinedKind, declarations, defined_kinds};
use opgate_lsp::outline::{Key, Outline};
use opgate_lsp::paths::{FileKind, is_document};
use opgate_lsp::waiver::WaiverEditError;
use opgate_lsp::{symbols as document_symbols, text_edit, uri, waiver};
use opgate_yaml::BooleanWords;
use serde_json::{Value, json};

use super::client::{ADD_WAIVER, ASK_FOR_REASON, CHECK_AGAIN, FIX_ALL};
use super::fix_all::{self, WantedActions};
use super::state::{OpenFile, SessionState};
use crate::cli::check::fix::real_target;

/// Maximum bytes of an explanation.
const MAX_HOVER_BYTES: usize = 64 << 10;
/// Maximum bytes of the files of a bundle in which kinds are searched.
const MAX_BUNDLE_BYTES: usize = 64 << 20;
/// Maximum number of entries in the directory of a bundle in which kinds are searched.
const MAX_ENTRIES: usize = directory::MAX_ENTRIES;
/// Maximum bytes of a file with waivers.
const MAX_WAIVER_BYTES: usize = 64 << 10;
/// Maximum number of places that a name can refer to.
const MAX_TARGETS: usize = 100;

fn to_value(result: impl serde::Serialize) -> Value {
    serde_json::to_value(result).unwrap_or_default()
}

/// Explains the violations at a place, or the rule or annotation that is written there.
pub(super) fn hover(state: &SessionState, path: &Path, file: &OpenFile, offset: usize) -> Value {
    let (text, lines) = (file.document.text(), file.document.lines());
    let is_at = |finding: &&Finding| touches(finding, offset, offset);
    let mut page = String::new();
    let mut range: Option<std::ops::Range<usize>> = None;
    let mut rules = Vec::new();
    for finding in state.findings_of(path).filter(is_at) {
        // Writing to a text does not fail.
        let rule = if finding.rule.is_empty() { "opgate" } else { &finding.rule };
        let _ = writeln!(page, "**{rule}**: {}\n", escape(&finding.message));
        if !rules.contains(&finding.rule) {
            rules.push(finding.rule.clone());
        }
        range.get_or_insert_with(|| finding.range.clone());
    }
    if let Some((rule, word)) = named_rule(file, offset) {
        rules.push(rule);
        range.get_or_insert(word);
    }
    rules.dedup();
    for rule in &rules {
        if let Some(found) = state.knowledge.as_ref().and_then(|k| k.pages.get(rule))
            && page.len() + found.len() < MAX_HOVER_BYTES
        {
            page.push_str(found);
            page.push('\n');
        }
    }
    if let Some((description, word)) = annotation_text(file, offset) {
        page.push_str(&description);
        range.get_or_insert(word);
    }
    let Some(range) = range.filter(|_| !page.is_empty()) else { return Value::Null };
    let contents = MarkupContent { kind: MarkupKind::Markdown, value: page.trim_end().to_owned() };
    to_value(Hover {
        contents: Contents::MarkupContent(contents),
        range: Some(lines.range(text, &range)),
    })
}

fn touches(finding: &Finding, start: usize, end: usize) -> bool {
    finding.range.start <= end && start <= finding.range.end
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '\\' | '`' | '*' | '_' | '<' | '>' | '[' | ']' | '#' | '|') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// Returns the rule that a file about rules names at a place.
fn named_rule(file: &OpenFile, offset: usize) -> Option<(String, std::ops::Range<usize>)> {
    if !matches!(file.kind, FileKind::Configuration | FileKind::Waivers | FileKind::Cases) {
        return None;
    }
    let text = file.document.text();
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let before = text.get(..offset)?;
    let start = before.len() - before.chars().rev().take_while(|c| is_part(*c)).count();
    let after = text.get(offset..)?;
    let end = offset + after.chars().take_while(|c| is_part(*c)).count();
    let word = text.get(start..end).filter(|word| word.contains('-'))?;
    Some((word.to_owned(), start..end))
}

/// Returns the meaning of the annotation at a place.
fn annotation_text(file: &OpenFile, offset: usize) -> Option<(String, std::ops::Range<usize>)> {
    let (text, outline) = (file.document.text(), &file.outline);
    let node = outline.node_at(offset)?;
    let (document, path) = outline.path(node);
    let place = match (file.kind, path.as_slice()) {
        (FileKind::BundleAnnotations, [map, _]) if map.is("annotations") => AnnotationPlace::Bundle,
        (FileKind::Objects, [metadata, map, _])
            if metadata.is("metadata")
                && map.is("annotations")
                && outline.text_at(text, document, &["kind"]).as_deref()
                    == Some("ClusterServiceVersion") =>
        {
            AnnotationPlace::ClusterServiceVersion
        }
        _ => return None,
    };
    let Some(Key::Name(key)) = path.last() else { return None };
    let found = annotations::find(place, key)?;
    let values = match found.values.as_slice() {
        [] => String::new(),
        values => format!(" One of: {}.", values.join(", ")),
    };
    let range = outline.nodes().get(node)?.key_range.clone();
    Some((format!("`{key}`\n\n{}.{values}\n", found.meaning), range))
}

/// Finds what a name refers to.
pub(super) fn definition(
    state: &SessionState,
    path: &Path,
    file: &OpenFile,
    offset: usize,
) -> Value {
    let text = file.document.text();
    let Some(reference) = reference_at(file.kind, text, &file.outline, offset) else {
        return Value::Null;
    };
    let mut targets = Vec::new();
    // Open texts can differ from what is indexed.
    for (open, other) in &state.files {
        let other_text = other.document.text();
        for declared in declarations(other_text, &other.outline) {
            if reference.is_to(&declared) {
                let range = other.document.lines().range(other_text, &declared.range);
                targets.push((open.clone(), Location { uri: other.uri.clone(), range }));
            }
        }
    }
    for (target, declared) in state.names.find(path, |declared| reference.is_to(declared)) {
        if targets.len() >= MAX_TARGETS {
            break;
        }
        if state.files.contains_key(target) {
            continue;
        }
        let Some(target_text) = read_file(target) else { continue };
        let range = LineIndex::of(&target_text).range(&target_text, &declared.range);
        targets.push((target.to_owned(), Location { uri: state.uri_of(target), range }));
    }
    let shared = |other: &Path| {
        path.components().zip(other.components()).take_while(|(a, b)| a == b).count()
    };
    targets.sort_by_key(|(target, _)| (usize::MAX - shared(target), target.clone()));
    // Those in the same bundle, if there are any.
    let nearest = targets.first().map_or(0, |(target, _)| shared(target));
    let is_near = |(target, _): &(PathBuf, Location)| shared(target) == nearest;
    to_value(targets.into_iter().filter(is_near).map(|(_, place)| place).collect::<Vec<_>>())
}

fn read_file(path: &Path) -> Option<String> {
    let opened = open_named(path).ok()?;
    let bytes = Reader::new(MAX_BUNDLE_BYTES).read(opened, true, ReadPurpose::Scan).ok()?;
    String::from_utf8(bytes).ok()
}

/// Lists the symbols of a text.
pub(super) fn symbols(_: &SessionState, _: &Path, file: &OpenFile, _: usize) -> Value {
    let (text, lines) = (file.document.text(), file.document.lines());
    to_value(document_symbols::symbols(text, lines, &file.outline))
}

/// Completes what is written.
pub(super) fn completion(
    state: &SessionState,
    path: &Path,
    file: &OpenFile,
    offset: usize,
) -> Value {
    let none = Vocabulary::default();
    let context = CompletionContext {
        kind: file.kind,
        text: file.document.text(),
        lines: file.document.lines(),
        outline: &file.outline,
        vocabulary: state.knowledge.as_ref().map_or(&none, |knowledge| &knowledge.vocabulary),
    };
    to_value(context.complete(offset, &|| kinds_near(state, path)))
}

/// Returns the kinds of the CRDs in the directory of a file.
fn kinds_near(state: &SessionState, path: &Path) -> Vec<DefinedKind> {
    let Some(directory) = path.parent() else { return Vec::new() };
    let open = state.files.iter().filter(|(open, _)| open.parent() == Some(directory));
    let mut kinds: Vec<_> =
        open.flat_map(|(_, file)| defined_kinds(file.document.text(), &file.outline)).collect();
    let entries = directory.read_dir().into_iter().flatten().filter_map(Result::ok);
    let is_closed = |entry: &DirEntry| {
        let path = entry.path();
        // A link can lead anywhere.
        let is_file = is_document(&path) && entry.file_type().is_ok_and(|kind| kind.is_file());
        is_file && !state.files.contains_key(&path)
    };
    let closed = entries.take(MAX_ENTRIES).filter(is_closed);
    let mut closed: Vec<_> = closed.map(|entry| entry.path()).collect();
    closed.sort();
    let reader = Reader::new(MAX_BUNDLE_BYTES);
    for path in closed {
        let read =
            open_named(&path).and_then(|opened| reader.read(opened, true, ReadPurpose::Scan));
        let text = read.ok().and_then(|bytes| String::from_utf8(bytes).ok());
        if let Some(text) = text.filter(|text| names::may_declare(text)) {
            kinds.extend(defined_kinds(&text, &Outline::of(&text)));
        }
    }
    kinds.sort_by(|a, b| (&a.name, &a.kind).cmp(&(&b.name, &b.kind)));
    kinds.dedup();
    kinds
}

/// Lists the fixes and waivers of the violations in a range, and the command for all fixes of the file.
pub(super) fn code_actions(
    state: &SessionState,
    parameters: &CodeActionParams,
    wanted: WantedActions,
) -> Vec<CodeAction> {
    let Some(path) = uri::to_path(&parameters.text_document.uri.0) else { return Vec::new() };
    let Some(file) = state.files.get(&path).filter(|_| wanted.quick_fixes) else {
        return Vec::new();
    };
    let (text, lines) = (file.document.text(), file.document.lines());
    let start = lines.offset(text, parameters.range.start);
    let end = lines.offset(text, parameters.range.end);
    let mut actions = Vec::new();
    let mut waived: Vec<&str> = Vec::new();
    let found: Vec<_> =
        state.findings_of(&path).filter(|finding| touches(finding, start, end)).collect();
    for finding in &found {
        let diagnostic = finding.diagnostic(text, lines);
        actions.extend(fix_action(state, file, finding, diagnostic));
    }
    for finding in &found {
        let is_new = !finding.rule.is_empty() && !waived.contains(&finding.rule.as_str());
        if is_new && let Some(directory) = &finding.waivers {
            waived.push(&finding.rule);
            let diagnostic = finding.diagnostic(text, lines);
            actions.extend(waive_action(state, directory, finding, diagnostic));
        }
    }
    let is_fixable = |fix: &Fix| fix.is_safe && fix.edits_only(&path);
    let has_fix = || state.findings_of(&path).any(|f| f.fix.as_ref().is_some_and(is_fixable));
    if wanted.fix_all_command && has_fix() {
        actions.push(CodeAction {
            title: fix_all::TITLE.to_owned(),
            kind: Some(fix_all::kind()),
            command: Some(file_command(fix_all::TITLE, FIX_ALL, file)),
            ..CodeAction::default()
        });
    }
    actions
}

/// Returns a command of the server about a file.
fn file_command(title: &str, command: &str, file: &OpenFile) -> Command {
    Command {
        title: title.to_owned(),
        tooltip: None,
        command: command.to_owned(),
        arguments: Some(vec![json!({"uri": file.uri.0})]),
    }
}

fn fix_action(
    state: &SessionState,
    file: &OpenFile,
    finding: &Finding,
    diagnostic: Diagnostic,
) -> Option<CodeAction> {
    let fix = finding.fix.as_ref()?;
    let (edit, command) = match &fix.effect {
        FixEffect::Edit { paths, apply } => (text_changes(state, paths, apply)?, None),
        // Without this command, editors do not report a move of a file that is not open.
        FixEffect::Move(moved) => {
            let again = file_command("Check again", CHECK_AGAIN, file);
            (move_changes(state, moved)?, Some(again))
        }
    };
    let review = if fix.is_safe { "" } else { " (review it: it can change the meaning)" };
    Some(CodeAction {
        title: format!("{}{review}", fix.title),
        kind: Some(CodeActionKind::QuickFix),
        diagnostics: Some(vec![diagnostic]),
        is_preferred: fix.is_safe.then_some(true),
        edit: serde_json::from_value(edit).ok(),
        command,
        ..CodeAction::default()
    })
}

/// Returns the edit of the texts of files. A text that cannot be edited with certainty has none.
fn text_changes(state: &SessionState, paths: &[PathBuf], apply: &Arc<ApplyFix>) -> Option<Value> {
    let mut changes = Vec::new();
    for path in paths {
        let edits = with_text(state, path, |text, lines| {
            Some(text_edit::edits(text, lines, &apply(path, text).ok()?))
        });
        changes.push((path.clone(), edits?));
    }
    let is_empty = changes.iter().all(|(_, edits)| edits.is_empty());
    (!is_empty).then(|| workspace_edit(state, &changes, false))
}

/// Returns the edit of an open text to a new text; none if they are the same.
pub(super) fn new_text_edit(
    state: &SessionState,
    path: &Path,
    file: &OpenFile,
    new: &str,
) -> Option<Value> {
    let edits = text_edit::edits(file.document.text(), file.document.lines(), new);
    (!edits.is_empty()).then(|| workspace_edit(state, &[(path.to_owned(), edits)], false))
}

/// Returns the edit that moves a file or a document, if the editor can do that and the new place is free.
fn move_changes(state: &SessionState, moved: &FileMove) -> Option<Value> {
    let FileMove { path, document, directory, target } = moved;
    let inside = target.strip_prefix(directory).ok()?;
    if state.files.contains_key(target) || real_target(directory, inside).is_err() {
        return None;
    }
    let (old, new) = (state.uri_of(path).0, uri::of_path(target));
    let Some(document) = *document else {
        let options = json!({"overwrite": false, "ignoreIfExists": false});
        let rename = json!({"kind": "rename", "oldUri": old, "newUri": new, "options": options});
        return state.options.can_rename_files.then(|| json!({"documentChanges": [rename]}));
    };
    if !state.options.can_create_files {
        return None;
    }
    let name = path.file_name()?.to_string_lossy();
    with_text(state, path, |text, lines| {
        let split = opgate_fix::split_document(text, &name, document).ok()?;
        let version = state.files.get(path).map(|file| file.document.version());
        let whole = TextEdit { range: Range::default(), new_text: split.moved };
        let options = json!({"overwrite": false, "ignoreIfExists": false});
        let edits = text_edit::edits(text, lines, &split.rest);
        Some(json!({"documentChanges": [
            {"kind": "create", "uri": new, "options": options},
            {"textDocument": {"uri": new, "version": null}, "edits": [whole]},
            {"textDocument": {"uri": old, "version": version}, "edits": edits},
        ]}))
    })
}

/// Calls a function with the open text of a file, or else with that on disk.
fn with_text<R>(
    state: &SessionState,
    path: &Path,
    call: impl FnOnce(&str, &LineIndex) -> Option<R>,
) -> Option<R> {
    if let Some(open) = state.files.get(path) {
        return call(open.document.text(), open.document.lines());
    }
    let text = read_file(path)?;
    call(&text, &LineIndex::of(&text))
}

/// Returns an edit of files, which it creates if they are new.
fn workspace_edit(
    state: &SessionState,
    changes: &[(PathBuf, Vec<TextEdit>)],
    is_new: bool,
) -> Value {
    let creates = is_new && state.options.can_create_files;
    if !state.options.has_document_changes || is_new && !creates {
        let change =
            |(path, edits): &(PathBuf, Vec<TextEdit>)| (state.uri_of(path).0, json!(edits));
        let changes: serde_json::Map<_, _> = changes.iter().map(change).collect();
        return json!({"changes": changes});
    }
    let mut operations = Vec::new();
    for (path, edits) in changes {
        let uri = state.uri_of(path).0;
        let version = state.files.get(path).map(|file| file.document.version());
        if creates {
            let options = json!({"ignoreIfExists": true});
            operations.push(json!({"kind": "create", "uri": uri, "options": options}));
        }
        let document = json!({"uri": uri, "version": version});
        operations.push(json!({"textDocument": document, "edits": edits}));
    }
    json!({"documentChanges": operations})
}

fn waive_action(
    state: &SessionState,
    directory: &Path,
    finding: &Finding,
    diagnostic: Diagnostic,
) -> Option<CodeAction> {
    let rule = &finding.rule;
    let mut action = CodeAction {
        title: format!("Waive {rule} in {}, with a reason", waivers::FILE_NAME),
        kind: Some(CodeActionKind::QuickFix),
        diagnostics: Some(vec![diagnostic]),
        ..CodeAction::default()
    };
    let uri = Uri::from(uri::of_path(directory));
    if state.options.asks_for_reason {
        let argument = json!({"directory": uri.0, "rule": rule, "message": finding.message});
        action.command = Some(Command {
            title: action.title.clone(),
            tooltip: None,
            command: ASK_FOR_REASON.to_owned(),
            arguments: Some(vec![argument]),
        });
        return Some(action);
    }
    // Without a reason the waiver is an error in its file: the author has to write one.
    let edit = waiver_edit(state, directory, rule, "").ok()?;
    action.edit = serde_json::from_value(edit).ok();
    Some(action)
}

/// Returns the edit that adds a waiver.
fn waiver_edit(
    state: &SessionState,
    directory: &Path,
    rule: &str,
    reason: &str,
) -> Result<Value, String> {
    let path = directory.join(waivers::FILE_NAME);
    let (text, is_new) = match state.files.get(&path) {
        Some(open) => (open.document.text().to_string(), false),
        None => match std::fs::symlink_metadata(&path) {
            Err(_) => (String::new(), true),
            Ok(found) if !found.is_file() => {
                return Err(format!("{}: not a regular file", path.display()));
            }
            Ok(_) => {
                let opened = open_named(&path).map_err(|error| error.to_string())?;
                let reader = Reader::new(MAX_WAIVER_BYTES);
                let bytes = reader.read(opened, true, ReadPurpose::Scan);
                let bytes = bytes.map_err(|error| error.to_string())?;
                (String::from_utf8(bytes).map_err(|error| error.to_string())?, false)
            }
        },
    };
    let waiver::Insertion { offset, text: inserted } =
        waiver::insertion(&text, rule, reason).map_err(|error| error.to_string())?;
    check_waiver(&text, offset, &inserted, rule)?;
    let position = LineIndex::of(&text).position(&text, offset.min(text.len()));
    let edit = TextEdit { range: Range { start: position, end: position }, new_text: inserted };
    Ok(workspace_edit(state, &[(path, vec![edit])], is_new))
}

/// Checks that a file has the waiver after the insertion, and nothing but waivers: it can be written in any style.
fn check_waiver(text: &str, offset: usize, inserted: &str, rule: &str) -> Result<(), String> {
    let mut made = text.to_owned();
    made.insert_str(offset.min(text.len()), inserted);
    let documents = parse_documents(&made, BooleanWords::Yaml11).unwrap_or_default();
    let has_waiver = |document: &YamlDocument| {
        let value: Value = serde_json::from_str(&document.json.to_string()).unwrap_or_default();
        let waivers = value.get("waivers").and_then(Value::as_array);
        waivers.is_some_and(|waivers| waivers.iter().any(|waiver| waiver["rule"] == rule))
    };
    match documents.as_slice() {
        [document] if has_waiver(document) => Ok(()),
        _ => Err(WaiverEditError::Form.to_string()),
    }
}

/// Runs a command: returns the edit that adds a waiver with the reason that the user gave.
pub(super) fn execute(state: &SessionState, parameters: &Value) -> Result<Value, String> {
    let command = parameters.get("command").and_then(Value::as_str).unwrap_or_default();
    if command != ADD_WAIVER {
        return Err(format!("there is no command {command:?}"));
    }
    let text = |name: &str| {
        let value = parameters.pointer(&format!("/arguments/0/{name}")).and_then(Value::as_str);
        value.map(str::trim).filter(|value| !value.is_empty()).map(str::to_owned)
    };
    let directory = text("directory").and_then(|uri| uri::to_path(&uri));
    let (Some(directory), Some(rule), Some(reason)) = (directory, text("rule"), text("reason"))
    else {
        return Err(format!("{ADD_WAIVER} needs directory, rule and reason"));
    };
    let is_rule = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if !rule.chars().all(is_rule) {
        return Err(format!("{rule:?} is not a rule"));
    }
    let edit = waiver_edit(state, &directory, &rule, &reason)?;
    Ok(json!({"label": format!("Waive {rule}"), "edit": edit}))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use opgate_lsp::text_document::TextDocument;

    use super::super::client::ClientOptions;
    use super::*;

    #[test]
    fn waiver_is_offered_only_where_its_file_is_valid_then() {
        for (text, is_valid) in [
            ("", true),
            ("# none\n", true),
            ("waivers:\n- {rule: B-1, reason: b}\n", true),
            ("{}\n", false),
            ("null\n", false),
            ("text\n", false),
            ("---\n...\n", false),
            ("%YAML 1.2\n---\nwaivers:\n", false),
            ("# a\n---\n---\nwaivers:\n", false),
            ("waivers:\n- rule: [\n", false),
        ] {
            let checked = waiver::insertion(text, "A-1", "x")
                .map_err(|error| error.to_string())
                .and_then(|it| check_waiver(text, it.offset, &it.text, "A-1"));
            assert_eq!(checked.is_ok(), is_valid, "{text:?}: {checked:?}");
        }
    }

    /// Among any number of other files, also those that are not saved.
    #[test]
    fn kinds_of_all_crds_in_the_directory_are_completed() {
        let crd = |kind: &str| {
            format!(
                "kind: CustomResourceDefinition\nmetadata: {{name: {kind}s}}\nspec:\n  names: {{kind: {kind}}}\n"
            )
        };
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let write = |name: &str, text: &str| fs::write(root.join(name), text).unwrap();
        for number in 0..1_200 {
            write(&format!("{number}.txt"), "");
        }
        for name in ["a", "b", "c"] {
            write(&format!("{name}.yaml"), &crd(name));
        }
        // More than is read.
        let large = fs::File::create(root.join("large.yaml")).unwrap();
        large.set_len(u64::try_from(MAX_BUNDLE_BYTES).unwrap() + 1).unwrap();
        write("z.yml", &crd("z"));
        fs::create_dir(root.join("inside")).unwrap();
        write("inside/x.yaml", &crd("x"));
        let mut state = SessionState::new(ClientOptions::default());
        for (name, kind) in [("b.yaml", "edited"), ("unsaved.yaml", "unsaved")] {
            let (path, document) = (root.join(name), TextDocument::new(1, &crd(kind)));
            let file = OpenFile::new(&path, Uri::from(uri::of_path(&path)), document);
            state.files.insert(path, file);
        }
        let found = kinds_near(&state, &root.join("csv.yaml"));
        let kinds: Vec<_> = found.iter().map(|kind| kind.kind.as_str()).collect();
        assert_eq!(kinds, ["a", "c", "edited", "unsaved", "z"]);
    }

    /// A document becomes a separate file if the editor creates files and the new place is free.
    #[test]
    fn document_is_moved_where_the_editor_can_do_it() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let (path, target) = (root.join("a.yaml"), root.join("b.yaml"));
        let moved = FileMove {
            path: path.clone(),
            document: Some(1),
            directory: root.clone(),
            target: target.clone(),
        };
        fs::write(&path, "kind: A\n---\nkind: C\n").unwrap();
        let state = |can_create_files| {
            let options = ClientOptions { can_create_files, ..ClientOptions::default() };
            let mut state = SessionState::new(options);
            let document = TextDocument::new(7, "kind: A\n---\nkind: B\n");
            let file = OpenFile::new(&path, Uri::from(uri::of_path(&path)), document);
            state.files.insert(path.clone(), file);
            state
        };
        let (old, new) = (uri::of_path(&path), uri::of_path(&target));
        let changes = move_changes(&state(true), &moved).unwrap();
        let [create, content, rest] = changes["documentChanges"].as_array().unwrap().as_slice()
        else {
            panic!("{changes}");
        };
        assert_eq!((&create["kind"], &create["uri"]), (&json!("create"), &json!(new)));
        assert_eq!(content["edits"][0]["newText"], "kind: B\n");
        assert_eq!(rest["textDocument"], json!({"uri": old, "version": 7}));
        assert_eq!(move_changes(&state(false), &moved), None);
        fs::write(&target, "").unwrap();
        assert_eq!(move_changes(&state(true), &moved), None);
    }
}
