//! Contents of the Secret. Administrators can write any data to it: unusable data counts as absent.

use std::sync::Arc;
use std::time::SystemTime;

use opgate_certs::{CertificateAuthority, Root, ServingCertificate};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::SECRET_NAME;
use crate::api::{Kind, annotation};
use crate::trust::{decode_base64, encode_base64};
use crate::{Installation, NAME_LABEL};

/// Maximum number of CAs of a bundle: each is 0.7 KiB in every webhook. There are two while a CA changes.
pub(super) const MAX_CAS: usize = 8;

/// The Secret's entries.
const CA_BUNDLE: &str = "ca.crt";
const CA_KEY: &str = "ca.key";
const CHAIN: &str = "tls.crt";
const KEY: &str = "tls.key";

/// The annotation of a Secret that cert-manager keeps.
const CERT_MANAGER_ANNOTATION: &str = "cert-manager.io/certificate-name";

/// A serving certificate with its key.
#[derive(Clone)]
pub(super) struct StoredCertificate {
    pub(super) chain: String,
    pub(super) key: String,
    pub(super) pair: ServingCertificate,
    /// The digests of CAs, and whether they vouch for it: signatures are verified once.
    issuer_checks: Arc<Mutex<Vec<(String, bool)>>>,
}

impl StoredCertificate {
    pub(super) fn of(chain: String, key: String) -> Option<Self> {
        let pair = ServingCertificate::from_pem(&chain, &key).ok()?;
        Some(Self { chain, key, pair, issuer_checks: Arc::default() })
    }

    pub(super) fn is_valid_at(&self, now: SystemTime) -> bool {
        self.pair.not_before() <= now && now < self.pair.not_after()
    }

    /// Returns the CA of a bundle that issued it.
    pub(super) fn issuer<'r>(&self, bundle: &'r [Root]) -> Option<&'r Root> {
        bundle.iter().find(|root| self.is_issued_by(root))
    }

    /// Reports whether a CA issued it.
    pub(super) fn is_issued_by(&self, root: &Root) -> bool {
        let mut issuer_checks = self.issuer_checks.lock();
        if let Some((_, known)) = issuer_checks.iter().find(|(digest, _)| digest == root.digest()) {
            return *known;
        }
        let new = root.has_issued(&self.pair);
        // There are few CAs; who adds others all the time has them verified again.
        issuer_checks.truncate(MAX_CAS);
        issuer_checks.insert(0, (root.digest().to_owned(), new));
        new
    }
}

/// The newest CA, whose key is present.
#[derive(Clone)]
pub(super) struct CaSigner {
    pub(super) root: Root,
    pub(super) key: String,
}

impl CaSigner {
    pub(super) fn certificate_authority(
        &self,
    ) -> Result<CertificateAuthority, opgate_certs::Error> {
        CertificateAuthority::from_pem(self.root.pem(), &self.key)
    }

    pub(super) fn is_valid_at(&self, now: SystemTime) -> bool {
        self.root.not_before() <= now && now < self.root.not_after()
    }
}

/// The stored or desired contents of the Secret. Each part is valid on its own: see [`super::plan`].
#[derive(Clone, Default)]
pub(super) struct SecretContents {
    /// The CAs that clients trust.
    pub(super) bundle: Vec<Root>,
    /// One of them.
    pub(super) signer: Option<CaSigner>,
    /// The serving certificate, of any CA.
    pub(super) certificate: Option<StoredCertificate>,
}

impl SecretContents {
    pub(super) fn of(secret: &Value) -> Self {
        let data = |entry: &str| decode_base64(secret.get("data").and_then(|data| data.get(entry)));
        let text = |entry: &str| String::from_utf8(data(entry)).unwrap_or_default();
        let bundle = Root::from_pem(&data(CA_BUNDLE));
        let key = text(CA_KEY);
        // The newest is the last.
        let signer = bundle
            .iter()
            .rev()
            .find(|root| CertificateAuthority::from_pem(root.pem(), &key).is_ok());
        let signer = signer.map(|root| CaSigner { root: root.clone(), key });
        Self { signer, certificate: StoredCertificate::of(text(CHAIN), text(KEY)), bundle }
    }

    /// Returns the bundle as PEM.
    pub(super) fn pem(&self) -> String {
        self.bundle.iter().map(Root::pem).collect()
    }

    /// Writes it to a Secret, and keeps other members.
    pub(super) fn write_to(&self, secret: &mut Value) {
        if !secret.get("data").is_some_and(Value::is_object)
            && let Some(secret) = secret.as_object_mut()
        {
            secret.insert("data".to_owned(), json!({}));
        }
        let certificate = self.certificate.as_ref();
        let entries = [
            (CA_BUNDLE, self.pem()),
            (CA_KEY, self.signer.as_ref().map(|s| s.key.clone()).unwrap_or_default()),
            // A Secret of type TLS has these two, and be they empty.
            (CHAIN, certificate.map(|certificate| certificate.chain.clone()).unwrap_or_default()),
            (KEY, certificate.map(|certificate| certificate.key.clone()).unwrap_or_default()),
        ];
        if let Some(data) = secret.get_mut("data").and_then(Value::as_object_mut) {
            data.extend(entries.map(|(entry, text)| (entry.to_owned(), encode_base64(&text))));
        }
    }
}

/// Returns a Secret without content.
pub(super) fn new_secret(installation: &Installation) -> Value {
    json!({
        "apiVersion": Kind::Secret.api_version(),
        "kind": Kind::Secret.name(),
        "type": "kubernetes.io/tls",
        "metadata": {
            "name": SECRET_NAME,
            "namespace": installation.namespace,
            "labels": {NAME_LABEL.0: NAME_LABEL.1},
        },
    })
}

/// Reports whether another controller owns this Secret.
pub(super) fn is_managed_by_cert_manager(secret: &Value) -> bool {
    !annotation(secret, CERT_MANAGER_ANNOTATION).is_empty()
}
