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

/// Roles and their bindings.
#[derive(Debug)]
pub struct Roles {
    /// The ClusterRole, if anything is read in all namespaces.
    pub cluster_roles: Vec<Value>,
    /// By namespace, which need not exist.
    pub namespaced_roles: Vec<(String, [Value; 2])>,
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
        let Roles { cluster_roles: everywhere, namespaced_roles: places } =
            self.roles(policies, wanted);
        let places = places.into_iter().flat_map(|(_, roles)| roles);
        let items: Vec<_> = everywhere.into_iter().chain(places).collect();
        json!({"apiVersion": "v1", "kind": "List", "items": items})
    }

    /// Roles and bindings.
    pub fn roles(&self, policies: &[&Policy], wanted: Option<PlatformQuery>) -> Roles {
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
            rules.entry((WATCH_VERBS, &resource.group)).or_default().insert(&resource.resource);
        }
        for policy in policies {
            if let SampleAccess::On(grants) = &policy.sample_access {
                for (group, resource) in grants.rules() {
                    everywhere.entry((LIST_VERBS, group)).or_default().insert(resource);
                }
            }
        }
        for (key, resources) in places.values_mut().flatten() {
            let permitted = everywhere.get(key);
            resources.retain(|resource| {
                !permitted.is_some_and(|all| all.contains(resource) || all.contains("*"))
            });
        }
        let of_place = |(namespace, mut rules): (&str, Rules<'_>)| {
            rules.retain(|_, resources| !resources.is_empty());
            let roles = || self.role("Role", Some(namespace), &rules, &[]);
            (!rules.is_empty()).then(|| (namespace.to_owned(), roles()))
        };
        let named = wanted.map(PlatformQuery::objects).unwrap_or_default();
        Roles {
            cluster_roles: if everywhere.is_empty() && named.is_empty() {
                Vec::new()
            } else {
                self.role("ClusterRole", None, &everywhere, &named).into()
            },
            namespaced_roles: places.into_iter().filter_map(of_place).collect(),
        }
    }

    /// Returns a role and its binding. `named` are single objects.
    fn role(
        &self,
        kind: &str,
        namespace: Option<&str>,
        rules: &Rules<'_>,
        named: &[(&str, &str, Vec<&str>)],
    ) -> [Value; 2] {
        let rule = |((verbs, group), resources): (&(&[&str], &str), &BTreeSet<&str>)| {
            let is_all = resources.contains("*");
            let resources: Vec<_> =
                resources.iter().filter(|resource| !is_all || **resource == "*").collect();
            json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
        };
        let named = named.iter().map(|(group, resource, names)| {
            json!({"apiGroups": [group], "resources": [resource], "resourceNames": names, "verbs": ["get"]})
        });
        let rules: Vec<_> = rules.iter().map(rule).chain(named).collect();
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
