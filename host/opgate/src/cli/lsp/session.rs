//! A session with an editor: open texts, findings, and the answers to requests.
//!
//! ```text
//! messages ─▶ texts ─▶ jobs ─▶ evaluator
//!     │         └▶ findings move with the text        ◀── findings, names
//!     └▶ requests ─▶ features of opgate-lsp ─▶ responses
//! ```

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};

use lsp_server::{ErrorCode, Message, Notification, Request, RequestId, Response};
use lsp_types::{
    CodeActionParams, CompletionParams, DefinitionParams, Diagnostic, DidChangeTextDocumentParams,
    DidOpenTextDocumentParams, DocumentSymbolParams, HoverParams, Position,
    PublishDiagnosticsParams, Uri,
};
use opgate_files::waivers;
use opgate_lsp::finding::Finding;
use opgate_lsp::names::declarations;
use opgate_lsp::paths::{MAX_ALL_OPEN_BYTES, MAX_OPEN_BYTES, is_document};
use opgate_lsp::text_document::TextDocument;
use opgate_lsp::uri;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::client::{self, CHECK_AGAIN, ClientOptions, FIX_ALL};
use super::features;
use super::fix_all::{FixAllRequest, FixAllTarget, KIND, PendingFixes, TITLE, WantedActions};
use super::messages::{EvaluatedUnit, Event, FileChanges, Job, UnitKey};
use super::open_texts::TextMailbox;
use super::settings::{configuration_file, configuration_places};
use super::state::{OpenFile, SessionState};

/// The session.
pub(super) struct Session {
    sender: SendMessage,
    state: SessionState,
    jobs: Sender<Job>,
    mailbox: Arc<TextMailbox>,
    generation: Arc<AtomicU64>,
    fixes: PendingFixes,
    /// Open texts that are too large.
    refused: HashSet<PathBuf>,
    has_dropped_findings: bool,
    next_request: i32,
    is_shut_down: bool,
}

/// Sends a message to the editor; false if it is gone.
type SendMessage = Box<dyn Fn(Message) -> bool>;

impl Session {
    pub(super) fn new(
        send: impl Fn(Message) -> bool + 'static,
        options: ClientOptions,
        jobs: Sender<Job>,
        mailbox: Arc<TextMailbox>,
        generation: Arc<AtomicU64>,
    ) -> Self {
        Self {
            sender: Box::new(send),
            state: SessionState::new(options),
            jobs,
            mailbox,
            generation,
            fixes: PendingFixes::default(),
            refused: HashSet::new(),
            has_dropped_findings: false,
            next_request: 0,
            is_shut_down: false,
        }
    }

    /// Runs until the editor ends it. Returns whether it did so in the order of the protocol, or is gone.
    pub(super) fn run(mut self, events: &Receiver<Event>) -> bool {
        let mut is_in_order = true;
        if self.state.options.can_watch_files {
            self.request("client/registerCapability", client::watch_registration());
        }
        while let Ok(event) = events.recv() {
            match event {
                Event::Message(Message::Request(request)) => self.answer(request),
                Event::Message(Message::Notification(note)) if note.method == "exit" => {
                    is_in_order = self.is_shut_down;
                    break;
                }
                Event::Message(Message::Notification(note)) => self.take(note),
                // Answers of the editor need no reaction.
                Event::Message(Message::Response(_)) => {}
                Event::Disconnected => break,
                Event::Ready(knowledge) => self.state.knowledge = Some(knowledge),
                Event::Evaluated(unit) => self.take_findings(unit),
                Event::Fixed(ticket, text) => {
                    if let Some(request) = self.fixes.take(ticket) {
                        self.finish_fix_all(request, text.as_deref());
                    }
                }
                Event::Removed(unit) => {
                    self.replace_unit(&unit, HashMap::new(), Vec::new());
                }
                Event::Names(path, declared) => self.state.names.set(&path, declared),
                Event::Indexed(units, files) => self.take_index(units, &files),
                Event::Checked(units) => self.log(3, &format!("checked {units} units")),
                Event::Note(text) => self.log(2, &text),
                Event::Failed(text) => {
                    self.notify("window/showMessage", json!({"type": 1, "message": text}));
                    for request in self.fixes.take_all() {
                        self.finish_fix_all(request, None);
                    }
                }
            }
        }
        self.generation.fetch_add(1, Ordering::Release);
        // The evaluator may have ended already.
        let _ = self.jobs.send(Job::Stop);
        is_in_order
    }

    fn send(&self, message: Message) {
        // If the editor is gone, the next event is its end.
        let _ = (self.sender)(message);
    }

    fn notify(&self, method: &str, parameters: Value) {
        self.send(Notification { method: method.to_owned(), params: parameters }.into());
    }

    /// Sends a request to the editor.
    fn request(&mut self, method: &str, parameters: Value) {
        self.next_request = self.next_request.wrapping_add(1);
        let id = RequestId::from(self.next_request);
        self.send(Request { id, method: method.to_owned(), params: parameters }.into());
    }

    fn log(&self, level: u8, text: &str) {
        self.notify("window/logMessage", json!({"type": level, "message": text}));
    }

    fn answer(&mut self, request: Request) {
        let Request { id, method, params } = request;
        if self.is_shut_down {
            let code = ErrorCode::InvalidRequest;
            return self.send_error(id, code, "the session is shut down");
        }
        let result = match method.as_str() {
            "shutdown" => {
                self.is_shut_down = true;
                Ok(Value::Null)
            }
            "textDocument/hover" => parse(params).map(|p: HoverParams| {
                let at = p.text_document_position_params;
                self.at(&at.text_document.uri, at.position, features::hover)
            }),
            "textDocument/definition" => parse(params).map(|p: DefinitionParams| {
                let at = p.text_document_position_params;
                self.at(&at.text_document.uri, at.position, features::definition)
            }),
            "textDocument/completion" => parse(params).map(|p: CompletionParams| {
                let at = p.text_document_position_params;
                self.at(&at.text_document.uri, at.position, features::completion)
            }),
            "textDocument/documentSymbol" => parse(params).map(|p: DocumentSymbolParams| {
                self.at(&p.text_document.uri, Position::default(), features::symbols)
            }),
            "textDocument/codeAction" => match parse::<CodeActionParams>(params) {
                Ok(parameters) => return self.answer_code_action(id, &parameters),
                Err(error) => Err(error),
            },
            "workspace/executeCommand" => self.execute(&params).map(|()| Value::Null),
            _ => return self.send_error(id, ErrorCode::MethodNotFound, "not supported"),
        };
        match result {
            Ok(result) => self.send(Response { id, response_result: Ok(result) }.into()),
            Err(message) => self.send_error(id, ErrorCode::InvalidParams, &message),
        }
    }

    fn answer_code_action(&mut self, id: RequestId, parameters: &CodeActionParams) {
        let wanted = WantedActions::of(parameters.context.only.as_deref());
        let actions = features::code_actions(&self.state, parameters, wanted);
        let actions = actions.into_iter().filter_map(|action| serde_json::to_value(action).ok());
        let target = FixAllTarget::Response { id, actions: actions.collect() };
        let path = uri::to_path(&parameters.text_document.uri.0).filter(|_| wanted.fix_all);
        self.start_fix_all(path, target);
    }

    /// Runs a command.
    fn execute(&mut self, parameters: &Value) -> Result<(), String> {
        let command = parameters.get("command").and_then(Value::as_str).unwrap_or_default();
        if command != FIX_ALL && command != CHECK_AGAIN {
            let edit = features::execute(&self.state, parameters)?;
            self.request("workspace/applyEdit", edit);
            return Ok(());
        }
        let uri = parameters.pointer("/arguments/0/uri").and_then(Value::as_str);
        let path = uri.and_then(uri::to_path);
        let path = path.ok_or_else(|| format!("{command} needs the uri of a file"))?;
        if command == FIX_ALL {
            self.start_fix_all(Some(path), FixAllTarget::Editor);
        } else {
            self.generation.fetch_add(1, Ordering::Release);
            let changes = FileChanges { paths: vec![path], needs_scan: false };
            self.send_job(Job::FilesChanged(changes));
        }
        Ok(())
    }

    /// Asks the evaluator for the fixes of an open text; there are none for other files.
    fn start_fix_all(&mut self, path: Option<PathBuf>, target: FixAllTarget) {
        let open = path.and_then(|path| {
            let revision = self.state.files.get(&path)?.revision;
            Some((path, revision))
        });
        let (path, revision) = open.unwrap_or_default();
        let request = FixAllRequest { path: path.clone(), revision, target };
        if !self.state.files.contains_key(&path) {
            return self.finish_fix_all(request, None);
        }
        let (ticket, oldest) = self.fixes.add(request);
        if let Some(oldest) = oldest {
            self.finish_fix_all(oldest, None);
        }
        // The editor waits: the background does not continue before.
        self.generation.fetch_add(1, Ordering::Release);
        if self.jobs.send(Job::FixAll(ticket, path)).is_err()
            && let Some(request) = self.fixes.take(ticket)
        {
            self.finish_fix_all(request, None);
        }
    }

    /// Sends the fixes of a text, if it is still the same.
    fn finish_fix_all(&mut self, request: FixAllRequest, text: Option<&str>) {
        let FixAllRequest { path, revision, target } = request;
        let file = self.state.files.get(&path);
        let edit = match (text, file.filter(|file| file.revision == revision)) {
            (None, _) => Ok(None),
            (Some(_), None) => Err("the text has changed: try again"),
            (Some(text), Some(file)) => Ok(features::new_text_edit(&self.state, &path, file, text)),
        };
        match (target, edit) {
            (FixAllTarget::Response { id, mut actions }, Ok(edit)) => {
                let action = |edit| json!({"title": TITLE, "kind": KIND, "edit": edit});
                actions.extend(edit.map(action));
                self.send(Response { id, response_result: Ok(actions.into()) }.into());
            }
            (FixAllTarget::Response { id, .. }, Err(why)) => {
                self.send_error(id, ErrorCode::ContentModified, why);
            }
            (FixAllTarget::Editor, Ok(Some(edit))) => {
                self.request("workspace/applyEdit", json!({"label": TITLE, "edit": edit}));
            }
            (FixAllTarget::Editor, Ok(None)) => {
                self.log(3, "no violation in this file has a fix that needs no review");
            }
            (FixAllTarget::Editor, Err(why)) => self.log(2, why),
        }
    }

    fn cancel(&mut self, parameters: &Value) {
        let id = match parameters.get("id") {
            Some(Value::String(id)) => RequestId::from(id.clone()),
            Some(id) => match id.as_i64().and_then(|id| i32::try_from(id).ok()) {
                Some(id) => RequestId::from(id),
                None => return,
            },
            None => return,
        };
        if self.fixes.cancel(&id) {
            self.send_error(id, ErrorCode::RequestCanceled, "cancelled");
        }
    }

    fn send_error(&self, id: RequestId, code: ErrorCode, message: &str) {
        let code = match code {
            ErrorCode::InvalidRequest => -32600,
            ErrorCode::MethodNotFound => -32601,
            ErrorCode::RequestCanceled => -32800,
            ErrorCode::ContentModified => -32801,
            _ => -32602,
        };
        self.send(Response::new_err(id, code, message.to_owned()).into());
    }

    /// Calls a feature with the open text of an address.
    fn at(
        &self,
        uri: &Uri,
        position: Position,
        feature: fn(&SessionState, &Path, &OpenFile, usize) -> Value,
    ) -> Value {
        let Some(path) = uri::to_path(&uri.0) else { return Value::Null };
        let Some(file) = self.state.files.get(&path) else { return Value::Null };
        let offset = file.document.lines().offset(file.document.text(), position);
        feature(&self.state, &path, file, offset)
    }

    fn take(&mut self, note: Notification) {
        let Notification { method, params } = note;
        let result = match method.as_str() {
            "textDocument/didOpen" => parse(params).map(|p| self.open(p)),
            "textDocument/didChange" => parse(params).map(|p| self.change(&p)),
            "textDocument/didClose" => {
                self.close(&params);
                Ok(())
            }
            "textDocument/didSave" => {
                self.save(&params);
                Ok(())
            }
            "$/cancelRequest" => {
                self.cancel(&params);
                Ok(())
            }
            "workspace/didChangeWatchedFiles" => {
                self.watched(&params);
                Ok(())
            }
            "workspace/didChangeWorkspaceFolders" => {
                self.change_roots(&params);
                Ok(())
            }
            _ => Ok(()),
        };
        if let Err(error) = result {
            self.log(1, &format!("{method} is not understood: {error}"));
        }
    }

    fn open(&mut self, parameters: DidOpenTextDocumentParams) {
        let item = parameters.text_document;
        let Some(path) = uri::to_path(&item.uri.0) else { return };
        self.add_text(path, item.uri, TextDocument::new(item.version, &item.text));
    }

    /// Adds a text, unless it is too large.
    fn add_text(&mut self, path: PathBuf, uri: Uri, document: TextDocument) {
        let was_open = self.state.files.remove(&path).is_some();
        let length = document.text().len();
        let all = self.state.open_bytes().saturating_add(length);
        let limit = match length {
            length if length > MAX_OPEN_BYTES => Some(("larger than", MAX_OPEN_BYTES)),
            _ if all > MAX_ALL_OPEN_BYTES => Some(("all open texts exceed", MAX_ALL_OPEN_BYTES)),
            _ => None,
        };
        if let Some((why, limit)) = limit {
            let (limit, shown) = (opgate_text::units::bytes(limit), path.display());
            self.log(2, &format!("{shown} is not checked while it is open: {why} {limit}"));
            self.refused.insert(path.clone());
            if was_open {
                self.texts_changed(path);
            }
            return;
        }
        self.refused.remove(&path);
        self.state.files.insert(path.clone(), OpenFile::new(&path, uri, document));
        self.texts_changed(path);
    }

    fn change(&mut self, parameters: &DidChangeTextDocumentParams) {
        let document = &parameters.text_document;
        let (uri, version) = (&document.text_document_identifier.uri, document.version);
        let Some(path) = uri::to_path(&uri.0) else { return };
        if self.refused.contains(&path) {
            // Its text is known again once the editor sends it as a whole.
            if let Some(document) = TextDocument::of_changes(version, &parameters.content_changes) {
                self.add_text(path, uri.clone(), document);
            }
            return;
        }
        let Some(file) = self.state.files.get_mut(&path) else { return };
        let edits = file.document.apply(version, &parameters.content_changes);
        let is_too_large = file.document.text().len() > MAX_OPEN_BYTES;
        if is_too_large || self.state.open_bytes() > MAX_ALL_OPEN_BYTES {
            self.state.files.remove(&path);
            self.log(2, &format!("{} has become too large to be checked", path.display()));
            self.refused.insert(path.clone());
        } else if let Some(file) = self.state.files.get_mut(&path) {
            file.update(&path);
        }
        self.state.move_findings(&path, &edits);
        self.texts_changed(path);
    }

    fn close(&mut self, parameters: &Value) {
        let Some(path) = document_path(parameters) else { return };
        self.state.files.remove(&path);
        self.refused.remove(&path);
        self.replace_unit(&UnitKey::Syntax(path.clone()), HashMap::new(), Vec::new());
        // Findings of a file outside of the workspace end with it.
        let is_inside = self.state.options.roots.iter().any(|root| path.starts_with(root));
        if !is_inside {
            self.replace_unit(&UnitKey::Unit(path.clone()), HashMap::new(), Vec::new());
        }
        self.texts_changed(path);
    }

    fn save(&mut self, parameters: &Value) {
        let Some(path) = document_path(parameters) else { return };
        if self.is_configuration(&path) {
            self.send_job(Job::Reload);
        }
        if let Some(file) = self.state.files.get(&path) {
            let text = file.document.text();
            self.state.names.set(&path, declarations(text, &file.outline));
        }
        self.send_job(Job::Saved(path));
    }

    fn watched(&mut self, parameters: &Value) {
        let events = parameters.get("changes").and_then(Value::as_array);
        let (mut changes, mut deleted) = (FileChanges::default(), Vec::new());
        for change in events.into_iter().flatten() {
            let path = change.get("uri").and_then(Value::as_str).and_then(uri::to_path);
            let Some(path) = path else { continue };
            let kind = change.get("type").and_then(Value::as_u64);
            let is_changed = kind == Some(2);
            if self.is_configuration(&path) {
                self.send_job(Job::Reload);
            } else if !is_document(&path) {
                // Of a deleted directory, some editors report nothing else.
                deleted.extend(Some(path).filter(|_| kind == Some(3)));
            } else if !(is_changed && self.state.files.contains_key(&path)) {
                changes.needs_scan |= !is_changed && !path.ends_with(waivers::FILE_NAME);
                changes.paths.push(path);
            }
        }
        if !changes.paths.is_empty() {
            self.generation.fetch_add(1, Ordering::Release);
            self.send_job(Job::FilesChanged(changes));
        }
        if !deleted.is_empty() {
            self.send_job(Job::Deleted(deleted));
        }
    }

    fn change_roots(&mut self, parameters: &Value) {
        let configuration = configuration_file(&self.state.options);
        let roots = client::changed_roots(&self.state.options.roots, parameters);
        let old = std::mem::replace(&mut self.state.options.roots, roots.clone());
        let is_left = |path: &Path| {
            let is_in = |roots: &[PathBuf]| roots.iter().any(|root| path.starts_with(root));
            is_in(&roots) || !is_in(&old)
        };
        self.state.names.retain(is_left);
        self.generation.fetch_add(1, Ordering::Release);
        self.send_job(Job::Roots(roots));
        if configuration_file(&self.state.options) != configuration {
            self.send_job(Job::Reload);
        }
    }

    /// Forgets the names of files that are not there any more.
    fn take_index(&mut self, units: usize, files: &HashSet<PathBuf>) {
        let roots = &self.state.options.roots;
        let is_inside = |path: &Path| roots.iter().any(|root| path.starts_with(root));
        let open = &self.state.files;
        let is_there =
            |path: &Path| files.contains(path) || open.contains_key(path) || !is_inside(path);
        self.state.names.retain(is_there);
        self.log(3, &format!("found {units} units and {} files with names", files.len()));
    }

    fn is_configuration(&self, path: &Path) -> bool {
        // Also one that was deleted.
        configuration_places(&self.state.options).iter().any(|place| place == path)
    }

    fn send_job(&self, job: Job) {
        // Without an evaluator, its error was shown.
        let _ = self.jobs.send(job);
    }

    /// Gives the text to the evaluator, and cancels what it does.
    fn texts_changed(&mut self, path: PathBuf) {
        self.state.revise(&path);
        let file = self.state.files.get(&path);
        let text = file.map(|file| (file.document.text().clone(), file.revision));
        let must_wake = self.mailbox.set(path, text);
        self.generation.fetch_add(1, Ordering::Release);
        if must_wake {
            self.send_job(Job::Texts);
        }
    }

    fn take_findings(&mut self, evaluated: EvaluatedUnit) {
        let EvaluatedUnit { unit, findings, revisions, ended, charge: _charge } = evaluated;
        let is_current = |path: &PathBuf| {
            let revision = self.state.files.get(path).map(|file| file.revision);
            revision == revisions.get(path).copied()
        };
        let known = self.state.files_of(&unit).chain(self.open_files_of(&unit));
        // Findings of an older text would mark other places. Those of the current one follow.
        if findings.keys().chain(known).all(is_current) {
            let ended = ended.iter().flat_map(|key| self.state.remove_unit(key)).collect();
            self.replace_unit(&unit, findings, ended);
        }
    }

    /// Returns the open files of a unit.
    fn open_files_of(&self, unit: &UnitKey) -> impl Iterator<Item = &PathBuf> {
        let path = match unit {
            UnitKey::Unit(path) => Some(path.clone()),
            UnitKey::Syntax(_) => None,
        };
        let is_in = move |open: &&PathBuf| path.as_ref().is_some_and(|path| open.starts_with(path));
        self.state.files.keys().filter(is_in)
    }

    /// Replaces the findings of a unit, and publishes those of its files and of other changed ones. An open file without
    /// findings is published, too: its editor waits for the result.
    fn replace_unit(
        &mut self,
        unit: &UnitKey,
        findings: HashMap<PathBuf, Vec<Finding>>,
        changed: Vec<PathBuf>,
    ) {
        let mut files: BTreeSet<PathBuf> = changed.into_iter().collect();
        files.extend(self.state.remove_unit(unit));
        files.extend(findings.keys().cloned());
        files.extend(self.open_files_of(unit).cloned());
        let dropped = self.state.add_unit(unit, findings);
        if dropped > 0 && !std::mem::replace(&mut self.has_dropped_findings, true) {
            self.log(
                2,
                "there are too many violations: those of some files are shown when you open them",
            );
        }
        for path in &files {
            self.publish(path);
        }
    }

    fn publish(&self, path: &Path) {
        let open = self.state.files.get(path);
        let diagnostic = |finding: &Finding| match open {
            Some(file) => finding.diagnostic(file.document.text(), file.document.lines()),
            None => finding.diagnostic_of_file(),
        };
        let mut diagnostics: Vec<Diagnostic> =
            self.state.findings_of(path).map(diagnostic).collect();
        diagnostics.sort_by_key(|found| (found.range.start, found.range.end));
        let parameters = PublishDiagnosticsParams {
            uri: self.state.uri_of(path),
            version: open.map(|file| file.document.version()),
            diagnostics,
        };
        let parameters = serde_json::to_value(parameters).unwrap_or_default();
        self.notify("textDocument/publishDiagnostics", parameters);
    }
}

/// Reads parameters.
fn parse<P: DeserializeOwned>(parameters: Value) -> Result<P, String> {
    serde_json::from_value(parameters).map_err(|error| error.to_string())
}

/// Returns the path of the text that parameters name.
fn document_path(parameters: &Value) -> Option<PathBuf> {
    parameters.pointer("/textDocument/uri").and_then(Value::as_str).and_then(uri::to_path)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::super::messages::FixAllTicket;
    use super::*;

    fn notification(method: &str, params: Value) -> Event {
        Event::Message(Notification { method: method.to_owned(), params }.into())
    }

    fn open_event(text: &str) -> Event {
        let document =
            json!({"uri": "file:///a.yaml", "languageId": "yaml", "version": 1, "text": text});
        notification("textDocument/didOpen", json!({"textDocument": document}))
    }

    /// Runs a session. Returns its messages.
    fn run(options: ClientOptions, events: Vec<Event>) -> (Vec<Value>, Vec<Job>) {
        let (output, sent) = mpsc::channel();
        let (jobs, todo) = mpsc::channel();
        let (mailbox, generation) = (Arc::default(), Arc::default());
        let write =
            move |message: Message| output.send(serde_json::to_value(message).unwrap()).is_ok();
        let session = Session::new(write, options, jobs, mailbox, generation);
        let (input, received) = mpsc::channel();
        for event in events {
            input.send(event).unwrap();
        }
        drop(input);
        session.run(&received);
        (sent.try_iter().collect(), todo.try_iter().collect())
    }

    /// Editors give a text that is opened again the version 1 again.
    #[test]
    fn fixes_of_an_earlier_text_are_not_applied() {
        let (start, only) = (json!({"line": 0, "character": 0}), json!(["source.fixAll"]));
        let params = json!({
            "textDocument": {"uri": "file:///a.yaml"},
            "range": {"start": start, "end": start},
            "context": {"diagnostics": [], "only": only},
        });
        let method = "textDocument/codeAction".to_owned();
        let close = json!({"textDocument": {"uri": "file:///a.yaml"}});
        for is_reopened in [false, true] {
            let request = Request { id: 5.into(), method: method.clone(), params: params.clone() };
            let mut events = vec![open_event("a: 1\n"), Event::Message(request.into())];
            if is_reopened {
                events.push(notification("textDocument/didClose", close.clone()));
                events.push(open_event("b: 1\n"));
            }
            events.push(Event::Fixed(FixAllTicket(1), Some("a: 2\n".into())));
            let (messages, _) = run(ClientOptions::default(), events);
            let response = messages.iter().find(|message| message["id"] == 5).unwrap();
            let (code, title) = (&response["error"]["code"], &response["result"][0]["title"]);
            if is_reopened {
                assert_eq!(*code, -32_801, "{response}");
            } else {
                assert_eq!(*title, TITLE, "{response}");
            }
        }
    }

    /// It was too large, and the editor has sent only changes of it since.
    #[test]
    fn refused_text_is_taken_once_the_editor_sends_it_as_a_whole() {
        let change = |version: i32, changes: Value| {
            let document = json!({"uri": "file:///a.yaml", "version": version});
            let params = json!({"textDocument": document, "contentChanges": changes});
            notification("textDocument/didChange", params)
        };
        let (start, large) = (json!({"line": 0, "character": 0}), "x".repeat(MAX_OPEN_BYTES + 1));
        let part = json!({"range": {"start": start, "end": start}, "text": "b"});
        let request = |id: i32| {
            let params = json!({"textDocument": {"uri": "file:///a.yaml"}});
            let method = "textDocument/documentSymbol".to_owned();
            Event::Message(Request { id: id.into(), method, params }.into())
        };
        let pod = json!({"text": "kind: Pod\nmetadata: {name: a}\n"});
        let events = vec![
            open_event(&large),
            change(2, json!([part])),
            request(1),
            change(3, json!([{"text": large}])),
            request(2),
            change(
                4,
                json!([part, pod, {"text": "kind: Pod\nmetadata: {name: }\n"}, {"range": {"start": {"line": 1, "character": 17}, "end": {"line": 1, "character": 17}}, "text": "c"}]),
            ),
            request(3),
        ];
        let (messages, _) = run(ClientOptions::default(), events);
        let response = |id: i32| &messages.iter().find(|m| m["id"] == id).unwrap()["result"];
        assert_eq!((response(1), response(2)), (&Value::Null, &Value::Null));
        assert_eq!(response(3)[0]["name"], "Pod c", "{}", response(3));
        let is_refused = |m: &&Value| m.to_string().contains("is not checked while it is open");
        assert_eq!(messages.iter().filter(is_refused).count(), 2);
    }

    #[test]
    fn configuration_is_read_again_when_it_is_deleted() {
        let options = ClientOptions { roots: vec!["/none".into()], ..ClientOptions::default() };
        let changes = json!({"changes": [{"uri": "file:///none/opgate.yaml", "type": 3}]});
        let event = notification("workspace/didChangeWatchedFiles", changes);
        let (_, jobs) = run(options, vec![event]);
        assert!(matches!(jobs.as_slice(), [Job::Reload, Job::Stop]));
    }
}
