//! The OLMConfig of a cluster.

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Kind, Report, Review, corrections, rule, rules};

use crate::targets::OLM_CONFIG;

rules![CND_08, CND_09, CND_10];

const DISABLE_COPIED_CSVS: &str = "/spec/features/disableCopiedCSVs";
const SYNC_INTERVAL: &str = "/spec/features/packageServerSyncInterval";
const DISABLE_FIELD: &str = "spec.features.disableCopiedCSVs";
const INTERVAL_FIELD: &str = "spec.features.packageServerSyncInterval";

pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(config) = review.subject() else { return };
    check_name(review, config, report);
    if review.touches_json(config, DISABLE_COPIED_CSVS) {
        check_copied_csvs(config, report);
    }
    if review.touches_json(config, SYNC_INTERVAL) {
        check_interval(config, report);
    }
}

rule! {
    /// the OLMConfig is named cluster
    ///
    /// A new OLMConfig has the name `cluster`. The rule does not evaluate an UPDATE: names do not
    /// change.
    ///
    /// # Why
    ///
    /// OLM reads the OLMConfig `cluster` and no other one (OpenShift 4.12, Operators, *Configuring
    /// Operator Lifecycle Manager features*). Settings under another name have no effect, and OLM
    /// reports no error.
    ///
    /// # Remediation
    ///
    /// Change the name to `cluster`. If that object exists already, change it instead.
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
    /// metadata: {name: mine}
    /// ```
    ///
    /// `message: OLM is configured by an OLMConfig named cluster; "mine" has no effect`
    CND_08: Warn {
        name: "olm-config-named-cluster",
        on: [OLM_CONFIG: Create],
        source: ["OCP 4.12 L3796-3816, L7207, L7249-7255", "OCP 4.15 L5096"],
    }
}

fn check_name(review: &Review<'_>, config: &Document, report: &mut Report<'_>) {
    let name = review.name(config);
    if !review.is_update() && name != "cluster" {
        let name = quote(&name);
        let message =
            format!("OLM is configured by an OLMConfig named cluster; {name} has no effect");
        report.add(&CND_08, "metadata.name", message);
        report.set_fix(&CND_08, || Some(corrections::propose("/metadata/name", "cluster")));
    }
}

rule! {
    /// the features of an OLMConfig are a boolean and an interval
    ///
    /// `spec.features.disableCopiedCSVs` is a boolean. `spec.features.packageServerSyncInterval` is
    /// a string of one or more numbers with the unit `s`, `m` or `h`, without spaces and signs:
    /// `^([0-9]+(\.[0-9]+)?(s|m|h))+$`. Both may be absent or `null`. On UPDATE, the rule evaluates
    /// only the fields that the request changes. The rule does not evaluate requests for the
    /// subresource `status`.
    ///
    /// # Why
    ///
    /// The CRD has these types and this pattern, so an API server with it rejects any other value
    /// (`crds/operators.coreos.com_olmconfigs.yaml` of the Operator Framework API). The rule
    /// reports the same for manifests that have not reached the API server yet.
    ///
    /// # Remediation
    ///
    /// Write `true` or `false` without quotes, and an interval such as `10m` or `1h30m`.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {features: {disableCopiedCSVs: false, packageServerSyncInterval: 1h30m}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {features: {disableCopiedCSVs: "yes"}}
    /// ```
    ///
    /// `message: spec.features.disableCopiedCSVs: Invalid value: must be of type boolean`
    ///
    /// ```yaml
    /// spec: {features: {packageServerSyncInterval: 5 minutes}}
    /// ```
    ///
    /// `message: spec.features.packageServerSyncInterval: Invalid value: "5 minutes"`
    CND_09: Deny {
        name: "valid-olm-config-features",
        on: [OLM_CONFIG: Create | Update],
        source: ["OCP 4.12 L3790-3816, L7246, L7282", "OCP 4.15 L5096-5158", "api crds/operators.coreos.com_olmconfigs.yaml"],
    }
}

rule! {
    /// copied ClusterServiceVersions stay enabled, so that users see their Operators
    ///
    /// `spec.features.disableCopiedCSVs` is not `true`. The rule evaluates an UPDATE only if it
    /// changes the field. The rule does not evaluate requests for the subresource `status`.
    ///
    /// # Why
    ///
    /// The copies show users which Operators watch their namespace. Without them, a user finds only
    /// the Operators that are installed in the namespace itself; in OpenShift 4.15, the copies of
    /// Operators for all namespaces are in the namespace `openshift` only (OpenShift, Operators,
    /// *Disabling copied CSVs*).
    ///
    /// # Remediation
    ///
    /// Remove the field or set it to `false`. On a large cluster, where the copies use too much
    /// memory, accept the warning and document for your users how to find Operators: `oc get csvs
    /// -n openshift`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {features: {disableCopiedCSVs: false}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {features: {disableCopiedCSVs: true}}
    /// ```
    ///
    /// `message: disabling copied CSVs limits a user's ability to discover Operators to those
    /// installed directly in the user's namespace`
    CND_10: Warn {
        name: "copied-csvs-enabled",
        on: [OLM_CONFIG: Create | Update],
        source: ["OCP 4.12 L7223-7239", "OCP 4.15 L5114-5122"],
    }
}

fn check_copied_csvs(config: &Document, report: &mut Report<'_>) {
    if !matches!(config.kind(DISABLE_COPIED_CSVS), Kind::Missing | Kind::Null | Kind::Boolean) {
        let message = format!("{DISABLE_FIELD}: Invalid value: must be of type boolean");
        report.add(&CND_09, DISABLE_FIELD, message);
        report.set_fix(&CND_09, || {
            // CND-10 warns of the other value.
            let is_disabled = corrections::boolean(&config.text(DISABLE_COPIED_CSVS)?)?;
            (!is_disabled).then(|| corrections::boolean_fix(config, DISABLE_COPIED_CSVS)).flatten()
        });
    }
    if config.boolean(DISABLE_COPIED_CSVS) == Some(true) {
        let message = "disabling copied CSVs limits a user's ability to discover Operators to those installed directly in the user's namespace";
        report.add(&CND_10, DISABLE_FIELD, message);
    }
}

fn check_interval(config: &Document, report: &mut Report<'_>) {
    let what = match (config.kind(SYNC_INTERVAL), config.text(SYNC_INTERVAL)) {
        (Kind::Missing | Kind::Null, _) => return,
        (_, Some(text)) if is_interval(&text) => return,
        (_, Some(text)) => quote(&text),
        _ => "must be of type string".to_owned(),
    };
    report.add(&CND_09, INTERVAL_FIELD, format!("{INTERVAL_FIELD}: Invalid value: {what}"));
    report.set_fix(&CND_09, || {
        let interval = corrections::go_duration(&config.text(SYNC_INTERVAL)?)?;
        is_interval(&interval).then(|| corrections::write(SYNC_INTERVAL, &interval))
    });
}

/// `^([0-9]+(\.[0-9]+)?(s|m|h))+$`
fn is_interval(text: &str) -> bool {
    let mut rest = text;
    while !rest.is_empty() {
        let Some((number, after)) = rest.split_once(['s', 'm', 'h']) else { return false };
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        if !is_number(whole) || !is_number(fraction) {
            return false;
        }
        rest = after;
    }
    !text.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_match_the_pattern() {
        for (text, matches) in [
            ("60m", true),
            ("1h30m", true),
            ("0.5h", true),
            ("00s", true),
            ("1s1s1s", true),
            ("", false),
            ("5", false),
            ("5 minutes", false),
            ("5ms", false),
            ("-5m", false),
            (".5h", false),
            ("5.h", false),
            ("1.2.3h", false),
            ("5d", false),
            ("5m ", false),
            ("5m\n", false),
            ("５m", false),
            ("m", false),
            ("5M", false),
        ] {
            assert_eq!(is_interval(text), matches, "{text:?}");
        }
    }
}
