//! Making a CA and certificates, and writing them to files.

use std::fs;
use std::io::Write as _;
use std::net::IpAddr;
use std::path::Path;
use std::str::FromStr as _;
use std::time::{Duration as StdDuration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use time::{Duration, OffsetDateTime};

use crate::Error;

/// Time before the issue from which certificates are valid, for clocks that are behind.
const CLOCK_SKEW: Duration = Duration::hours(1);

/// Maximum number of characters of a common name.
const MAX_COMMON_NAME_CHARS: usize = 64;

/// A certificate and its key, as PEM.
#[derive(Clone)]
pub struct IssuedCertificate {
    /// The certificate.
    pub certificate: String,
    /// The private key, PKCS#8.
    pub key: String,
}

/// A CA that issues serving and client certificates. Keys are ECDSA P-256.
pub struct CertificateAuthority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
    not_after: OffsetDateTime,
}

impl CertificateAuthority {
    /// Makes a new CA that is valid for `days`.
    ///
    /// # Errors
    /// Fails if the system has no randomness.
    pub fn create(days: u32) -> Result<Self, Error> {
        Self::create_at(SystemTime::now(), days_to_duration(days))
    }

    /// Makes a new CA as of a moment. It is valid from an hour before, for clocks that are behind.
    ///
    /// # Errors
    /// Fails if the system has no randomness.
    pub fn create_at(now: SystemTime, life: StdDuration) -> Result<Self, Error> {
        let now = OffsetDateTime::from(now);
        let mut params = CertificateParams::default();
        // The time distinguishes the CAs of a bundle.
        let name = format!("opgate CA {} {}", now.date(), now.unix_timestamp());
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.not_before = now - CLOCK_SKEW;
        params.not_after = now + life;
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?.pem();
        let not_after = params.not_after;
        Ok(Self { certificate, issuer: Issuer::new(params, key), not_after })
    }

    /// Reads a CA that [`CertificateAuthority::create`] made.
    ///
    /// # Errors
    /// Fails if a file is unreadable, or the two are no CA.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, Error> {
        let pem = fs::read_to_string(certificate).map_err(Error::io(certificate))?;
        let key_pem = fs::read_to_string(key).map_err(Error::io(key))?;
        Self::parse(certificate, pem, key, &key_pem)
    }

    /// Creates a CA of PEM texts.
    ///
    /// # Errors
    /// Fails if the two are no CA.
    pub fn from_pem(certificate: &str, key: &str) -> Result<Self, Error> {
        Self::parse(Path::new("ca.crt"), certificate.to_owned(), Path::new("ca.key"), key)
    }

    fn parse(certificate: &Path, pem: String, key: &Path, key_pem: &str) -> Result<Self, Error> {
        let content = |path: &Path| {
            let path = path.to_path_buf();
            move |why: String| Error::Content { path, why }
        };
        let key_pair =
            KeyPair::from_pem(key_pem).map_err(|e| content(key)(format!("no private key: {e}")))?;
        let pair = crate::load::parse(certificate, pem.as_bytes(), key, key_pem.as_bytes())?;
        if !pair.is_ca() {
            return Err(content(certificate)("not the certificate of a CA".to_owned()));
        }
        let not_after = OffsetDateTime::from(pair.not_after());
        let issuer = Issuer::from_ca_cert_pem(&pem, key_pair)
            .map_err(|e| content(certificate)(format!("not a certificate: {e}")))?;
        Ok(Self { certificate: pem, issuer, not_after })
    }

    /// Returns the CA's certificate as PEM: the `caBundle` of a webhook configuration.
    #[must_use]
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Returns the CA's private key as PEM.
    #[must_use]
    pub fn key(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// Issues a serving certificate for DNS names and IP addresses, valid for `days` but not longer
    /// than the CA itself.
    ///
    /// # Errors
    /// Fails without a name, or if one is neither a DNS name nor an IP address.
    pub fn issue(&self, names: &[String], days: u32) -> Result<IssuedCertificate, Error> {
        self.issue_at(names, SystemTime::now(), days_to_duration(days))
    }

    /// Issues a serving certificate as of a moment. It is valid from an hour before, and not longer than the
    /// CA itself.
    ///
    /// # Errors
    /// Fails without a name, if one is neither a DNS name nor an IP address, or if the CA has expired.
    pub fn issue_at(
        &self,
        names: &[String],
        now: SystemTime,
        life: StdDuration,
    ) -> Result<IssuedCertificate, Error> {
        let mut params = CertificateParams::default();
        for name in names {
            params.subject_alt_names.push(alternative_name(name)?);
        }
        let Some(first) = names.first() else {
            return Err(Error::Name(String::new()));
        };
        // The alternative names are what counts.
        let common = first.chars().take(MAX_COMMON_NAME_CHARS).collect::<String>();
        self.sign(params, &common, ExtendedKeyUsagePurpose::ServerAuth, now, life)
    }

    /// Issues a certificate with which a client connects, valid for `days` but not longer than the
    /// CA itself. It is good for nothing else.
    ///
    /// # Errors
    /// Fails if the name cannot be a common name.
    pub fn issue_client(&self, name: &str, days: u32) -> Result<IssuedCertificate, Error> {
        let fits = (1..=MAX_COMMON_NAME_CHARS).contains(&name.chars().count());
        if !fits || name.trim() != name || name.chars().any(char::is_control) {
            return Err(Error::ClientName(name.to_owned()));
        }
        let params = CertificateParams::default();
        let purpose = ExtendedKeyUsagePurpose::ClientAuth;
        self.sign(params, name, purpose, SystemTime::now(), days_to_duration(days))
    }

    fn sign(
        &self,
        mut params: CertificateParams,
        common: &str,
        purpose: ExtendedKeyUsagePurpose,
        now: SystemTime,
        life: StdDuration,
    ) -> Result<IssuedCertificate, Error> {
        params.distinguished_name.push(DnType::CommonName, common);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![purpose];
        params.use_authority_key_identifier_extension = true;
        let now = OffsetDateTime::from(now);
        if self.not_after <= now {
            return Err(Error::Rejected(format!(
                "the CA ended on {}: make a new one",
                self.not_after.date()
            )));
        }
        params.not_before = now - CLOCK_SKEW;
        params.not_after = (now + life).min(self.not_after);
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(IssuedCertificate { certificate, key: key.serialize_pem() })
    }
}

fn days_to_duration(days: u32) -> StdDuration {
    StdDuration::from_secs(u64::from(days) * 86_400)
}

fn alternative_name(name: &str) -> Result<SanType, Error> {
    if let Ok(address) = IpAddr::from_str(name) {
        return Ok(SanType::IpAddress(address));
    }
    let bare = name.strip_prefix("*.").unwrap_or(name);
    // The check uses the rules of TLS for names.
    let valid = rustls_pki_types::DnsName::try_from(bare).is_ok();
    let dns = name.try_into().ok().filter(|_| valid && !name.is_empty());
    dns.map(SanType::DnsName).ok_or_else(|| Error::Name(name.to_owned()))
}

/// Returns the names under which an API server and others reach a Service.
#[must_use]
pub fn service_names(namespace: &str, service: &str) -> Vec<String> {
    ["svc", "svc.cluster.local"]
        .map(|suffix| format!("{service}.{namespace}.{suffix}"))
        .into_iter()
        .chain([format!("{service}.{namespace}")])
        .collect()
}

/// Writes a file that only its owner may read (mode 0600), in one step: a reader sees the old
/// content or the new one.
///
/// # Errors
/// Fails if the directory is not writable.
pub fn write_private(path: &Path, content: &str) -> Result<(), Error> {
    write(path, content, 0o600)
}

/// Writes a file that everybody may read (mode 0644), in one step.
///
/// # Errors
/// Fails if the directory is not writable.
pub fn write_public(path: &Path, content: &str) -> Result<(), Error> {
    write(path, content, 0o644)
}

fn write(path: &Path, content: &str, mode: u32) -> Result<(), Error> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    // A left-over of a process that was killed must not lend its mode to the new file.
    let _ = fs::remove_file(&temporary);
    let written = opgate_platform::files::new_file(mode)
        .open(&temporary)
        .and_then(|mut file| {
            file.write_all(content.as_bytes())?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&temporary, path));
    written.map_err(|source| {
        let _ = fs::remove_file(&temporary);
        Error::Io { path: path.to_path_buf(), source }
    })
}
