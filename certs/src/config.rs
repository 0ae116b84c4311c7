//! TLS configuration of a server.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::server::NoServerSessionStorage;

use crate::{ClientVerifier, Reloader};

/// Configures TLS 1.2 and 1.3, HTTP/1.1 and h2, with the newest good certificate, and with client
/// authentication if configured.
///
/// # Errors
/// Fails if the cryptography lacks a version of TLS.
pub fn server_config(
    certificate: Arc<Reloader>,
    clients: Option<Arc<ClientVerifier>>,
) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = match clients {
        None => config.with_no_client_auth().with_cert_resolver(certificate),
        Some(clients) => {
            let config = config.with_client_cert_verifier(clients);
            let mut config = config.with_cert_resolver(certificate);
            // A resumed session is not verified again: it would outlive a removed CA. API servers keep their
            // connections, so that full handshakes are rare.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
            config
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
