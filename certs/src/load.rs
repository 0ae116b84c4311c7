//! Reading a serving certificate and its key, and checking that they belong together.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use x509_parser::prelude::{ASN1Time, FromDer as _, GeneralName, X509Certificate};

use crate::{Error, error_text};

/// Source of certificate and key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A directory with `tls.crt` and `tls.key`, as Kubernetes mounts a Secret of type TLS.
    Directory(PathBuf),
    /// Two files.
    Files {
        /// PEM, the serving certificate first.
        certificate: PathBuf,
        /// PEM in PKCS#8, SEC1 or PKCS#1.
        key: PathBuf,
    },
}

impl Source {
    /// Reads the pair.
    ///
    /// Kubernetes replaces a mounted Secret by changing the target directory of the link `..data`. Both files
    /// are read from the directory that the link named first, so that they are of one generation.
    ///
    /// # Errors
    /// Fails if a file is unreadable or has other content, or if the two do not match.
    pub fn load(&self) -> Result<ServingCertificate, Error> {
        let (certificate, key) = match self {
            Self::Directory(directory) => {
                let generation = directory.join("..data");
                let directory = fs::canonicalize(generation).unwrap_or_else(|_| directory.clone());
                (directory.join("tls.crt"), directory.join("tls.key"))
            }
            Self::Files { certificate, key } => (certificate.clone(), key.clone()),
        };
        let chain = fs::read(&certificate).map_err(Error::io(&certificate))?;
        let private = fs::read(&key).map_err(Error::io(&key))?;
        parse(&certificate, &chain, &key, &private)
    }
}

/// A serving certificate with its chain and key.
#[derive(Debug, Clone)]
pub struct ServingCertificate {
    certified_key: Arc<CertifiedKey>,
    not_before: SystemTime,
    not_after: SystemTime,
    names: Vec<String>,
    is_ca: bool,
}

impl PartialEq for ServingCertificate {
    fn eq(&self, other: &Self) -> bool {
        self.certified_key.cert == other.certified_key.cert
    }
}

impl ServingCertificate {
    /// Returns the certificate and key for rustls.
    #[must_use]
    pub fn certified_key(&self) -> Arc<CertifiedKey> {
        self.certified_key.clone()
    }

    /// Creates a pair of PEM texts.
    ///
    /// # Errors
    /// Fails if they have other content, or do not match.
    pub fn from_pem(chain: &str, key: &str) -> Result<Self, Error> {
        parse(Path::new("tls.crt"), chain.as_bytes(), Path::new("tls.key"), key.as_bytes())
    }

    /// Returns the start of the serving certificate's validity.
    #[must_use]
    pub fn not_before(&self) -> SystemTime {
        self.not_before
    }

    /// Returns the end of the serving certificate's validity.
    #[must_use]
    pub fn not_after(&self) -> SystemTime {
        self.not_after
    }

    /// Returns DNS names and IP addresses of the serving certificate.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Certificates of the chain, the serving one included.
    #[must_use]
    pub fn chain_length(&self) -> usize {
        self.certified_key.cert.len()
    }

    /// Reports whether this is the certificate of a CA.
    #[must_use]
    pub fn is_ca(&self) -> bool {
        self.is_ca
    }
}

/// Makes a pair of PEM texts; the paths are for the errors.
pub(crate) fn parse(
    certificate: &Path,
    chain: &[u8],
    key: &Path,
    private: &[u8],
) -> Result<ServingCertificate, Error> {
    let content = |path: &Path, why: String| Error::Content { path: path.to_path_buf(), why };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(chain)
        .collect::<Result<_, _>>()
        .map_err(|e| content(certificate, format!("not PEM: {e}")))?;
    let Some(leaf) = chain.first().cloned() else {
        let why = "no certificate: put a block `BEGIN CERTIFICATE` in it".to_owned();
        return Err(content(certificate, why));
    };
    let private = PrivateKeyDer::from_pem_slice(private).map_err(|e| {
        content(
            key,
            format!(
                "no private key in PKCS#8, SEC1 or PKCS#1 (an encrypted one cannot be read): {e}"
            ),
        )
    })?;
    let (_, parsed) = X509Certificate::from_der(&leaf).map_err(|e| {
        content(
            certificate,
            format!("not an X.509 certificate: {}", error_text::of_parse_error(&e)),
        )
    })?;
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let certified =
        CertifiedKey::from_der(chain, private, &provider).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                Error::Mismatch { certificate: certificate.into(), key: key.into() }
            }
            rustls::Error::InvalidCertificate(_) => {
                content(certificate, error_text::of_tls(&error))
            }
            other => content(key, format!("cannot be used: {}", error_text::of_tls(&other))),
        })?;
    let names = names_of(&parsed);
    Ok(ServingCertificate {
        not_before: to_system_time(parsed.validity().not_before),
        not_after: to_system_time(parsed.validity().not_after),
        names,
        is_ca: parsed.is_ca(),
        certified_key: Arc::new(certified),
    })
}

/// Returns a time of a certificate.
pub(crate) fn to_system_time(at: ASN1Time) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(u64::try_from(at.timestamp()).unwrap_or_default())
}

/// Returns DNS names and IP addresses of a certificate.
pub(crate) fn names_of(certificate: &X509Certificate<'_>) -> Vec<String> {
    match certificate.subject_alternative_name() {
        Ok(Some(extension)) => extension.value.general_names.iter().filter_map(name).collect(),
        _ => Vec::new(),
    }
}

fn name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(dns) => Some((*dns).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let v4 = <[u8; 4]>::try_from(*bytes).map(std::net::IpAddr::from);
            let v6 = <[u8; 16]>::try_from(*bytes).map(std::net::IpAddr::from);
            v4.or(v6).ok().map(|address| address.to_string())
        }
        _ => None,
    }
}

/// Checks a pair as an API server would: issued by one of the CAs in a PEM bundle, valid at `now`, and for
/// `name` if it is set.
///
/// # Errors
/// Returns in one sentence why an API server would reject the certificate.
pub fn verify(
    pair: &ServingCertificate,
    bundle: &[u8],
    name: Option<&str>,
    now: SystemTime,
) -> Result<(), Error> {
    let rejected = |why: String| Error::Rejected(why);
    let roots: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(bundle)
        .collect::<Result<_, _>>()
        .map_err(|e| rejected(format!("the CA bundle is not PEM: {e}")))?;
    let anchors: Vec<_> =
        roots.iter().filter_map(|r| webpki::anchor_from_trusted_cert(r).ok()).collect();
    if anchors.is_empty() {
        return Err(rejected("the CA bundle holds no certificate".to_owned()));
    }
    let Some((leaf, intermediates)) = pair.certified_key.cert.split_first() else {
        return Err(rejected("there is no certificate".to_owned()));
    };
    let certificate = webpki::EndEntityCert::try_from(leaf).map_err(|e| {
        rejected(format!("the certificate cannot be read: {}", error_text::of_webpki(&e)))
    })?;
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    certificate
        .verify_for_usage(
            provider.signature_verification_algorithms.all,
            &anchors,
            intermediates,
            UnixTime::since_unix_epoch(since),
            webpki::KeyUsage::server_auth(),
            None,
            None,
        )
        .map_err(|e| {
            let why = error_text::of_webpki(&e);
            rejected(format!("the CA bundle does not vouch for the certificate: {why}"))
        })?;
    let Some(name) = name else { return Ok(()) };
    let server = ServerName::try_from(name).map_err(|_| Error::Name(name.to_owned()))?;
    certificate.verify_is_valid_for_subject_name(&server).map_err(|_| {
        rejected(format!("the certificate is for {}, not for {name}", pair.names.join(", ")))
    })
}
