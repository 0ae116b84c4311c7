//! Flags of the page for administrators, and the installation that it shows.

use std::sync::Arc;

use clap::Args;

use opgate_controller::audit_metrics::AuditMetrics;
use opgate_controller::lease::Leadership;
use opgate_controller::replicas::KnownReplicas;
use opgate_server::{
    AuditCount, AuditState, AuditSummary, InstallationSource, ReplicaOverview, ReplicaSummary,
    UiOptions,
};
use opgate_ui::{HostNames, MAX_HOST_BYTES};

/// Flags of the page.
#[derive(Debug, Args)]
pub(super) struct UiArgs {
    /// Serve a read-only page for administrators on the ops port: /ui/. It names users and objects of denied requests
    #[arg(long, env = "OPGATE_UI")]
    pub(super) ui: bool,
    /// Name by which browsers may open /ui/, in addition to localhost and IP addresses; may be repeated
    #[arg(long, value_name = "NAME", env = "OPGATE_UI_HOSTS", value_delimiter = ',', value_parser = parse_host)]
    ui_host: Vec<String>,
}

impl UiArgs {
    /// Returns the options of the page.
    pub(super) fn options(&self, installation: Option<InstallationView>) -> UiOptions {
        UiOptions {
            hosts: HostNames::new(self.ui_host.iter().cloned()),
            installation: installation
                .map(|view| -> Arc<dyn InstallationSource> { Arc::new(view) }),
        }
    }
}

/// Parses the name of a host without a port.
fn parse_host(text: &str) -> Result<String, String> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
    let is_name = (1..=MAX_HOST_BYTES).contains(&text.len()) && text.bytes().all(is_part);
    if is_name {
        Ok(text.to_owned())
    } else {
        Err("write a host name without a port, such as opgate.example.com".to_owned())
    }
}

/// The installation of this server, as its tasks know it.
#[derive(Debug)]
pub(super) struct InstallationView {
    /// The name of this server.
    pub(super) replica: String,
    pub(super) leadership: Leadership,
    pub(super) replicas: KnownReplicas,
    /// The results of the audit, if there is one.
    pub(super) audit: Option<AuditMetrics>,
}

impl InstallationSource for InstallationView {
    fn replicas(&self) -> ReplicaOverview {
        let is_leader = self.leadership.is_leader();
        let all = if is_leader { self.replicas.list() } else { Vec::new() };
        let all = all.into_iter().map(|status| ReplicaSummary {
            name: status.replica,
            version: status.version,
            configuration: status.configuration,
        });
        ReplicaOverview {
            this: self.replica.clone(),
            is_leader,
            leader: self.leadership.holder(),
            all: all.collect(),
        }
    }

    fn audit(&self) -> AuditState {
        let Some(audit) = &self.audit else { return AuditState::Off };
        if !self.leadership.is_leader() {
            return AuditState::NotLeader;
        }
        let summary = audit.with_last_results(|results| AuditSummary {
            ended: results.ended,
            duration: results.duration,
            objects: results.objects,
            errors: results.errors,
            violations: results
                .violations
                .iter()
                .map(|([policy, rule, namespace, effect], count)| AuditCount {
                    policy: policy.to_owned(),
                    rule: rule.to_owned(),
                    namespace: namespace.to_owned(),
                    effect: effect.to_owned(),
                    count,
                })
                .collect(),
        });
        summary.map_or(AuditState::Pending, AuditState::Complete)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_host_names_are_accepted() {
        for (text, expected) in [
            ("opgate.example.com", true),
            ("opgate", true),
            ("", false),
            ("opgate:8081", false),
            ("http://opgate", false),
            ("*.example.com", false),
            (&*"a".repeat(254), false),
        ] {
            assert_eq!(parse_host(text).is_ok(), expected, "{text}");
        }
    }
}
