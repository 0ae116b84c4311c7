//! TLS to a webhook: trusted CAs, and a client certificate.

use std::error::Error;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use opgate_certs::{Source, count_cas};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::sign::SingleCertAndKey;
use rustls::{CertificateError, ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

/// Maximum bytes of a file of CAs.
const MAX_CA_BYTES: u64 = 4 << 20;

/// Trusts the CAs of the system and those in the file, and presents a client certificate if there is one.
///
/// # Errors
/// If a file cannot be used.
pub(super) fn connector(
    ca: Option<&Path>,
    client_certificate: Option<&Source>,
) -> anyhow::Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = ca {
        for certificate in read_cas(path).with_context(|| path.display().to_string())? {
            roots.add(certificate)?;
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let mut config = match client_certificate {
        Some(source) => {
            let pair = SingleCertAndKey::from(source.load()?.certified_key());
            builder.with_client_cert_resolver(Arc::new(pair))
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

fn read_cas(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let mut pem = Vec::new();
    File::open(path)?.take(MAX_CA_BYTES.saturating_add(1)).read_to_end(&mut pem)?;
    if u64::try_from(pem.len()).is_ok_and(|length| length > MAX_CA_BYTES) {
        anyhow::bail!("larger than {} MiB: no file of CAs", MAX_CA_BYTES >> 20);
    }
    if count_cas(&pem)? == 0 {
        anyhow::bail!("no certificate: put the CA of the server in it, as PEM (BEGIN CERTIFICATE)");
    }
    Ok(CertificateDer::pem_slice_iter(&pem).collect::<Result<_, _>>()?)
}

/// Returns the remediation for a failed connection, which had a client certificate or not.
pub(super) fn hint(
    error: &(dyn Error + 'static),
    has_client_certificate: bool,
) -> Option<&'static str> {
    match tls_error(error) {
        // CAs that opgate issues have the same name: the signature shows that it is another one.
        Some(rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        )) => Some("name a file with its CA with --ca"),
        Some(rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => Some("use a name of the certificate in the URL, and the address in --connect"),
        Some(rustls::Error::InvalidCertificate(_)) => None,
        Some(rustls::Error::InvalidMessage(_)) => Some("name the port of the webhook"),
        // Without a certificate, a server ends the connection after the handshake, with an alert that can arrive
        // too late.
        _ if !has_client_certificate => Some(
            "if the server requires a client certificate, name it with --client-cert and --client-key",
        ),
        _ => None,
    }
}

/// Returns the error of TLS among the causes of an error.
fn tls_error<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e rustls::Error> {
    let mut at = Some(error);
    while let Some(error) = at {
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let found = match inner {
            Some(inner) => inner.downcast_ref(),
            None => error.downcast_ref(),
        };
        if found.is_some() {
            return found;
        }
        at = error.source();
    }
    None
}
