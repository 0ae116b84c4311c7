//! APIs that a constraint names.

use opgate_sdk::{rule, rules};

use crate::targets::{CATALOG, CONFIG_MAP, CSV, INSTALL_PLAN, REGISTRY_BUNDLE};

rules![CON_07, CON_22];

rule! {
    /// a gvk constraint has a group, a version and a kind
    ///
    /// In every `gvk` of a constraint, `group`, `version` and `kind` are set and not empty. The
    /// rule reports each missing field. If `gvk` has an unknown or repeated field, CON-03 is
    /// reported instead. With `constraints.mode: upstream`, empty and missing fields are accepted.
    ///
    /// # Why
    ///
    /// The three fields name one API. If one is empty, no bundle provides the API, and the
    /// dependency is never satisfied. OpenShift 4.12, Operators, *Generic constraints*: the type
    /// means the same as `olm.gvk`, whose fields are not empty.
    ///
    /// # Remediation
    ///
    /// Set all three fields, as the CRD or the API service that you need has them.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// value:
    ///   gvk: {group: greens.example.com, version: v1, kind: Green}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// value:
    ///   gvk: {group: greens.example.com, version: v1}
    /// ```
    ///
    /// message: `olm.constraint gvk.kind must be a non-empty string`
    pub(crate) CON_07: Deny {
        name: "gvk-constraint-fields",
        on: [
            CSV: Create | Update, INSTALL_PLAN: Create | Update, CONFIG_MAP: Create | Update,
            REGISTRY_BUNDLE: Create | Update, CATALOG: Create | Update,
        ],
        source: ["OCP 4.12 L849-857, L2735-2737", "OCP 4.15 L726-803", "api pkg/constraints/constraint.go"],
    }
}

rule! {
    /// names of APIs satisfy the validation of Kubernetes
    ///
    /// In every `gvk` of an `olm.constraint`, and in every `olm.gvk` dependency of a bundle,
    /// `group` is a DNS-1123 subdomain of at most 253 characters; `version`, and `kind` in lower
    /// case, are DNS-1035 labels of at most 63 bytes. The rule reports each invalid field. CON-07
    /// and CON-21 report empty fields. The properties `olm.gvk` and `olm.gvk.required` are not
    /// checked.
    ///
    /// # Why
    ///
    /// The Kubernetes API server serves no API with another name, so the dependency is never
    /// satisfied. OpenShift 4.12, Operators, *olm.gvk property*: a GVK must adhere to the
    /// validations of Kubernetes.
    ///
    /// # Remediation
    ///
    /// Copy group, version and kind from the CRD: `spec.group`, the name of one of `spec.versions`,
    /// and `spec.names.kind`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// value:
    ///   gvk: {group: a.example.com, version: v1alpha, kind: CronTab}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// value:
    ///   gvk: {group: a.b, version: '1', kind: K}
    /// ```
    ///
    /// message: `invalid GVK a.b/1, Kind=K: a DNS-1035 label must consist of lower case
    /// alphanumeric characters or '-', start with an alphabetic character, and end with an
    /// alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is
    /// '[a-z]([-a-z0-9]*[a-z0-9])?')`
    pub(crate) CON_22: Deny {
        name: "valid-dependency-api-names",
        on: [
            CSV: Create | Update, INSTALL_PLAN: Create | Update, CONFIG_MAP: Create | Update,
            REGISTRY_BUNDLE: Create | Update, CATALOG: Create | Update,
        ],
        source: ["OCP 4.12 L849, L886, L2735-2737, L4901", "OCP 4.15 L726-803", "OKD L271, L293"],
    }
}
