//! Dependencies of an Operator that claims to run without a connection to the Internet.
//!
//! ```text
//! claims? ─▶ required APIs ─▶ CSVS that own them ─▶ claim, too?
//! ```

use std::collections::BTreeMap;

use opgate_sdk::{Operation, rule, rules};

use super::apis::{self, Apis, Role};
use crate::csv::Csv;
use crate::entries::RuleViolations;
use crate::images::disconnected;
use crate::reads::CSVS;
use crate::targets::CSV;

rules![CSV_70];

rule! {
    /// the dependencies of a disconnected Operator are disconnected, too
    ///
    /// A new CSV that claims disconnected support requires only APIs whose other providers in the
    /// cluster claim it, too. A provider is a CSV that owns the version of the CRD
    /// (`spec.customresourcedefinitions`: name, version and kind) or API service
    /// (`spec.apiservicedefinitions`: group, version and kind). The claim is `disconnected` in the
    /// annotation `operators.openshift.io/infrastructure-features`, or `"true"` in
    /// `features.operators.openshift.io/disconnected`; for the new CSV also the setting
    /// `csv.disconnected`. An API without a provider is accepted. There is one violation for each
    /// provider. The rule reads CSVs.
    ///
    /// # Why
    ///
    /// The Operator does not work where its dependency cannot be mirrored or needs the Internet
    /// (OpenShift 4.12, Operators, *Operator requirements for supporting disconnected mode*).
    ///
    /// # Remediation
    ///
    /// Ask the authors of the dependency for a version that supports disconnected mode, or remove
    /// the claim.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// # The CSV that owns the required API:
    /// metadata:
    ///   annotations: {operators.openshift.io/infrastructure-features: '["disconnected"]'}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # The CSV that owns the required API:
    /// metadata: {name: etcdoperator.v0.9.4}
    /// ```
    ///
    /// `message: dependency etcdoperator.v0.9.4 does not declare support for running in
    /// disconnected mode`
    CSV_70: Warn {
        name: "disconnected-dependencies",
        on: [CSV: Create],
        reads: [CSVS],
        source: ["OCP 4.12 L19541", "OCP 4.15 L14452"],
    }
}

pub(super) fn check(csv: &mut Csv<'_, '_>) {
    if csv.review.operation() != Operation::Create || !csv.is_on(&CSV_70) {
        return;
    }
    if !disconnected::is_claimed(csv.object, csv.review.settings) {
        return;
    }
    let required = Apis::of(csv.object, Role::Required).by_api();
    let own = (csv.review.namespace().to_owned(), csv.name.clone());
    let mut silent = BTreeMap::new();
    let found =
        apis::visit_csvs(Role::Owned, &required.keys().cloned().collect(), |provider, shared| {
            let key = apis::key(provider);
            if key != own
                && !silent.contains_key(&key)
                && !disconnected::claims_disconnected(provider)
            {
                let place = shared.first().and_then(|api| required.get(api));
                silent.insert(key, place.map(|place| place.element()).unwrap_or_default());
            }
            true
        });
    if csv.report.or_skip(&[&CSV_70], "ClusterServiceVersions", found).is_none() {
        return;
    }
    let mut violations = RuleViolations::of(&CSV_70);
    for ((_, name), field) in silent {
        violations.add(csv, || {
            let message = format!(
                "dependency {name} does not declare support for running in disconnected mode"
            );
            [field, message]
        });
    }
}
