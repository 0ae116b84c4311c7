//! The alerts of an installation. docs/operate/alerts.md has a section for each.
//!
//! The end to end tests run each expression against metrics of servers that have the problem, and of servers that no
//! longer have it.

use serde_json::{Value, json};

use super::Installation;

/// The page with a section for each alert.
const RUNBOOK_PAGE: &str = "operate/alerts.md";

/// The start of the address of the page without `--docs-url`: its path in the sources.
const SOURCE_DOCS: &str = "docs";

/// Urgency of an alert.
#[derive(Clone, Copy)]
enum Severity {
    /// Requests are refused or not checked, or will be soon.
    Critical,
    /// Something is wrong, and requests are still decided.
    Warning,
}

/// An alert.
struct Alert {
    name: &'static str,
    severity: Severity,
    /// Time for which the condition must hold.
    duration: &'static str,
    /// An expression; `{}` stands for the labels that select the servers. Only for metrics without a label
    /// `namespace` of their own, which would take the place of the servers' one.
    condition: &'static str,
    summary: &'static str,
}

const ALERTS: &[Alert] = &[
    Alert {
        name: "OpgateDown",
        severity: Severity::Critical,
        duration: "2m",
        condition: "absent(opgate_build_info{})",
        summary: "no server of opgate reports metrics",
    },
    Alert {
        name: "OpgatePolicyDown",
        severity: Severity::Critical,
        duration: "1m",
        condition: "opgate_policy_up{} == 0",
        summary: "the policy {{ $labels.policy }} cannot be loaded on {{ $labels.pod }}",
    },
    Alert {
        name: "OpgateClusterCacheNotReady",
        severity: Severity::Critical,
        duration: "2m",
        condition: "opgate_cluster_cache_ready{} == 0",
        summary: "{{ $labels.pod }} cannot serve queries of policies for {{ $labels.resource }}",
    },
    Alert {
        name: "OpgateWatchFailing",
        severity: Severity::Warning,
        duration: "5m",
        condition: "opgate_cluster_cache_watch_failing{} == 1",
        summary: "{{ $labels.pod }} cannot watch {{ $labels.resource }}",
    },
    Alert {
        name: "OpgateTokenRefused",
        severity: Severity::Critical,
        duration: "1m",
        condition: "max by (namespace, pod) (opgate_cluster_cache_unauthorized{}) == 1",
        summary: "the API server does not accept the token of {{ $labels.pod }}",
    },
    Alert {
        name: "OpgateReservationsNearlyFull",
        severity: Severity::Warning,
        duration: "1m",
        condition: "opgate_reservation_ratio{} >= 0.8",
        summary: "a tenant has nearly all reservations of {{ $labels.resource }} that it may have on {{ $labels.pod }}",
    },
    Alert {
        name: "OpgateUnreadableObjects",
        severity: Severity::Warning,
        duration: "5m",
        condition: "opgate_cluster_cache_unreadable_objects{} > 0",
        summary: "{{ $labels.pod }} cannot read {{ $value }} objects of {{ $labels.resource }}",
    },
    Alert {
        name: "OpgatePolicyErrors",
        severity: Severity::Warning,
        duration: "0m",
        condition: "increase(opgate_policy_errors_total{}[10m]) > 0",
        summary: "calls of the policy {{ $labels.policy }} ended without a verdict: {{ $labels.cause }}",
    },
    Alert {
        name: "OpgateRequestsShed",
        severity: Severity::Warning,
        duration: "0m",
        condition: "increase(opgate_requests_shed_total{}[10m]) > 0",
        summary: "{{ $labels.pod }} responded to requests with 503",
    },
    Alert {
        name: "OpgateLeaseNotRenewed",
        severity: Severity::Warning,
        duration: "1m",
        condition: "time() - opgate_lease_last_renewed_seconds{} > 60",
        summary: "{{ $labels.pod }} cannot renew its Lease",
    },
    Alert {
        name: "OpgatePanics",
        severity: Severity::Warning,
        duration: "0m",
        condition: "increase(opgate_panics_total{}[10m]) > 0",
        summary: "{{ $labels.pod }} responded to requests with 500 after a panic",
    },
    Alert {
        name: "OpgateTaskRestarts",
        severity: Severity::Warning,
        duration: "0m",
        condition: "increase(opgate_task_restarts_total{}[10m]) > 0",
        summary: "{{ $labels.pod }} restarted the task {{ $labels.task }}",
    },
    Alert {
        name: "OpgateCertificateReloadFailed",
        severity: Severity::Warning,
        duration: "0m",
        condition: "increase(opgate_certificate_reloads_total{,result=\"failed\"}[10m]) > 0",
        summary: "{{ $labels.pod }} cannot use the new serving certificate and keeps the old one",
    },
    Alert {
        name: "OpgateClientCaReloadFailed",
        severity: Severity::Warning,
        duration: "0m",
        condition: "increase(opgate_client_ca_reloads_total{,result=\"failed\"}[10m]) > 0",
        summary: "{{ $labels.pod }} cannot use the new CA bundle for clients and keeps the old one",
    },
    Alert {
        name: "OpgateClientsRejected",
        severity: Severity::Warning,
        duration: "0m",
        condition: "increase(opgate_client_rejections_total{}[10m]) > 0",
        summary: "{{ $labels.pod }} refused clients: {{ $labels.reason }}",
    },
    Alert {
        name: "OpgateFailOpen",
        severity: Severity::Warning,
        duration: "0m",
        // The series of a webhook begins with its first failure, which is no increase. A series is also new to a
        // Prometheus that did not scrape the API server before.
        condition: "sum by (name) (increase(apiserver_admission_webhook_fail_open_count{type=\"validating\"}[10m])) > 0 \
            or sum by (name) ((apiserver_admission_webhook_fail_open_count{type=\"validating\"} \
            unless apiserver_admission_webhook_fail_open_count{type=\"validating\"} offset 10m) \
            and on (job, instance) (up offset 10m == 1)) > 0",
        summary: "API servers allowed requests without a response of the webhook {{ $labels.name }}",
    },
    Alert {
        name: "OpgateCertificateExpiringSoon",
        severity: Severity::Warning,
        duration: "1h",
        condition: "opgate_certificate_expiration_timestamp_seconds{} - time() < 604800",
        summary: "the serving certificate of {{ $labels.pod }} ends in less than a week",
    },
    Alert {
        name: "OpgateCertificateExpiryImminent",
        severity: Severity::Critical,
        duration: "5m",
        condition: "opgate_certificate_expiration_timestamp_seconds{} - time() < 86400",
        summary: "the serving certificate of {{ $labels.pod }} ends in less than a day",
    },
    Alert {
        name: "OpgateCaExpires",
        severity: Severity::Warning,
        duration: "1h",
        condition: "opgate_ca_expiration_timestamp_seconds{} - time() < 5184000",
        summary: "the CA of the serving certificate ends in less than 60 days and is not renewed",
    },
    Alert {
        name: "OpgateCaNotTrusted",
        severity: Severity::Warning,
        duration: "30m",
        condition: "max by (namespace) (opgate_ca_trusted{}) == 0",
        summary: "a webhook of the installation does not trust the newest CA",
    },
    Alert {
        name: "OpgateCertificateControllerErrors",
        severity: Severity::Warning,
        duration: "15m",
        condition: "increase(opgate_certificate_controller_errors_total{}[15m]) > 10",
        summary: "{{ $labels.pod }} cannot renew the certificates",
    },
    Alert {
        name: "OpgateNoLeader",
        severity: Severity::Warning,
        duration: "5m",
        condition: "sum by (namespace) (opgate_leader{}) != 1",
        summary: "there is no leader, or more than one server reports to be it",
    },
    Alert {
        name: "OpgateClockSkew",
        severity: Severity::Warning,
        duration: "15m",
        condition: "abs(opgate_clock_skew_seconds{}) > 300",
        summary: "the clock of {{ $labels.pod }} differs from that of the API server",
    },
    Alert {
        name: "OpgateConfigurationStale",
        severity: Severity::Warning,
        duration: "5m",
        condition: "opgate_configuration_stale{} == 1",
        summary: "{{ $labels.pod }} cannot use the configuration and keeps the last good one",
    },
    Alert {
        name: "OpgateRegistrationStale",
        severity: Severity::Warning,
        duration: "10m",
        condition: "opgate_registration_stale{} == 1",
        summary: "the webhooks differ from what {{ $labels.pod }} serves",
    },
];

impl Installation {
    /// Returns the rules of the alerts.
    pub(super) fn alert_rules(&self) -> Vec<Value> {
        ALERTS.iter().map(|alert| self.alert_rule(alert)).collect()
    }

    fn alert_rule(&self, alert: &Alert) -> Value {
        let servers =
            format!("job=\"{}\",namespace=\"{}\"", self.metrics_service(), self.namespace);
        let condition = alert.condition.replace("{,", &format!("{{{servers},"));
        let severity = match alert.severity {
            Severity::Critical => "critical",
            Severity::Warning => "warning",
        };
        let docs = self.docs_url.as_deref().unwrap_or(SOURCE_DOCS);
        json!({
            "alert": alert.name,
            "expr": condition.replace("{}", &format!("{{{servers}}}")),
            "for": alert.duration,
            "labels": {"severity": severity},
            "annotations": {
                "summary": alert.summary,
                "runbook_url": format!("{docs}/{}", runbook_section(alert.name)),
            },
        })
    }
}

/// Returns the section of an alert, relative to the documentation.
pub(crate) fn runbook_section(alert: &str) -> String {
    format!("{RUNBOOK_PAGE}#{}", alert.to_lowercase())
}
