//! The CA bundle by which API servers know opgate, out of PEM files.

use std::path::PathBuf;

use anyhow::Context as _;

/// Returns the contents of the files, which must be certificates of CAs: API servers detect an error only at
/// the first call.
///
/// # Errors
/// If a file cannot be read, holds a private key, or has something else than certificates of CAs.
pub fn bundle(files: &[PathBuf]) -> anyhow::Result<Vec<u8>> {
    let mut bundle = Vec::new();
    for path in files {
        let named = || path.display().to_string();
        let pem = std::fs::read(path).with_context(named)?;
        check_certificates(&pem).with_context(named)?;
        bundle.extend_from_slice(&pem);
        if !pem.ends_with(b"\n") {
            bundle.push(b'\n');
        }
    }
    Ok(bundle)
}

fn check_certificates(pem: &[u8]) -> anyhow::Result<()> {
    // Webhook configurations are read by many.
    anyhow::ensure!(
        !String::from_utf8_lossy(pem).contains("PRIVATE KEY-----"),
        "holds a private key: name a file with nothing but certificates"
    );
    let found = opgate_certs::count_cas(pem)?;
    anyhow::ensure!(
        found > 0,
        "no certificate: put a block `BEGIN CERTIFICATE` in it (`opgate certs issue` makes a CA)"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use opgate_certs::CertificateAuthority;

    use super::*;

    #[test]
    fn a_bundle_holds_certificates_and_no_keys() {
        let authority = CertificateAuthority::create(1).unwrap();
        let certificate = authority.certificate();
        let serving = authority.issue(&["opgate.test".to_owned()], 1).unwrap();
        assert!(check_certificates(certificate.as_bytes()).is_ok());
        assert!(check_certificates(format!("{certificate}\n{certificate}").as_bytes()).is_ok());
        let cut = certificate.get(..certificate.len() / 2).unwrap();
        let wrong = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for (pem, why) in [
            (String::new(), "no certificate"),
            ("words".to_owned(), "no certificate"),
            (cut.to_owned(), "not PEM"),
            (wrong.to_owned(), "certificate 1: not an X.509 certificate"),
            (format!("{certificate}{}", serving.certificate), "certificate 2: not the certificate"),
            (authority.key(), "holds a private key"),
            (format!("{certificate}{}", authority.key()), "holds a private key"),
        ] {
            let error = check_certificates(pem.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(why), "{error}");
        }
    }
}
