//! Volumes that OLM adds to the pods of an Operator, and their mounts.
//!
//! ```text
//! config.volumeMounts ─┬─ names a volume of config.volumes ─────────────────▶ fine
//!                      └─ the ClusterServiceVersion in the cluster has it ──▶ fine
//! ```

use std::collections::BTreeSet;

use opgate_sdk::cluster::ReadError;
use opgate_sdk::{Document, Report, Rows, rule, rules};

use super::Subscription;
use crate::bounded::{self, TOO_MANY, quote};
use crate::reads::CSVS;
use crate::targets::SUBSCRIPTION;

rules![SUB_14];

pub(super) const VOLUMES: &str = "/spec/config/volumes";
const MOUNTS: &str = "/spec/config/volumeMounts";
const FIELD: &str = "spec.config.volumeMounts";

/// Maximum number of deployments. No Operator has more. The rule does not evaluate an Operator that
/// has more.
const MAX_DEPLOYMENTS: u32 = 1_024;

rule! {
    /// each volume mount of a Subscription names a volume
    ///
    /// Each `name` in `spec.config.volumeMounts` is that of an entry of `spec.config.volumes`, or
    /// of a volume in a deployment of the Operator. The Operator is the ClusterServiceVersion of
    /// the namespace that `status.installedCSV`, `status.currentCSV` or `spec.startingCSV` names,
    /// if the cluster has it. On UPDATE, the rule evaluates new mounts, and mounts that named a
    /// volume before. Without cluster state only `spec.config.volumes` counts, and the policy
    /// evaluates the rule in part.
    ///
    /// # Why
    ///
    /// OLM adds the mounts to all containers of the Operator's pods. If one of them names a volume
    /// that does not exist, OLM fails to deploy the Operator (OpenShift 4.12, Operators,
    /// *Installing from OperatorHub using the CLI*).
    ///
    /// # Remediation
    ///
    /// Add the volume to `spec.config.volumes`, or correct the name.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// volumes: [{name: certs, configMap: {name: certs}}]
    /// volumeMounts: [{name: certs, mountPath: /etc/ssl/certs}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// volumeMounts: [{name: nope, mountPath: /x}]
    /// ```
    ///
    /// `message: volumeMount "nope" references a volume that does not exist`
    SUB_14: Deny {
        name: "subscription-volume-mounts-have-volumes",
        on: [SUBSCRIPTION: Create | Update],
        reads: [CSVS],
        may_skip: true,
        source: ["OCP 4.12 L5813-5818, L6284-6289", "OCP 4.15 L3695-3708"],
    }
}

/// Mounts of a Subscription, and its volumes.
struct VolumeMounts {
    mounts: Rows,
    volumes: Rows,
}

impl VolumeMounts {
    /// None if a list is too long.
    fn of(subscription: &Document) -> Option<Self> {
        let names = |list: &str| bounded::read_rows(subscription, list, &["/name"]);
        Some(Self { mounts: names(MOUNTS)?, volumes: names(VOLUMES)? })
    }

    /// The mounts without a volume, with their indexes.
    fn dangling_mounts(&self) -> Vec<(usize, &str)> {
        let volumes: BTreeSet<&str> = names(&self.volumes).collect();
        let mounts = self.mounts.iter().enumerate();
        let mounts = mounts.filter_map(|(at, row)| Some((at, row.text(0)?)));
        mounts.filter(|(_, name)| !volumes.contains(name)).collect()
    }
}

fn names(rows: &Rows) -> impl Iterator<Item = &str> {
    rows.iter().filter_map(|row| row.text(0))
}

impl Subscription<'_> {
    pub(super) fn check_volume_mounts(&self, report: &mut Report<'_>) {
        let Some(all) = VolumeMounts::of(self.object) else {
            return report.skip(&SUB_14, FIELD, TOO_MANY);
        };
        let mut dangling = all.dangling_mounts();
        if dangling.is_empty() || !report.is_on(&SUB_14) {
            return;
        }
        if let Some(old) = self.review.ratchet_base().and_then(VolumeMounts::of) {
            let old: BTreeSet<&str> =
                old.dangling_mounts().into_iter().map(|(_, name)| name).collect();
            dangling.retain(|(_, name)| !old.contains(name));
        }
        if dangling.is_empty() {
            return;
        }
        match self.operator_volumes() {
            Ok(OperatorVolumes::Volumes(known)) => {
                dangling.retain(|(_, name)| !known.contains(*name));
            }
            Ok(OperatorVolumes::TooMany) => {
                let why = "the ClusterServiceVersion has more volumes than can be evaluated";
                return report.skip(&SUB_14, FIELD, why);
            }
            Err(_) => {
                let why = "the cluster's ClusterServiceVersions are not available";
                report.skip_part(&SUB_14, FIELD, why);
            }
        }
        report.add_each(&SUB_14, dangling, |(at, name)| {
            let field = format!("{FIELD}[{at}].name");
            let name = quote(name);
            (field, format!("volumeMount {name} references a volume that does not exist"))
        });
    }

    /// The volumes in deployments of the Operator, if the cluster has it.
    fn operator_volumes(&self) -> Result<OperatorVolumes, ReadError> {
        let mut csvs = BTreeSet::from([self.starting_csv.clone()]);
        for object in [Some(self.object), self.review.old_of_update()].into_iter().flatten() {
            csvs.insert(object.text_or_empty("/status/installedCSV"));
            csvs.insert(object.text_or_empty("/status/currentCSV"));
        }
        let mut known = BTreeSet::new();
        for csv in csvs.iter().filter(|name| !name.is_empty()) {
            let Some(csv) = CSVS.get(self.namespace(), csv)? else { continue };
            let deployments = "/spec/install/spec/deployments";
            if csv.length(deployments).is_some_and(|count| count > MAX_DEPLOYMENTS) {
                return Ok(OperatorVolumes::TooMany);
            }
            for deployment in csv.items(deployments) {
                let list = "/spec/template/spec/volumes";
                let Some(volumes) = bounded::read_rows(&deployment, list, &["/name"]) else {
                    return Ok(OperatorVolumes::TooMany);
                };
                known.extend(names(&volumes).map(str::to_owned));
            }
        }
        Ok(OperatorVolumes::Volumes(known))
    }
}

/// The information of the cluster about an Operator's volumes.
enum OperatorVolumes {
    Volumes(BTreeSet<String>),
    TooMany,
}
