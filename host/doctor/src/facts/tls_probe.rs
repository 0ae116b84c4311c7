//! The chain that a server shows: a TLS handshake as an API server makes one, and nothing after it.

use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use opgate_certs::{CertificateChain, error_text};
use opgate_text::one_line;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{Facts, Installation};

/// The reason why a handshake failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
struct HandshakeError(String);

/// To connect, and for the handshake.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Result of a handshake.
#[derive(Debug)]
pub enum TlsProbe {
    /// No connection was attempted, or there was no response; with the reason.
    NotAttempted(String),
    /// Something answers, but not with a certificate: the address, and why.
    Failed(String, String),
    /// The address and the chain.
    Chain(String, CertificateChain),
}

/// Accepts every chain: the checks verify it. Nothing is sent over such a connection.
#[derive(Debug)]
struct AcceptAnyChain(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AcceptAnyChain {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signature, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

/// Returns the chain of a server: at an address that is named, at that of the URL that webhooks call, or in a
/// pod at that of the Service.
pub async fn probe_server(facts: &Facts, address: Option<&str>, is_in_pod: bool) -> TlsProbe {
    let Installation { namespace, service, url } = &facts.installation;
    let url = url.as_ref().and_then(|url| url.parse::<Uri>().ok());
    let host = url.as_ref().and_then(|url| Some(url.host()?.to_owned()));
    let service = format!("{service}.{namespace}.svc");
    let port = facts.own_hooks().iter().find_map(|hook| Some(hook.service()?.port)).unwrap_or(443);
    let address = match (address, &url, &host) {
        (Some(address), _, _) => address.to_owned(),
        (None, Some(url), Some(host)) => format!("{host}:{}", url.port_u16().unwrap_or(443)),
        _ if is_in_pod => format!("{service}:{port}"),
        _ => {
            let why = "name an address with --connect, such as that of kubectl port-forward";
            return TlsProbe::NotAttempted(why.to_owned());
        }
    };
    let name = host.unwrap_or(service);
    probe(&address, name.trim_matches(['[', ']'])).await
}

/// Connects to `HOST:PORT` and requests the certificate of a name.
async fn probe(address: &str, name: &str) -> TlsProbe {
    let shown = one_line(address, 256);
    let connected = tokio::time::timeout(PROBE_TIMEOUT, TcpStream::connect(address)).await;
    let stream = match connected {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            return TlsProbe::NotAttempted(format!("{shown} cannot be reached: {error}"));
        }
        Err(_) => {
            let seconds = PROBE_TIMEOUT.as_secs();
            return TlsProbe::NotAttempted(format!("{shown} does not answer within {seconds} s"));
        }
    };
    match tokio::time::timeout(PROBE_TIMEOUT, handshake(stream, name)).await {
        Ok(Ok(chain)) => match CertificateChain::from_der(chain) {
            Ok(chain) => TlsProbe::Chain(shown, chain),
            Err(why) => TlsProbe::Failed(shown, why.to_string()),
        },
        Ok(Err(why)) => TlsProbe::Failed(shown, one_line(&why.to_string(), 512)),
        Err(_) => {
            let why = format!("the handshake takes longer than {} s", PROBE_TIMEOUT.as_secs());
            TlsProbe::Failed(shown, why)
        }
    }
}

async fn handshake(
    stream: TcpStream,
    name: &str,
) -> Result<Vec<CertificateDer<'static>>, HandshakeError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let any = Arc::new(AcceptAnyChain(provider.signature_verification_algorithms));
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| HandshakeError(error_text::of_tls(&error)))?
        .dangerous()
        .with_custom_certificate_verifier(any)
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned())
        .map_err(|_| HandshakeError("the name of the server is no DNS name".to_owned()))?;
    let connected = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    let stream = connected.map_err(|error| HandshakeError(error_text::with_causes(&error)))?;
    let (_, session) = stream.get_ref();
    let chain = session.peer_certificates().unwrap_or_default();
    Ok(chain.iter().map(|certificate| certificate.clone().into_owned()).collect())
}
