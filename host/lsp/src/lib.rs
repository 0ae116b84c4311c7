//! The language server without policies: texts as an editor has them, places in them, and what can be said about a
//! place from the text alone. No I/O: the command `opgate lsp` reads files, evaluates them and speaks the protocol.
//!
//! ```text
//! didChange ─▶ TextDocument ─▶ Outline: the structure, also of half-written YAML and JSON ─┬▶ symbols
//!                  │                                                                      ├▶ completion ◀─ Vocabulary
//!                  │                                                                      └▶ definition ◀─ NameIndex
//!                  └▶ edits ─▶ Finding: moves with its text ─▶ diagnostics, hover, fixes, waivers
//! ```

pub mod annotations;
pub mod completion;
pub mod cursor;
pub mod definition;
pub mod finding;
pub mod lines;
pub mod names;
pub mod outline;
pub mod paths;
pub mod symbols;
mod text_changes;
pub mod text_document;
pub mod text_edit;
pub mod uri;
pub mod waiver;
