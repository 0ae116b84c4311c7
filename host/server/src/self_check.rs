//! The server sends a request to its webhook port, over TLS, as a client would.
//!
//! A peer with the active serving certificate is the server; no CA is needed. If clients need a
//! certificate, the check has none, and the rejection is the expected result. There is no
//! exception for the server itself.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use opgate_certs::{Reloader, ServingCertificate, error_text};
use opgate_platform::process::is_out_of_descriptors;
use parking_lot::Mutex;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, SignatureScheme,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio_rustls::TlsConnector;

use super::connection_limiter::ConnectionLimiter;

/// The cheapest request, and the start of its response.
const CHECK_REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
const EXPECTED_RESPONSE: &[u8; 12] = b"HTTP/1.1 404";

/// Maximum number of checks that are not accepted yet: more than run in a minute.
const MAX_PENDING_CHECKS: usize = 64;

/// Connections of the server to itself, by their address, so that they do not count as clients.
#[derive(Debug, Default)]
pub(super) struct SelfCheckConnections(Mutex<VecDeque<SocketAddr>>);

impl SelfCheckConnections {
    /// Whether a connection is one of them. Call it once.
    pub(super) fn take(&self, peer: SocketAddr) -> bool {
        let mut waiting = self.0.lock();
        // On a dual-stack socket, an IPv4 address looks like an IPv6 one.
        let ip = peer.ip().to_canonical();
        let same = |known: &SocketAddr| known.ip() == ip && known.port() == peer.port();
        waiting.iter().position(same).is_some_and(|at| waiting.remove(at).is_some())
    }

    fn add(&self, address: SocketAddr) {
        let mut waiting = self.0.lock();
        waiting.truncate(MAX_PENDING_CHECKS - 1);
        waiting.push_front(address);
    }
}

/// The check of the server.
pub(super) struct SelfCheck {
    /// The address of the webhook port.
    pub(super) address: SocketAddr,
    pub(super) certificate: Arc<Reloader>,
    /// Whether clients need a certificate.
    pub(super) requires_client_certificate: bool,
    /// The connections of which one ends if no descriptor is left for the check.
    pub(super) limiter: Arc<ConnectionLimiter>,
    pub(super) self_checks: Arc<SelfCheckConnections>,
    pub(super) limit: Duration,
}

/// The webhook port does not respond as expected: how it responded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the webhook port does not answer: {0}")]
pub(super) struct SelfCheckError(String);

impl SelfCheck {
    /// # Errors
    /// If the port does not respond as expected. The text describes the response.
    pub(super) async fn run(&self) -> Result<(), SelfCheckError> {
        let why = match tokio::time::timeout(self.limit, self.send_freeing_descriptors()).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => error_text::of_any(&error).unwrap_or_else(|| error.to_string()),
            Err(_) => format!("nothing within {:?}", self.limit),
        };
        Err(SelfCheckError(why))
    }

    /// If descriptors have run out, connections end until there are some.
    async fn send_freeing_descriptors(&self) -> io::Result<()> {
        loop {
            match self.send().await {
                Err(error) if is_out_of_descriptors(&error) && self.limiter.evict_one() => {
                    tokio::task::yield_now().await;
                }
                done => return done,
            }
        }
    }

    async fn send(&self) -> io::Result<()> {
        let (socket, target) = socket(self.address)?;
        self.self_checks.add(socket.local_addr()?);
        let stream = socket.connect(target).await?;
        let connector = TlsConnector::from(Arc::new(self.config()?));
        let name = ServerName::IpAddress(target.ip().into());
        let mut stream = connector.connect(name, stream).await?;
        let mut answer = [0; EXPECTED_RESPONSE.len()];
        if self.requires_client_certificate {
            // The error comes after the client's part of the handshake, which was correct until
            // then.
            return match stream.read(&mut answer).await {
                Err(error) if is_certificate_required(&error) => Ok(()),
                Err(error) => Err(error),
                Ok(_) => Err(io::Error::other("a client without a certificate was let in")),
            };
        }
        stream.write_all(CHECK_REQUEST).await?;
        stream.read_exact(&mut answer).await?;
        if answer == *EXPECTED_RESPONSE {
            return Ok(());
        }
        Err(io::Error::other("the answer is not the one that was expected"))
    }

    fn config(&self) -> io::Result<ClientConfig> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let exact = ExactCertificateVerifier {
            schemes: provider.signature_verification_algorithms.supported_schemes(),
            before: self.certificate.current(),
            certificate: self.certificate.clone(),
        };
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(io::Error::other)?;
        let mut config = config
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(exact))
            .with_no_client_auth();
        config.resumption = Resumption::disabled();
        Ok(config)
    }
}

/// A socket for the connection to the port from its address, and the address to connect to.
fn socket(bound: SocketAddr) -> io::Result<(TcpSocket, SocketAddr)> {
    let from = |ip: IpAddr| {
        let socket = if ip.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // A link-local address keeps its interface.
        let (mut own, mut target) = (bound, bound);
        own.set_ip(ip);
        own.set_port(0);
        socket.bind(own)?;
        target.set_ip(ip);
        Ok((socket, target))
    };
    let (first, second) = reachable_address(bound.ip());
    from(first).or_else(|error| second.map_or(Err(error), from))
}

/// The address at which the server is reachable. All IPv6 addresses can be bound although there is
/// none.
fn reachable_address(bound: IpAddr) -> (IpAddr, Option<IpAddr>) {
    const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);
    match bound {
        IpAddr::V4(ip) if ip.is_unspecified() => (V4, None),
        IpAddr::V6(ip) if ip.is_unspecified() => (V6, Some(V4)),
        ip => (ip, None),
    }
}

/// Whether the server responded that it needs a certificate.
fn is_certificate_required(error: &io::Error) -> bool {
    let refused = rustls::Error::AlertReceived(AlertDescription::CertificateRequired);
    error.get_ref().and_then(|inner| inner.downcast_ref()) == Some(&refused)
}

/// Accepts exactly the serving certificate: the one before the handshake, or the one after it if
/// it was replaced during the handshake.
#[derive(Debug)]
struct ExactCertificateVerifier {
    before: Arc<ServingCertificate>,
    certificate: Arc<Reloader>,
    schemes: Vec<SignatureScheme>,
}

impl ServerCertVerifier for ExactCertificateVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let is_it =
            |pair: &ServingCertificate| pair.certified_key().cert.first() == Some(end_entity);
        if is_it(&self.before) || is_it(&self.certificate.current()) {
            return Ok(ServerCertVerified::assertion());
        }
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    /// The connection does not leave the machine and carries no secret. If the verifier cannot
    /// read a certificate that API servers accept, the process must not end.
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.clone()
    }
}

#[cfg(test)]
pub(super) mod testing {
    use opgate_certs::{CertificateAuthority, Source};
    use prometheus_client::metrics::counter::Counter;

    use super::super::connection_limiter::ConnectionBounds;
    use super::*;

    /// A check of a port, with a generated certificate.
    pub(in super::super) fn check(address: SocketAddr, limit: Duration) -> SelfCheck {
        let issued =
            CertificateAuthority::create(1).unwrap().issue(&["a.test".to_owned()], 1).unwrap();
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("tls.crt"), &issued.certificate).unwrap();
        std::fs::write(directory.path().join("tls.key"), &issued.key).unwrap();
        let certificate = Reloader::new(Source::Directory(directory.path().to_path_buf())).unwrap();
        SelfCheck {
            address,
            certificate: Arc::new(certificate),
            requires_client_certificate: false,
            limiter: ConnectionLimiter::new(
                ConnectionBounds::of(4, Duration::MAX),
                Counter::default(),
            ),
            self_checks: Arc::default(),
            limit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn self_check_is_recognized_once_by_its_address() {
        let checks = SelfCheckConnections::default();
        let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        for port in 1..=100 {
            checks.add(address(port));
        }
        assert!(checks.take(address(100)) && !checks.take(address(100)));
        assert!(!checks.take(SocketAddr::from(([127, 0, 0, 2], 99))));
        let known = (1..=100).filter(|&port| checks.take(address(port))).count();
        assert_eq!(known, MAX_PENDING_CHECKS - 1);
    }

    #[test]
    fn a_port_is_reached_where_it_is_bound() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        for (bound, reached, otherwise) in [
            ("0.0.0.0", "127.0.0.1", None),
            ("::", "::1", Some("127.0.0.1")),
            ("10.0.0.1", "10.0.0.1", None),
            ("fd00::1", "fd00::1", None),
        ] {
            assert_eq!(reachable_address(ip(bound)), (ip(reached), otherwise.map(ip)));
        }
        let checks = SelfCheckConnections::default();
        checks.add("127.0.0.1:1".parse().unwrap());
        assert!(checks.take("[::ffff:127.0.0.1]:1".parse().unwrap()));
    }
}
