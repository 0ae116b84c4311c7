//! The custom resources that an administrator grants: `widgets.example.com`, or `*.example.com`
//! for all resources of a group.

use opgate_cluster::Resource;
use opgate_compat::names;

/// The reason why a text grants no samples.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct GrantError(String);

/// Custom resources that a policy may list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SampleGrants(Vec<Grant>);

/// `None` for all resources of the group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Grant {
    group: String,
    resource: Option<String>,
}

impl SampleGrants {
    /// Adds a text of the configuration.
    ///
    /// # Errors
    /// The reason why the text is invalid.
    pub fn add(&mut self, text: &str) -> Result<(), GrantError> {
        if text == "*" {
            return Err(GrantError("a permission for everything would include Secrets: name groups, for example \"*.example.com\"".to_owned()));
        }
        let (resource, group) = text.split_once('.').unwrap_or((text, ""));
        let all = resource == "*";
        let is_group = group.contains('.') && names::is_subdomain(group);
        if !is_group || !(all || names::is_label(resource)) {
            return Err(GrantError(format!(
                "{text:?} is not a custom resource: write widgets.example.com, or \"*.example.com\" for all resources of a group"
            )));
        }
        let resource = (!all).then(|| resource.to_owned());
        self.0.push(Grant { group: group.to_owned(), resource });
        Ok(())
    }

    /// Whether nothing is granted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a resource may be listed.
    #[must_use]
    pub fn allows(&self, resource: &Resource) -> bool {
        self.0.iter().any(|grant| {
            grant.group == resource.group
                && grant.resource.as_ref().is_none_or(|granted| *granted == resource.resource)
        })
    }

    /// API groups, each with its resources, or `*`, as in a role.
    pub fn rules(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|grant| (&*grant.group, grant.resource.as_deref().unwrap_or("*")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_resources_of_groups_are_granted() {
        let mut grants = SampleGrants::default();
        for text in ["widgets.example.com", "*.stable.example.com"] {
            grants.add(text).unwrap();
        }
        for (group, resource, is_granted) in [
            ("example.com", "widgets", true),
            ("example.com", "gadgets", false),
            ("stable.example.com", "anything", true),
            ("more.stable.example.com", "anything", false),
            ("", "widgets", false),
        ] {
            let (group, version) = (group.to_owned(), "v1".to_owned());
            let resource = Resource { group, version, resource: resource.to_owned() };
            assert_eq!(grants.allows(&resource), is_granted, "{resource}");
        }
    }

    #[test]
    fn grants_for_other_than_custom_resources_are_rejected() {
        for text in [
            "",
            "*",
            "secrets",
            "*.",
            "*.com",
            "widgets.com",
            "*.*.com",
            "Widgets.example.com",
            "a/b.example.com",
            "..",
            "*.example.com.",
        ] {
            assert!(SampleGrants::default().add(text).is_err(), "{text}");
        }
    }
}
