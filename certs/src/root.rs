//! Certificates of CAs as they stand in a bundle.

use std::time::SystemTime;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::load::{ServingCertificate, to_system_time, verify};

/// Certificates that are read of a bundle.
const MAX_CERTIFICATES: usize = 64;

/// A certificate of a CA, without its key.
#[derive(Debug, Clone)]
pub struct Root {
    pem: String,
    digest: String,
    not_before: SystemTime,
    not_after: SystemTime,
}

impl PartialEq for Root {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for Root {}

impl Root {
    /// Returns the certificates of a PEM text, each once; ignores other content.
    #[must_use]
    pub fn from_pem(pem: &[u8]) -> Vec<Self> {
        let mut roots: Vec<Self> = Vec::new();
        for certificate in CertificateDer::pem_slice_iter(pem).take(MAX_CERTIFICATES).flatten() {
            if let Some(root) = Self::of(&certificate)
                && !roots.contains(&root)
            {
                roots.push(root);
            }
        }
        roots
    }

    fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        if !parsed.is_ca() {
            return None;
        }
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, certificate);
        let hex = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
        let line_feeds = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
        Some(Self {
            pem: pem::encode_config(
                &pem::Pem::new("CERTIFICATE", certificate.as_ref()),
                line_feeds,
            ),
            digest: std::iter::once("sha256:".to_owned()).chain(hex).collect(),
            not_before: to_system_time(parsed.validity().not_before),
            not_after: to_system_time(parsed.validity().not_after),
        })
    }

    /// Returns the certificate as PEM.
    #[must_use]
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Returns `sha256:…` of the certificate.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns the start of its validity.
    #[must_use]
    pub fn not_before(&self) -> SystemTime {
        self.not_before
    }

    /// Returns the end of its validity.
    #[must_use]
    pub fn not_after(&self) -> SystemTime {
        self.not_after
    }

    /// Reports whether it vouches for a certificate, at some time.
    #[must_use]
    pub fn has_issued(&self, pair: &ServingCertificate) -> bool {
        let at = self.not_before.max(pair.not_before());
        verify(pair, self.pem.as_bytes(), None, at).is_ok()
    }
}
