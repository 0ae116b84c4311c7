//! The registries for which a pull secret has credentials.
//!
//! ```text
//! data ─▶ base64 ─▶ JSON ─▶ names of the members of `auths` ─▶ hosts
//! ```
//!
//! Only the hosts leave this module.

use std::collections::BTreeSet;

use opgate_compat::json;
use opgate_sdk::cluster::{IndexMatch, Query};
use opgate_sdk::go::{base64, shorten};
use opgate_sdk::{Document, Report, Review, rule, rules};

use crate::reads::CATALOG_SOURCES;
use crate::targets::{SECRET, SECRET_IN_FILES};

rules![CAT_21];

const TYPE: &str = "/type";
const DATA: &str = "/data/.dockerconfigjson";
/// The field for plain text in a manifest. The API server moves its entries to `data`, in base64.
const STRING_DATA: &str = "/stringData/.dockerconfigjson";
/// Maximum number of hosts in a message, and maximum bytes of each: no domain is longer.
const MAX_SHOWN_HOSTS: usize = 16;
const MAX_SHOWN_BYTES: usize = 253;

rule! {
    /// a pull secret of a catalog has credentials for one registry
    ///
    /// A Secret of type `kubernetes.io/dockerconfigjson` that `spec.secrets` of a CatalogSource in
    /// its namespace names holds credentials for one host. Several repositories of a host count
    /// once, and so do `https://quay.io` and `quay.io`. The rule evaluates an UPDATE only if it
    /// changes the type or the credentials. The rule reads only the names under `auths`, and shows
    /// only their hosts.
    ///
    /// `opgate check` evaluates every Secret in files. The webhook gets requests for the rule only
    /// if you set `catalog.secretsNamespace`, and then only for Secrets of this namespace. Without
    /// cluster state of CatalogSources, the policy skips the rule.
    ///
    /// # Why
    ///
    /// OpenShift merges the Secrets of a catalog into one file. With one registry in each Secret,
    /// you can replace the credentials of one registry without changing the others (OpenShift 4.12,
    /// Operators, *Accessing images for Operators from private registries*).
    ///
    /// # Remediation
    ///
    /// Create a Secret for each registry, and list all of them in `spec.secrets`.
    ///
    /// # Accepted
    ///
    /// Data with `{"auths": {"quay.io": {}, "https://quay.io/my-namespace": {}}}`.
    ///
    /// # Rejected
    ///
    /// Data with `{"auths": {"registry.redhat.io": {}, "quay.io": {}}}`.
    ///
    /// `message: include credentials for only one registry per secret: found [quay.io
    /// registry.redhat.io]`
    CAT_21: Warn {
        name: "single-registry-catalog-pull-secret",
        on: [SECRET: Create | Update, SECRET_IN_FILES: Create | Update],
        reads: [CATALOG_SOURCES],
        source: ["OCP 4.12 L9519-9551, L9563-9583", "OCP 4.15 L6767"],
    }
}

/// A Secret of the namespace that a setting names. Another target covers every Secret in files.
pub(crate) fn check_in_requests(review: &Review<'_>, report: &mut Report<'_>) {
    if review.settings.boolean("/files") != Some(true) {
        check(review, report);
    }
}

pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(secret) = review.subject() else { return };
    let is_changed =
        [TYPE, DATA, STRING_DATA].iter().any(|pointer| review.touches_json(secret, pointer));
    if secret.text_or_empty(TYPE) != "kubernetes.io/dockerconfigjson"
        || !is_changed
        || !report.is_on(&CAT_21)
    {
        return;
    }
    let (hosts, field) = match secret.text(STRING_DATA) {
        Some(text) => (hosts(text.as_bytes()), "stringData[.dockerconfigjson]"),
        None => (decode_hosts(secret), "data[.dockerconfigjson]"),
    };
    if hosts.len() < 2 {
        return;
    }
    let own = [review.name(secret)];
    let matches = [IndexMatch { index: "secret", values: &own, include_missing: false }];
    let query =
        Query { namespace: Some(review.namespace()), matches: &matches, ..Query::default() };
    if report.or_skip(&[&CAT_21], "CatalogSources", CATALOG_SOURCES.any(query)) == Some(true) {
        let mut named: Vec<_> =
            hosts.iter().take(MAX_SHOWN_HOSTS).map(|host| shorten(host, MAX_SHOWN_BYTES)).collect();
        if hosts.len() > MAX_SHOWN_HOSTS {
            named.push("…".to_owned());
        }
        let message = format!(
            "include credentials for only one registry per secret: found [{}]",
            named.join(" ")
        );
        report.add(&CAT_21, field, message);
    }
}

fn decode_hosts(secret: &Document) -> BTreeSet<String> {
    let mut bytes = Vec::new();
    match base64::decode(&secret.text_or_empty(DATA), &mut bytes) {
        Ok(()) => hosts(&bytes),
        Err(_) => BTreeSet::new(),
    }
}

/// The hosts in a Docker configuration. An invalid entry has none.
fn hosts(configuration: &[u8]) -> BTreeSet<String> {
    let mut hosts = BTreeSet::new();
    // The error for invalid JSON contains no hosts.
    let _ = json::each_child(configuration, |child| {
        if child.is_named("auths") {
            let _ = json::each_child(child.raw, |entry| {
                let name = entry.key.map(json::decode_text);
                hosts.extend(name.and_then(|name| host(&name)));
            });
        }
    });
    hosts
}

/// The host of a registry, with its port. None if the name has no valid host: the value may be
/// something else, such as a password.
fn host(name: &str) -> Option<String> {
    let rest = name.split_once("://").map_or(name, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    (!host.is_empty() && host.bytes().all(is_inner)).then(|| host.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_of_a_host_count_once() {
        for (configuration, expected) in [
            (r#"{"auths":{"quay.io":{},"https://quay.io/my-namespace":{}}}"#, &["quay.io"][..]),
            (r#"{"auths":{"http://QUAY.io:443":1,"quay.io":2}}"#, &["quay.io", "quay.io:443"]),
            (r#"{"auths":{"https://me:secret@a.io/v1/":{}}}"#, &["a.io"]),
            (r#"{"auths":{"":{},"a b":{},"p\u0000":{}}}"#, &[]),
            (r#"{"auths":["quay.io"],"other":{"a.io":{}}}"#, &[]),
            (r#"{"auths":{"a.io":{}"#, &[]),
            ("", &[]),
            ("[1]", &[]),
        ] {
            let found: Vec<_> = hosts(configuration.as_bytes()).into_iter().collect();
            assert_eq!(found, expected, "{configuration}");
        }
    }
}
