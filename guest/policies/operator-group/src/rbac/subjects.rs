//! The service accounts that a binding applies to: by name, as a user, or through one of the groups
//! that Kubernetes assigns to every service account.

use std::collections::{BTreeMap, BTreeSet};

use opgate_sdk::Document;

use super::SearchError;
use super::budget::{Budget, CALL_STEPS};
use super::read::length;

const ALL_ACCOUNTS: &str = "system:serviceaccounts";
const ALL_USERS: &str = "system:authenticated";
const NAMESPACE_ACCOUNTS_PREFIX: &str = "system:serviceaccounts:";
const ACCOUNT_USER_PREFIX: &str = "system:serviceaccount:";

/// A service account, with the names under which bindings refer to it.
pub(super) struct Account<'a> {
    pub(super) namespace: &'a str,
    name: &'a str,
    pub(super) names: [String; 5],
}

impl<'a> Account<'a> {
    pub(super) fn new(namespace: &'a str, name: &'a str) -> Self {
        let names = [
            name.to_owned(),
            format!("{ACCOUNT_USER_PREFIX}{namespace}:{name}"),
            format!("{NAMESPACE_ACCOUNTS_PREFIX}{namespace}"),
            ALL_ACCOUNTS.to_owned(),
            ALL_USERS.to_owned(),
        ];
        Self { namespace, name, names }
    }

    /// Whether a binding applies to the account.
    pub(super) fn is_subject_of(
        &self,
        binding: &Document,
        budget: &mut Budget,
    ) -> Result<bool, SearchError> {
        for index in 0..length(binding, "/subjects") {
            budget.spend(CALL_STEPS)?;
            let subject = format!("/subjects/{index}");
            let name = binding.text_or_empty(&format!("{subject}/name"));
            // Most subjects are other users, which one host call shows.
            if self.names.contains(&name) && subject_of(binding, &subject, name).reaches(self) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// One subject of a binding, as far as it can be a service account.
enum Subject {
    Account { namespace: String, name: String },
    NamespaceAccounts(String),
    AllAccounts,
    Other,
}

impl Subject {
    fn reaches(&self, account: &Account<'_>) -> bool {
        match self {
            Self::Account { namespace, name } => {
                namespace == account.namespace && name == account.name
            }
            Self::NamespaceAccounts(namespace) => namespace == account.namespace,
            Self::AllAccounts => true,
            Self::Other => false,
        }
    }
}

fn subject_of(binding: &Document, subject: &str, name: String) -> Subject {
    match binding.text_or_empty(&format!("{subject}/kind")).as_str() {
        "ServiceAccount" => {
            let namespace = binding.text_or_empty(&format!("{subject}/namespace"));
            // An account without a namespace is in the namespace of the binding.
            let namespace = if namespace.is_empty() {
                binding.text_or_empty("/metadata/namespace")
            } else {
                namespace
            };
            if namespace.is_empty() { Subject::Other } else { Subject::Account { namespace, name } }
        }
        "User" => {
            match name.strip_prefix(ACCOUNT_USER_PREFIX).and_then(|user| user.split_once(':')) {
                Some((namespace, name)) => {
                    Subject::Account { namespace: namespace.to_owned(), name: name.to_owned() }
                }
                None => Subject::Other,
            }
        }
        "Group" => match name.as_str() {
            ALL_ACCOUNTS | ALL_USERS => Subject::AllAccounts,
            _ => match name.strip_prefix(NAMESPACE_ACCOUNTS_PREFIX) {
                Some(namespace) => Subject::NamespaceAccounts(namespace.to_owned()),
                None => Subject::Other,
            },
        },
        _ => Subject::Other,
    }
}

/// The service accounts that bindings apply to.
#[derive(Default)]
pub(super) struct Subjects {
    /// Namespaces by name of the account.
    accounts: BTreeMap<String, BTreeSet<String>>,
    namespaces: BTreeSet<String>,
    has_all: bool,
}

impl Subjects {
    pub(super) fn add(
        &mut self,
        binding: &Document,
        budget: &mut Budget,
    ) -> Result<(), SearchError> {
        for index in 0..length(binding, "/subjects") {
            budget.spend(CALL_STEPS)?;
            let subject = format!("/subjects/{index}");
            let name = binding.text_or_empty(&format!("{subject}/name"));
            match subject_of(binding, &subject, name) {
                Subject::Account { namespace, name } => {
                    self.accounts.entry(name).or_default().insert(namespace);
                }
                Subject::NamespaceAccounts(namespace) => {
                    self.namespaces.insert(namespace);
                }
                Subject::AllAccounts => self.has_all = true,
                Subject::Other => {}
            }
        }
        Ok(())
    }

    /// Names of the accounts, unless the binding applies to all accounts of a namespace or of the
    /// cluster.
    pub(super) fn names(&self) -> Option<Vec<String>> {
        let singly = !self.has_all && self.namespaces.is_empty();
        singly.then(|| self.accounts.keys().cloned().collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.has_all && self.namespaces.is_empty() && self.accounts.is_empty()
    }

    pub(super) fn contains(&self, namespace: &str, account: &str) -> bool {
        self.has_all
            || self.namespaces.contains(namespace)
            || self.accounts.get(account).is_some_and(|found| found.contains(namespace))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::super::widening_binding;

    #[test]
    fn binding_reaches_matching_subjects_only() {
        for (subject, reaches) in [
            (SCOPED, true),
            (r#"{"kind":"Group","name":"system:serviceaccounts"}"#, true),
            (r#"{"kind":"Group","name":"system:serviceaccounts:scoped"}"#, true),
            (r#"{"kind":"Group","name":"system:authenticated"}"#, true),
            (r#"{"kind":"User","name":"system:serviceaccount:scoped:scoped"}"#, true),
            (r#"{"kind":"ServiceAccount","name":"scoped","namespace":"other"}"#, false),
            (r#"{"kind":"ServiceAccount","name":"other","namespace":"scoped"}"#, false),
            (r#"{"kind":"ServiceAccount","name":"scoped"}"#, false),
            (r#"{"kind":"User","name":"scoped"}"#, false),
            (r#"{"kind":"Group","name":"scoped"}"#, false),
            (r#"{"kind":"Group","name":"system:serviceaccounts:other"}"#, false),
            (r#"{"kind":"User","name":"system:serviceaccounts"}"#, false),
            (r#"{"kind":1,"name":["scoped"]},null,"scoped""#, false),
        ] {
            let binding = binding("", "b", "ClusterRole", "r", &format!("null,{subject}"));
            let role = ("clusterroles", role("", "r", CREATE_CRDS));
            let stored = [role.clone(), ("clusterrolebindings", binding.clone())];
            let expected = reaches.then(|| THROUGH_B.to_owned());
            assert_eq!(account(&stored), Ok(expected), "{subject}");
            // The reverse comparison, starting from the binding.
            let reviewed = [role, ("operatorgroups", group("scoped", "scoped"))];
            let found = with_objects(&reviewed, || widening_binding(&parse(&binding), None));
            let text = r#"ServiceAccount scoped/scoped through ClusterRole "r""#;
            assert_eq!(found.complete(), Ok(reaches.then(|| text.to_owned())), "{subject}");
        }
    }
}
