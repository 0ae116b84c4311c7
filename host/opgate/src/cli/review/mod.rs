//! `opgate review`: AdmissionReviews of manifests.

mod new;

use clap::{Args, Subcommand};

use crate::cli::exit::{CommandError, ExitStatus};

/// Arguments of `opgate review`.
#[derive(Debug, Args)]
pub(super) struct ReviewArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the AdmissionReview that an API server would send for a manifest
    New(Box<new::New>),
}

impl ReviewArgs {
    pub(super) fn run(self) -> Result<ExitStatus, CommandError> {
        match self.command {
            Command::New(new) => new.run(),
        }
    }
}
