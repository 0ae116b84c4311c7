//! Policy `ingress-hosts`: a host belongs to one Ingress.
//!
//! ```text
//! hosts of the Ingress, without those that it had before ─┬─▶ index by host ────────▶ ING-1
//!                                                         ├─▶ index by its wildcard ─┐
//!                                                         └─▶ all, for a wildcard ───┴▶ ING-2
//! ```

mod hosts;

use std::collections::{BTreeMap, BTreeSet};

use hosts::{Host, hosts};
use opgate_sdk::cluster::{IndexMatch, MAX_INDEX_VALUES, ObjectName, Query, ReadError};
use opgate_sdk::{ClusterRead, Document, Index, Report, Review, Target, go, policy, rule, rules};

static INGRESS: Target = Target {
    groups: &["networking.k8s.io"],
    versions: &["v1"],
    resources: &["ingresses"],
    kind: "Ingress",
    ..Target::EMPTY
};

static INGRESSES: ClusterRead = ClusterRead {
    group: "networking.k8s.io",
    version: "v1",
    resource: "ingresses",
    fields: &["/spec/rules/*/host"],
    indexes: &[Index { name: "host", field: "/spec/rules/*/host", separator: "" }],
    ..ClusterRead::EMPTY
};

policy! {
    name: "ingress-hosts",
    title: "a host belongs to one Ingress",
    rules: [RULES],
    routes: [INGRESS => check_ingress],
    settings: include_str!("settings.json"),
}

rules![ING_1, ING_2, ING_3];

rule! {
    /// a host belongs to one Ingress
    ///
    /// No other Ingress of the cluster has a rule with the same host. With the setting `shared: namespace`,
    /// Ingresses of the same namespace may share it. On UPDATE the rule evaluates hosts that the Ingress did
    /// not have before. An Ingress that is being deleted has its hosts until it is gone.
    ///
    /// # Why
    ///
    /// The controller determines which of two Ingresses gets the traffic of a host. A tenant can take over
    /// requests, with their cookies and passwords, that are meant for another one.
    ///
    /// # Remediation
    ///
    /// Choose another host, or remove it from the other Ingress first. The annotation `taken-by` in
    /// the audit log of the API server names the other Ingress; the message names it only if it is
    /// in the same namespace.
    ///
    /// # Accepted
    ///
    /// `host: shop.example.com`, if no other Ingress has it.
    ///
    /// # Rejected
    ///
    /// `host: shop.example.com`, if an Ingress of another namespace has it.
    ING_1: Deny {
        on: [INGRESS: Create | Update],
        reads: [INGRESSES],
        source: ["Kubernetes, Ingress, Hostname wildcards and multiple rules"],
    }
}

rule! {
    /// a wildcard host does not cover hosts of another namespace
    ///
    /// `*.example.com` covers hosts with one more label, such as `shop.example.com`. If an Ingress of one
    /// namespace has the wildcard, no Ingress of another namespace has a host that it covers. On UPDATE the
    /// rule evaluates hosts that the Ingress did not have before.
    ///
    /// # Why
    ///
    /// A new host takes traffic away from the wildcard, and a wildcard gets the traffic of every
    /// host that is removed, or has a rule for other paths only.
    ///
    /// # Remediation
    ///
    /// Name the hosts in the place of the wildcard, or choose a host that it does not cover.
    ///
    /// # Accepted
    ///
    /// `host: "*.team-a.example.com"`
    ///
    /// # Rejected
    ///
    /// `host: "*.example.com"`, if another namespace has `shop.example.com`.
    ING_2: Deny {
        on: [INGRESS: Create | Update],
        reads: [INGRESSES],
        source: ["Kubernetes, Ingress, Hostname wildcards"],
    }
}

rule! {
    /// an Ingress names its hosts
    ///
    /// Every rule has a host, and there is no `spec.defaultBackend`. Wildcards are hosts. Off until the
    /// setting `requireHosts` is true. On UPDATE the rule evaluates `spec` if it changes.
    ///
    /// # Why
    ///
    /// A rule without a host and a default backend get the requests for every host that no other Ingress has:
    /// those of tenants who misspelt a name, or who have just removed an Ingress.
    ///
    /// # Remediation
    ///
    /// Name the host. For a default backend ask the administrators of the controller.
    ///
    /// # Accepted
    ///
    /// `rules: [{host: shop.example.com, http: …}]`
    ///
    /// # Rejected
    ///
    /// `rules: [{http: …}]`
    ING_3: Deny {
        on: [INGRESS: Create | Update],
        enabled_by: ["/requireHosts"],
        source: ["Kubernetes, Ingress, Ingress rules"],
    }
}

fn check_ingress(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(ingress) = review.subject() else { return };
    if report.is_on(&ING_3) && review.touches_json(ingress, "/spec") {
        check_hosts_named(ingress, report);
    }
    let before: BTreeSet<String> =
        review.ratchet_base().map(hosts).into_iter().flatten().map(|host| host.name).collect();
    let mut new = hosts(ingress);
    new.retain(|host| !before.contains(&host.name));
    if !new.is_empty() {
        let other = OtherIngresses { review, own: review.name(ingress) };
        let found = other.check_hosts(&new, report);
        let _ = report.or_skip(&[&ING_1, &ING_2], "Ingresses", found);
    }
}

fn check_hosts_named(ingress: &Document, report: &mut Report<'_>) {
    if ingress.has("/spec/defaultBackend") {
        let message =
            "a default backend gets the requests for hosts that no Ingress has, so remove it";
        report.add(&ING_3, "spec.defaultBackend", message);
    }
    let rules = ingress.rows("/spec/rules", &["/host"]);
    for (index, rule) in rules.iter().enumerate() {
        if rule.text_or_empty(0).is_empty() {
            let message = "a rule without a host gets the requests for hosts that no Ingress has, so name one";
            report.add(&ING_3, format!("spec.rules[{index}].host"), message);
        }
    }
}

/// The Ingresses of the cluster but the one under review.
struct OtherIngresses<'r> {
    review: &'r Review<'r>,
    /// Name of the one under review.
    own: String,
}

impl OtherIngresses<'_> {
    fn check_hosts(&self, new: &[Host], report: &mut Report<'_>) -> Result<(), ReadError> {
        let may_share = self.review.settings.text("/shared").as_deref() == Some("namespace");
        let taken = self.find_conflicts(new)?;
        for host in new {
            let found = taken.get(&host.name).into_iter().flatten();
            if let Some(other) =
                found.clone().find(|other| !may_share || !self.is_in_same_namespace(other))
            {
                let message = format!(
                    "host {} belongs to {} already, so choose another host",
                    go::quote(&host.name),
                    self.describe_owner(other, report)
                );
                report.add(&ING_1, host.field(), message);
            }
            let Some(wildcard) = host.wildcard() else { continue };
            let found = taken.get(&wildcard).into_iter().flatten();
            if let Some(other) = found.clone().find(|other| !self.is_in_same_namespace(other)) {
                let message = format!(
                    "host {} is covered by {} of {}, so choose a host outside of it",
                    go::quote(&host.name),
                    go::quote(&wildcard),
                    self.describe_owner(other, report)
                );
                report.add(&ING_2, host.field(), message);
            }
        }
        let wildcards: Vec<&Host> = new.iter().filter(|host| host.is_wildcard()).collect();
        if wildcards.is_empty() { Ok(()) } else { self.check_covered_hosts(wildcards, report) }
    }

    /// Evaluates the hosts that the wildcards cover. There is no index for that: it reads all hosts of the
    /// cluster, once.
    fn check_covered_hosts(
        &self,
        mut wildcards: Vec<&Host>,
        report: &mut Report<'_>,
    ) -> Result<(), ReadError> {
        INGRESSES.each(Query::default(), |ingress| {
            let other = name_of(&ingress);
            if self.is_in_same_namespace(&other) {
                return true;
            }
            for covered in hosts(&ingress) {
                let Some(wildcard) = covered.wildcard() else { continue };
                if let Some(at) = wildcards.iter().position(|host| host.name == wildcard) {
                    let host = wildcards.swap_remove(at);
                    let message = format!(
                        "host {} covers {} of {}, so name your hosts in the place of the wildcard",
                        go::quote(&host.name),
                        go::quote(&covered.name),
                        self.describe_owner(&other, report)
                    );
                    report.add(&ING_2, host.field(), message);
                }
            }
            !wildcards.is_empty()
        })
    }

    /// Returns the others that have one of the hosts, or a wildcard that covers one, by host.
    fn find_conflicts(&self, new: &[Host]) -> Result<BTreeMap<String, Vec<ObjectName>>, ReadError> {
        let mut values: Vec<String> = new.iter().map(|host| host.name.clone()).collect();
        values.extend(new.iter().filter_map(Host::wildcard));
        values.sort_unstable();
        values.dedup();
        let mut taken: BTreeMap<String, Vec<ObjectName>> = BTreeMap::new();
        for values in values.chunks(MAX_INDEX_VALUES) {
            let matches = [IndexMatch { index: "host", values, include_missing: false }];
            INGRESSES.each(Query { matches: &matches, ..Query::default() }, |ingress| {
                let other = name_of(&ingress);
                if !self.is_in_same_namespace(&other) || other.name != self.own {
                    for host in hosts(&ingress) {
                        taken.entry(host.name).or_default().push(other.clone());
                    }
                }
                true
            })?;
        }
        Ok(taken)
    }

    fn is_in_same_namespace(&self, other: &ObjectName) -> bool {
        other.namespace == self.review.namespace()
    }

    /// Returns the names the other Ingress only for users with access to it: names of other namespaces are
    /// for the audit log.
    fn describe_owner(&self, other: &ObjectName, report: &mut Report<'_>) -> String {
        if self.is_in_same_namespace(other) {
            return format!("Ingress {}", go::quote(&other.name));
        }
        report.annotate("taken-by", format!("{}/{}", other.namespace, other.name));
        "an Ingress of another namespace".to_owned()
    }
}

fn name_of(ingress: &Document) -> ObjectName {
    ObjectName {
        namespace: ingress.text_or_empty("/metadata/namespace"),
        name: ingress.text_or_empty("/metadata/name"),
    }
}
