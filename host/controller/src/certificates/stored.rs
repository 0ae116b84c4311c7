//! Contents of the Secret. Administrators can write any data to it: unusable data counts as absent.

use std::sync::Arc;
use std::time::SystemTime;

use opgate_certs::{Authority, Pair, Root};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::SECRET;
use super::plan::MOST;
use crate::api::{Kind, annotation};
use crate::trust::{decode, encode};
use crate::{Installation, NAME_LABEL};

/// The Secret's entries.
const BUNDLE: &str = "ca.crt";
const AUTHORITY_KEY: &str = "ca.key";
const CHAIN: &str = "tls.crt";
const KEY: &str = "tls.key";

/// The annotation of a Secret that cert-manager keeps.
const CERT_MANAGER: &str = "cert-manager.io/certificate-name";

/// A serving certificate with its key.
#[derive(Clone)]
pub(super) struct Leaf {
    pub(super) chain: String,
    pub(super) key: String,
    pub(super) pair: Pair,
    /// The digests of CAs, and whether they vouch for it: signatures are verified once.
    vouched: Arc<Mutex<Vec<(String, bool)>>>,
}

impl Leaf {
    pub(super) fn of(chain: String, key: String) -> Option<Self> {
        let pair = Pair::of_pem(&chain, &key).ok()?;
        Some(Self { chain, key, pair, vouched: Arc::default() })
    }

    pub(super) fn is_valid_at(&self, now: SystemTime) -> bool {
        self.pair.not_before() <= now && now < self.pair.not_after()
    }

    /// Returns the CA of a bundle that issued it.
    pub(super) fn issuer<'r>(&self, bundle: &'r [Root]) -> Option<&'r Root> {
        bundle.iter().find(|root| self.is_of(root))
    }

    /// Reports whether a CA issued it.
    pub(super) fn is_of(&self, root: &Root) -> bool {
        let mut vouched = self.vouched.lock();
        if let Some((_, known)) = vouched.iter().find(|(digest, _)| digest == root.digest()) {
            return *known;
        }
        let new = root.vouches_for(&self.pair);
        // There are few CAs; who adds others all the time has them verified again.
        vouched.truncate(MOST);
        vouched.insert(0, (root.digest().to_owned(), new));
        new
    }
}

/// The newest CA, whose key is present.
#[derive(Clone)]
pub(super) struct Signer {
    pub(super) root: Root,
    pub(super) key: String,
}

impl Signer {
    pub(super) fn authority(&self) -> Result<Authority, opgate_certs::Error> {
        Authority::of_pem(self.root.pem(), &self.key)
    }

    pub(super) fn is_valid_at(&self, now: SystemTime) -> bool {
        self.root.not_before() <= now && now < self.root.not_after()
    }
}

/// The stored or desired contents of the Secret. Each part is valid on its own: see [`super::plan`].
#[derive(Clone, Default)]
pub(super) struct Stored {
    /// The CAs that clients trust.
    pub(super) bundle: Vec<Root>,
    /// One of them.
    pub(super) signer: Option<Signer>,
    /// The serving certificate, of any CA.
    pub(super) leaf: Option<Leaf>,
}

impl Stored {
    pub(super) fn of(secret: &Value) -> Self {
        let data = |entry: &str| decode(secret.get("data").and_then(|data| data.get(entry)));
        let text = |entry: &str| String::from_utf8(data(entry)).unwrap_or_default();
        let bundle = Root::all(&data(BUNDLE));
        let key = text(AUTHORITY_KEY);
        // The newest is the last.
        let signer = bundle.iter().rev().find(|root| Authority::of_pem(root.pem(), &key).is_ok());
        let signer = signer.map(|root| Signer { root: root.clone(), key });
        Self { signer, leaf: Leaf::of(text(CHAIN), text(KEY)), bundle }
    }

    /// Returns the bundle as PEM.
    pub(super) fn pem(&self) -> String {
        self.bundle.iter().map(Root::pem).collect()
    }

    /// Writes it to a Secret, and keeps other members.
    pub(super) fn write(&self, secret: &mut Value) {
        if !secret.get("data").is_some_and(Value::is_object)
            && let Some(secret) = secret.as_object_mut()
        {
            secret.insert("data".to_owned(), json!({}));
        }
        let leaf = self.leaf.as_ref();
        let entries = [
            (BUNDLE, self.pem()),
            (AUTHORITY_KEY, self.signer.as_ref().map(|s| s.key.clone()).unwrap_or_default()),
            // A Secret of type TLS has these two, and be they empty.
            (CHAIN, leaf.map(|leaf| leaf.chain.clone()).unwrap_or_default()),
            (KEY, leaf.map(|leaf| leaf.key.clone()).unwrap_or_default()),
        ];
        if let Some(data) = secret.get_mut("data").and_then(Value::as_object_mut) {
            data.extend(entries.map(|(entry, text)| (entry.to_owned(), encode(&text))));
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
            "name": SECRET,
            "namespace": installation.namespace,
            "labels": {NAME_LABEL.0: NAME_LABEL.1},
        },
    })
}

/// Reports whether another controller owns this Secret.
pub(super) fn is_kept_by_cert_manager(secret: &Value) -> bool {
    !annotation(secret, CERT_MANAGER).is_empty()
}
