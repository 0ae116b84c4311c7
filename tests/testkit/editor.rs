//! An editor for tests and benchmarks of the language server.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

/// Enough for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);

/// An editor, with the server that it started.
pub struct Editor {
    child: Child,
    stdin: Option<ChildStdin>,
    messages: Receiver<Value>,
    next_id: u64,
}

impl Drop for Editor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Editor {
    /// Starts the server.
    pub fn start(binary: &str, directory: &Path) -> Self {
        let mut child = Command::new(binary)
            .arg("lsp")
            .current_dir(directory)
            .env_remove("OPGATE_CONFIG")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            loop {
                let mut length = None;
                loop {
                    let mut line = String::new();
                    if stdout.read_line(&mut line).unwrap() == 0 {
                        return;
                    }
                    if let Some(number) = line.trim().strip_prefix("Content-Length: ") {
                        length = number.parse().ok();
                    } else if line.trim().is_empty() {
                        break;
                    }
                }
                let mut body = vec![0; length.unwrap()];
                stdout.read_exact(&mut body).unwrap();
                if sender.send(serde_json::from_slice(&body).unwrap()).is_err() {
                    return;
                }
            }
        });
        Self { child, stdin, messages, next_id: 1_000 }
    }

    /// Starts the server with the directory as workspace.
    pub fn open(binary: &str, directory: &Path) -> Self {
        let mut editor = Self::start(binary, directory);
        let root = format!("file://{}", directory.display());
        editor.request("initialize", json!({"rootUri": root, "capabilities": {}}));
        editor.notify("initialized", json!({}));
        editor
    }

    /// The number of the server's process.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Sends a message.
    pub fn send(&mut self, message: &Value) {
        let mut message = message.clone();
        message["jsonrpc"] = "2.0".into();
        let body = message.to_string();
        let stdin = self.stdin.as_mut().unwrap();
        write!(stdin, "Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        stdin.flush().unwrap();
    }

    /// Sends a notification.
    pub fn notify(&mut self, method: &str, parameters: Value) {
        let mut message = json!({"method": method});
        message["params"] = parameters;
        self.send(&message);
    }

    /// Sends a request, and returns the response.
    pub fn request(&mut self, method: &str, parameters: Value) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        let mut message = json!({"id": id, "method": method});
        message["params"] = parameters;
        self.send(&message);
        self.receive(|message| message["id"] == id && message.get("method").is_none())
    }

    /// Returns the next message that is wanted.
    pub fn receive(&mut self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let mut others = Vec::new();
        loop {
            match self.messages.recv_timeout(TIMEOUT) {
                Ok(message) if is_wanted(&message) => return message,
                Ok(message) => others.push(message.to_string()),
                Err(error) => panic!("{error}; received:\n{}", others.join("\n")),
            }
        }
    }

    /// Opens a text, with version 1.
    pub fn open_text(&mut self, uri: &str, text: &str) {
        let document = json!({"uri": uri, "languageId": "yaml", "version": 1, "text": text});
        self.notify("textDocument/didOpen", json!({"textDocument": document}));
    }

    /// Changes a text.
    pub fn change(&mut self, uri: &str, version: usize, changes: &Value) {
        let document = json!({"uri": uri, "version": version});
        let parameters = json!({"textDocument": document, "contentChanges": changes});
        self.notify("textDocument/didChange", parameters);
    }

    /// Returns the result of the request for all safe fixes of a text.
    pub fn fix_all(&mut self, uri: &str) -> Value {
        let start = json!({"line": 0, "character": 0});
        let only = json!(["source.fixAll.opgate"]);
        let response = self.request(
            "textDocument/codeAction",
            json!({
                "textDocument": {"uri": uri},
                "range": {"start": start, "end": start},
                "context": {"diagnostics": [], "only": only},
            }),
        );
        response["result"].clone()
    }

    /// Returns the findings of a version of a text.
    pub fn findings(&mut self, uri: &str, version: i64) -> Vec<Value> {
        let message = self.receive(|message| {
            message["method"] == "textDocument/publishDiagnostics"
                && message["params"]["uri"] == uri
                && message["params"]["version"] == version
        });
        message["params"]["diagnostics"].as_array().unwrap().clone()
    }

    /// Ends the session. Returns the exit status.
    pub fn end(mut self) -> Option<i32> {
        self.request("shutdown", Value::Null);
        self.send(&json!({"method": "exit"}));
        self.wait()
    }

    /// Closes the connection, and waits for the end of the server.
    pub fn wait(&mut self) -> Option<i32> {
        drop(self.stdin.take());
        self.child.wait().unwrap().code()
    }
}
