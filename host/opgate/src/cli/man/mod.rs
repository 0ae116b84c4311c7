//! `opgate man`: man pages of all commands.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, Command};

use crate::cli::exit::{CommandError, ExitStatus};
use crate::cli::help;

const MAN_AFTER_HELP: &str = "\
Example:
  opgate man /usr/local/share/man/man1

docs/command-line.md has the details.";

/// Arguments of `opgate man`.
#[derive(Debug, Args)]
#[command(after_help = MAN_AFTER_HELP)]
pub(super) struct Man {
    /// The directory; files of the same names are replaced
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

impl Man {
    pub(super) fn run(self, cli: Command) -> Result<ExitStatus, CommandError> {
        let Self { directory } = self;
        let written = || -> std::io::Result<()> {
            std::fs::create_dir_all(&directory)?;
            clap_mangen::generate_to(help::with_examples(cli), &directory)
        };
        written().with_context(|| directory.display().to_string())?;
        Ok(ExitStatus::Ok)
    }
}
