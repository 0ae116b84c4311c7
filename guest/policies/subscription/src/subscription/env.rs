//! Environment variables that OLM adds to the containers of an Operator.

use opgate_sdk::{Kind, Report, Rows, Rule, rule, rules};

use super::Subscription;
use crate::bounded::{self, TOO_MANY};
use crate::targets::SUBSCRIPTION;

rules![SUB_16, SUB_21, SUB_22];

const ENV: &str = "/spec/config/env";
const FIELD: &str = "spec.config.env";

const PROXY_VARIABLES: [&str; 3] = ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"];

impl Subscription<'_> {
    pub(super) fn check_env(&self, report: &mut Report<'_>) {
        let is_new = self.review.touches_json(self.object, ENV);
        if !is_new && !self.touches(&["name"]) {
            return;
        }
        let columns = ["/name", "/value", "/valueFrom"];
        let Some(env) = bounded::read_rows(self.object, ENV, &columns) else {
            for rule in [&SUB_16, &SUB_21, &SUB_22] {
                report.skip(rule, FIELD, TOO_MANY);
            }
            return;
        };
        if is_new {
            check_proxy(&env, report);
        }
        self.check_token_auth_env(&env, report);
    }
}

rule! {
    /// the proxy variables of a Subscription are set together
    ///
    /// `spec.config.env` has all of `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`, or none. A variable
    /// with an empty value, and one with `valueFrom`, counts as set. The rule evaluates an UPDATE
    /// only if it changes `spec.config.env`.
    ///
    /// # Why
    ///
    /// OLM handles the three variables as a unit: if one of them is set, the cluster-wide values of
    /// none of them are used for the Operator (OpenShift 4.12, Operators, *Overriding proxy
    /// settings of an Operator*).
    ///
    /// # Remediation
    ///
    /// Set all three. To use no proxy, give all three empty values.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// env:
    /// - {name: HTTP_PROXY, value: ""}
    /// - {name: HTTPS_PROXY, value: ""}
    /// - {name: NO_PROXY, value: ""}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// env: [{name: HTTP_PROXY, value: "http://proxy.example.com"}]
    /// ```
    ///
    /// `message: OLM handles HTTP_PROXY, HTTPS_PROXY and NO_PROXY as a unit; [HTTPS_PROXY NO_PROXY]
    /// not set`
    SUB_16: Warn {
        name: "complete-subscription-proxy-variables",
        on: [SUBSCRIPTION: Create | Update],
        may_skip: true,
        source: ["OCP 4.12 L7340-7389", "OCP 4.15 L5190-5235", "OCP 4.5 L2560-2565"],
    }
}

fn check_proxy(env: &Rows, report: &mut Report<'_>) {
    let mut missing = PROXY_VARIABLES.to_vec();
    missing.retain(|name| !env.iter().any(|row| row.text(0) == Some(*name)));
    if !missing.is_empty() && missing.len() < PROXY_VARIABLES.len() {
        let missing = missing.join(" ");
        let message = format!(
            "OLM handles HTTP_PROXY, HTTPS_PROXY and NO_PROXY as a unit; [{missing}] not set"
        );
        report.add(&SUB_16, FIELD, message);
    }
}

rule! {
    /// an Operator with token authentication gets its role on AWS
    ///
    /// If the setting `cluster.tokenAuth` is `aws-sts` and `subscription.tokenAuthPackages` has the
    /// package, `spec.config.env` has the variable `ROLEARN` with a non-empty value or with
    /// `valueFrom`. If several variables have one name, the last counts. The rule evaluates an
    /// UPDATE only if it changes `spec.config.env` or `spec.name`. The rule is off while
    /// `tokenAuthPackages` is missing.
    ///
    /// # Why
    ///
    /// On a cluster in the mode of AWS Security Token Service, the Operator needs the role to
    /// request credentials (OpenShift 4.15, Operators, *Installing from OperatorHub using the
    /// CLI*). Only the administrators of the cluster know which packages need it.
    ///
    /// # Remediation
    ///
    /// Create the role according to the Operator's documentation, and add its ARN.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// env: [{name: ROLEARN, value: "arn:aws:iam::123:role/x"}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// env: []
    /// ```
    ///
    /// `message: spec.config.env must include ROLEARN on a cluster in AWS STS mode`
    SUB_21: Deny {
        name: "aws-role-for-token-auth",
        on: [SUBSCRIPTION: Create | Update],
        enabled_by: ["/subscription/tokenAuthPackages"],
        may_skip: true,
        source: ["OCP 4.15 L3723-3737, L4211-4223, L16266"],
    }
}

rule! {
    /// an Operator with token authentication gets its identity on Azure
    ///
    /// If the setting `cluster.tokenAuth` is `azure-workload-id` and
    /// `subscription.tokenAuthPackages` has the package, `spec.config.env` has the variables
    /// `CLIENTID`, `TENANTID` and `SUBSCRIPTIONID`, each with a non-empty value or with
    /// `valueFrom`. If several variables have one name, the last counts. The rule evaluates an
    /// UPDATE only if it changes `spec.config.env` or `spec.name`. The rule is off while
    /// `tokenAuthPackages` is missing.
    ///
    /// # Why
    ///
    /// On a cluster in the mode of Microsoft Entra Workload ID, the Operator needs the three
    /// variables to request credentials (OpenShift 4.15, Operators, *Installing from OperatorHub
    /// using the CLI*).
    ///
    /// # Remediation
    ///
    /// Create the identity according to the Operator's documentation, and add the three IDs.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// env:
    /// - {name: CLIENTID, value: 0f7b}
    /// - {name: TENANTID, value: 52c3}
    /// - {name: SUBSCRIPTIONID, value: 9a1e}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// env: [{name: CLIENTID, value: 0f7b}]
    /// ```
    ///
    /// `message: spec.config.env must include CLIENTID, TENANTID and SUBSCRIPTIONID on a cluster in
    /// Microsoft Entra Workload ID mode`
    SUB_22: Deny {
        name: "azure-identity-for-token-auth",
        on: [SUBSCRIPTION: Create | Update],
        enabled_by: ["/subscription/tokenAuthPackages"],
        may_skip: true,
        source: ["OCP 4.15 L3739-3759, L4225-4245, L16764-16766"],
    }
}

impl Subscription<'_> {
    fn check_token_auth_env(&self, env: &Rows, report: &mut Report<'_>) {
        let settings = self.review.settings;
        let (rule, names, message): (&'static Rule, &[&str], _) = match settings
            .text_or_empty("/cluster/tokenAuth")
            .as_str()
        {
            "aws-sts" => (
                &SUB_21,
                &["ROLEARN"],
                "spec.config.env must include ROLEARN on a cluster in AWS STS mode",
            ),
            "azure-workload-id" => (
                &SUB_22,
                &["CLIENTID", "TENANTID", "SUBSCRIPTIONID"],
                "spec.config.env must include CLIENTID, TENANTID and SUBSCRIPTIONID on a cluster in Microsoft Entra Workload ID mode",
            ),
            _ => return,
        };
        let packages = "/subscription/tokenAuthPackages";
        if settings.texts(packages).contains(&self.package)
            && !names.iter().all(|name| is_filled(env, name))
        {
            report.add(rule, FIELD, message);
        }
    }
}

/// Whether a variable has a value. The last one of a name counts.
fn is_filled(env: &Rows, name: &str) -> bool {
    let last = env.iter().filter(|row| row.text(0) == Some(name)).last();
    last.is_some_and(|row| !row.text_or_empty(1).is_empty() || row.kind(2) == Kind::Object)
}
