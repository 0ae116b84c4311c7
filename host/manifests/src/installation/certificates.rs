//! Objects that cert-manager needs to manage the serving certificate: a separate CA, and the certificate.
//!
//! ```text
//! Issuer opgate-self-signed ─▶ Certificate opgate-ca ─▶ Issuer opgate-ca ─▶ Certificate opgate ─▶ Secret
//! ```

use serde_json::{Value, json};

use super::rbac::SECRET_NAME;
use super::{Certificates, Installation};

const API_VERSION: &str = "cert-manager.io/v1";

/// Annotation that names the source of a webhook configuration's CA bundle for cert-manager.
pub(super) const INJECT_CA_ANNOTATION: &str = "cert-manager.io/inject-ca-from";

/// Ten years.
const CA_DURATION: &str = "87600h";

/// 90 days, renewed a month before they end.
const CERTIFICATE_DURATION: &str = "2160h";
const RENEW_BEFORE: &str = "720h";

impl Installation {
    /// Returns the issuers and certificates, in this order.
    pub(super) fn issuers(&self) -> Vec<Value> {
        if self.certificates != Certificates::CertManager {
            return Vec::new();
        }
        let Self { name, namespace, .. } = self;
        let (root, ca) = (format!("{name}-self-signed"), format!("{name}-ca"));
        let object = |kind: &str, name: &str, spec: Value| json!({"apiVersion": API_VERSION, "kind": kind, "metadata": self.namespaced_metadata(name), "spec": spec});
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
                    "duration": CA_DURATION,
                    "privateKey": {"algorithm": "ECDSA", "size": 256},
                    "issuerRef": {"group": "cert-manager.io", "kind": "Issuer", "name": root},
                }),
            ),
            object("Issuer", &ca, json!({"ca": {"secretName": ca}})),
            object(
                "Certificate",
                name,
                json!({
                    "secretName": SECRET_NAME,
                    "duration": CERTIFICATE_DURATION,
                    "renewBefore": RENEW_BEFORE,
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
