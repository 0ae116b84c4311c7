//! `opgate lsp`: a language server on standard input and output.
//!
//! ```text
//! stdin ─▶ Session: open texts, features ──▶ stdout
//!              │ texts, generation     ▲ findings, names
//!              ▼                       │
//!          Evaluator: policies, one unit after another ◀── Scan: units and names of the workspace
//! ```
//!
//! The workspace is untrusted: opening a directory runs the built-in policies only, reads within the bounds of
//! `opgate check`, and contacts nothing. See docs/adr/0058-language-server.md.

mod backlog;
mod client;
mod evaluator;
mod features;
mod file_findings;
mod fix_all;
mod knowledge;
mod messages;
mod open_texts;
mod scan;
mod session;
mod settings;
mod state;
mod text_errors;
mod unit_evaluation;
mod units;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc;
use std::thread;

use anyhow::Context as _;
use clap::Args;
use lsp_server::{Connection, Message};

use self::client::ClientOptions;
use self::evaluator::Evaluator;
use self::messages::Event;
use self::open_texts::TextMailbox;
use self::session::Session;
use crate::cli::exit::{CommandError, ExitStatus};

const AFTER_HELP: &str = "\
Examples:
  opgate lsp                                  As editors start it
  opgate lsp --config /etc/opgate.yaml        With the policies of a configuration

Editors start this command. It reads the Language Server Protocol from standard input, and writes it to standard
output. docs/editors.md has the configurations of Neovim, Helix, Emacs, VS Code and JetBrains.

Exit status: 0 the editor ended it, 1 without the request `shutdown` before, 2 wrong usage or a broken connection.";

/// Arguments of `opgate lsp`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Lsp {
    /// Configuration file [default: opgate.yaml at the top of the workspace, without policies from files and
    /// registries; otherwise all built-in policies]
    #[arg(long, value_name = "FILE", env = "OPGATE_CONFIG")]
    config: Option<PathBuf>,
    /// Directory for compiled policies [default: the user's cache directory]
    #[arg(long, value_name = "DIR", env = "OPGATE_CACHE_DIR")]
    cache_dir: Option<PathBuf>,
    /// Ignored: standard input and output are the only transport
    #[arg(long, hide = true)]
    stdio: bool,
}

/// The stack of the thread that evaluates: it parses deep documents.
const STACK_BYTES: usize = 32 << 20;

impl Lsp {
    pub(super) fn run(self) -> Result<ExitStatus, CommandError> {
        let (connection, io_threads) = Connection::stdio();
        // The transport ends at the first message that it cannot read.
        let result = self.serve(&connection);
        drop(connection);
        let read = io_threads.join().context("the editor sent no message of the protocol");
        let status = result?;
        read.map_err(CommandError::usage)?;
        Ok(status)
    }

    fn serve(&self, connection: &Connection) -> Result<ExitStatus, CommandError> {
        let Ok((id, parameters)) = connection.initialize_start() else {
            // The editor ended before it began.
            return Ok(ExitStatus::Ok);
        };
        let mut options = ClientOptions::of(&parameters);
        options.config = self.config.clone().or(options.config);
        options.cache_dir.clone_from(&self.cache_dir);
        let answer = client::initialize_result();
        if connection.initialize_finish(id, answer).is_err() {
            return Ok(ExitStatus::Ok);
        }
        let generation = Arc::new(AtomicU64::new(0));
        let (events, received) = mpsc::channel();
        let (jobs, todo) = mpsc::channel();
        let (mailbox, backlog) = (Arc::new(TextMailbox::default()), Arc::default());
        let evaluator = Evaluator::new(
            options.clone(),
            generation.clone(),
            events.clone(),
            jobs.clone(),
            mailbox.clone(),
            backlog,
        );
        let thread = thread::Builder::new().name("lsp-evaluator".to_owned());
        let thread = thread.stack_size(STACK_BYTES).spawn(move || evaluator.run(&todo));
        thread.context("the system provides no thread").map_err(CommandError::engine)?;
        let messages = connection.receiver.clone();
        let reader = thread::Builder::new().name("lsp-messages".to_owned()).spawn(move || {
            for message in messages {
                let is_end = matches!(&message, Message::Notification(n) if n.method == "exit");
                if events.send(Event::Message(message)).is_err() || is_end {
                    return;
                }
            }
            // The editor is gone. The session is, if nothing receives it.
            let _ = events.send(Event::Disconnected);
        });
        reader.context("the system provides no thread").map_err(CommandError::engine)?;
        let sender = connection.sender.clone();
        let send = move |message| sender.send(message).is_ok();
        let is_in_order = Session::new(send, options, jobs, mailbox, generation).run(&received);
        // The protocol has this status for `exit` without `shutdown`.
        Ok(if is_in_order { ExitStatus::Ok } else { ExitStatus::Denied })
    }
}
