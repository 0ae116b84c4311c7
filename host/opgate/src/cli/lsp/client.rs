//! What the editor can do and asks for, and what this server can do.

use std::path::PathBuf;

use lsp_types::{
    CodeActionKind, CodeActionOptions, CompletionOptions, ExecuteCommandOptions, SaveOptions,
    ServerCapabilities, TextDocumentSyncKind, TextDocumentSyncOptions,
    WorkspaceFoldersServerCapabilities, WorkspaceOptions,
};
use opgate_lsp::uri;
use serde_json::{Value, json};

use super::fix_all;

/// Command of the server: adds a waiver with a reason.
pub(super) const ADD_WAIVER: &str = "opgate.addWaiver";
/// Command of the server: applies all safe fixes of a file.
pub(super) const FIX_ALL: &str = "opgate.fixAll";
/// Command of the server: evaluates a file again, after an action that moved another one.
pub(super) const CHECK_AGAIN: &str = "opgate.checkAgain";
/// Command of the editor: asks for the reason of a waiver, and then calls [`ADD_WAIVER`].
pub(super) const ASK_FOR_REASON: &str = "opgate.waive";

/// The kind of watched events for what is deleted.
const DELETE: u8 = 4;

/// Maximum number of directories of a workspace.
const MAX_ROOTS: usize = 64;

/// Options of the editor.
#[derive(Debug, Clone, Default)]
#[allow(clippy::struct_excessive_bools, reason = "independent options")]
pub(super) struct ClientOptions {
    /// Directories of the workspace.
    pub(super) roots: Vec<PathBuf>,
    /// The configuration that the user, not the workspace, names.
    pub(super) config: Option<PathBuf>,
    pub(super) cache_dir: Option<PathBuf>,
    /// Whether policies from files that the workspace's opgate.yaml names run.
    pub(super) trusts_workspace: bool,
    /// Whether the editor has the command [`ASK_FOR_REASON`].
    pub(super) asks_for_reason: bool,
    /// Whether edits can create files.
    pub(super) can_create_files: bool,
    /// Whether edits can rename files.
    pub(super) can_rename_files: bool,
    /// Whether edits can name the version of a text.
    pub(super) has_document_changes: bool,
    /// Whether it watches files if it is asked to.
    pub(super) can_watch_files: bool,
}

impl ClientOptions {
    /// Reads the parameters of `initialize`.
    pub(super) fn of(parameters: &Value) -> Self {
        let folders = parameters.get("workspaceFolders").and_then(Value::as_array);
        let folders = folders.into_iter().flatten().filter_map(|folder| folder.get("uri"));
        let mut roots: Vec<_> = folders.filter_map(root_path).collect();
        if roots.is_empty() {
            roots.extend(parameters.get("rootUri").and_then(root_path));
        }
        roots.truncate(MAX_ROOTS);
        let text = |pointer: &str| parameters.pointer(pointer).and_then(Value::as_str);
        let is_set =
            |pointer: &str| parameters.pointer(pointer).and_then(Value::as_bool) == Some(true);
        let workspace = "/capabilities/workspace";
        let operations =
            parameters.pointer("/capabilities/workspace/workspaceEdit/resourceOperations");
        let operations = operations.and_then(Value::as_array).into_iter().flatten();
        let operations: Vec<_> = operations.filter_map(Value::as_str).collect();
        Self {
            roots,
            config: text("/initializationOptions/config")
                .filter(|path| !path.is_empty())
                .map(PathBuf::from),
            cache_dir: None,
            trusts_workspace: is_set("/initializationOptions/trustWorkspace"),
            asks_for_reason: is_set("/initializationOptions/askForReason"),
            can_create_files: operations.contains(&"create"),
            can_rename_files: operations.contains(&"rename"),
            has_document_changes: is_set(&format!("{workspace}/workspaceEdit/documentChanges")),
            can_watch_files: is_set(&format!(
                "{workspace}/didChangeWatchedFiles/dynamicRegistration"
            )),
        }
    }
}

/// Returns the path of a directory of the workspace: editors name it with and without a slash at its end.
fn root_path(uri: &Value) -> Option<PathBuf> {
    uri.as_str().and_then(uri::to_path).map(|path| path.components().collect())
}

/// Returns the directories of a workspace after a change of them.
pub(super) fn changed_roots(roots: &[PathBuf], parameters: &Value) -> Vec<PathBuf> {
    let named = |list: &str| {
        let folders = parameters.pointer(list).and_then(Value::as_array).into_iter().flatten();
        folders.filter_map(|folder| folder.get("uri").and_then(root_path)).collect::<Vec<_>>()
    };
    let (removed, added) = (named("/event/removed"), named("/event/added"));
    let mut roots: Vec<_> = roots.iter().filter(|root| !removed.contains(root)).cloned().collect();
    for root in added {
        if roots.len() < MAX_ROOTS && !roots.contains(&root) {
            roots.push(root);
        }
    }
    roots
}

/// Returns the result of `initialize`.
pub(super) fn initialize_result() -> Value {
    let capabilities = ServerCapabilities {
        text_document_sync: Some(
            TextDocumentSyncOptions {
                open_close: Some(true),
                change: Some(TextDocumentSyncKind::Incremental),
                save: Some(SaveOptions { include_text: Some(false) }.into()),
                ..TextDocumentSyncOptions::default()
            }
            .into(),
        ),
        hover_provider: Some(true.into()),
        definition_provider: Some(true.into()),
        document_symbol_provider: Some(true.into()),
        completion_provider: Some(CompletionOptions {
            trigger_characters: Some([" ", ":", "/", ".", "\"", "-"].map(str::to_owned).into()),
            ..CompletionOptions::default()
        }),
        code_action_provider: Some(
            CodeActionOptions {
                code_action_kinds: Some(vec![CodeActionKind::QuickFix, fix_all::kind()]),
                ..CodeActionOptions::default()
            }
            .into(),
        ),
        execute_command_provider: Some(ExecuteCommandOptions {
            commands: [ADD_WAIVER, FIX_ALL, CHECK_AGAIN].map(str::to_owned).into(),
            ..ExecuteCommandOptions::default()
        }),
        workspace: Some(WorkspaceOptions {
            workspace_folders: Some(WorkspaceFoldersServerCapabilities {
                supported: Some(true),
                change_notifications: Some(true.into()),
            }),
            ..WorkspaceOptions::default()
        }),
        ..ServerCapabilities::default()
    };
    json!({
        "capabilities": capabilities,
        "serverInfo": {"name": "opgate", "version": env!("CARGO_PKG_VERSION")},
    })
}

/// Returns the parameters that ask the editor to watch files.
pub(super) fn watch_registration() -> Value {
    json!({"registrations": [{
        "id": "opgate-files",
        "method": "workspace/didChangeWatchedFiles",
        "registerOptions": {"watchers": [
            {"globPattern": "**/*.{yaml,yml,json}"},
            // Of a deleted directory, some editors report only itself.
            {"globPattern": "**", "kind": DELETE},
        ]},
    }]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_a_workspace_change() {
        let roots = [PathBuf::from("/a"), PathBuf::from("/b")];
        let folder = |uri: &str| json!({"uri": uri, "name": "x"});
        let change = |removed: &[Value], added: &[Value]| {
            let parameters = json!({"event": {"removed": removed, "added": added}});
            changed_roots(&roots, &parameters)
        };
        let paths = |all: &[&str]| all.iter().map(PathBuf::from).collect::<Vec<_>>();
        let added = [folder("file:///c/"), folder("file:///b"), folder("untitled:x")];
        assert_eq!(change(&[folder("file:///a/")], &added), paths(&["/b", "/c"]));
        assert_eq!(
            change(&roots.each_ref().map(|root| folder(&uri::of_path(root))), &[]),
            paths(&[])
        );
        let many: Vec<_> = (0..100).map(|number| folder(&format!("file:///{number}"))).collect();
        assert_eq!(change(&[], &many).len(), MAX_ROOTS);
        assert_eq!(changed_roots(&roots, &Value::Null), roots);
    }

    #[test]
    fn options_come_from_the_editor() {
        let options = ClientOptions::of(&json!({
            "rootUri": "file:///other",
            "workspaceFolders": [{"uri": "file:///a%20b/", "name": "a"}, {"uri": "untitled:x"}],
            "initializationOptions": {"trustWorkspace": true, "config": ""},
            "capabilities": {"workspace": {"workspaceEdit": {"resourceOperations": ["create"]}}},
        }));
        assert_eq!(options.roots, [PathBuf::from("/a b")]);
        assert!(options.trusts_workspace && options.can_create_files);
        assert!(!options.has_document_changes && options.config.is_none());
        let options = ClientOptions::of(&json!({"rootUri": "file:///b", "workspaceFolders": null}));
        assert_eq!(options.roots, [PathBuf::from("/b")]);
        assert!(
            !ClientOptions::of(&json!({"initializationOptions": {"trustWorkspace": "yes"}}))
                .trusts_workspace
        );
    }
}
