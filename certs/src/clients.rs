//! Client authentication: clients need a certificate of a CA bundle, and an allowed name if names are
//! configured.
//!
//! ```text
//! handshake ─▶ chain, time, purpose (webpki) ─▶ purpose, again ─▶ name ─▶ welcome
//!                 ▲
//! CA bundle ──────┘ the newest good one, whatever happens to the file
//! ```
//!
//! No state of a client is kept: every connection is verified again, so the server must not resume sessions.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme,
};
use x509_parser::prelude::{AttributeTypeAndValue, FromDer as _, GeneralName, X509Certificate};

use crate::{Change, Error, error_text};

/// The reason why a text has no certificates of CAs, in one sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CaError(String);

/// Decides about clients by the newest good CA bundle of a file.
#[derive(Debug)]
pub struct ClientVerifier {
    bundle: PathBuf,
    names: Vec<String>,
    current: ArcSwap<LoadedBundle>,
}

/// One content of the file.
#[derive(Debug)]
struct LoadedBundle {
    content: Vec<u8>,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl ClientVerifier {
    /// Reads the CA bundle, PEM. Without names every client with a certificate of these CAs may
    /// connect.
    ///
    /// # Errors
    /// Fails if the file is no bundle of CAs, or a name is empty, as that of a certificate may be.
    pub fn new(bundle: PathBuf, names: Vec<String>) -> Result<Self, Error> {
        if names.iter().any(String::is_empty) {
            return Err(Error::ClientName(String::new()));
        }
        let content = fs::read(&bundle).map_err(Error::io(&bundle))?;
        let loaded = LoadedBundle::parse(&bundle, content)?;
        Ok(Self { bundle, names, current: ArcSwap::from_pointee(loaded) })
    }

    /// Looks at the file and decides by what is new in it, from the next connection on.
    ///
    /// # Errors
    /// Fails if the file is no bundle of CAs. The old one stays.
    pub fn reload(&self) -> Result<Change, Error> {
        let content = fs::read(&self.bundle).map_err(Error::io(&self.bundle))?;
        if content == self.current.load().content {
            return Ok(Change::Unchanged);
        }
        self.current.store(Arc::new(LoadedBundle::parse(&self.bundle, content)?));
        Ok(Change::Replaced)
    }

    fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
        self.current.load().verifier.clone()
    }

    /// Checks the purpose of a certificate. A certificate with purposes must include client authentication: a
    /// serving certificate of the same CA is rejected. A certificate without purposes is valid for all of
    /// them, as API servers treat it.
    fn check_purpose(&self, certificate: &X509Certificate<'_>) -> Result<(), CertificateError> {
        let purposes =
            certificate.extended_key_usage().map_err(|_| CertificateError::BadEncoding)?;
        if purposes.is_some_and(|purposes| !purposes.value.client_auth) {
            return Err(CertificateError::InvalidPurpose);
        }
        if self.names.is_empty() || self.names.iter().any(|name| has_name(certificate, name)) {
            return Ok(());
        }
        Err(CertificateError::NotValidForName)
    }
}

/// Reports whether a name is the subject's common name, letter by letter, or a DNS name. Nothing is a
/// pattern, and of a subject with several common names none counts: readers differ in which one is meant.
fn has_name(certificate: &X509Certificate<'_>, name: &str) -> bool {
    let mut common = certificate.subject().iter_common_name().map(AttributeTypeAndValue::as_str);
    if let (Some(Ok(only)), None) = (common.next(), common.next())
        && only == name
    {
        return true;
    }
    let Ok(Some(alternatives)) = certificate.subject_alternative_name() else { return false };
    let is_it = |alternative: &GeneralName<'_>| matches!(alternative, GeneralName::DNSName(dns) if dns.eq_ignore_ascii_case(name));
    alternatives.value.general_names.iter().any(is_it)
}

/// Parses certificates of CAs, PEM; `advice` names the expected content.
fn parse_roots(pem: &[u8], advice: &str) -> Result<RootCertStore, CaError> {
    let mut roots = RootCertStore::empty();
    for (index, certificate) in CertificateDer::pem_slice_iter(pem).enumerate() {
        let number = index + 1;
        let certificate = certificate.map_err(|e| CaError(format!("not PEM: {e}")))?;
        let (_, parsed) = X509Certificate::from_der(&certificate).map_err(|e| {
            let why = error_text::of_parse_error(&e);
            CaError(format!("certificate {number}: not an X.509 certificate: {why}"))
        })?;
        // The holder of the key of a trusted certificate could issue others, whatever the purpose of the
        // certificate.
        if !parsed.is_ca() {
            return Err(CaError(format!(
                "certificate {number}: not the certificate of a CA: {advice}"
            )));
        }
        let added = roots.add(certificate.clone());
        added.map_err(|e| CaError(format!("certificate {number}: {}", error_text::of_tls(&e))))?;
    }
    Ok(roots)
}

/// Returns the number of CA certificates in a PEM text.
///
/// # Errors
/// Fails for an entry that is no CA certificate, with one sentence.
pub fn count_cas(pem: &[u8]) -> Result<usize, CaError> {
    let advice =
        "put there the CA that issued the serving certificate, not that certificate itself";
    parse_roots(pem, advice).map(|roots| roots.len())
}

impl LoadedBundle {
    fn parse(path: &std::path::Path, content: Vec<u8>) -> Result<Self, Error> {
        let wrong = |why: String| Error::Content { path: path.to_path_buf(), why };
        let roots = parse_roots(&content, "put there who issues the clients' certificates");
        let roots = roots.map_err(|why| wrong(why.to_string()))?;
        if roots.is_empty() {
            return Err(wrong("no certificate: put a block `BEGIN CERTIFICATE` in it".to_owned()));
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|e| wrong(e.to_string()))?;
        Ok(Self { content, verifier })
    }
}

impl ClientCertVerifier for ClientVerifier {
    /// Returns no hints: a client has one certificate for this server, and unauthenticated clients must learn
    /// nothing.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self.verifier().verify_client_cert(end_entity, intermediates, now);
        let verified = verified.map_err(|error| match error {
            // Its CA is only called like one of the bundle.
            rustls::Error::InvalidCertificate(CertificateError::BadSignature) => {
                CertificateError::UnknownIssuer.into()
            }
            other => other,
        })?;
        let (_, parsed) =
            X509Certificate::from_der(end_entity).map_err(|_| CertificateError::BadEncoding)?;
        self.check_purpose(&parsed)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier().verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier().verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier().supported_verify_schemes()
    }
}

/// Why a client was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientRejection {
    /// It has no certificate.
    None,
    /// Its certificate is of no CA of the bundle.
    Untrusted,
    /// Its certificate is not valid yet, or not any more.
    Time,
    /// Its certificate is for other purposes than client authentication.
    Purpose,
    /// Its certificate has another name.
    Name,
    /// Its certificate cannot be read or is no good otherwise, or the key is not its.
    Invalid,
}

impl ClientRejection {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::None, Self::Untrusted, Self::Time, Self::Purpose, Self::Name, Self::Invalid];

    /// Returns the cause on the client's side of a failed handshake, if the error identifies one.
    #[must_use]
    pub fn of(error: &rustls::Error) -> Option<Self> {
        use CertificateError as Bad;
        let bad = match error {
            rustls::Error::NoCertificatesPresented => return Some(Self::None),
            rustls::Error::InvalidCertificate(bad) => bad,
            _ => return None,
        };
        Some(match bad {
            Bad::UnknownIssuer => Self::Untrusted,
            Bad::Expired
            | Bad::ExpiredContext { .. }
            | Bad::NotValidYet
            | Bad::NotValidYetContext { .. } => Self::Time,
            Bad::InvalidPurpose | Bad::InvalidPurposeContext { .. } => Self::Purpose,
            Bad::NotValidForName | Bad::NotValidForNameContext { .. } => Self::Name,
            _ => Self::Invalid,
        })
    }

    /// Returns the cause in one word, for metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Untrusted => "untrusted",
            Self::Time => "time",
            Self::Purpose => "purpose",
            Self::Name => "name",
            Self::Invalid => "invalid",
        }
    }
}
