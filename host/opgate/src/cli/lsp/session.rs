//! A session with an editor: open texts, findings, and the answers to requests.
//!
//! ```text
//! messages ─▶ texts ─▶ jobs ─▶ evaluator
//!     │         └▶ findings move with the text        ◀── findings, names
//!     └▶ requests ─▶ features of opgate-lsp ─▶ responses
//! ```

use std::collections::{BTreeSet, HashMap};
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
use opgate_lsp::paths::MAX_OPEN_BYTES;
use opgate_lsp::text_document::TextDocument;
use opgate_lsp::uri;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::client::{self, ClientOptions};
use super::features;
use super::messages::{EvaluatedUnit, Event, Job, OpenTexts, UnitKey};
use super::settings::configuration_file;
use super::state::{OpenFile, SessionState};

/// The session.
pub(super) struct Session {
    sender: SendMessage,
    state: SessionState,
    jobs: Sender<Job>,
    generation: Arc<AtomicU64>,
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
        generation: Arc<AtomicU64>,
    ) -> Self {
        let (sender, state) = (Box::new(send), SessionState::new(options));
        Self { sender, state, jobs, generation, next_request: 0, is_shut_down: false }
    }

    /// Runs until the editor ends it.
    pub(super) fn run(mut self, events: &Receiver<Event>) {
        if self.state.options.can_watch_files {
            self.request("client/registerCapability", client::watch_registration());
        }
        while let Ok(event) = events.recv() {
            match event {
                Event::Message(Message::Request(request)) => self.answer(request),
                Event::Message(Message::Notification(note)) if note.method == "exit" => break,
                Event::Message(Message::Notification(note)) => self.take(note),
                // Answers of the editor need no reaction.
                Event::Message(Message::Response(_)) => {}
                Event::Disconnected => break,
                Event::Ready(knowledge) => self.state.knowledge = Some(knowledge),
                Event::Evaluated(unit) => self.take_findings(unit),
                Event::Removed(unit) => {
                    self.replace_unit(&unit, HashMap::new(), Vec::new());
                }
                Event::Names(path, declared) => self.state.names.set(&path, declared),
                Event::Indexed { units, files } => {
                    self.log(3, &format!("found {units} units and {files} files with names"));
                }
                Event::Checked(units) => self.log(3, &format!("checked {units} units")),
                Event::Note(text) => self.log(2, &text),
                Event::Failed(text) => {
                    self.notify("window/showMessage", json!({"type": 1, "message": text}));
                }
            }
        }
        self.generation.fetch_add(1, Ordering::Release);
        // The evaluator may have ended already.
        let _ = self.jobs.send(Job::Stop);
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
            "textDocument/codeAction" => {
                parse(params).map(|p: CodeActionParams| features::code_actions(&self.state, &p))
            }
            "workspace/executeCommand" => features::execute(&self.state, &params).map(|edit| {
                self.request("workspace/applyEdit", edit);
                Value::Null
            }),
            _ => return self.send_error(id, ErrorCode::MethodNotFound, "not supported"),
        };
        match result {
            Ok(result) => self.send(Response { id, response_result: Ok(result) }.into()),
            Err(message) => self.send_error(id, ErrorCode::InvalidParams, &message),
        }
    }

    fn send_error(&self, id: RequestId, code: ErrorCode, message: &str) {
        let code = match code {
            ErrorCode::InvalidRequest => -32600,
            ErrorCode::MethodNotFound => -32601,
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
            "workspace/didChangeWatchedFiles" => {
                self.watched(&params);
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
        if item.text.len() > MAX_OPEN_BYTES {
            let limit = opgate_text::units::bytes(MAX_OPEN_BYTES);
            let shown = path.display();
            return self
                .log(2, &format!("{shown} is not checked while it is open: larger than {limit}"));
        }
        let document = TextDocument::new(item.version, &item.text);
        self.state.files.insert(path.clone(), OpenFile::new(&path, item.uri, document));
        self.texts_changed(path);
    }

    fn change(&mut self, parameters: &DidChangeTextDocumentParams) {
        let document = &parameters.text_document;
        let Some(path) = uri::to_path(&document.text_document_identifier.uri.0) else { return };
        let Some(file) = self.state.files.get_mut(&path) else { return };
        let edits = file.document.apply(document.version, &parameters.content_changes);
        if file.document.text().len() > MAX_OPEN_BYTES {
            self.state.files.remove(&path);
            self.log(2, &format!("{} has become too large to be checked", path.display()));
        } else {
            file.update(&path);
        }
        self.state.move_findings(&path, &edits);
        self.texts_changed(path);
    }

    fn close(&mut self, parameters: &Value) {
        let Some(path) = document_path(parameters) else { return };
        self.state.files.remove(&path);
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
        let (mut changed, mut needs_scan) = (Vec::new(), false);
        for change in events.into_iter().flatten() {
            let path = change.get("uri").and_then(Value::as_str).and_then(uri::to_path);
            let Some(path) = path else { continue };
            if self.is_configuration(&path) {
                self.send_job(Job::Reload);
            } else if change.get("type").and_then(Value::as_u64) != Some(2) {
                // Created or deleted.
                needs_scan |= !path.ends_with(waivers::FILE_NAME);
                changed.push(path);
            } else if !self.state.files.contains_key(&path) {
                changed.push(path);
            }
        }
        if !changed.is_empty() {
            self.generation.fetch_add(1, Ordering::Release);
            self.send_job(Job::FilesChanged(changed));
        }
        if needs_scan {
            self.send_job(Job::Rescan);
        }
    }

    fn is_configuration(&self, path: &Path) -> bool {
        configuration_file(&self.state.options).is_some_and(|(file, _)| file == path)
    }

    fn send_job(&self, job: Job) {
        // Without an evaluator, its error was shown.
        let _ = self.jobs.send(job);
    }

    /// Sends the texts to the evaluator, and cancels what it does.
    fn texts_changed(&mut self, path: PathBuf) {
        let mut open = OpenTexts { changed: vec![path], ..OpenTexts::default() };
        for (path, file) in &self.state.files {
            open.texts.insert(path.clone(), file.document.text().clone());
            open.versions.insert(path.clone(), file.document.version());
        }
        self.generation.fetch_add(1, Ordering::Release);
        self.send_job(Job::Texts(Box::new(open)));
    }

    fn take_findings(&mut self, evaluated: EvaluatedUnit) {
        let EvaluatedUnit { unit, findings, versions, ended } = evaluated;
        let is_current = |path: &PathBuf| {
            let version = self.state.files.get(path).map(|file| file.document.version());
            version == versions.get(path).copied()
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
        self.state.add_unit(unit, findings);
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
