//! Arguments about clients of the webhook port.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use opgate_certs::ClientVerifier;

use crate::cli::exit::CommandError;

/// Flags that restrict the clients of the webhook port.
#[derive(Debug, Args)]
pub(super) struct ClientArgs {
    /// CA bundle, PEM: only clients with a certificate from one of these CAs may connect
    #[arg(long, value_name = "FILE", env = "OPGATE_CLIENT_CA")]
    client_ca: Option<PathBuf>,
    /// Common name or DNS name that a client's certificate must have; may be repeated
    #[arg(long, value_name = "NAME", requires = "client_ca")]
    client_name: Vec<String>,
}

impl ClientArgs {
    pub(super) fn clients(self) -> Result<Option<Arc<ClientVerifier>>, CommandError> {
        let clients = self.client_ca.map(|bundle| ClientVerifier::new(bundle, self.client_name));
        Ok(clients.transpose().map_err(CommandError::usage)?.map(Arc::new))
    }
}
