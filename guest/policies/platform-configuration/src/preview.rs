//! APIs of Technology Previews.

use opgate_sdk::{Report, Review, rule, rules};

use crate::targets::{BUNDLE, BUNDLE_DEPLOYMENT, CATALOG, OPERATOR, PLATFORM_OPERATOR};

rules![MSC_19];

rule! {
    /// a production cluster has no objects of a Technology Preview
    ///
    /// If the setting `cluster.production` is `true`, the rule denies creating a Bundle or
    /// BundleDeployment of RukPak, a PlatformOperator, an Operator of
    /// `operators.operatorframework.io`, or a Catalog of `catalogd.operatorframework.io`. Otherwise
    /// the rule is off.
    ///
    /// # Why
    ///
    /// Red Hat does not support these features in production and recommends not to use them there
    /// (OpenShift 4.12, Operators, *RukPak* and *Managing platform Operators*; OpenShift 4.15,
    /// Operators, *OLM 1.0*). They can change or disappear with an upgrade.
    ///
    /// # Remediation
    ///
    /// Install the Operator with a Subscription, or try the feature on another cluster.
    ///
    /// # Accepted
    ///
    /// A Bundle on a cluster without the setting.
    ///
    /// # Rejected
    ///
    /// A Bundle with `cluster.production: true`.
    ///
    /// `message: Technology Preview features are not recommended in production: Bundle`
    MSC_19: Warn {
        name: "no-tech-preview-in-production",
        on: [
            BUNDLE: Create,
            BUNDLE_DEPLOYMENT: Create,
            PLATFORM_OPERATOR: Create,
            OPERATOR: Create,
            CATALOG: Create,
        ],
        enabled_by: ["/cluster/production"],
        source: ["OCP 4.12 L1045, L10236-10241", "OCP 4.15 L19859-19861, L20162-20164, L21723-21725", "OKD L355"],
    }
}

pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    if review.subject().is_none() {
        return;
    }
    let kind = &review.request.kind().kind;
    let message = format!("Technology Preview features are not recommended in production: {kind}");
    report.add(&MSC_19, "kind", message);
}
