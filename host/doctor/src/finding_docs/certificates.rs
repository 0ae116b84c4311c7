//! The serving certificate and the CA bundle.

use super::Level::{Critical, Warning};
use super::{Doc, Topic};

pub(crate) const TOPIC: Topic = Topic {
    name: "certificates",
    title: "Certificates",
    docs: &[
        &WRONG_NAME,
        &UNTRUSTED,
        &EXPIRED,
        &EXPIRES_SOON,
        &NOT_YET_VALID,
        &NO_SECRET,
        &WRONG_SECRET_TYPE,
        &NO_TLS,
        &NOT_RELOADED,
    ],
};

pub(crate) const WRONG_NAME: Doc = Doc {
    id: "DOC-20",
    level: Critical,
    title: "The certificate is not for the name that API servers call",
    impact: "API servers connect to a Service as `SERVICE.NAMESPACE.svc`, and to a URL by its host. That name is not among the subject alternative names \
of the serving certificate; its common name does not count. Every call fails.",
    remediation: "Issue a certificate for the Service and store it; the servers reload it within seconds:\n\n    opgate certs issue --out tls --service opgate-system/opgate\n    \
kubectl -n opgate-system create secret tls opgate-tls --cert=tls/tls.crt --key=tls/tls.key --dry-run=client -o yaml | kubectl apply -f -",
};

pub(crate) const UNTRUSTED: Doc = Doc {
    id: "DOC-21",
    level: Critical,
    title: "The caBundle does not verify the certificate",
    impact: "No CA in the `caBundle` of the webhook has issued the certificate that the servers present, or the `caBundle` is empty or damaged. Every call fails with \
`x509: certificate signed by unknown authority`. The doctor reads the certificate from the Secret, or from a TLS handshake if it can make one.",
    remediation: "Put the CA that issued the certificate into the webhook registration. To replace a CA without failed calls, use a bundle of both first:\n\n    opgate manifests webhook --ca old-ca.crt --ca new-ca.crt --config opgate.yaml --service opgate-system/opgate | kubectl apply -f -",
};

pub(crate) const EXPIRED: Doc = Doc {
    id: "DOC-22",
    level: Critical,
    title: "The certificate has expired",
    impact: "The serving certificate, or every CA in the `caBundle` that verifies it, has expired. Every new connection of an API server fails.",
    remediation: "Issue a new one immediately. `opgate certs issue` uses the CA in the directory; with `--new-ca` it creates another one, which you must also put into the webhook registration:\n\n    opgate certs issue --out tls --service opgate-system/opgate\n\n\
If a controller renews the certificate (cert-manager, or the servers with `--certificates self-managed`), check its log, its permissions and the clock.",
};

pub(crate) const EXPIRES_SOON: Doc = Doc {
    id: "DOC-23",
    level: Warning,
    title: "The certificate expires soon",
    impact: "The serving certificate expires within 7 days, or the CA within 30 days (`--days-left` and `--ca-days-left`). A controller that renews it should have done so already.",
    remediation: "Renew it now, as for [DOC-22](#doc-22): no call fails while the old one is valid.",
};

pub(crate) const NOT_YET_VALID: Doc = Doc {
    id: "DOC-24",
    level: Critical,
    title: "The certificate is not valid yet",
    impact: "The validity of the serving certificate, or of the CA, begins in the future: the clock of the machine that issued it is ahead. API servers reject it until then.",
    remediation: "Set the clock, then issue the certificate again. Certificates of `opgate certs issue` begin an hour before their creation.",
};

pub(crate) const NO_SECRET: Doc = Doc {
    id: "DOC-25",
    level: Critical,
    title: "The Secret of the certificate is missing or incomplete",
    impact: "The Secret from which the servers read their certificate does not exist, lacks `tls.crt` or `tls.key`, or has other content; or no volume of the pods is \
mounted where `--tls-dir` points. New pods do not start.",
    remediation: "Create the Secret from a certificate and its key, and mount it:\n\n    kubectl -n opgate-system create secret tls opgate-tls --cert=tls/tls.crt --key=tls/tls.key\n\n\
Servers with `--certificates self-managed` fill it: create it empty, `kubectl -n opgate-system create secret generic opgate-tls`.",
};

pub(crate) const WRONG_SECRET_TYPE: Doc = Doc {
    id: "DOC-26",
    level: Warning,
    title: "The Secret is not of the type kubernetes.io/tls",
    impact: "API servers check only Secrets of this type for `tls.crt` and `tls.key`, and tools that renew certificates require it. The type of a Secret cannot be changed.",
    remediation: "Delete it and create it again with the same content: `kubectl create secret tls`. The servers keep their current certificate meanwhile.",
};

pub(crate) const NO_TLS: Doc = Doc {
    id: "DOC-27",
    level: Critical,
    title: "The webhook port does not serve TLS",
    impact: "The connection succeeded, but the TLS handshake failed: the port belongs to another server (such as the ops port, which serves plain HTTP), or a proxy in between ends the connection.",
    remediation: "Point the Service to the port of `--listen` (see [DOC-13](reach.md#doc-13)), and exclude the port from proxies of a service mesh.",
};

pub(crate) const NOT_RELOADED: Doc = Doc {
    id: "DOC-28",
    level: Warning,
    title: "The server presents another certificate than the Secret has",
    impact: "Servers reload a new certificate within seconds after the kubelet has updated the volume, which takes a minute or two. If it takes longer, the new certificate is invalid \
(`opgate_certificate_reloads_total{result=\"failed\"}`), or the Secret is mounted with `subPath`, which is never updated.",
    remediation: "Search the log of the servers for `the old certificate is kept`, and mount the Secret as a directory without `subPath`.",
};
