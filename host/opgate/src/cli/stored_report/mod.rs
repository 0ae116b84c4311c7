//! `opgate report`: the page of a result that `opgate check` or `opgate replay` wrote earlier.
//!
//! ```text
//! RESULT (JSON, JSON Lines) ─▶ StoredResult ─▶ ReportItem, UnreadableInput ─┬▶ Page ─▶ FILE
//! configuration ─▶ RulePages: remediation, links ───────────────────────────┘
//! ```

mod result;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;

use self::result::StoredResult;
use super::report::html::Page;
use super::report::page::RulePages;
use super::stdin;
use super::write_file::write_atomically;
use crate::cli::args::{ConfigArgs, ReadArgs};
use crate::cli::exit::{CommandError, ExitStatus};
use crate::cli::input::without_mark;
use crate::cli::output::stdout;
use opgate_admission::cluster::Source;
use opgate_input::read::{FilePath, ReadPurpose, Reader};
use opgate_text::printed::{Form, Printed};

/// Examples and exit statuses after the help text.
const AFTER_HELP: &str = "\
Examples:
  opgate report --html opgate.html result.json                Write the page of a stored result
  opgate check -o jsonl bundle | opgate report --html opgate.html    Write the page of a check

Exit status: 0 the page is written, 2 wrong usage or unreadable input. docs/check.md has the details.";

/// Arguments of `opgate report`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ReportArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// File to write the HTML page to, or - for standard output; an existing file is replaced
    #[arg(long, value_name = "FILE")]
    html: PathBuf,
    #[command(flatten)]
    read: ReadArgs,
    /// File with the output of `opgate check` or `opgate replay` in the format json or jsonl, or - for standard
    /// input
    #[arg(value_name = "RESULT", default_value = stdin::NAME)]
    result: PathBuf,
}

impl ReportArgs {
    pub(super) fn run(self) -> Result<ExitStatus, CommandError> {
        let Self { config, html, read, result } = self;
        let name = result.display().to_string();
        let bytes = read_result(&result, &read.reader()).with_context(|| name.clone())?;
        let stored =
            StoredResult::parse(&bytes).map_err(|error| anyhow::anyhow!("{name}:{error}"))?;
        let configuration = config.configuration()?;
        let set = config.load_all_or_fail(&configuration, Source::Absent)?;
        let subject = if name == stdin::NAME {
            "a result from standard input".to_owned()
        } else {
            format!("the result {name}")
        };
        let page = Page {
            command: stored.command(),
            subject: &subject,
            items: &stored.items(),
            unreadable: stored.unreadable(),
            hidden: None,
            pages: &RulePages::of(&configuration, &set, true),
        };
        // The same bytes as `-o html` prints.
        let mut text = Vec::new();
        page.write(&mut Printed::new(&mut text, Form::Xml))?;
        if html.as_os_str() == stdin::NAME {
            let mut out = stdout(None);
            match out.write_all(&text).and_then(|()| out.flush()) {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error.into()),
                _ => return Ok(ExitStatus::Ok),
            }
        }
        write_atomically(&html, &text)?;
        Ok(ExitStatus::Ok)
    }
}

/// Reads the file, or standard input.
fn read_result(path: &Path, reader: &Reader) -> io::Result<Vec<u8>> {
    let bytes = if path.as_os_str() == stdin::NAME {
        reader.read_stdin()
    } else {
        FilePath::Named(path).open().and_then(|file| reader.read(file, true, ReadPurpose::Keep))
    };
    without_mark(bytes?)
}
