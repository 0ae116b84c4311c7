//! Objects for the serving certificate: the empty Secret that servers fill, or a separate CA and the certificate
//! for cert-manager.
//!
//! ```text
//! Issuer opgate-self-signed ─▶ Certificate opgate-ca ─▶ Issuer opgate-ca ─▶ Certificate opgate ─▶ Secret
//! ```

use serde_json::{Value, json};

use super::{Certificates, Installation};

const API_VERSION: &str = "cert-manager.io/v1";

/// The Secret with the serving certificate.
pub(super) const SECRET_NAME: &str = "opgate-tls";

/// Annotation that names the source of a webhook configuration's CA bundle for cert-manager.
pub(super) const INJECT_CA_ANNOTATION: &str = "cert-manager.io/inject-ca-from";

/// Ten years.
const CA_DURATION: &str = "87600h";

/// 90 days, renewed a month before they end.
const CERTIFICATE_DURATION: &str = "2160h";
const RENEW_BEFORE: &str = "720h";

impl Installation {
    /// Returns the empty Secret that the servers write: a permission to create cannot be limited to a name,
    /// so servers that could create this one could create any. Applying it again changes none of their data:
    /// it has neither data nor a type, which is immutable.
    pub(super) fn secret(&self) -> Option<Value> {
        (self.certificates == Certificates::SelfManaged)
            .then(|| json!({"apiVersion": "v1", "kind": "Secret", "metadata": self.namespaced_metadata(SECRET_NAME)}))
    }

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
