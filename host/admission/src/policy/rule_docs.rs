//! The documentation of the rules of a policy set, for a server that shows it.

use std::collections::BTreeMap;

use super::config::{Configuration, rule_page};
use super::{Docs, Mode};

/// Maximum bytes of the documentation of all policies. That of further policies is not kept.
const MAX_DOCS_BYTES: usize = 8 << 20;

/// The documentation of the rules of all policies, and the addresses of their pages.
#[derive(Debug, Default)]
pub struct RuleDocs {
    by_policy: BTreeMap<String, Docs>,
    docs_url: Option<String>,
}

impl RuleDocs {
    /// Reads the documentation from the components of a configuration. A component that cannot be read
    /// has none.
    #[must_use]
    pub fn of(configuration: &Configuration) -> Self {
        let mut by_policy = BTreeMap::new();
        let mut room = MAX_DOCS_BYTES;
        for policy in configuration.policies.iter().filter(|policy| policy.mode != Mode::Off) {
            let docs = configuration.docs_of(&policy.module).unwrap_or_default();
            let bytes = docs.iter().map(|(id, text)| id.len() + text.len()).sum();
            if let Some(left) = room.checked_sub(bytes) {
                room = left;
                by_policy.insert(policy.name.clone(), docs);
            }
        }
        Self { by_policy, docs_url: configuration.docs_url().map(str::to_owned) }
    }

    /// Returns the documentation of a rule, in Markdown.
    #[must_use]
    pub fn text(&self, policy: &str, rule: &str) -> Option<&str> {
        self.by_policy.get(policy)?.get(rule).map(String::as_str)
    }

    /// Returns the address of the page of a rule, see [`Configuration::page_of`]. `policy` is the name
    /// in the descriptor.
    #[must_use]
    pub fn page_of(&self, policy: &str, rule: &str) -> Option<String> {
        self.docs_url.as_deref().map(|url| rule_page(url, policy, rule))
    }
}
