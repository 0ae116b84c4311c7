//! Certificates of opgate: a CA, serving and client certificates, issued, loaded, and reloaded while
//! serving.
//!
//! ```text
//! issue   Authority ──▶ ca.crt ca.key tls.crt tls.key   (files, keys with mode 0600)
//! load    Source ──▶ Pair          (chain and key, checked to belong together)
//! reload  Reloader ──▶ rustls      (the newest good pair, whatever happens to the files)
//! clients Clients ──▶ rustls       (clients that may connect, by the newest good CA bundle)
//! root    Root             (a certificate of a CA, as in a bundle)
//! config  server_config            (all of these together)
//! shown   Shown, Bundle            (the chain that a server presents, and its CAs)
//! ```
//!
//! Private keys are PEM in PKCS#8, SEC1 or PKCS#1; certificates are PEM, the serving certificate
//! first and its chain behind.

mod chain;
mod clients;
mod config;
pub mod error_text;
mod issue;
mod load;
mod reload;
mod root;

use std::io;
use std::path::PathBuf;

pub use chain::{CaBundle, CertificateChain, ChainError, Validity};
pub use clients::{CaError, ClientRejection, ClientVerifier, count_cas};
pub use config::server_config;
pub use issue::{
    CertificateAuthority, IssuedCertificate, service_names, write_private, write_public,
};
pub use load::{ServingCertificate, Source, verify};
pub use reload::{Change, Reloader};
pub use root::Root;

/// Why certificates could not be issued, loaded or used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file does not hold what it should.
    #[error("{}: {why}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The error, and how to fix it.
        why: String,
    },
    /// Certificate and key do not belong together.
    #[error(
        "{} does not belong to the certificate in {}: put both files of one pair in place",
        key.display(),
        certificate.display()
    )]
    Mismatch {
        /// File of the certificate.
        certificate: PathBuf,
        /// File of the key.
        key: PathBuf,
    },
    /// A certificate could not be made.
    #[error("the certificate could not be issued: {0}")]
    Issue(#[from] rcgen::Error),
    /// A name for a certificate is neither a DNS name nor an IP address.
    #[error("{0:?} is neither a DNS name nor an IP address")]
    Name(String),
    /// A name for a client's certificate cannot be a common name.
    #[error(
        "{0:?} cannot be the name of a client: use 1 to 64 characters, none of them a space at an end or a control character"
    )]
    ClientName(String),
    /// The certificate is not one that an API server would accept.
    #[error("{0}")]
    Rejected(String),
}

impl Error {
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        |source| Self::Io { path, source }
    }
}
