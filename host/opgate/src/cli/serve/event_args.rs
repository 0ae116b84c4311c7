//! Arguments about Events for denials.

use clap::Args;

use super::controllers::Controllers;
use crate::cli::exit::CommandError;
use opgate_server::DenialObserver;

/// Flags of Events.
#[derive(Debug, Args)]
pub(super) struct EventArgs {
    /// Write an Event for denied requests in the namespace of their object; needs `--installation`
    #[arg(long, env = "OPGATE_EVENTS")]
    events: bool,
}

impl EventArgs {
    /// Starts to write Events, if they are on.
    pub(super) fn start(
        &self,
        controllers: Option<&mut Controllers>,
    ) -> Result<Option<DenialObserver>, CommandError> {
        match controllers {
            _ if !self.events => Ok(None),
            Some(controllers) => Ok(Some(controllers.start_denial_events())),
            None => {
                let error =
                    "--events needs a cluster, and an installation: name it with --installation";
                Err(CommandError::usage(anyhow::anyhow!(error)))
            }
        }
    }
}
