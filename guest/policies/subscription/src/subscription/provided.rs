//! The APIs of the subscribed package, and their other providers.
//!
//! ```text
//! head of the channel ─▶ APIs ─▶ GROUPS, index provided ─▶ works in the same namespaces? ─▶ SUB_31
//! ```

use std::collections::BTreeSet;

use opgate_sdk::cluster::{IndexMatch, Query, ReadError};
use opgate_sdk::{Document, Report, operator_groups, rule, rules};

use super::{Subscription, channel};
use crate::bounded::quote;
use crate::reads::{GROUPS, MANIFESTS, NAMESPACES};
use crate::targets::SUBSCRIPTION;

rules![SUB_31];

/// Maximum number of APIs of a package: real ones have less than a hundred. Tenants control the
/// content of their catalogs.
const MAX_APIS: u32 = 1_024;
/// Maximum number of groups that provide one of the APIs and whose targets are read.
const MAX_GROUPS: usize = 64;
/// Maximum number of targets of a group. Any author of a group could store a list of a megabyte.
const MAX_TARGETS: u32 = 1_024;

rule! {
    /// no other OperatorGroup provides the APIs of a package in the namespaces of its Operator
    ///
    /// No other OperatorGroup that works in one of the namespaces of a new Subscription's group has
    /// in `olm.providedAPIs` an API that the head of the subscribed channel owns, unless the own
    /// group has all of them already. Without `spec.channel`, the default channel counts. The rule
    /// does not evaluate a namespace without exactly one group. The policy skips the rule without
    /// cluster state, or if the catalog source does not show the package or the channel.
    ///
    /// # Gap
    ///
    /// The rule compares at most 1,024 APIs, and 64 groups with up to 1,024 namespaces each; if
    /// there are more, the verdict reports the rule as skipped. OPG-25 compares all when the
    /// ClusterServiceVersion is created.
    ///
    /// # Why
    ///
    /// OPG-25 denies the ClusterServiceVersion that OLM creates for the Subscription, or it fails
    /// with `InterOperatorGroupOwnerConflict` (OpenShift 4.12, Operators, *Operator group
    /// intersection*). With `startingCSV`, OLM installs another version than the head, so the rule
    /// only warns.
    ///
    /// # Remediation
    ///
    /// Subscribe in a namespace whose group has other targets, or remove the other Operator.
    ///
    /// # Accepted
    ///
    /// The package `etcd` for the namespace `a`, while another group provides its APIs for `b`.
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # The OperatorGroup team/og works in scoped, too, and provides EtcdCluster.v1beta2.etcd.database.coreos.com.
    /// metadata: {name: etcd, namespace: scoped}
    /// spec: {name: etcd}
    /// ```
    ///
    /// `message: OperatorGroup team/og provides APIs of package "etcd" in the same namespaces already:
    /// its ClusterServiceVersion will be refused (InterOperatorGroupOwnerConflict)`
    pub(crate) SUB_31: Warn {
        name: "no-other-provider-of-package-apis",
        on: [SUBSCRIPTION: Create],
        reads: [GROUPS, MANIFESTS, NAMESPACES],
        may_skip: true,
        source: ["OCP 4.12 L3869-3929, L3962", "OCP 4.15 L2339-2642", "OLM pkg/controller/operators/olm/groups.go, pkg/package-server/apis/operators/v1/packagemanifest_types.go"],
    }
}

impl Subscription<'_> {
    pub(super) fn check_provided_apis(
        &self,
        group: &Document,
        channel: Option<&Document>,
        report: &mut Report<'_>,
    ) {
        let Some(channel) = channel else {
            return report.skip(&SUB_31, channel::FIELD, channel::NO_CHANNEL);
        };
        let Some(apis) = owned_apis(channel) else {
            let why = "the package provides too many APIs to compare them";
            return report.skip(&SUB_31, "spec.name", why);
        };
        if apis.is_empty() {
            return;
        }
        let mut search = ProviderSearch { own: group, is_complete: true };
        let rival = search.find_provider(&apis);
        let needed = "OperatorGroups and Namespaces";
        let Some(rival) = report.or_skip(&[&SUB_31], needed, rival) else { return };
        if let Some(rival) = rival {
            let package = quote(&self.package);
            let message = format!(
                "OperatorGroup {rival} provides APIs of package {package} in the same namespaces already: its ClusterServiceVersion will be refused (InterOperatorGroupOwnerConflict)"
            );
            report.add(&SUB_31, "spec.name", message);
        } else if !search.is_complete {
            let why = "only some OperatorGroups were compared: there are more or larger ones";
            report.skip_part(&SUB_31, "metadata.namespace", why);
        }
    }
}

/// The APIs that the head of a channel owns, as they are written in `olm.providedAPIs`. None if
/// there are too many.
fn owned_apis(channel: &Document) -> Option<Vec<String>> {
    const RESOURCES: &str = "/currentCSVDesc/customresourcedefinitions/owned";
    const SERVICES: &str = "/currentCSVDesc/apiservicedefinitions/owned";
    if [RESOURCES, SERVICES].iter().any(|list| channel.length(list) > Some(MAX_APIS)) {
        return None;
    }
    let mut apis = BTreeSet::new();
    for row in channel.rows(RESOURCES, &["/kind", "/version", "/name"]).iter() {
        // Without a group it provides nothing.
        if let Some((_, group)) = row.text_or_empty(2).split_once('.') {
            apis.insert(format!("{}.{}.{group}", row.text_or_empty(0), row.text_or_empty(1)));
        }
    }
    for row in channel.rows(SERVICES, &["/kind", "/version", "/group"]).iter() {
        let [kind, version, group] = [0, 1, 2].map(|column| row.text_or_empty(column));
        apis.insert(format!("{kind}.{version}.{group}"));
    }
    Some(apis.into_iter().collect())
}

struct ProviderSearch<'g> {
    own: &'g Document,
    /// Whether all groups were compared.
    is_complete: bool,
}

impl ProviderSearch<'_> {
    /// Another group that provides one of the APIs where the own group works.
    fn find_provider(&mut self, apis: &[String]) -> Result<Option<String>, ReadError> {
        let own = group_key(self.own);
        if Self::has_all(&own.0, apis)? {
            return Ok(None);
        }
        let Some(mine) = self.targets_of(self.own, &own.0)? else { return Ok(None) };
        let matches = [IndexMatch { index: "provided", values: apis, include_missing: false }];
        let (mut found, mut failed, mut count) = (None, None, 0_usize);
        GROUPS.each(Query { matches: &matches, ..Query::default() }, |group| {
            let (namespace, name) = group_key(&group);
            if (&namespace, &name) == (&own.0, &own.1) {
                return true;
            }
            if count == MAX_GROUPS {
                self.is_complete = false;
                return false;
            }
            count = count.saturating_add(1);
            match self.targets_of(&group, &namespace) {
                Ok(Some(reach)) if reach.intersects(&mine) => {
                    found = Some(format!("{namespace}/{name}"));
                }
                Ok(_) => {}
                Err(error) => failed = Some(error),
            }
            found.is_none() && failed.is_none()
        })?;
        failed.map_or(Ok(found), Err)
    }

    /// Whether the group of a namespace provides all of the APIs, as after an earlier installation.
    fn has_all(namespace: &str, apis: &[String]) -> Result<bool, ReadError> {
        for api in apis {
            let values = [api.clone()];
            let matches =
                [IndexMatch { index: "provided", values: &values, include_missing: false }];
            let query =
                Query { namespace: Some(namespace), matches: &matches, label_selector: None };
            if !GROUPS.any(query)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The namespaces in which a group works, if its lists can be read.
    fn targets_of(
        &mut self,
        group: &Document,
        namespace: &str,
    ) -> Result<Option<opgate_sdk::namespaces::NamespaceSet>, ReadError> {
        let lists = [operator_groups::TARGETS, operator_groups::STATUS];
        if lists.iter().any(|list| group.length(list) > Some(MAX_TARGETS)) {
            self.is_complete = false;
            return Ok(None);
        }
        let targets = operator_groups::targets(group, &NAMESPACES)?;
        Ok(Some(operator_groups::targets_with_own(&targets, namespace)))
    }
}

/// Namespace and name.
fn group_key(group: &Document) -> (String, String) {
    (group.text_or_empty("/metadata/namespace"), group.text_or_empty("/metadata/name"))
}
