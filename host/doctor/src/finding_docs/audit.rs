//! The audits of the cluster.

use super::Level::Warning;
use super::{Doc, Topic};

pub(crate) const TOPIC: Topic =
    Topic { name: "audit", title: "Audit", docs: &[&MISSING_REPORT_API, &MISSING_PERMISSION] };

pub(crate) const MISSING_REPORT_API: Doc = Doc {
    id: "DOC-68",
    level: Warning,
    title: "The cluster serves no API for the reports of the audit",
    impact: "An [audit](../audit.md#continuous-audit) is configured, and the cluster serves neither `openreports.io/v1alpha1` nor `wgpolicyk8s.io/v1alpha2`, or not the one that `--reports` or `--audit-reports` names. \
The audit runs, and writes no reports: a CronJob warns and prints its results only, or fails if it names the API; servers have the metrics only.",
    remediation: "Install the CustomResourceDefinitions of [openreports](https://github.com/openreports/reports-api), or name the API that the cluster serves. To audit without reports, use `--no-reports` for a CronJob, or `--audit-reports none` for servers. `kubectl api-versions` prints what the cluster serves.",
};

pub(crate) const MISSING_PERMISSION: Doc = Doc {
    id: "DOC-69",
    level: Warning,
    title: "The audit lacks a permission",
    impact: "No role that is bound to the ServiceAccount of the [audit](../audit.md#continuous-audit) grants a permission that it needs: `list` on the resources that the policies of the configuration read or match, or writes of reports. \
The audit does not evaluate objects that it cannot list, skips the rules that read them, and keeps their reports; without the permission for reports it writes none.",
    remediation: "Print the roles for the configuration, and apply them. For a CronJob:\n\n    opgate manifests audit --config opgate.yaml --image IMAGE | kubectl apply -f -\n\n\
For servers, print the installation with the flag: `opgate manifests all --config opgate.yaml --audit-interval 1h`. Apply them again whenever the configuration changes.",
};
