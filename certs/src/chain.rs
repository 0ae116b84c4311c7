//! Certificates as others see them: a chain without its key, and the bundle that shall vouch for it.
//!
//! ```text
//! tls.crt, a handshake ─▶ CertificateChain ──┐
//!                                 ├─▶ vouching: which CAs of the bundle issued it, and until when
//! ca.crt, caBundle ─────▶ Bundle ─┘
//! ```

use std::time::{SystemTime, UNIX_EPOCH};

use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::error_text;
use crate::load::{names_of, to_system_time};

/// The reason why certificates are invalid, or not issued by a CA, in one sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ChainError(String);

/// Certificates of a chain or a bundle that are read.
const MAX_CERTIFICATES: usize = 64;

/// Validity of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// Its first second.
    pub from: SystemTime,
    /// Its last second.
    pub until: SystemTime,
}

impl Validity {
    fn of(certificate: &X509Certificate<'_>) -> Self {
        let validity = certificate.validity();
        Self {
            from: to_system_time(validity.not_before),
            until: to_system_time(validity.not_after),
        }
    }

    /// Reports whether it is valid then.
    #[must_use]
    pub fn contains(&self, at: SystemTime) -> bool {
        self.from <= at && at <= self.until
    }
}

/// The chain of a server, the serving certificate first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateChain {
    chain: Vec<CertificateDer<'static>>,
    names: Vec<String>,
    validity: Validity,
}

/// Certificates of CAs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaBundle(Vec<(CertificateDer<'static>, Validity)>);

fn parse_pem(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, ChainError> {
    let all: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(text).take(MAX_CERTIFICATES).collect();
    all.map_err(|error| ChainError(format!("not PEM: {error}")))
}

fn parse_certificate<'c>(
    number: usize,
    der: &'c CertificateDer<'_>,
) -> Result<X509Certificate<'c>, ChainError> {
    let parsed = X509Certificate::from_der(der);
    let (_, certificate) = parsed.map_err(|error| {
        ChainError(format!(
            "certificate {number}: not an X.509 certificate: {}",
            error_text::of_parse_error(&error)
        ))
    })?;
    Ok(certificate)
}

impl CertificateChain {
    /// Creates a chain as PEM.
    ///
    /// # Errors
    /// Fails for an invalid certificate, with one sentence.
    pub fn from_pem(text: &[u8]) -> Result<Self, ChainError> {
        Self::from_der(parse_pem(text)?)
    }

    /// Creates a chain as a handshake shows it.
    ///
    /// # Errors
    /// Fails for an invalid chain, with one sentence.
    pub fn from_der(chain: Vec<CertificateDer<'static>>) -> Result<Self, ChainError> {
        let leaf = chain.first().ok_or_else(|| ChainError("no certificate".to_owned()))?;
        let leaf = parse_certificate(1, leaf)?;
        let (names, validity) = (names_of(&leaf), Validity::of(&leaf));
        Ok(Self { chain, names, validity })
    }

    /// Returns DNS names and IP addresses of the serving certificate.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the validity of the serving certificate.
    #[must_use]
    pub fn validity(&self) -> Validity {
        self.validity
    }

    /// Reports whether the serving certificate is the same.
    #[must_use]
    pub fn has_same_certificate(&self, other: &Self) -> bool {
        self.chain.first() == other.chain.first()
    }

    /// Reports whether the certificate is for a DNS name or an IP address.
    #[must_use]
    pub fn is_for(&self, name: &str) -> bool {
        let server = ServerName::try_from(name).ok();
        let leaf = self.chain.first().and_then(|leaf| webpki::EndEntityCert::try_from(leaf).ok());
        server
            .zip(leaf)
            .is_some_and(|(server, leaf)| leaf.verify_is_valid_for_subject_name(&server).is_ok())
    }

    /// Returns the CAs of a bundle that vouch for the chain at a time: when each is valid. A CA that has
    /// ended is among them.
    ///
    /// # Errors
    /// Why none does, in one sentence.
    pub fn issuer_validities(
        &self,
        bundle: &CaBundle,
        at: SystemTime,
    ) -> Result<Vec<Validity>, ChainError> {
        let (leaf, between) =
            self.chain.split_first().ok_or_else(|| ChainError("no certificate".to_owned()))?;
        let leaf = webpki::EndEntityCert::try_from(leaf).map_err(|error| {
            ChainError(format!("it cannot be read: {}", error_text::of_webpki(&error)))
        })?;
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let mut why = "no CA of the bundle has issued it".to_owned();
        let mut vouching = Vec::new();
        for (der, validity) in &bundle.0 {
            let Ok(anchor) = webpki::anchor_from_trusted_cert(der) else { continue };
            let anchors = [anchor];
            let verified = leaf.verify_for_usage(
                provider.signature_verification_algorithms.all,
                &anchors,
                between,
                UnixTime::since_unix_epoch(since),
                webpki::KeyUsage::server_auth(),
                None,
                None,
            );
            match verified {
                Ok(_) => vouching.push(*validity),
                // CAs that were made in the same second have the same name.
                Err(webpki::Error::UnknownIssuer | webpki::Error::InvalidSignatureForPublicKey) => {
                }
                Err(error) => error_text::of_webpki(&error).clone_into(&mut why),
            }
        }
        if vouching.is_empty() { Err(ChainError(why)) } else { Ok(vouching) }
    }
}

impl CaBundle {
    /// Creates a bundle as PEM.
    ///
    /// # Errors
    /// Fails for an entry that is no CA certificate, with one sentence.
    pub fn from_pem(text: &[u8]) -> Result<Self, ChainError> {
        let all = parse_pem(text)?;
        if all.is_empty() {
            return Err(ChainError("no certificate in it".to_owned()));
        }
        let mut bundle = Vec::new();
        for (index, der) in all.into_iter().enumerate() {
            let number = index.saturating_add(1);
            let certificate = parse_certificate(number, &der)?;
            let validity = Validity::of(&certificate);
            bundle.push((der, validity));
        }
        Ok(Self(bundle))
    }

    /// Iterates over the validities of its certificates.
    pub fn validities(&self) -> impl Iterator<Item = Validity> {
        self.0.iter().map(|(_, validity)| *validity)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{CertificateAuthority, service_names};

    #[test]
    fn bundle_trusts_only_certificates_of_its_cas() {
        let day = Duration::from_secs(86_400);
        let now = SystemTime::now();
        // They have the same name.
        let [ours, theirs] =
            [2, 400].map(|days| CertificateAuthority::create_at(now, days * day).unwrap());
        let issued = ours.issue(&service_names("ns", "opgate"), 1).unwrap();
        let shown = CertificateChain::from_pem(issued.certificate.as_bytes()).unwrap();
        assert!(shown.is_for("opgate.ns.svc") && !shown.is_for("other.ns.svc"));
        assert!(shown.validity().contains(now));
        let bundle = |of: &[&CertificateAuthority]| {
            let pem: String = of.iter().map(|one| one.certificate()).collect();
            CaBundle::from_pem(pem.as_bytes()).unwrap()
        };
        let vouching = shown.issuer_validities(&bundle(&[&theirs, &ours]), now).unwrap();
        let [only] = vouching[..] else { panic!("{vouching:?}") };
        assert!(only.until < now + 3 * day);
        let why = shown.issuer_validities(&bundle(&[&theirs]), now).unwrap_err();
        assert_eq!(why.to_string(), "no CA of the bundle has issued it");
        let late = now + 10 * day;
        let why = shown.issuer_validities(&bundle(&[&ours]), late).unwrap_err();
        assert_eq!(why.to_string(), "it, or a CA of its chain, has ended");
        assert_eq!(CaBundle::from_pem(b"").unwrap_err().to_string(), "no certificate in it");
        assert_eq!(CertificateChain::from_pem(b"words").unwrap_err().to_string(), "no certificate");
    }
}
