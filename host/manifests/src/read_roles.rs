//! `opgate manifests rbac`: the roles that permit the server's ServiceAccount to read what the policies declare.
//!
//! ```text
//! readings of policies ─┬─ all namespaces ─▶ ClusterRole ◀─┬─ custom resources that are granted
//!                       │                                  └─ `profile: auto`: a few objects by name
//!                       └─ one namespace ──▶ Role of that namespace, for what the ClusterRole lacks
//! ```
//!
//! Settings, levels and grants of the configuration decide what policies read. A read of one namespace,
//! such as that of Secrets, never becomes a part of the ClusterRole. What the ClusterRole permits
//! anyway is in no Role: it would add nothing, and fail to apply where the namespace does not exist.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use serde_json::{Value, json};

use crate::registration::names::{NameError, namespace, object_name};
use opgate_admission::cluster::{ResolvedRead, SampleAccess};
use opgate_admission::policy::{PlatformQuery, Policy};
use opgate_admission::review::Operation;
use opgate_controller::NAME_LABEL;

/// The reason why a text names no ServiceAccount.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum AccountError {
    #[error("{0:?} is not in the format NAMESPACE/NAME")]
    Format(String),
    #[error(transparent)]
    Name(#[from] NameError),
}

const API_VERSION: &str = "rbac.authorization.k8s.io";

/// Arguments of `opgate manifests rbac`.
#[derive(Debug, Args)]
pub struct Permissions {
    /// ServiceAccount of the server
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = account, default_value = "opgate-system/opgate")]
    service_account: (String, String),
    /// Name of the roles and their bindings
    #[arg(long, value_name = "NAME", value_parser = object_name, default_value = "opgate")]
    name: String,
}

fn account(text: &str) -> Result<(String, String), AccountError> {
    let (of, name) = text.split_once('/').ok_or_else(|| AccountError::Format(text.to_owned()))?;
    Ok((namespace(of)?, object_name(name)?))
}

/// Verbs and API group, and the resources.
type Rules<'p> = BTreeMap<(&'static [&'static str], &'p str), BTreeSet<&'p str>>;

const WATCH_VERBS: &[&str] = &["list", "watch"];
const LIST_VERBS: &[&str] = &["list"];

/// The group of objects that opgate makes from files.
const FILES_GROUP: &str = "opgate.dev";

/// Roles and their bindings.
#[derive(Debug)]
pub struct Roles {
    /// The ClusterRole, if anything is read in all namespaces.
    pub cluster_roles: Vec<Value>,
    /// By namespace, which need not exist.
    pub namespaced_roles: Vec<(String, [Value; 2])>,
}

impl Roles {
    fn into_list(self) -> Value {
        let places = self.namespaced_roles.into_iter().flat_map(|(_, roles)| roles);
        let items: Vec<_> = self.cluster_roles.into_iter().chain(places).collect();
        json!({"apiVersion": "v1", "kind": "List", "items": items})
    }
}

/// Rules for what policies read.
struct ReadRules<'p> {
    /// In all namespaces.
    everywhere: Rules<'p>,
    /// By namespace.
    places: BTreeMap<&'p str, Rules<'p>>,
}

/// Returns the rules for the declared reads of policies with these verbs, and for the samples that are
/// granted.
fn read_rules<'p>(policies: &[&'p Policy], verbs: &'static [&'static str]) -> ReadRules<'p> {
    let mut everywhere = Rules::new();
    let mut places: BTreeMap<&str, Rules<'_>> = BTreeMap::new();
    let readings = policies.iter().flat_map(|policy| &policy.reads);
    // Everybody may read the version of the API server.
    for ResolvedRead { resource, namespace, .. } in
        readings.filter(|reading| !reading.resource.is_server_version())
    {
        let rules = match namespace.as_deref() {
            Some(namespace) => places.entry(namespace).or_default(),
            None => &mut everywhere,
        };
        rules.entry((verbs, &resource.group)).or_default().insert(&resource.resource);
    }
    for policy in policies {
        if let SampleAccess::On(grants) = &policy.sample_access {
            for (group, resource) in grants.rules() {
                everywhere.entry((LIST_VERBS, group)).or_default().insert(resource);
            }
        }
    }
    ReadRules { everywhere, places }
}

/// Adds the resources whose objects an audit evaluates: those whose creation the policy matches. It evaluates
/// Secrets only for a rule that names them, and not for rules of files.
fn add_matched_resources<'p>(rules: &mut ReadRules<'p>, policy: &'p Policy) {
    let creations = policy
        .match_rules
        .iter()
        .filter(|matched| matched.rule.operations.contains(&Operation::Create));
    for matched in creations {
        let is_for_files = matched.rule.enabled_by == ["/files"];
        let resources =
            matched.rule.resources.iter().filter_map(|resource| match resource.as_str() {
                "*/*" => Some("*"),
                "secrets" if is_for_files => None,
                resource => (!resource.contains('/')).then_some(resource),
            });
        let rules = match matched.namespace.as_deref() {
            Some(namespace) => rules.places.entry(namespace).or_default(),
            None => &mut rules.everywhere,
        };
        for resource in resources {
            // opgate makes the objects of its group from files; no API server has them.
            for group in matched.rule.groups.iter().filter(|group| *group != FILES_GROUP) {
                rules.entry((LIST_VERBS, group)).or_default().insert(resource);
            }
        }
    }
}

impl Permissions {
    /// Uses the default ServiceAccount, if only the rules matter.
    pub fn with_defaults() -> Self {
        Self::new("opgate-system", "opgate", "opgate")
    }

    /// Creates it for this ServiceAccount.
    pub fn new(namespace: &str, account: &str, name: &str) -> Self {
        let service_account = (namespace.to_owned(), account.to_owned());
        Self { service_account, name: name.to_owned() }
    }

    /// Returns a list of roles and bindings, for policies and for the reads with which a server detects its
    /// platform.
    pub fn of(&self, policies: &[&Policy], wanted: Option<PlatformQuery>) -> Value {
        self.roles(policies, wanted).into_list()
    }

    /// Returns a list of the roles and bindings of an audit, without reports.
    pub fn of_audit(&self, policies: &[&Policy], wanted: Option<PlatformQuery>) -> Value {
        self.audit_roles(policies, wanted, &[]).into_list()
    }

    /// Roles and bindings.
    pub fn roles(&self, policies: &[&Policy], wanted: Option<PlatformQuery>) -> Roles {
        self.roles_of(read_rules(policies, WATCH_VERBS), wanted, &[])
    }

    /// Roles and bindings of an audit, which lists what policies read and match, and has these other
    /// permissions in all namespaces.
    pub(crate) fn audit_roles(
        &self,
        policies: &[&Policy],
        wanted: Option<PlatformQuery>,
        others: &[Value],
    ) -> Roles {
        let mut rules = read_rules(policies, LIST_VERBS);
        for policy in policies {
            add_matched_resources(&mut rules, policy);
        }
        self.roles_of(rules, wanted, others)
    }

    /// Roles and bindings for these rules. `others` are more rules of the ClusterRole.
    fn roles_of(
        &self,
        read_rules: ReadRules<'_>,
        wanted: Option<PlatformQuery>,
        others: &[Value],
    ) -> Roles {
        let ReadRules { everywhere, mut places } = read_rules;
        for (key, resources) in places.values_mut().flatten() {
            let permitted = everywhere.get(key);
            resources.retain(|resource| {
                !permitted.is_some_and(|all| all.contains(resource) || all.contains("*"))
            });
        }
        let of_place = |(namespace, mut rules): (&str, Rules<'_>)| {
            rules.retain(|_, resources| !resources.is_empty());
            let roles = || self.role("Role", Some(namespace), &rules, Vec::new());
            (!rules.is_empty()).then(|| (namespace.to_owned(), roles()))
        };
        let named = wanted.map(PlatformQuery::objects).unwrap_or_default();
        let named = named.iter().map(|(group, resource, names)| {
            json!({"apiGroups": [group], "resources": [resource], "resourceNames": names, "verbs": ["get"]})
        });
        let others: Vec<_> = named.chain(others.iter().cloned()).collect();
        Roles {
            cluster_roles: if everywhere.is_empty() && others.is_empty() {
                Vec::new()
            } else {
                self.role("ClusterRole", None, &everywhere, others).into()
            },
            namespaced_roles: places.into_iter().filter_map(of_place).collect(),
        }
    }

    /// Returns a role and its binding.
    fn role(
        &self,
        kind: &str,
        namespace: Option<&str>,
        rules: &Rules<'_>,
        others: Vec<Value>,
    ) -> [Value; 2] {
        let rule = |((verbs, group), resources): (&(&[&str], &str), &BTreeSet<&str>)| {
            let is_all = resources.contains("*");
            let resources: Vec<_> =
                resources.iter().filter(|resource| !is_all || **resource == "*").collect();
            json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
        };
        let rules: Vec<_> = rules.iter().map(rule).chain(others).collect();
        let labels = json!({NAME_LABEL.0: NAME_LABEL.1});
        let metadata = match namespace {
            Some(namespace) => {
                json!({"name": self.name, "namespace": namespace, "labels": labels})
            }
            None => json!({"name": self.name, "labels": labels}),
        };
        let (of, name) = &self.service_account;
        let version = format!("{API_VERSION}/v1");
        [
            json!({"apiVersion": version, "kind": kind, "metadata": metadata, "rules": rules}),
            json!({
                "apiVersion": version,
                "kind": format!("{kind}Binding"),
                "metadata": metadata,
                "roleRef": {"apiGroup": API_VERSION, "kind": kind, "name": self.name},
                "subjects": [{"kind": "ServiceAccount", "namespace": of, "name": name}],
            }),
        ]
    }
}
