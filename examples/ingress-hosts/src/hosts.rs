//! The hosts of an Ingress.

use std::collections::BTreeSet;

use opgate_sdk::Document;

/// A host, and the first rule that has it.
#[derive(Debug)]
pub(crate) struct Host {
    /// `shop.example.com` or `*.example.com`.
    pub(crate) name: String,
    rule: usize,
}

impl Host {
    pub(crate) fn field(&self) -> String {
        format!("spec.rules[{}].host", self.rule)
    }

    pub(crate) fn is_wildcard(&self) -> bool {
        self.name.starts_with("*.")
    }

    /// Returns the wildcard that covers it: a wildcard matches exactly one label.
    pub(crate) fn wildcard(&self) -> Option<String> {
        let (_, parent) = self.name.split_once('.').filter(|_| !self.is_wildcard())?;
        Some(format!("*.{parent}"))
    }
}

/// Returns the hosts, each once. API servers admit lower case only, so that equal texts are equal hosts.
pub(crate) fn hosts(ingress: &Document) -> Vec<Host> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for (rule, row) in ingress.rows("/spec/rules", &["/host"]).iter().enumerate() {
        if let Some(host) = row.text(0).filter(|host| !host.is_empty())
            && seen.insert(host.to_owned())
        {
            found.push(Host { name: host.to_owned(), rule });
        }
    }
    found
}
