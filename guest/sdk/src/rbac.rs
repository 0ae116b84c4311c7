//! Rules of the permissions that a `ClusterServiceVersion` requests.
//!
//! ```text
//! permissions, clusterPermissions ─▶ JSON text ─▶ each rule, in place ─▶ grants?
//! ```
//!
//! A rule is four lists of texts, and an Operator can have thousands of rules: a call of the host
//! for each list would cost more than to walk the text once. Nothing is copied.

use std::borrow::Cow;

use opgate_compat::json::{self, Child};

use crate::Document;

/// One of the two lists in `spec.install.spec`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permissions {
    /// Granted in the namespaces of the Operator.
    Namespaced,
    /// Granted in the whole cluster.
    Cluster,
}

impl Permissions {
    /// Returns the name of the list.
    #[must_use]
    pub fn member(self) -> &'static str {
        match self {
            Self::Namespaced => "permissions",
            Self::Cluster => "clusterPermissions",
        }
    }
}

/// A rule, as it stands in the text.
#[derive(Debug, Clone, Copy)]
pub struct PolicyRule<'j> {
    /// The service account, as JSON.
    account: &'j [u8],
    groups: &'j [u8],
    resources: &'j [u8],
    verbs: &'j [u8],
    resource_names: &'j [u8],
    list: Permissions,
    permission: usize,
    index: usize,
}

/// Calls `visit` with each rule of a list, until it returns `false`.
pub fn each(csv: &Document, list: Permissions, mut visit: impl FnMut(&PolicyRule<'_>) -> bool) {
    let Some(raw) = csv.raw(&format!("/spec/install/spec/{}", list.member())) else { return };
    let mut goes_on = true;
    each_item(&raw, |permission, item| {
        let [account, rules] = members(item.raw, ["serviceAccountName", "rules"]);
        each_item(rules, |index, rule| {
            let [groups, resources, verbs, names] =
                members(rule.raw, ["apiGroups", "resources", "verbs", "resourceNames"]);
            let rule = PolicyRule {
                account,
                groups,
                resources,
                verbs,
                resource_names: names,
                list,
                permission,
                index,
            };
            goes_on = goes_on && visit(&rule);
        });
    });
}

/// Visits the elements of a list. The host has checked that it is JSON.
fn each_item<'j>(raw: &'j [u8], mut visit: impl FnMut(usize, Child<'j>)) {
    let mut index = 0_usize;
    let _ = json::each_child(raw, |child| {
        if child.key.is_none() {
            visit(index, child);
            index = index.saturating_add(1);
        }
    });
}

/// Returns the members of these names; the last one of a name counts.
fn members<'j, const N: usize>(raw: &'j [u8], names: [&str; N]) -> [&'j [u8]; N] {
    let mut found: [&[u8]; N] = [&[]; N];
    let _ = json::each_child(raw, |child| {
        for (name, found) in names.iter().zip(&mut found) {
            if child.is_named(name) {
                *found = child.raw;
            }
        }
    });
    found
}

impl PolicyRule<'_> {
    /// Returns the field of the rule.
    #[must_use]
    pub fn field(&self) -> String {
        let list = self.list.member();
        format!("spec.install.spec.{list}[{}].rules[{}]", self.permission, self.index)
    }

    /// Returns the service account that gets it, empty if the permission names none.
    #[must_use]
    pub fn account(&self) -> Cow<'_, str> {
        if self.account.starts_with(b"\"") { json::decode_text(self.account) } else { "".into() }
    }

    /// Reports whether it applies to all objects, and not to those of certain names.
    #[must_use]
    pub fn is_unnamed(&self) -> bool {
        !any(self.resource_names, |_| true)
    }

    /// Reports whether its API groups have one of these.
    #[must_use]
    pub fn has_group(&self, groups: &[&str]) -> bool {
        any(self.groups, |group| groups.contains(&group))
    }

    /// Reports whether its resources have one of these.
    #[must_use]
    pub fn has_resource(&self, resources: &[&str]) -> bool {
        any(self.resources, |resource| resources.contains(&resource))
    }

    /// Reports whether its verbs have one of these.
    #[must_use]
    pub fn has_verb(&self, verbs: &[&str]) -> bool {
        any(self.verbs, |verb| verbs.contains(&verb))
    }
}

/// Reports whether a list contains a matching text.
fn any(list: &[u8], mut is_wanted: impl FnMut(&str) -> bool) -> bool {
    let mut found = false;
    each_item(list, |_, item| {
        found = found || (item.kind == json::Kind::Text && is_wanted(&json::decode_text(item.raw)));
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_found_in_place() {
        let csv = Document::parse(
            r#"{"spec":{"install":{"spec":{"clusterPermissions":[
                7, {"rules":[{"apiGroups":["","apps"],"resources":["pods"],"verbs":["g\u0065t"]}, null],
                    "serviceAccountName":"a"},
                {"rules":{"x":{"verbs":["get"]}}},
                {"serviceAccountName":"b","rules":[{"apiGroups":["*"],"resourceNames":["n"],"verbs":[1]}]}
            ]}}}}"#,
        )
        .unwrap();
        let mut found = Vec::new();
        each(&csv, Permissions::Cluster, |rule| {
            let has = [
                rule.account() == "a",
                rule.has_group(&["apps"]),
                rule.has_resource(&["pods", "nodes"]),
                rule.has_verb(&["get"]),
                rule.is_unnamed(),
            ];
            found.push((rule.field(), has));
            true
        });
        let at = |permission: usize, rule: usize| {
            format!("spec.install.spec.clusterPermissions[{permission}].rules[{rule}]")
        };
        assert_eq!(
            found,
            [
                (at(1, 0), [true; 5]),
                (at(1, 1), [true, false, false, false, true]),
                (at(3, 0), [false, false, false, false, false]),
            ]
        );
        each(&csv, Permissions::Namespaced, |_| panic!("there are none"));
        let mut seen = 0;
        each(&csv, Permissions::Cluster, |_| {
            seen += 1;
            false
        });
        assert_eq!(seen, 1);
    }
}
