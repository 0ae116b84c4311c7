//! The pull secret of a Catalog.

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Report, Review, Shape, go_format, names, pull_secret, rule, rules};

use crate::reads::{CATALOGD, SECRETS};
use crate::reference::{REF, split_reference};
use crate::targets::CATALOG;

rules![OL1_15, OL1_16, OL1_17];

const SECRET: &str = "/spec/source/image/pullSecret";
const FIELD: &str = "spec.source.image.pullSecret";

pub(crate) fn check(review: &Review<'_>, catalog: &Document, report: &mut Report<'_>) {
    let is_touched = |pointer| review.touches(catalog, pointer, &Shape::Scalar);
    let name = if catalog.has(SECRET) {
        go_format::format_value(catalog, SECRET, false)
    } else {
        String::new()
    };
    let namespace = CATALOGD.of(review.settings);
    if name.is_empty() {
        if is_touched(REF) || is_touched(SECRET) {
            check_required(review, catalog, &namespace, report);
        }
    } else if !is_touched(SECRET) {
    } else if catalog.text(SECRET).is_some() && names::subdomain_errors(&name).is_empty() {
        check_exists(&name, &namespace, report);
    } else {
        let message = format!(
            "{FIELD} {} must be the name of a Secret in the {namespace} namespace",
            quote(&name)
        );
        report.add(&OL1_16, FIELD, message);
    }
}

rule! {
    /// a Catalog of OLM 1.0 on a secure registry has a pull secret
    ///
    /// If the registry of `spec.source.image.ref` is one of the setting
    /// `catalogd.secureRegistries`, by default `registry.redhat.io`, `spec.source.image.pullSecret`
    /// is a non-empty string. The comparison ignores case, and it ignores the port if the setting
    /// has none. The rule evaluates an UPDATE only if it changes one of the two fields.
    ///
    /// # Why
    ///
    /// The registry requires credentials (OpenShift 4.15, Operators, *Red Hat-provided Operator
    /// catalogs in OLM 1.0*), and catalogd does not use the global pull secret.
    ///
    /// # Remediation
    ///
    /// Create a Secret in the namespace of catalogd and name it in the field.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// image: {ref: 'registry.redhat.io/redhat/redhat-operator-index:v4.15', pullSecret: redhat-cred}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// image: {ref: 'registry.redhat.io/redhat/redhat-operator-index:v4.15'}
    /// ```
    ///
    /// `message: catalog image "registry.redhat.io/redhat/redhat-operator-index:v4.15" is on a
    /// secure registry: you must have a pull secret scoped to the openshift-catalogd namespace`
    OL1_15: Deny {
        name: "olm-v1-catalog-pull-secret-required",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.15 L20189-20191, L20328-20330, L20413-20419, L20492, L20515"],
    }
}

fn check_required(
    review: &Review<'_>,
    catalog: &Document,
    namespace: &str,
    report: &mut Report<'_>,
) {
    const SETTING: &str = "/catalogd/secureRegistries";
    let reference = catalog.text_or_empty(REF);
    let (Some(registry), _) = split_reference(&reference) else { return };
    let host = registry.split_once(':').map_or(registry, |(host, _)| host);
    let is_secure = |secure: &str| {
        let own = if secure.contains(':') { registry } else { host };
        own.eq_ignore_ascii_case(secure)
    };
    let is_secure = if review.settings.has(SETTING) {
        review.settings.texts(SETTING).iter().any(|secure| is_secure(secure))
    } else {
        is_secure("registry.redhat.io")
    };
    if is_secure {
        let message = format!(
            "catalog image {} is on a secure registry: you must have a pull secret scoped to the {namespace} namespace",
            quote(&reference)
        );
        report.add(&OL1_15, FIELD, message);
    }
}

rule! {
    /// the pull secret of a Catalog of OLM 1.0 is the name of a Secret
    ///
    /// `spec.source.image.pullSecret`, if it is set, is a DNS-1123 subdomain, without a namespace
    /// prefix. The rule evaluates an UPDATE only if it changes the field.
    ///
    /// # Why
    ///
    /// catalogd reads the Secret from its own namespace only (OpenShift 4.15, Operators, *Creating
    /// a pull secret for catalogs hosted on a secure registry*).
    ///
    /// # Remediation
    ///
    /// Create the Secret in that namespace, and write only its name.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// pullSecret: redhat-cred
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// pullSecret: openshift-config/pull-secret
    /// ```
    ///
    /// `message: spec.source.image.pullSecret "openshift-config/pull-secret" must be the name of a
    /// Secret in the openshift-catalogd namespace`
    OL1_16: Warn {
        name: "valid-olm-v1-catalog-pull-secret-name",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.15 L20419, L20509-20515"],
    }
}

rule! {
    /// the pull secret of a Catalog of OLM 1.0 exists
    ///
    /// `spec.source.image.pullSecret` names a Secret of the namespace in which catalogd runs
    /// (setting `catalogd.namespace`, by default `openshift-catalogd`), of type
    /// `kubernetes.io/dockerconfigjson` with the key `.dockerconfigjson`, or of type
    /// `kubernetes.io/dockercfg` with the key `.dockercfg`. The rule reads only types and names of
    /// keys. A server reads Secrets only if you set `catalogd.namespace`. OL1-16 covers invalid
    /// names. The rule evaluates an UPDATE only if it changes the field. Without cluster state, the
    /// policy skips the rule.
    ///
    /// # Why
    ///
    /// catalogd cannot pull the image, and the Catalog stays empty (OpenShift 4.15, Operators,
    /// *Creating a pull secret for catalogs hosted on a secure registry*).
    ///
    /// # Remediation
    ///
    /// Create the Secret: `oc create secret generic NAME --from-file=.dockerconfigjson=FILE
    /// --type=kubernetes.io/dockerconfigjson --namespace=openshift-catalogd`.
    ///
    /// # Accepted
    ///
    /// The Secret `redhat-cred` of type `kubernetes.io/dockerconfigjson`.
    ///
    /// # Rejected
    ///
    /// A name for which no Secret exists.
    ///
    /// `message: pull secret openshift-catalogd/redhat-cred does not exist`
    OL1_17: Warn {
        name: "olm-v1-catalog-pull-secret-exists",
        on: [CATALOG: Create | Update],
        reads: [SECRETS],
        source: ["OCP 4.15 L20189-20191, L20419-20484"],
    }
}

fn check_exists(name: &str, namespace: &str, report: &mut Report<'_>) {
    if !report.is_on(&OL1_17) {
        return;
    }
    let secret = SECRETS.get(namespace, name);
    let Some(secret) = report.or_skip(&[&OL1_17], "Secrets", secret) else { return };
    if let Some(why) = pull_secret::error(secret.as_ref()) {
        report.add(&OL1_17, FIELD, format!("pull secret {namespace}/{name} {why}"));
    }
}
