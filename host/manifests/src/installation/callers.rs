//! Clients that can call the servers: limited by address, in a network policy, and by certificate.
//!
//! opgate cannot detect either of them. API servers connect from addresses of their nodes, of a managed
//! control plane or of a tunnel, and present a certificate only where an administrator configured one. A
//! restriction that excludes them stops writes. Therefore both are printed only on request.

use std::path::PathBuf;

use opgate_certs::ClientVerifier;
use serde_json::{Value, json};

use super::{Installation, read_configuration};
use crate::network::{NetworkError, cidr};

/// An argument that names API servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ApiServer {
    Any,
    Address(String),
}

pub(super) fn api_server(text: &str) -> Result<ApiServer, NetworkError> {
    if text == "any" { Ok(ApiServer::Any) } else { cidr(text).map(ApiServer::Address) }
}

/// Clients that can reach the webhook port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ApiServers {
    /// Unknown, so there is no network policy.
    Unknown,
    /// Everybody, because the administrator said so.
    Any,
    /// Named as CIDRs.
    Named(Vec<String>),
}

impl ApiServers {
    pub(super) fn of(arguments: Vec<ApiServer>) -> anyhow::Result<Self> {
        if arguments.is_empty() {
            tracing::warn!(
                "no --api-server: no NetworkPolicy is printed, and every pod can reach the ports of the servers"
            );
            return Ok(Self::Unknown);
        }
        let address = |argument| match argument {
            ApiServer::Address(cidr) => Some(cidr),
            ApiServer::Any => None,
        };
        let count = arguments.len();
        let named: Vec<_> = arguments.into_iter().filter_map(address).collect();
        match named.len() {
            0 => Ok(Self::Any),
            addresses if addresses == count => Ok(Self::Named(named)),
            _ => Err(anyhow::anyhow!(
                "--api-server any admits everybody: give addresses or any, not both"
            )),
        }
    }
}

/// The certificates that clients must show.
#[derive(Debug, Clone)]
pub(crate) struct ClientCa {
    /// CA bundle, PEM.
    bundle: String,
    /// Names that certificates must have.
    names: Vec<String>,
}

impl ClientCa {
    /// Reads a bundle, and checks it as a server does.
    pub(super) fn read(path: PathBuf, names: Vec<String>) -> anyhow::Result<Self> {
        let bundle = read_configuration(&path)?;
        ClientVerifier::new(path, names.clone())?;
        Ok(Self { bundle, names })
    }

    /// Flags of a server.
    pub(super) fn arguments(&self) -> impl Iterator<Item = &str> {
        let names = self.names.iter().flat_map(|name| ["--client-name", name]);
        ["--client-ca", "/clients/ca.crt"].into_iter().chain(names)
    }
}

impl Installation {
    /// Returns the CAs of clients.
    pub(super) fn client_ca_config_map(&self) -> Option<Value> {
        let client_ca = self.client_ca.as_ref()?;
        Some(json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": self.namespaced_metadata(&self.client_ca_name()),
            "data": {"ca.crt": client_ca.bundle},
        }))
    }

    /// Returns the name of the ConfigMap with the CAs of clients.
    pub(super) fn client_ca_name(&self) -> String {
        format!("{}-clients", self.name)
    }
}
