//! The pull secrets that a catalog names.

use std::collections::BTreeSet;

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Report, pull_secret, rule, rules};

use crate::reads::SECRETS;
use crate::source::Source;
use crate::targets::{CATALOG_SOURCE, SECRETS_NAMESPACE};

rules![CAT_20];

const LIST: &str = "/spec/secrets";
const FIELD: &str = "spec.secrets";
/// Maximum number of names to look up. No catalog has this many, and each name costs one query.
const MAX_QUERIES: u32 = 1_024;

rule! {
    /// the pull secrets of a catalog exist
    ///
    /// Each name in `spec.secrets` is that of a Secret in the namespace of the CatalogSource, of
    /// type `kubernetes.io/dockerconfigjson` with the key `.dockerconfigjson`, or of type
    /// `kubernetes.io/dockercfg` with the key `.dockercfg`. The rule reads only types and names of
    /// keys. On UPDATE, the rule does not evaluate names that the list had before.
    ///
    /// The rule reads the Secrets of one namespace, the setting `catalog.secretsNamespace` (default
    /// `openshift-marketplace`). A server reads them only if you set it. Without cluster state, the
    /// policy skips the rule.
    ///
    /// # Gap
    ///
    /// The policy skips the rule for catalogs in other namespaces. There, the kubelet reports a
    /// missing Secret when it pulls the image of the catalog.
    ///
    /// # Why
    ///
    /// Without the Secrets, the kubelet can pull neither the catalog nor the bundles that it lists
    /// (OpenShift 4.12, Operators, *Accessing images for Operators from private registries*).
    ///
    /// # Remediation
    ///
    /// Create the Secret: `oc create secret generic NAME -n openshift-marketplace
    /// --from-file=.dockerconfigjson=FILE --type=kubernetes.io/dockerconfigjson`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {secrets: [secret-1, secret-2]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {secrets: [missing]}
    /// ```
    ///
    /// `message: spec.secrets[0]: Secret "missing" does not exist`
    CAT_20: Warn {
        name: "catalog-source-pull-secrets-exist",
        on: [CATALOG_SOURCE: Create | Update],
        reads: [SECRETS],
        may_skip: true,
        source: ["OCP 4.12 L9460, L9592-9628, L9682-9687", "OCP 4.15 L6838-6873, L6912-6915"],
    }
}

pub(crate) fn check(source: &Source<'_>, report: &mut Report<'_>) {
    let review = source.review;
    let Some(length) = source.object.length(LIST) else { return };
    if length == 0 || !review.touches_json(source.object, LIST) || !report.is_on(&CAT_20) {
        return;
    }
    let namespace = SECRETS_NAMESPACE.of(review.settings);
    if review.namespace() != namespace {
        let why = format!("only the Secrets of namespace {namespace} are read");
        report.skip(&CAT_20, FIELD, &why);
        return;
    }
    let old = review.ratchet_base();
    if length > MAX_QUERIES
        || old.and_then(|old| old.length(LIST)).is_some_and(|old| old > MAX_QUERIES)
    {
        report.skip(&CAT_20, FIELD, "spec.secrets has more entries than can be evaluated");
        return;
    }
    let known: BTreeSet<String> =
        old.map(|old| names(old).into_iter().flatten().collect()).unwrap_or_default();
    for (index, name) in names(source.object).into_iter().enumerate() {
        let Some(name) = name.filter(|name| !known.contains(name)) else { continue };
        let secret = SECRETS.get(&namespace, &name);
        let Some(secret) = report.or_skip(&[&CAT_20], "Secrets", secret) else { return };
        if let Some(why) = pull_secret::error(secret.as_ref()) {
            let field = format!("{FIELD}[{index}]");
            let message = format!("{field}: Secret {} {why}", quote(&name));
            report.add(&CAT_20, field, message);
        }
    }
}

/// The names in the list. An entry that is not a string has none.
fn names(source: &Document) -> Vec<Option<String>> {
    let rows = source.rows(LIST, &[""]);
    rows.iter().map(|row| row.text(0).map(str::to_owned)).collect()
}
