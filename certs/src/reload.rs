//! The pair that is served, replaced while connections come in.
//!
//! Files are compared by content at every check, so that any way of replacing them is detected: written in
//! place, renamed over, or behind a link with a new target (any number of times). A check is two small reads.
//! If the new files are invalid, the old pair stays.
//!
//! The controller of the serving certificate in the cluster can push certificates instead of files.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use arc_swap::ArcSwap;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::{Error, ServingCertificate, Source};

/// The newest good pair of a [`Source`], or the one that was pushed last.
pub struct Reloader {
    source: Option<Source>,
    current: ArcSwap<ServingCertificate>,
    /// Whether a pair was pushed since the last look.
    pushed: AtomicBool,
}

/// Result of a check of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// No change.
    Unchanged,
    /// A new pair, which is served from now on.
    Replaced,
}

impl fmt::Debug for Reloader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reloader").field("source", &self.source).finish_non_exhaustive()
    }
}

impl Reloader {
    /// Loads the first pair.
    ///
    /// # Errors
    /// Fails without a usable initial pair.
    pub fn new(source: Source) -> Result<Self, Error> {
        let certificate = source.load()?;
        Ok(Self { source: Some(source), ..Self::of(certificate) })
    }

    /// Begins with this pair, and serves those that are pushed.
    #[must_use]
    pub fn of(certificate: ServingCertificate) -> Self {
        Self {
            source: None,
            current: ArcSwap::from_pointee(certificate),
            pushed: AtomicBool::new(false),
        }
    }

    /// Serves this pair from now on. The next [check](Self::reload) reports it.
    pub fn push(&self, certificate: ServingCertificate) {
        if certificate != **self.current.load() {
            self.current.store(Arc::new(certificate));
            self.pushed.store(true, Ordering::Release);
        }
    }

    /// Returns the pair that is served now.
    #[must_use]
    pub fn current(&self) -> Arc<ServingCertificate> {
        self.current.load_full()
    }

    /// Looks at the files and serves what is new in them; without files, tells whether a pair was pushed.
    ///
    /// # Errors
    /// Fails if the files contain no usable pair, or one that has expired while the old one has not. The old
    /// pair stays.
    pub fn reload(&self) -> Result<Change, Error> {
        let Some(source) = &self.source else {
            let pushed = self.pushed.swap(false, Ordering::AcqRel);
            return Ok(if pushed { Change::Replaced } else { Change::Unchanged });
        };
        let new = source.load()?;
        let old = self.current.load();
        if new == **old {
            return Ok(Change::Unchanged);
        }
        let now = SystemTime::now();
        if new.not_after() <= now && old.not_after() > now {
            let why = "the new certificate has already ended: the old one is kept".to_owned();
            return Err(Error::Rejected(why));
        }
        self.current.store(Arc::new(new));
        Ok(Change::Replaced)
    }
}

impl ResolvesServerCert for Reloader {
    /// Returns the only certificate, for every name that the client requests: a client that connects to an IP
    /// address requests none.
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load().certified_key())
    }
}
