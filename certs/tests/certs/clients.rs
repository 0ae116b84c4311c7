//! Tests of client authentication: real handshakes, in memory.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use opgate_certs::{
    CertificateAuthority, Change, ClientRejection, ClientVerifier, Error, Reloader, Source,
    server_config, write_private, write_public,
};
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair,
};
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, RootCertStore, ServerConfig, ServerConnection,
    SupportedProtocolVersion,
};
use tempfile::TempDir;

const HOST: &str = "opgate.test";

const VERSIONS: [&SupportedProtocolVersion; 2] = [&rustls::version::TLS12, &rustls::version::TLS13];

/// A certificate and its key, PEM.
type Pair = (String, String);

fn chain(pem: &str) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>().unwrap()
}

fn key(pem: &str) -> PrivateKeyDer<'static> {
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).unwrap()
}

/// A client's certificate of a CA, as `change` makes it out of a good one for `api-server`.
fn client(authority: &CertificateAuthority, change: impl FnOnce(&mut CertificateParams)) -> Pair {
    let issuer = KeyPair::from_pem(&authority.key()).unwrap();
    let issuer = Issuer::from_ca_cert_pem(authority.certificate(), issuer).unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "api-server");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    (params.signed_by(&key, &issuer).unwrap().pem(), key.serialize_pem())
}

/// A server that requests certificates.
struct Server {
    clients: Arc<ClientVerifier>,
    config: Arc<ServerConfig>,
    authority: CertificateAuthority,
    directory: TempDir,
}

impl Server {
    fn new(bundle: &str, names: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("clients.crt");
        fs::write(&path, bundle).unwrap();
        let names = names.iter().map(|&name| name.to_owned()).collect();
        let clients = Arc::new(ClientVerifier::new(path, names).unwrap());
        let authority = CertificateAuthority::create(1).unwrap();
        let issued = authority.issue(&[HOST.to_owned()], 1).unwrap();
        let source = Source::Directory(directory.path().to_path_buf());
        write_public(&directory.path().join("tls.crt"), &issued.certificate).unwrap();
        write_private(&directory.path().join("tls.key"), &issued.key).unwrap();
        let reloader = Arc::new(Reloader::new(source).unwrap());
        let config = server_config(reloader, Some(clients.clone())).unwrap();
        let config = Arc::new(config);
        Self { clients, config, authority, directory }
    }

    fn bundle(&self, content: &str) {
        fs::write(self.directory.path().join("clients.crt"), content).unwrap();
    }

    fn connector(
        &self,
        version: &'static SupportedProtocolVersion,
        pair: Option<&Pair>,
    ) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(chain(self.authority.certificate()).remove(0)).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match pair {
            None => config.with_no_client_auth(),
            Some((certificate, private)) => {
                config.with_client_auth_cert(chain(certificate), key(private)).unwrap()
            }
        };
        config.resumption = Resumption::in_memory_sessions(8);
        Arc::new(config)
    }

    /// Returns the result of a handshake on the server.
    fn handshake(&self, connector: &Arc<ClientConfig>) -> Result<HandshakeKind, rustls::Error> {
        let mut server = ServerConnection::new(self.config.clone()).unwrap();
        let name = ServerName::try_from(HOST).unwrap();
        let mut client = ClientConnection::new(connector.clone(), name).unwrap();
        while client.is_handshaking() || server.is_handshaking() || client.wants_write() {
            let mut bytes = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut bytes).unwrap();
            }
            let mut read = &bytes[..];
            while !read.is_empty() {
                server.read_tls(&mut read).unwrap();
                server.process_new_packets()?;
            }
            let mut bytes = Vec::new();
            while server.wants_write() {
                server.write_tls(&mut bytes).unwrap();
            }
            let mut read = &bytes[..];
            while !read.is_empty() {
                client.read_tls(&mut read).unwrap();
                client.process_new_packets().unwrap();
            }
        }
        Ok(server.handshake_kind().unwrap())
    }

    /// Whether a client is let in, in both versions of TLS.
    fn verify_client(&self, pair: Option<&Pair>) -> Result<(), ClientRejection> {
        let evaluate = |version| match self.handshake(&self.connector(version, pair)) {
            Ok(_) => Ok(()),
            Err(error) => Err(ClientRejection::of(&error).unwrap_or_else(|| panic!("{error}"))),
        };
        let [old, new] = VERSIONS.map(evaluate);
        assert_eq!(old, new);
        new
    }
}

#[test]
fn a_client_needs_a_certificate_that_is_for_it() {
    let authority = CertificateAuthority::create(5).unwrap();
    let other = CertificateAuthority::create(5).unwrap();
    let server = Server::new(authority.certificate(), &[]);
    let issued = authority.issue_client("anyone", 1).unwrap();
    let serving = authority.issue(&["api-server".to_owned()], 1).unwrap();
    let purposes = |purposes: &[ExtendedKeyUsagePurpose]| {
        client(&authority, |p| p.extended_key_usages = purposes.to_vec())
    };
    let (server_auth, client_auth) =
        (ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth);
    for (what, pair, expected) in [
        ("as issued", (issued.certificate, issued.key), Ok(())),
        ("two purposes", purposes(&[server_auth.clone(), client_auth]), Ok(())),
        ("other CA", client(&other, |_| {}), Err(ClientRejection::Untrusted)),
        ("serving certificate", (serving.certificate, serving.key), Err(ClientRejection::Purpose)),
        ("purpose of a server", purposes(&[server_auth]), Err(ClientRejection::Purpose)),
        ("any purpose", purposes(&[ExtendedKeyUsagePurpose::Any]), Err(ClientRejection::Purpose)),
        ("no purpose named", purposes(&[]), Ok(())),
        (
            "ended",
            client(&authority, |p| p.not_after = rcgen::date_time_ymd(2020, 1, 1)),
            Err(ClientRejection::Time),
        ),
        (
            "not begun",
            client(&authority, |p| p.not_before = rcgen::date_time_ymd(3000, 1, 1)),
            Err(ClientRejection::Time),
        ),
        (
            "of the CA itself",
            (authority.certificate().to_owned(), authority.key()),
            Err(ClientRejection::Invalid),
        ),
    ] {
        assert_eq!(server.verify_client(Some(&pair)), expected, "{what}");
    }
    assert_eq!(server.verify_client(None), Err(ClientRejection::None));
}

/// Same subject and key identifier as the CA, another key.
#[test]
fn ca_with_same_subject_and_other_key_is_untrusted() {
    let authority = CertificateAuthority::create(5).unwrap();
    let server = Server::new(authority.certificate(), &[]);
    let twin = KeyPair::generate().unwrap();
    let issuer = Issuer::from_ca_cert_pem(authority.certificate(), twin).unwrap();
    let mut params = CertificateParams::default();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    let forged = (params.signed_by(&key, &issuer).unwrap().pem(), key.serialize_pem());
    assert_eq!(server.verify_client(Some(&forged)), Err(ClientRejection::Untrusted));
}

#[test]
fn a_name_is_the_common_name_or_a_dns_name() {
    let authority = CertificateAuthority::create(5).unwrap();
    let server = Server::new(authority.certificate(), &["api-server", "Api.example.com"]);
    let named = |common: &[&str], alternatives: &[&str]| {
        client(&authority, |params| {
            params.distinguished_name = DistinguishedName::new();
            for name in common {
                params.distinguished_name.push(DnType::CommonName, *name);
            }
            let alternatives: Vec<_> = alternatives.iter().map(|&name| name.to_owned()).collect();
            params.subject_alt_names =
                CertificateParams::new(alternatives).unwrap().subject_alt_names;
        })
    };
    let elsewhere = client(&authority, |params| {
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "api-server");
        params.distinguished_name.push(DnType::CommonName, "tenant");
    });
    for (what, pair, expected) in [
        ("common name", named(&["api-server"], &[]), Ok(())),
        ("DNS name", named(&["tenant"], &["a.test", "api.example.com"]), Ok(())),
        ("DNS name alone", named(&[], &["API.example.com"]), Ok(())),
        ("another", named(&["tenant"], &["a.test"]), Err(ClientRejection::Name)),
        ("no name", named(&[], &[]), Err(ClientRejection::Name)),
        ("common name in capitals", named(&["API-server"], &[]), Err(ClientRejection::Name)),
        ("the start of one", named(&["api-server.tenant"], &[]), Err(ClientRejection::Name)),
        ("one and more behind", named(&["api-server\0tenant"], &[]), Err(ClientRejection::Name)),
        ("a pattern", named(&["*"], &["*.example.com"]), Err(ClientRejection::Name)),
        ("an organization", elsewhere, Err(ClientRejection::Name)),
    ] {
        assert_eq!(server.verify_client(Some(&pair)), expected, "{what}");
    }
    // A client with the right name of another CA is rejected.
    let other = CertificateAuthority::create(5).unwrap();
    assert_eq!(
        server.verify_client(Some(&client(&other, |_| {}))),
        Err(ClientRejection::Untrusted)
    );
}

/// Whatever happens to the file, the newest good bundle decides.
#[test]
fn a_new_bundle_counts_at_once_and_a_broken_one_not_at_all() {
    let [old, new] = [(); 2].map(|()| CertificateAuthority::create(5).unwrap());
    let [of_old, of_new] = [&old, &new].map(|authority| client(authority, |_| {}));
    let server = Server::new(old.certificate(), &[]);
    assert_eq!(server.clients.reload().unwrap(), Change::Unchanged);
    server.bundle(&format!("{}{}", old.certificate(), new.certificate()));
    assert_eq!(server.verify_client(Some(&of_new)), Err(ClientRejection::Untrusted));
    assert_eq!(server.clients.reload().unwrap(), Change::Replaced);
    assert_eq!(server.verify_client(Some(&of_old)), Ok(()));
    assert_eq!(server.verify_client(Some(&of_new)), Ok(()));
    server.bundle(new.certificate());
    assert_eq!(server.clients.reload().unwrap(), Change::Replaced);
    assert_eq!(server.verify_client(Some(&of_old)), Err(ClientRejection::Untrusted));
    let leaf = new.issue_client("a", 1).unwrap().certificate;
    let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (content, says) in [
        (String::new(), "clients.crt: no certificate: put"),
        (new.key(), "clients.crt: no certificate: put"),
        (format!("{}{garbage}", old.certificate()), "certificate 2: not an X.509 certificate"),
        (format!("{}{leaf}", old.certificate()), "certificate 2: not the certificate of a CA"),
        (old.certificate()[..300].to_owned(), "clients.crt: "),
    ] {
        server.bundle(&content);
        let error = server.clients.reload().unwrap_err().to_string();
        assert!(error.contains(says), "{says}: {error}");
        assert_eq!(server.verify_client(Some(&of_new)), Ok(()));
        assert_eq!(server.verify_client(Some(&of_old)), Err(ClientRejection::Untrusted));
    }
    fs::remove_file(server.directory.path().join("clients.crt")).unwrap();
    assert!(matches!(server.clients.reload(), Err(Error::Io { .. })));
    assert_eq!(server.verify_client(Some(&of_new)), Ok(()));
    // As a kubelet does it: a link that points elsewhere.
    let path = server.directory.path().join("clients.crt");
    fs::write(server.directory.path().join("other"), old.certificate()).unwrap();
    std::os::unix::fs::symlink("other", &path).unwrap();
    assert_eq!(server.clients.reload().unwrap(), Change::Replaced);
    assert_eq!(server.verify_client(Some(&of_new)), Err(ClientRejection::Untrusted));
    let none = Path::new("/nowhere/ca").to_path_buf();
    assert!(matches!(ClientVerifier::new(none, Vec::new()), Err(Error::Io { .. })));
    assert!(matches!(ClientVerifier::new(path, vec![String::new()]), Err(Error::ClientName(_))));
}

/// A session that went on would let a client in without its certificate.
#[test]
fn returning_client_is_verified_on_every_handshake() {
    let [old, new] = [(); 2].map(|()| CertificateAuthority::create(5).unwrap());
    let pair = client(&old, |_| {});
    let server = Server::new(old.certificate(), &[]);
    let connectors = VERSIONS.map(|version| server.connector(version, Some(&pair)));
    for connector in &connectors {
        for _ in 0..3 {
            assert_eq!(server.handshake(connector), Ok(HandshakeKind::Full));
        }
    }
    server.bundle(new.certificate());
    assert_eq!(server.clients.reload().unwrap(), Change::Replaced);
    for connector in &connectors {
        let error = server.handshake(connector).unwrap_err();
        assert_eq!(ClientRejection::of(&error), Some(ClientRejection::Untrusted));
    }
}

#[test]
fn a_client_is_issued_for_a_name_that_can_be_one() {
    let authority = CertificateAuthority::create(5).unwrap();
    let long = "x".repeat(65);
    for wrong in ["", " a", "a\n", "a\0b", &long] {
        let error = authority.issue_client(wrong, 1).err().unwrap().to_string();
        assert!(error.contains("cannot be the name of a client"), "{error}");
    }
    let server = Server::new(authority.certificate(), &["system:kube apiserver"]);
    let issued = authority.issue_client("system:kube apiserver", 1).unwrap();
    assert_eq!(server.verify_client(Some(&(issued.certificate, issued.key))), Ok(()));
}
