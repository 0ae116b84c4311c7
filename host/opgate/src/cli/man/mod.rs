//! `opgate man`: man pages of all commands.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, Command};
use clap_mangen::Man as ManPage;

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
            let mut cli = help::with_examples(cli).disable_help_subcommand(true);
            cli.build();
            write_pages(&cli, &directory)
        };
        written().with_context(|| directory.display().to_string())?;
        Ok(ExitStatus::Ok)
    }
}

/// Writes the pages of a command and of those below it. Each has the version in its footer: only the command at the
/// top has a version.
fn write_pages(command: &Command, directory: &Path) -> std::io::Result<()> {
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        write_pages(command, directory)?;
    }
    let version = concat!("opgate ", env!("CARGO_PKG_VERSION"));
    ManPage::new(command.clone()).source(version).generate_to(directory)?;
    Ok(())
}
