//! The audits of the cluster: the API of their reports, and their permissions.

use opgate_controller::audit_reports::ReportApi;

use super::permissions::{Grant, account_grants, missing_verbs, require_roles};
use crate::facts::Facts;
use crate::facts::audit::{ConfiguredAudit, WantedReports, report_permissions};
use crate::facts::expected::RequiredPermission;
use crate::facts::object::Kind;
use crate::finding::{Findings, ObjectReference, join_names, shell_word};
use crate::finding_docs::audit::{MISSING_PERMISSION, MISSING_REPORT_API};

pub(super) fn check(facts: &Facts, found: &mut Findings) {
    found.require_kind(facts, Kind::CronJob, "audits of a CronJob");
    for audit in ConfiguredAudit::all(facts) {
        let apis = match check_report_api(facts, &audit, found) {
            Some(api) => vec![api],
            None if audit.reports == WantedReports::Auto && served_versions(facts).is_err() => {
                ReportApi::ALL.to_vec()
            }
            None => Vec::new(),
        };
        check_permissions(facts, &audit, &apis, found);
    }
}

/// Returns the served versions of the groups of reports, or why they are not known.
fn served_versions(facts: &Facts) -> Result<Vec<(ReportApi, &[String])>, String> {
    let groups = match &facts.api_groups {
        None => return Err("the files do not tell which APIs the cluster serves".to_owned()),
        Some(Err(why)) => return Err(why.to_string()),
        Some(Ok(groups)) => groups,
    };
    let versions = |api: ReportApi| {
        let group = groups.iter().find(|group| group.name == api.group())?;
        Some((api, group.versions.as_slice()))
    };
    Ok(ReportApi::ALL.into_iter().filter_map(versions).collect())
}

/// Reports that the cluster does not serve the API of the reports. Returns the API that is used, if it is known.
fn check_report_api(
    facts: &Facts,
    audit: &ConfiguredAudit<'_>,
    found: &mut Findings,
) -> Option<ReportApi> {
    let wanted = match audit.reports {
        WantedReports::None => return None,
        WantedReports::Auto => ReportApi::ALL.to_vec(),
        WantedReports::Of(api) => vec![api],
    };
    let served = match served_versions(facts) {
        Ok(served) => served,
        Err(why) => {
            found.add_unchecked("the API of the audit's reports", &why);
            // A named API is the one that is used.
            return wanted.first().copied().filter(|_| wanted.len() == 1);
        }
    };
    let is_served = |api: &ReportApi| {
        let versions = served.iter().find(|(of, _)| of == api).map(|(_, versions)| versions);
        versions.is_some_and(|versions| versions.iter().any(|version| version == api.version()))
    };
    if let Some(api) = wanted.iter().find(|api| is_served(api)) {
        return Some(*api);
    }
    let names: Vec<_> =
        wanted.iter().map(|api| format!("{}/{}", api.group(), api.version())).collect();
    let mut what = format!("the cluster does not serve {}", names.join(" or "));
    for (api, versions) in &served {
        let versions = join_names(versions.iter().map(String::as_str));
        what = format!("{what}; it serves {} in {versions}", api.group());
    }
    let project = wanted.first().map_or("", |api| api.project());
    let repair = format!(
        "install the CustomResourceDefinitions of {project}, or set the API of the reports: docs/audit.md#reports"
    );
    found.add(&MISSING_REPORT_API, audit.object, &audit.field, &what, &repair);
    None
}

fn check_permissions(
    facts: &Facts,
    audit: &ConfiguredAudit<'_>,
    apis: &[ReportApi],
    found: &mut Findings,
) {
    const WHAT: &str = "permissions of the audit";
    if !require_roles(facts, WHAT, found) {
        return;
    }
    let expected = &facts.expected;
    if let Some(why) = expected.unknown_reason.as_ref().or(expected.error.as_ref()) {
        found.add_unchecked(WHAT, why);
        return;
    }
    let namespace = &audit.object.namespace;
    let grants = account_grants(facts, namespace, audit.account);
    let mut missing = missing_permissions(&grants, &expected.audit_permissions);
    // One API is enough, if it is not known which one the cluster serves.
    let of_apis = apis.iter().map(|api| missing_permissions(&grants, &report_permissions(*api)));
    missing.extend(of_apis.min_by_key(Vec::len).unwrap_or_default());
    if missing.is_empty() {
        return;
    }
    let what = format!("it may not {}", join_names(missing.iter().map(String::as_str)));
    let command = if audit.object.kind == Kind::CronJob {
        let owner = facts.installation.owner();
        format!("opgate manifests audit --config opgate.yaml --installation {}", shell_word(&owner))
    } else {
        "opgate manifests all --config opgate.yaml --audit-interval 1h".to_owned()
    };
    let repair = format!("print the roles, and apply them: {command}");
    let at = ObjectReference::named(Kind::ServiceAccount, namespace, audit.account);
    found.add(&MISSING_PERMISSION, at, "", &what, &repair);
}

/// Returns `list pods` or `list roles.rbac.authorization.k8s.io in the namespace a` for each permission that no role
/// grants.
fn missing_permissions(grants: &[Grant<'_>], needed: &[RequiredPermission]) -> Vec<String> {
    let describe = |permission: &RequiredPermission| {
        let verbs = missing_verbs(grants, permission);
        let place = permission.namespace.as_ref();
        let place = place.map(|name| format!(" in the namespace {name}")).unwrap_or_default();
        let text = format!("{} {}{place}", verbs.join(","), permission.display_resource());
        (!verbs.is_empty()).then_some(text)
    };
    needed.iter().filter_map(describe).collect()
}
