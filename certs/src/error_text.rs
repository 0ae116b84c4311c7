//! Descriptions of certificate errors.
//!
//! The libraries below print the names of their variants. Each variant that a user can cause has a sentence
//! here; the others mean a damaged certificate and share one sentence.

use std::error::Error;
use std::io;

use rustls::CertificateError as Bad;
use x509_parser::nom;
use x509_parser::prelude::X509Error;

const DAMAGED: &str =
    "it is damaged, or unusual in a way that no API server takes: compare `openssl x509 -text`";

/// Describes an error of rustls for a certificate or a key.
#[must_use]
pub fn of_tls(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(bad) => match of_certificate(bad) {
            Some(words) => format!("the certificate is not accepted: {words}"),
            // Errors with details are sentences already.
            None => bad.to_string(),
        },
        rustls::Error::NoCertificatesPresented => "there is no certificate".to_owned(),
        rustls::Error::AlertReceived(_) => {
            "the other side refused the connection: does it accept our certificate?".to_owned()
        }
        rustls::Error::InvalidMessage(_) => "what comes is not TLS".to_owned(),
        other => other.to_string(),
    }
}

/// Describes an error of the system or of a library above, if it comes from rustls.
#[must_use]
pub fn of_any(error: &(dyn Error + 'static)) -> Option<String> {
    let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    let inner: &(dyn Error + 'static) = match inner {
        Some(inner) => inner,
        None => error,
    };
    inner.downcast_ref::<rustls::Error>().map(of_tls)
}

/// Formats an error with its causes, without repetition: most errors include their causes.
#[must_use]
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let words = |error: &(dyn Error + 'static)| of_any(error).unwrap_or_else(|| error.to_string());
    let mut text = words(error);
    let mut at = error.source();
    while let Some(cause) = at {
        let cause_text = words(cause);
        let with_cause = format!(": {cause_text}");
        if text != cause_text && !text.contains(&with_cause) {
            text.push_str(&with_cause);
        }
        at = cause.source();
    }
    text
}

fn of_certificate(bad: &Bad) -> Option<String> {
    let words = match bad {
        Bad::Expired => "it has ended",
        Bad::NotValidYet => "it is not valid yet",
        Bad::Revoked => "it was revoked",
        Bad::UnknownIssuer => "no CA that is trusted here has issued it",
        Bad::BadSignature => "its signature is not its issuer's",
        Bad::NotValidForName => "it is for another name",
        Bad::InvalidPurpose => "it is not for this purpose (extended key usage)",
        Bad::ApplicationVerificationFailure => "it is another one than is expected",
        Bad::Other(other) => {
            let inner = other.0.downcast_ref::<webpki::Error>();
            return Some(inner.map_or(DAMAGED.to_owned(), |error| of_webpki(error).to_owned()));
        }
        Bad::NotValidForNameContext { .. }
        | Bad::ExpiredContext { .. }
        | Bad::NotValidYetContext { .. } => return None,
        _ => DAMAGED,
    };
    Some(words.to_owned())
}

/// Describes an error of webpki for a certificate and its chain.
pub(crate) fn of_webpki(error: &webpki::Error) -> &'static str {
    use webpki::Error as Bad;
    match error {
        Bad::InvalidCertValidity => "it ends before it begins",
        Bad::CertExpired { .. } => "it, or a CA of its chain, has ended",
        Bad::CertNotValidYet { .. } => "it, or a CA of its chain, is not valid yet",
        Bad::UnknownIssuer => "no CA of the bundle has issued it",
        Bad::CaUsedAsEndEntity => "it is the certificate of a CA, not of a server",
        Bad::EndEntityUsedAsCa => "a certificate that is no CA's has issued it",
        Bad::CertRevoked | Bad::CertDistrusted => "it was revoked",
        Bad::InvalidSignatureForPublicKey => "its signature is not its issuer's",
        Bad::RequiredEkuNotFoundContext(_) | Bad::EmptyEkuExtension => {
            "it is not for servers (extended key usage)"
        }
        Bad::UnsupportedCertVersion => "it is not of version 3",
        Bad::UnsupportedCriticalExtension => "it has a critical extension that is not known",
        Bad::NameConstraintViolation => "its CA must not issue such names",
        Bad::PathLenConstraintViolated => "its CA must not have CAs below it",
        Bad::UnsupportedSignatureAlgorithmContext(_)
        | Bad::UnsupportedSignatureAlgorithmForPublicKeyContext(_) => {
            "it is signed in a way that is not accepted: use ECDSA, Ed25519 or RSA with SHA-2"
        }
        _ => DAMAGED,
    }
}

/// Describes a parser error for the encoding of a certificate.
pub(crate) fn of_parse_error(error: &nom::Err<X509Error>) -> String {
    match error {
        nom::Err::Error(X509Error::Der(_) | X509Error::NomError(_))
        | nom::Err::Failure(X509Error::Der(_) | X509Error::NomError(_))
        | nom::Err::Incomplete(_) => "it is cut off or damaged".to_owned(),
        nom::Err::Error(error) | nom::Err::Failure(error) => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::OtherError;

    use super::*;

    #[test]
    fn certificate_errors_have_readable_texts() {
        let other = |error: webpki::Error| Bad::Other(OtherError(Arc::new(error)));
        let all = [
            Bad::BadEncoding,
            Bad::Expired,
            Bad::UnknownIssuer,
            Bad::NotValidForName,
            Bad::UnhandledCriticalExtension,
            Bad::ApplicationVerificationFailure,
            other(webpki::Error::InvalidCertValidity),
            other(webpki::Error::MalformedExtensions),
        ];
        for bad in all {
            let text = of_tls(&bad.clone().into());
            // `BadEncoding`: a capital behind a small letter.
            let pairs = text.chars().zip(text.chars().skip(1));
            let capitals = pairs.filter(|(a, b)| a.is_lowercase() && b.is_uppercase()).count();
            assert_eq!(capitals, 0, "{bad:?}: {text}");
            let wrapped = io::Error::new(io::ErrorKind::InvalidData, rustls::Error::from(bad));
            assert_eq!(of_any(&wrapped), Some(text));
        }
        assert_eq!(of_any(&io::Error::from(io::ErrorKind::TimedOut)), None);
    }

    #[test]
    fn error_text_omits_repeated_causes() {
        let cause = || io::Error::other("no");
        let says_it = anyhow::Error::new(cause()).context("cannot do it: no");
        let says_not = anyhow::Error::new(cause()).context("cannot do it");
        assert_eq!(with_causes(says_it.as_ref()), "cannot do it: no");
        assert_eq!(with_causes(says_not.as_ref()), "cannot do it: no");
    }
}
