//! The OperatorHub of an OpenShift cluster and its default catalog sources.

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Kind, Report, Review, Row, corrections, operator_hub, rule, rules};

use crate::targets::OPERATOR_HUB;

rules![CND_11, CND_12, CND_13, CND_14, CND_15];

const DISABLE_ALL: &str = "/spec/disableAllDefaultSources";
const SOURCES: &str = "/spec/sources";

pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(hub) = review.subject() else { return };
    check_name(review, hub, report);
    if review.touches_json(hub, DISABLE_ALL) {
        check_disable_all(hub, report);
    }
    if review.touches_json(hub, SOURCES) {
        check_sources(review, hub, report);
    }
}

rule! {
    /// the OperatorHub is named cluster
    ///
    /// A new OperatorHub has the name `cluster`. The rule does not evaluate an UPDATE: names do not
    /// change.
    ///
    /// # Why
    ///
    /// The Marketplace Operator manages the object `cluster` and ignores others (OpenShift 4.12,
    /// Operators, *OperatorHub custom resource*). Catalog sources that another object disables stay
    /// enabled.
    ///
    /// # Remediation
    ///
    /// Change the name to `cluster`. The object usually exists already: change it, for example with
    /// `oc patch OperatorHub cluster`.
    ///
    /// `opgate check --fix --unsafe-fixes` proposes a correction.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// metadata: {name: cluster}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// metadata: {name: hub}
    /// ```
    ///
    /// `message: the Marketplace Operator manages an OperatorHub named cluster; "hub" has no
    /// effect`
    CND_11: Warn {
        name: "operator-hub-named-cluster",
        on: [OPERATOR_HUB: Create],
        source: ["OCP 4.12 L4459-4476", "OCP 4.15 L2802-2827"],
    }
}

fn check_name(review: &Review<'_>, hub: &Document, report: &mut Report<'_>) {
    let name = review.name(hub);
    if !review.is_update() && name != "cluster" {
        let name = quote(&name);
        let message = format!(
            "the Marketplace Operator manages an OperatorHub named cluster; {name} has no effect"
        );
        report.add(&CND_11, "metadata.name", message);
        report.set_fix(&CND_11, || Some(corrections::propose("/metadata/name", "cluster")));
    }
}

rule! {
    /// an OperatorHub disables sources with booleans
    ///
    /// `spec.disableAllDefaultSources` is a boolean. Each entry of `spec.sources` is an object
    /// whose `disabled` is a boolean and whose `name` is a string. All of these may be absent (but
    /// see CND-15 for the name). On UPDATE, the rule evaluates only the fields that the request
    /// changes. The rule does not evaluate requests for the subresource `status`.
    ///
    /// # Why
    ///
    /// The CRD has these types, so OpenShift rejects any other value (OpenShift 4.12, Operators,
    /// *OperatorHub custom resource*). The rule reports the same for manifests that have not
    /// reached the API server yet.
    ///
    /// # Remediation
    ///
    /// Write `true` or `false` without quotes.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec:
    ///   disableAllDefaultSources: true
    ///   sources: [{name: community-operators, disabled: false}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {disableAllDefaultSources: "true"}
    /// ```
    ///
    /// `message: spec.disableAllDefaultSources: Invalid value: must be of type boolean`
    CND_12: Deny {
        name: "valid-operator-hub-disabled-flags",
        on: [OPERATOR_HUB: Create | Update],
        may_skip: true,
        source: ["OCP 4.12 L4465-4487, L9754-9761", "OCP 4.15 L2802-2827"],
    }
}

fn type_error(field: &str, expected: &str) -> String {
    format!("{field}: Invalid value: must be of type {expected}")
}

rule! {
    /// an OperatorHub names default catalog sources
    ///
    /// `name` of each entry of `spec.sources` is one of the setting `catalog.defaults`: by default
    /// `redhat-operators`, `certified-operators`, `redhat-marketplace` and `community-operators`.
    /// The rule evaluates an UPDATE only if it changes `spec.sources`. The rule does not evaluate
    /// requests for the subresource `status`.
    ///
    /// # Why
    ///
    /// An OperatorHub enables and disables the default sources only (OpenShift 4.12, Operators,
    /// *OperatorHub custom resource* and *Red Hat-provided Operator catalogs*). An entry with
    /// another name has no effect.
    ///
    /// # Remediation
    ///
    /// Correct the name. To remove your own CatalogSource, delete it. If your cluster has other
    /// default sources, list them in `catalog.defaults`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {sources: [{name: redhat-operators, disabled: true}]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {sources: [{name: example-catalog, disabled: true}]}
    /// ```
    ///
    /// `message: "example-catalog" is not a default catalog source`
    CND_13: Warn {
        name: "known-operator-hub-sources",
        on: [OPERATOR_HUB: Create | Update],
        may_skip: true,
        source: ["OCP 4.12 L4482-4487, L4595-4638", "OCP 4.15 L2890-2896"],
    }
}

fn check_sources(review: &Review<'_>, hub: &Document, report: &mut Report<'_>) {
    let Some(rows) = operator_hub::sources(hub) else {
        report.skip_part(&CND_12, "spec.sources", operator_hub::TOO_MANY_SOURCES);
        report.skip(&CND_13, "spec.sources", operator_hub::TOO_MANY_SOURCES);
        report.skip(&CND_15, "spec.sources", operator_hub::TOO_MANY_SOURCES);
        return;
    };
    let field = |index: usize, member: &str| format!("spec.sources[{index}]{member}");
    let mut wrong = |column: usize, member: &str, expected: &str, kind: Kind| {
        // An API server drops a null member, and keeps an entry without a name.
        let is_none = |found: Kind| column > 0 && matches!(found, Kind::Missing | Kind::Null);
        let is_wrong = |found: Kind| found != kind && !is_none(found);
        let wrong = rows.iter().enumerate().filter(|(_, row)| is_wrong(row.kind(column)));
        report.add_each(&CND_12, wrong, |(index, _)| {
            let field = field(index, member);
            let message = type_error(&field, expected);
            (field, message)
        });
    };
    wrong(0, "", "object", Kind::Object);
    wrong(1, ".name", "string", Kind::Text);
    wrong(2, ".disabled", "boolean", Kind::Boolean);
    let defaults = operator_hub::default_sources(review.settings);
    let nameless = rows.iter().enumerate().filter(|(_, row)| is_nameless(row));
    report.add_each(&CND_15, nameless, |(index, _)| {
        let field = field(index, ".name");
        let message = format!("{field}: Invalid value: \"\": must not be empty");
        (field, message)
    });
    let named = rows.iter().enumerate().filter_map(|(index, row)| Some((index, row.text(1)?)));
    let named = named.filter(|(_, name)| !name.is_empty());
    let others = named.filter(|(_, name)| !defaults.iter().any(|default| default == name));
    report.add_each(&CND_13, others, |(index, name)| {
        (field(index, ".name"), format!("{} is not a default catalog source", quote(name)))
    });
}

rule! {
    /// an entry of an OperatorHub names its catalog source
    ///
    /// `name` of each entry of `spec.sources` is a non-empty string. CND-12 covers other types. The
    /// rule evaluates an UPDATE only if it changes `spec.sources`. It does not evaluate requests
    /// for the subresource `status`.
    ///
    /// # Why
    ///
    /// The CRD rejects an empty name, but accepts an entry without one (openshift/api
    /// `config/v1/types_operatorhub.go`). The Marketplace Operator finds a default catalog source
    /// by the name: such an entry disables nothing (OpenShift 4.12, Operators, *OperatorHub custom
    /// resource*).
    ///
    /// # Remediation
    ///
    /// Name a default catalog source, or remove the entry. To disable all of them, set
    /// `spec.disableAllDefaultSources` to `true`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {sources: [{name: community-operators, disabled: false}]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {sources: [{disabled: true}]}
    /// ```
    ///
    /// `message: spec.sources[0].name: Invalid value: "": must not be empty`
    CND_15: Deny {
        name: "operator-hub-source-name-required",
        on: [OPERATOR_HUB: Create | Update],
        may_skip: true,
        source: ["OCP 4.12 L4465-4487", "openshift/api config/v1/types_operatorhub.go"],
    }
}

/// Whether an entry has no name. An API server drops a name that is null.
fn is_nameless(entry: &Row<'_>) -> bool {
    let name = entry.kind(1);
    entry.kind(0) == Kind::Object
        && (matches!(name, Kind::Missing | Kind::Null) || entry.text(1) == Some(""))
}

rule! {
    /// a cluster in a restricted network disables the default catalog sources
    ///
    /// `spec.disableAllDefaultSources` is `true`. The rule is off until the setting
    /// `restrictedNetwork.enabled` is `true`. The rule evaluates an UPDATE only if it changes the
    /// field. The rule does not evaluate requests for the subresource `status`.
    ///
    /// # Why
    ///
    /// The default catalogs pull their images from the internet, which such a cluster cannot reach
    /// (OpenShift 4.12, Operators, *Using Operator Lifecycle Manager on restricted networks*).
    ///
    /// # Remediation
    ///
    /// Set `spec.disableAllDefaultSources` to `true`. Entries of `spec.sources` can enable single
    /// default sources that you mirror under their own names.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {disableAllDefaultSources: true}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {disableAllDefaultSources: false}
    /// ```
    ///
    /// `message: In a restricted network environment, you must disable the default catalogs as a
    /// cluster administrator.`
    CND_14: Deny {
        name: "default-sources-disabled-in-restricted-network",
        on: [OPERATOR_HUB: Create | Update],
        enabled_by: ["/restrictedNetwork/enabled"],
        source: ["OCP 4.12 L9814, L9901-9908"],
    }
}

fn check_disable_all(hub: &Document, report: &mut Report<'_>) {
    const FIELD: &str = "spec.disableAllDefaultSources";
    if !matches!(hub.kind(DISABLE_ALL), Kind::Missing | Kind::Null | Kind::Boolean) {
        report.add(&CND_12, FIELD, type_error(FIELD, "boolean"));
        report.set_fix(&CND_12, || corrections::boolean_fix(hub, DISABLE_ALL));
    }
    if hub.boolean(DISABLE_ALL) != Some(true) {
        let message = "In a restricted network environment, you must disable the default catalogs as a cluster administrator.";
        report.add(&CND_14, FIELD, message);
    }
}
