//! Tests of serving certificates: issued here or elsewhere, in every encoding, valid or broken.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use opgate_certs::{
    CertificateAuthority, Change, Error, Reloader, Source, service_names, verify, write_private,
    write_public,
};
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256};
use tempfile::TempDir;

fn name(name: &str) -> Vec<String> {
    vec![name.to_owned()]
}

fn put(directory: &Path, certificate: &str, key: &str) {
    write_public(&directory.join("tls.crt"), certificate).unwrap();
    write_private(&directory.join("tls.key"), key).unwrap();
}

fn source(directory: &TempDir) -> Source {
    Source::Directory(directory.path().to_path_buf())
}

#[test]
fn issued_certificate_verifies_for_its_names_only() {
    let authority = CertificateAuthority::create(10).unwrap();
    let mut names = service_names("opgate-system", "opgate");
    names.extend(["*.example.com", "10.0.0.1", "::1"].map(str::to_owned));
    let issued = authority.issue(&names, 90).unwrap();
    let directory = tempfile::tempdir().unwrap();
    put(directory.path(), &issued.certificate, &issued.key);
    let pair = source(&directory).load().unwrap();
    assert_eq!(pair.names(), names);
    let now = SystemTime::now();
    let ca = authority.certificate().as_bytes();
    for good in
        ["opgate.opgate-system.svc", "opgate.opgate-system", "a.example.com", "10.0.0.1", "::1"]
    {
        verify(&pair, ca, Some(good), now).unwrap();
    }
    let day = Duration::from_secs(86_400);
    let other = CertificateAuthority::create(10).unwrap();
    for (bundle, name, at, says) in [
        (ca, "opgate.other.svc", now, "the certificate is for opgate.opgate-system.svc"),
        (ca, "10.0.0.2", now, "not for 10.0.0.2"),
        (other.certificate().as_bytes(), "10.0.0.1", now, "does not vouch"),
        // Never longer than the CA.
        (ca, "10.0.0.1", now + 11 * day, "does not vouch"),
        (ca, "10.0.0.1", now - day, "does not vouch"),
        (b"", "10.0.0.1", now, "holds no certificate"),
    ] {
        let error = verify(&pair, bundle, Some(name), at).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    // Both CAs of a change are trusted as long as both are in the bundle.
    let both = format!("{}{}", other.certificate(), authority.certificate());
    verify(&pair, both.as_bytes(), Some("10.0.0.1"), now).unwrap();
    assert!(pair.not_after() <= now + 10 * day && pair.not_after() > now + 9 * day);
    for wrong in ["", "not a name", "a_b c", "-x.example", "*"] {
        assert!(authority.issue(&name(wrong), 1).is_err(), "{wrong}");
    }
    assert!(authority.issue(&[], 1).is_err());
}

#[test]
fn private_files_are_private_and_replaced_in_one_step() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    write_private(&path, "new").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing is left over");
    assert!(matches!(write_private(Path::new("/nowhere/key"), ""), Err(Error::Io { .. })));
}

/// The key inside of a PKCS#8 key: version, algorithm, then an octet string.
fn inner(pkcs8: &[u8]) -> Vec<u8> {
    fn part(der: &[u8]) -> (&[u8], &[u8]) {
        let short = usize::from(der[1]);
        let (start, length) = if short < 0x80 {
            (2, short)
        } else {
            let bytes = short - 0x80;
            let length = der[2..2 + bytes].iter().fold(0, |sum, b| sum * 256 + usize::from(*b));
            (2 + bytes, length)
        };
        (&der[start..start + length], &der[start + length..])
    }
    let (all, _) = part(pkcs8);
    let (_, after_version) = part(all);
    let (_, after_algorithm) = part(after_version);
    part(after_algorithm).0.to_vec()
}

/// PKCS#8, SEC1 and PKCS#1; ECDSA, Ed25519 and RSA; a chain behind the certificate.
#[test]
fn keys_in_every_format_are_read_and_chains_are_kept() {
    let rsa = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048).unwrap();
    let p256 = KeyPair::generate().unwrap();
    let p384 = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap();
    let ed25519 = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    let chain = CertificateAuthority::create(1).unwrap();
    for (what, key, block) in [
        ("RSA, PKCS#8", &rsa, None),
        ("RSA, PKCS#1", &rsa, Some("RSA PRIVATE KEY")),
        ("P-256, PKCS#8", &p256, None),
        ("P-256, SEC1", &p256, Some("EC PRIVATE KEY")),
        ("P-384, SEC1", &p384, Some("EC PRIVATE KEY")),
        ("Ed25519, PKCS#8", &ed25519, None),
    ] {
        let certificate = CertificateParams::new(name("a.test")).unwrap().self_signed(key).unwrap();
        let pem = match block {
            None => key.serialize_pem(),
            Some(block) => pem::encode(&pem::Pem::new(block, inner(&key.serialize_der()))),
        };
        let directory = tempfile::tempdir().unwrap();
        put(directory.path(), &format!("{}{}", certificate.pem(), chain.certificate()), &pem);
        let pair = source(&directory).load().unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(pair.chain_length(), 2, "{what}");
        let files = Source::Files {
            certificate: directory.path().join("tls.crt"),
            key: directory.path().join("tls.key"),
        };
        assert_eq!(files.load().unwrap(), pair, "{what}");
    }
}

#[test]
fn invalid_key_pair_files_report_file_and_cause() {
    let authority = CertificateAuthority::create(1).unwrap();
    let one = authority.issue(&name("a.test"), 1).unwrap();
    let two = authority.issue(&name("a.test"), 1).unwrap();
    let (one, two) = ((one.certificate, one.key), (two.certificate, two.key));
    let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (certificate, key, says) in [
        (one.0.as_str(), two.1.as_str(), "tls.key does not belong to the certificate in"),
        ("", &one.1, "tls.crt: no certificate"),
        (&one.1, &one.1, "tls.crt: no certificate"),
        (&one.0, "", "tls.key: no private key in PKCS#8, SEC1 or PKCS#1"),
        (&one.0, &one.0, "tls.key: no private key"),
        (garbage, &one.1, "tls.crt: not an X.509 certificate"),
        (&one.0[..300], &one.1, "tls.crt: "),
        (&one.0, &one.1[..100], "tls.key: "),
    ] {
        let directory = tempfile::tempdir().unwrap();
        put(directory.path(), certificate, key);
        let error = source(&directory).load().unwrap_err().to_string();
        assert!(error.contains(says), "{says}: {error}");
    }
    let error = source(&tempfile::tempdir().unwrap()).load().unwrap_err().to_string();
    assert!(error.contains("tls.crt: No such file"), "{error}");
}

#[test]
fn a_ca_is_loaded_again_and_other_files_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let authority = CertificateAuthority::create(5).unwrap();
    let leaf = authority.issue(&name("a.test"), 1).unwrap();
    let path = |file: &str| directory.path().join(file);
    write_public(&path("ca.crt"), authority.certificate()).unwrap();
    write_private(&path("ca.key"), &authority.key()).unwrap();
    put(directory.path(), &leaf.certificate, &leaf.key);
    let again = CertificateAuthority::load(&path("ca.crt"), &path("ca.key")).unwrap();
    let issued = again.issue(&name("b.test"), 1).unwrap();
    let other = tempfile::tempdir().unwrap();
    put(other.path(), &issued.certificate, &issued.key);
    let pair = source(&other).load().unwrap();
    let ca = authority.certificate().as_bytes();
    verify(&pair, ca, Some("b.test"), SystemTime::now()).unwrap();
    for (certificate, key, says) in [
        ("tls.crt", "tls.key", "not the certificate of a CA"),
        ("ca.crt", "tls.key", "does not belong"),
        ("tls.key", "ca.key", "no certificate"),
        ("ca.crt", "ca.crt", "no private key"),
        ("missing", "ca.key", "No such file"),
    ] {
        let error =
            CertificateAuthority::load(&path(certificate), &path(key)).err().unwrap().to_string();
        assert!(error.contains(says), "{says}: {error}");
    }
}

/// Whatever happens to the files, the newest good pair is served.
#[test]
fn a_reloader_keeps_the_newest_good_pair() {
    let directory = tempfile::tempdir().unwrap();
    let authority = CertificateAuthority::create(5).unwrap();
    let issue = || authority.issue(&name("a.test"), 1).unwrap();
    let first = issue();
    put(directory.path(), &first.certificate, &first.key);
    let reloader = Reloader::new(source(&directory)).unwrap();
    assert_eq!(reloader.reload().unwrap(), Change::Unchanged);
    let old = reloader.current();
    let second = issue();
    // Between the two writes the pair does not fit.
    write_public(&directory.path().join("tls.crt"), &second.certificate).unwrap();
    assert!(matches!(reloader.reload(), Err(Error::Mismatch { .. })));
    assert_eq!(reloader.current(), old);
    write_private(&directory.path().join("tls.key"), &second.key).unwrap();
    assert_eq!(reloader.reload().unwrap(), Change::Replaced);
    assert_ne!(reloader.current(), old);
    // One that has ended does not replace one that has not.
    let mut params = CertificateParams::new(name("a.test")).unwrap();
    params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let key = KeyPair::generate().unwrap();
    put(directory.path(), &params.self_signed(&key).unwrap().pem(), &key.serialize_pem());
    let error = reloader.reload().unwrap_err().to_string();
    assert!(error.contains("has already ended"), "{error}");
    fs::remove_file(directory.path().join("tls.crt")).unwrap();
    assert!(reloader.reload().is_err());
    put(directory.path(), &second.certificate, &second.key);
    assert_eq!(reloader.reload().unwrap(), Change::Unchanged);
}
