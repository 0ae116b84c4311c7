//! One rule of a role, and its permissions, as the API server's authorizer evaluates it
//! (Kubernetes, `pkg/apis/rbac/v1/evaluation_helpers.go`).

use std::collections::BTreeSet;

use opgate_sdk::Document;

use super::SearchError;
use super::budget::{Budget, CALL_STEPS};
use super::read::for_each_text;

/// One rule of a role.
#[derive(Debug, Default)]
pub(super) struct PolicyRule {
    pub(super) verbs: BTreeSet<String>,
    pub(super) groups: BTreeSet<String>,
    pub(super) resources: BTreeSet<String>,
    pub(super) names: BTreeSet<String>,
    pub(super) urls: BTreeSet<String>,
}

impl PolicyRule {
    /// The rule at a pointer of a role, or of a ClusterServiceVersion.
    pub(super) fn read(
        role: &Document,
        at: &str,
        budget: &mut Budget,
    ) -> Result<Self, SearchError> {
        let mut set = |member: &str| -> Result<_, SearchError> {
            let mut texts = BTreeSet::new();
            for_each_text(role, &format!("{at}/{member}"), CALL_STEPS, budget, |text| {
                texts.insert(text.to_owned());
            })?;
            Ok(texts)
        };
        Ok(Self {
            verbs: set("verbs")?,
            groups: set("apiGroups")?,
            resources: set("resources")?,
            names: set("resourceNames")?,
            urls: set("nonResourceURLs")?,
        })
    }

    pub(super) fn has_verb(&self, verb: &str) -> bool {
        has(&self.verbs, verb)
    }

    pub(super) fn has_group(&self, group: &str) -> bool {
        has(&self.groups, group)
    }

    pub(super) fn has_resource(&self, resource: &str) -> bool {
        // `*/scale` is that subresource of all resources.
        let of_all = resource.split_once('/').map(|(_, sub_resource)| format!("*/{sub_resource}"));
        has(&self.resources, resource)
            || of_all.is_some_and(|of_all| self.resources.contains(&of_all))
    }

    /// Without names, a rule applies to all objects.
    pub(super) fn has_name(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.contains(name)
    }

    fn has_names(&self, names: &BTreeSet<String>) -> bool {
        self.names.is_empty() || (!names.is_empty() && names.is_subset(&self.names))
    }

    pub(super) fn has_url(&self, url: &str) -> bool {
        let covers =
            |own: &String| own.strip_suffix('*').is_some_and(|start| url.starts_with(start));
        self.urls.contains(url) || self.urls.iter().any(covers)
    }

    pub(super) fn has_all(&self, verbs: &BTreeSet<String>, names: &BTreeSet<String>) -> bool {
        verbs.iter().all(|verb| self.has_verb(verb)) && self.has_names(names)
    }
}

fn has(set: &BTreeSet<String>, text: &str) -> bool {
    set.contains("*") || set.contains(text)
}
