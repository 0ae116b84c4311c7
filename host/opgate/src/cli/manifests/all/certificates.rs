//! Objects that cert-manager needs to manage the serving certificate: a separate CA, and the certificate.
//!
//! ```text
//! Issuer opgate-self-signed ─▶ Certificate opgate-ca ─▶ Issuer opgate-ca ─▶ Certificate opgate ─▶ Secret
//! ```

use serde_json::{Value, json};

use super::rbac::SECRET;
use super::{Certificates, Installation};

const API: &str = "cert-manager.io/v1";

/// Annotation that names the source of a webhook configuration's CA bundle for cert-manager.
pub(super) const INJECT: &str = "cert-manager.io/inject-ca-from";

/// Ten years.
const CA_TIME: &str = "87600h";

/// 90 days, renewed a month before they end.
const TIME: &str = "2160h";
const BEFORE: &str = "720h";

impl Installation {
    /// Returns the issuers and certificates, in this order.
    pub(super) fn issuers(&self) -> Vec<Value> {
        if self.certificates != Certificates::CertManager {
            return Vec::new();
        }
        let Self { name, namespace, .. } = self;
        let (root, ca) = (format!("{name}-self-signed"), format!("{name}-ca"));
        let object = |kind: &str, name: &str, spec: Value| json!({"apiVersion": API, "kind": kind, "metadata": self.named(name), "spec": spec});
        let key = json!({"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"});
        vec![
            object("Issuer", &root, json!({"selfSigned": {}})),
            object(
                "Certificate",
                &ca,
                json!({
                    "isCA": true,
                    "commonName": ca,
                    "secretName": ca,
                    "duration": CA_TIME,
                    "privateKey": {"algorithm": "ECDSA", "size": 256},
                    "issuerRef": {"group": "cert-manager.io", "kind": "Issuer", "name": root},
                }),
            ),
            object("Issuer", &ca, json!({"ca": {"secretName": ca}})),
            object(
                "Certificate",
                name,
                json!({
                    "secretName": SECRET,
                    "duration": TIME,
                    "renewBefore": BEFORE,
                    "dnsNames": [
                        format!("{name}.{namespace}.svc"),
                        format!("{name}.{namespace}.svc.cluster.local"),
                    ],
                    "usages": ["digital signature", "server auth"],
                    "privateKey": key,
                    "issuerRef": {"group": "cert-manager.io", "kind": "Issuer", "name": ca},
                }),
            ),
        ]
    }
}
