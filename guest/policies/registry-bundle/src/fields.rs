//! Unknown fields, in every manifest of a kind in the table of types.
//!
//! ```text
//! manifest in a file or a bundle ─▶ walk along its type ─▶ Unknown: by type and name, with the first location
//! ```
//!
//! Files only: an API server drops unknown fields before it calls webhooks.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use opgate_schema::{FieldPath, SchemaErrorSink, TypeId, walk};
use opgate_sdk::go::{quote, shorten};
use opgate_sdk::{Document, Fix, InputType, Report, Review, Target, rule, rules};

use crate::manifests::MAX_MANIFEST_BYTES;

rules![RBF_34];

/// Objects of the kinds in the table, in files.
pub(crate) static MANIFEST: Target = Target {
    groups: &[
        "",
        "apiextensions.k8s.io",
        "apps",
        "batch",
        "catalogd.operatorframework.io",
        "core.rukpak.io",
        "networking.k8s.io",
        "olm.operatorframework.io",
        "operators.coreos.com",
        "operators.operatorframework.io",
        "platform.openshift.io",
        "policy",
        "rbac.authorization.k8s.io",
        "scheduling.k8s.io",
    ],
    versions: &["v1", "v1alpha1", "v1alpha2", "v1beta1", "v2"],
    resources: &[
        "bundledeployments",
        "bundles",
        "catalogs",
        "catalogsources",
        "clustercatalogs",
        "clusterextensions",
        "clusterrolebindings",
        "clusterroles",
        "clusterserviceversions",
        "configmaps",
        "cronjobs",
        "customresourcedefinitions",
        "daemonsets",
        "deployments",
        "installplans",
        "jobs",
        "namespaces",
        "networkpolicies",
        "olmconfigs",
        "operatorconditions",
        "operatorgroups",
        "operators",
        "persistentvolumeclaims",
        "platformoperators",
        "poddisruptionbudgets",
        "pods",
        "priorityclasses",
        "rolebindings",
        "roles",
        "secrets",
        "serviceaccounts",
        "services",
        "statefulsets",
        "subscriptions",
    ],
    kind: "any manifest",
    advisory: true,
    enabled_by: &["/files"],
    ..Target::EMPTY
};

rule! {
    /// every field is defined in the API of the kind
    ///
    /// The API of a manifest defines each of its fields, down to pod templates, probes and the
    /// schemas of CRDs. The rule evaluates ClusterServiceVersion, CustomResourceDefinition and the
    /// other kinds of Kubernetes that a bundle can contain, Deployment, DaemonSet, StatefulSet,
    /// Job, CronJob, Pod, Namespace and PersistentVolumeClaim, and OLM's kinds, such as
    /// Subscription, CatalogSource, OperatorGroup, OperatorCondition and ClusterExtension. The
    /// fields are those of Kubernetes 1.33 to 1.37, and earlier fields of versions since 1.11.
    /// Names are case-sensitive: `Replicas` is not `replicas`. Data that an API does not interpret
    /// is not evaluated: the data of a ConfigMap, defaults in a schema, examples. If an unknown
    /// field occurs several times in one kind, such as in all containers, the rule reports it once,
    /// at the first location. It also reports annotations or labels at a too high level once.
    ///
    /// The rule evaluates only manifests in files, in bundles and separate: an API server drops
    /// unknown fields before admission.
    ///
    /// # Why
    ///
    /// An unknown field is ignored without an error: a Subscription with `chanel` follows the
    /// default channel, and a container with `livenesProbe` has no probe. `kubectl
    /// --validate=strict` rejects such an object.
    ///
    /// # Remediation
    ///
    /// Write the name as the message suggests. Without a suggestion, look up the field in the
    /// reference of the API: it can belong to another level. Remove unknown fields.
    ///
    /// `opgate check --fix --unsafe-fixes` proposes a correction.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// apiVersion: operators.coreos.com/v1alpha1
    /// kind: Subscription
    /// spec: {channel: stable, name: etcd}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// apiVersion: operators.coreos.com/v1alpha1
    /// kind: Subscription
    /// spec: {chanel: stable, name: etcd}
    /// ```
    ///
    /// `message: unknown field "chanel", did you mean "channel"?`
    ///
    /// If no name is similar: `message: unknown field "replicasCount"`
    RBF_34: Warn {
        name: "no-unknown-manifest-fields",
        on: [MANIFEST: Create | Update],
        may_skip: true,
        source: ["OCP 4.12 L20798", "kubernetes OpenAPI"],
    }
}

/// Longest name that a message shows, in bytes.
const MAX_SHOWN_BYTES: usize = 128;

/// Maximum number of fields that a fix renames.
const MAX_RENAMED: usize = 16;

/// An unknown field of a kind.
struct UnknownField {
    /// The first location.
    field: String,
    message: String,
    /// Number of occurrences.
    count: usize,
    /// The most similar known name.
    meant: Option<&'static str>,
    /// The first locations.
    pointers: Vec<String>,
}

impl UnknownField {
    /// The known name at all locations, unless a field of that name is there.
    fn rename(&self, object: &Document) -> Option<Fix> {
        let meant = self.meant?;
        // It had no effect so far.
        let mut fix = Fix::needs_review(format!("rename the field to {meant}"));
        for pointer in &self.pointers {
            let (parent, _) = pointer.rsplit_once('/')?;
            if object.has(&format!("{parent}/{meant}")) {
                return None;
            }
            fix = fix.rename_key(pointer, meant);
        }
        Some(fix)
    }
}

/// Unknown fields, by type and name, in the order of their first locations.
#[derive(Default)]
struct UnknownFields {
    indexes: BTreeMap<(TypeId, String), usize>,
    /// The first unknown fields: the field, the message, and the number of locations.
    first: Vec<UnknownField>,
    more: usize,
}

impl SchemaErrorSink for UnknownFields {
    fn unknown_field(&mut self, place: &FieldPath<'_>, of: TypeId, name: &str) {
        let name = shorten(name, MAX_SHOWN_BYTES);
        // Keys of annotations or labels at a too high level are one error.
        let is_key = name.contains(['.', '/']);
        let key = (of, if is_key { "/".to_owned() } else { name.clone() });
        let known = self.indexes.get(&key).and_then(|at| self.first.get_mut(*at));
        if let Some(UnknownField { count, pointers, .. }) = known {
            *count = count.saturating_add(1);
            if pointers.len() < MAX_RENAMED {
                pointers.push(place.pointer());
            }
            return;
        }
        if self.first.len() >= Report::MAX_VIOLATIONS {
            self.more = self.more.saturating_add(1);
            return;
        }
        let meant = of.nearest(&name);
        let hint = meant.map(|near| format!(", did you mean {}?", quote(near)));
        let message = format!("unknown field {}{}", quote(&name), hint.unwrap_or_default());
        let at = self.first.len();
        let (field, pointers) = (place.field(), vec![place.pointer()]);
        self.first.push(UnknownField { field, message, count: 1, meant, pointers });
        self.indexes.insert(key, at);
    }
}

pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    if !matches!(review.input_type(), InputType::Manifest | InputType::Bundle) {
        return;
    }
    let Some(object) = review.subject().filter(|_| report.is_on(&RBF_34)) else { return };
    let [api_version, kind] = ["/apiVersion", "/kind"].map(|member| object.text_or_empty(member));
    let Some(of) = TypeId::of_kind(&api_version, &kind) else { return };
    if object.size("").is_some_and(|size| size > MAX_MANIFEST_BYTES) {
        return report.skip_part(&RBF_34, "", "the manifest is too large to be evaluated");
    }
    let mut unknown = UnknownFields::default();
    walk(&object.raw("").unwrap_or_default(), of, &mut unknown);
    for mut found in unknown.first {
        if found.count > 1 {
            // Writing to a text does not fail.
            let _ = write!(found.message, " (and {} more)", found.count.saturating_sub(1));
        }
        report.add(&RBF_34, std::mem::take(&mut found.field), std::mem::take(&mut found.message));
        report.set_fix(&RBF_34, || found.rename(object));
    }
    report.add_count(&RBF_34, unknown.more);
}
