//! The install strategy: the deployments that OLM creates.

use std::collections::{HashMap, HashSet};

use opgate_sdk::corrections;
use opgate_sdk::go::quote;
use opgate_sdk::{Document, Kind, Shape, names, rule, rules};

use super::deployments::DEPLOYMENTS;
use crate::csv::Csv;
use crate::entries::{ChangedList, Entries, RuleViolations};
use crate::targets::{CATALOG, CSV};

rules![CSV_33, CSV_34, CSV_35, CSV_49];

const STRATEGY: &str = "/spec/install/strategy";
/// The only strategy.
const DEPLOYMENT: &str = "deployment";
const DEPLOYMENTS_FIELD: &str = "spec.install.spec.deployments";

pub(super) fn check(csv: &mut Csv<'_, '_>) {
    if csv.has_member_set("install") {
        check_present(csv);
        check_strategy(csv);
        check_deployment_names(csv);
        check_mount_paths(csv);
    }
}

rule! {
    /// a ClusterServiceVersion has an install strategy with deployments
    ///
    /// `spec.install` is present, with a `strategy` and, under `spec`, `deployments`. An empty list
    /// of deployments is accepted. In a catalog the rule evaluates complete objects, and not
    /// `olm.csv.metadata`, which omits the field. A bundle without it is denied, as `operator-sdk
    /// bundle validate` does; elsewhere this is a warning, because fragments in the documents have
    /// no strategy. With the setting `csv.requiredFields: deny` the rule denies everywhere. Copies
    /// are exempt if OLM writes them or the original exists. An UPDATE is evaluated only if it
    /// removes the field.
    ///
    /// # Why
    ///
    /// OLM installs the deployments of the strategy, see OpenShift 4.12, Operators, *Defining
    /// cluster service versions*. Without a strategy the ClusterServiceVersion fails. The
    /// validators of operator-framework/api reject it.
    ///
    /// # Remediation
    ///
    /// Add the field that the message names.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// install: {strategy: deployment, spec: {deployments: [{name: a, spec: {}}]}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// metadata: {name: my-operator-v1.2.3}
    /// ```
    ///
    /// `message: required field missing: Spec.InstallStrategy`
    ///
    /// If a part of the field is set: `message: required field missing:
    /// Spec.InstallStrategy.StrategyName` or `message: required field missing:
    /// Spec.InstallStrategy.StrategySpec.DeploymentSpecs`
    CSV_33: Deny {
        name: "install-strategy-with-deployments",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        denies_with: ["/csv/requiredFields"],
        denies_in: [Bundle],
        source: ["OCP 4.12 L2508-2514, L20112-20119, L20798-20804", "api pkg/validation/internal/csv.go"],
    }
}

fn check_present(csv: &mut Csv<'_, '_>) {
    let before = csv.ratchet_base().map(missing_parts).unwrap_or_default();
    for (field, part) in missing_parts(csv.object) {
        let lacked_it = |(_, was): &(_, &str)| was.is_empty() || *was == part;
        if !before.iter().any(lacked_it) {
            csv.add(&CSV_33, field, format!("required field missing: Spec.InstallStrategy{part}"));
            let is_name = part == ".StrategyName";
            csv.fix(&CSV_33, || is_name.then(|| corrections::write(STRATEGY, DEPLOYMENT)));
        }
    }
}

/// The parts that have Go's zero value, as in upstream's check of required fields.
fn missing_parts(object: &Document) -> Vec<(&'static str, &'static str)> {
    let columns =
        ["/strategy", "/spec/deployments", "/spec/permissions", "/spec/clusterPermissions"];
    let install = object.fields("/spec/install", &columns);
    let install = install.iter().next();
    let is_nil = |column: usize| {
        install.is_none_or(|row| matches!(row.kind(column), Kind::Missing | Kind::Null))
    };
    let has_name = install.is_some_and(|row| !is_nil(0) && row.text(0) != Some(""));
    let has_deployments = !is_nil(1);
    if !has_name && (1..columns.len()).all(is_nil) {
        return vec![("spec.install", "")];
    }
    let parts = [
        (has_name, "spec.install.strategy", ".StrategyName"),
        (has_deployments, DEPLOYMENTS_FIELD, ".StrategySpec.DeploymentSpecs"),
    ];
    let missing = parts.into_iter().filter(|(has, ..)| !has);
    missing.map(|(_, field, part)| (field, part)).collect()
}

rule! {
    /// the install strategy is deployment
    ///
    /// `spec.install.strategy`, if set, is `deployment`. CSV-33 reports a missing or empty one.
    /// Copies are exempt if OLM writes them or the original exists. An UPDATE is evaluated only if
    /// it changes the field.
    ///
    /// # Why
    ///
    /// OLM supports no other strategy: the ClusterServiceVersion gets the phase `Failed` with the
    /// reason `InvalidStrategy` and this text (OLM `pkg/controller/install/resolver.go`).
    ///
    /// # Remediation
    ///
    /// Write `strategy: deployment`, and describe the deployments under `spec`.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// install: {strategy: deployment}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// install: {strategy: helm}
    /// ```
    ///
    /// `message: install strategy invalid: unrecognized install strategy`
    CSV_34: Deny {
        name: "deployment-install-strategy",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L20112-20119", "OLM pkg/controller/install/resolver.go, pkg/controller/operators/olm/operator.go"],
    }
}

fn check_strategy(csv: &mut Csv<'_, '_>) {
    let strategy = csv.object.text(STRATEGY);
    let is_fine = match strategy.as_deref() {
        Some(strategy) => matches!(strategy, "" | "deployment"),
        None => !csv.object.has(STRATEGY),
    };
    if !is_fine && csv.touches(STRATEGY, &Shape::Scalar) {
        let message = "install strategy invalid: unrecognized install strategy";
        csv.add(&CSV_34, "spec.install.strategy", message);
        let has_deployments = csv.object.length(DEPLOYMENTS).is_some_and(|length| length > 0);
        csv.fix(&CSV_34, || {
            let spelt = corrections::spelling(STRATEGY, &strategy?, &[DEPLOYMENT]);
            spelt.or_else(|| has_deployments.then(|| corrections::propose(STRATEGY, DEPLOYMENT)))
        });
    }
}

rule! {
    /// deployments of the install strategy have distinct names that Kubernetes accepts
    ///
    /// Each `name` in `spec.install.spec.deployments` is an RFC 1123 subdomain, and no two are the
    /// same. Copies are exempt if OLM writes them or the original exists. On UPDATE, the rule
    /// evaluates only names that were not invalid before.
    ///
    /// # Why
    ///
    /// OLM creates each deployment under its name: of two with the same name one replaces the
    /// other, and Kubernetes rejects a name that is no subdomain. The validators of
    /// operator-controller reject such a bundle with these texts.
    ///
    /// # Remediation
    ///
    /// Rename the deployment. Rename it also in `webhookdefinitions` and `apiservicedefinitions`,
    /// where `deploymentName` refers to it.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// deployments: [{name: webhook-operator-webhook}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// deployments: [{name: a}, {name: a}]
    /// ```
    ///
    /// `message: cluster service version contains duplicate strategy deployment spec 'a'`
    ///
    /// With `name: -a`: `message: invalid cluster service version strategy deployment name '-a': a
    /// lowercase RFC 1123 subdomain must consist of …`
    CSV_35: Warn {
        name: "valid-unique-deployment-names",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L20112-20119", "operator-controller internal/operator-controller/rukpak/render/registryv1/validators/validator.go"],
    }
}

fn check_deployment_names(csv: &mut Csv<'_, '_>) {
    let Some(deployments) = ChangedList::read_first(csv, DEPLOYMENTS, &["/name"]) else { return };
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for (_, deployment) in deployments.old_entries().into_iter().flat_map(Entries::iter) {
        let count = counts.entry(deployment.text_or_empty(0)).or_default();
        *count = count.saturating_add(1);
    }
    let was_twice = |name: &str| counts.get(name).is_some_and(|count| *count > 1);
    let mut seen: HashMap<&str, usize> = HashMap::new();
    let mut wrong = RuleViolations::of(&CSV_35);
    for (index, deployment) in deployments.entries().iter() {
        let name = deployment.text_or_empty(0);
        let field = || format!("{DEPLOYMENTS_FIELD}[{index}].name");
        let count = seen.entry(name).or_default();
        *count = count.saturating_add(1);
        // One violation for each name, as upstream.
        if *count == 2 && !was_twice(name) {
            wrong.add(csv, || {
                let message = format!(
                    "cluster service version contains duplicate strategy deployment spec '{name}'"
                );
                [field(), message]
            });
            let object = csv.object;
            csv.fix(&CSV_35, || {
                let mut entries = deployments.entries().iter();
                let (first, _) = entries.find(|(_, entry)| entry.text_or_empty(0) == name)?;
                corrections::remove_equal(object, DEPLOYMENTS, first, index)
            });
        }
        if *count == 1 && !counts.contains_key(name) {
            let mut errors = names::subdomain_errors(name);
            if !errors.is_empty() {
                wrong.add(csv, || {
                    errors.sort_unstable();
                    let why = errors.join(", ");
                    let message = format!(
                        "invalid cluster service version strategy deployment name '{name}': {why}"
                    );
                    [field(), message]
                });
            }
        }
    }
}

rule! {
    /// no other volume is mounted where OLM mounts the serving certificate
    ///
    /// In a deployment that an entry of `spec.apiservicedefinitions.owned` or
    /// `spec.webhookdefinitions` names with `deploymentName`, no container mounts a volume at
    /// `/apiserver.local.config/certificates`, unless its mount of the volume `apiservice-cert`
    /// comes first. A mount of `apiservice-cert` itself may have any path. Init containers do not
    /// count: OLM does not touch them. Copies are exempt if OLM writes them or the original exists.
    /// An UPDATE is evaluated only if it changes the install strategy, the API services or the
    /// webhooks.
    ///
    /// # Why
    ///
    /// OLM mounts the certificate that it makes for the API service or the webhook at this path,
    /// and replaces a mount that it finds there: the container does not see its own volume. See
    /// OpenShift 4.12, Operators, *API service serving certificates*.
    ///
    /// # Remediation
    ///
    /// Mount your volume at another path. For another path of OLM's certificate, mount the volume
    /// `apiservice-cert` there.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// volumeMounts: [{name: apiservice-cert, mountPath: /certs}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// volumeMounts: [{name: my-certs, mountPath: /apiserver.local.config/certificates}]
    /// ```
    ///
    /// `message: volumeMount "my-certs" at /apiserver.local.config/certificates is replaced by OLM`
    CSV_49: Warn {
        name: "reserved-certificate-mount-paths",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: ["OCP 4.12 L20259-20265, L21068-21071", "OCP 4.5 L2155-2162"],
    }
}

const CERTIFICATES: &str = "/apiserver.local.config/certificates";
const CERTIFICATE_VOLUME: &str = "apiservice-cert";
/// Lists whose entries name the deployment that serves them.
const SERVED_LISTS: [&str; 2] = ["/spec/apiservicedefinitions/owned", "/spec/webhookdefinitions"];
/// Maximum number of containers whose mounts are read.
const MAX_CONTAINERS: usize = 2_000;

fn check_mount_paths(csv: &mut Csv<'_, '_>) {
    let object = csv.object;
    let backed = SERVED_LISTS.map(|list| Entries::read_first(object, list, &["/deploymentName"]));
    let backed = backed.iter().flat_map(Entries::iter);
    let backed: HashSet<_> = backed.filter_map(|(_, entry)| entry.text(0)).collect();
    // The largest list comes last.
    let inspected = [SERVED_LISTS[0], SERVED_LISTS[1], DEPLOYMENTS];
    if backed.is_empty() || !inspected.iter().any(|pointer| csv.touches_json(pointer)) {
        return;
    }
    let containers = "/spec/template/spec/containers";
    let deployments = Entries::read_first(object, DEPLOYMENTS, &["/name", containers]);
    let mut replaced = RuleViolations::of(&CSV_49);
    let mut remaining = MAX_CONTAINERS;
    for (index, deployment) in deployments.iter() {
        let is_backed = deployment.text(0).is_some_and(|name| backed.contains(name));
        if !is_backed || deployment.length(1).is_none_or(|count| count == 0) {
            continue;
        }
        let pointer = format!("{DEPLOYMENTS}/{index}{containers}");
        for (container, row) in Entries::read_first(object, &pointer, &["/volumeMounts"]).iter() {
            if row.length(0).is_none_or(|count| count == 0) {
                continue;
            }
            let Some(rest) = remaining.checked_sub(1) else { return };
            remaining = rest;
            let list = format!("{pointer}/{container}/volumeMounts");
            let mounts = Entries::read_first(object, &list, &["/name", "/mountPath"]);
            // OLM stops at the first mount that has either.
            let first = mounts.iter().find(|(_, mount)| {
                mount.text(0) == Some(CERTIFICATE_VOLUME) || mount.text(1) == Some(CERTIFICATES)
            });
            let Some((mount, row)) = first else { continue };
            let name = row.text_or_empty(0);
            if name != CERTIFICATE_VOLUME {
                replaced.add(csv, || {
                    let deployment = format!("{DEPLOYMENTS_FIELD}[{index}].spec.template.spec");
                    let field =
                        format!("{deployment}.containers[{container}].volumeMounts[{mount}]");
                    let name = quote(name);
                    [field, format!("volumeMount {name} at {CERTIFICATES} is replaced by OLM")]
                });
            }
        }
    }
}
