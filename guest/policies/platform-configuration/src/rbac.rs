//! The rules of a ClusterRole, and the permissions of one role that others grant.
//!
//! ```text
//! role ─▶ each verb on each resource ──────────────────────┐
//! roles of the cluster ─▶ each verb on each resource ──────┴▶ Coverage: the missing permissions
//! ```
//!
//! A role may list thousands of verbs, groups and resources, and every combination counts. A role
//! with too many combinations has no result.

use std::collections::HashMap;

use opgate_compat::json::{self, Kind};
use opgate_sdk::Document;

/// Maximum number of combinations of one role to compare. The largest role of Kubernetes has 1,200.
const MAX_PERMISSIONS: usize = 10_000;
/// Maximum steps of one comparison. A million steps take about 10 ms.
const MAX_STEPS: usize = 500_000;
/// Maximum bytes of the rules of a role, and of all roles with which it is compared. The memory of
/// a call holds about 30 times as many bytes, and a short text takes ten times its size.
const MAX_OWN_BYTES: u32 = 512 << 10;
const MAX_OTHER_BYTES: u32 = 768 << 10;

/// A rule of a role.
#[derive(Debug, Default)]
pub(crate) struct Grant {
    groups: Vec<String>,
    resources: Vec<String>,
    verbs: Vec<String>,
    /// Names of the objects; all objects if empty.
    names: Vec<String>,
}

/// The remaining bytes to read.
pub(crate) struct ReadBudget(u32);

impl ReadBudget {
    /// For the rules of one role.
    pub(crate) fn for_own_role() -> Self {
        Self(MAX_OWN_BYTES)
    }

    /// For the rules of all queried roles of the cluster.
    pub(crate) fn for_other_roles() -> Self {
        Self(MAX_OTHER_BYTES)
    }
}

/// The rules of a role; none if they are too large.
pub(crate) fn read_grants(role: &Document, budget: &mut ReadBudget) -> Option<Vec<Grant>> {
    const RULES: &str = "/rules";
    budget.0 = budget.0.checked_sub(role.size(RULES).unwrap_or_default())?;
    let raw = role.raw(RULES).unwrap_or_default();
    let mut grants = Vec::new();
    // The host has checked that it is JSON.
    let _ = json::each_child(&raw, |rule| {
        let mut grant = Grant::default();
        if rule.key.is_none() {
            let _ = json::each_child(rule.raw, |member| {
                let list = match member.key.map(json::decode_text).as_deref() {
                    Some("apiGroups") => &mut grant.groups,
                    Some("resources") => &mut grant.resources,
                    Some("verbs") => &mut grant.verbs,
                    Some("resourceNames") => &mut grant.names,
                    _ => return,
                };
                *list = texts(member.raw);
            });
            grants.push(grant);
        }
    });
    Some(grants)
}

fn texts(raw: &[u8]) -> Vec<String> {
    let mut texts = Vec::new();
    let _ = json::each_child(raw, |item| {
        if item.key.is_none() && item.kind == Kind::Text {
            texts.push(json::text(item.raw));
        }
    });
    texts
}

fn has(list: &[String], text: &str) -> bool {
    list.iter().any(|one| one == "*" || one == text)
}

/// One verb on one resource.
#[derive(Debug)]
pub(crate) struct RequiredPermission<'g> {
    /// Index of the rule, and of the verb in it.
    pub(crate) position: (usize, usize),
    grant: &'g Grant,
    group: &'g str,
    resource: &'g str,
    pub(crate) verb: &'g str,
}

impl RequiredPermission<'_> {
    /// `crontabs.stable.example.com`, as `kubectl` writes resources.
    pub(crate) fn resource(&self) -> String {
        if self.group.is_empty() {
            self.resource.to_owned()
        } else {
            format!("{}.{}", self.resource, self.group)
        }
    }
}

/// The permissions of a role, each combination once for each rule; none if there are too many.
pub(crate) fn required_permissions(grants: &[Grant]) -> Option<Vec<RequiredPermission<'_>>> {
    let count = |grant: &Grant| {
        grant.groups.len().saturating_mul(grant.resources.len()).saturating_mul(grant.verbs.len())
    };
    let all = grants.iter().map(count).fold(0_usize, usize::saturating_add);
    if all > MAX_PERMISSIONS {
        return None;
    }
    let mut wanted = Vec::with_capacity(all);
    for (index, grant) in grants.iter().enumerate() {
        for (number, verb) in grant.verbs.iter().enumerate() {
            for group in &grant.groups {
                for resource in &grant.resources {
                    let place = (index, number);
                    wanted.push(RequiredPermission {
                        position: place,
                        grant,
                        group,
                        resource,
                        verb,
                    });
                }
            }
        }
    }
    Some(wanted)
}

/// The permissions that are not granted yet.
pub(crate) struct Coverage<'w> {
    required: &'w [RequiredPermission<'w>],
    is_granted: Vec<bool>,
    by_resource: HashMap<&'w str, Vec<usize>>,
    remaining_steps: usize,
}

impl<'w> Coverage<'w> {
    pub(crate) fn new(wanted: &'w [RequiredPermission<'w>]) -> Self {
        let mut by_resource: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, one) in wanted.iter().enumerate() {
            by_resource.entry(one.resource).or_default().push(index);
        }
        Self {
            required: wanted,
            is_granted: vec![false; wanted.len()],
            by_resource,
            remaining_steps: MAX_STEPS,
        }
    }

    /// The required resources, and those that match all.
    pub(crate) fn resources(&self) -> Vec<String> {
        let own = self.by_resource.keys().map(|resource| (*resource).to_owned());
        let subs = self.by_resource.keys().filter_map(|resource| resource.split_once('/'));
        let mut all: Vec<_> = own.chain(subs.map(|(_, sub)| format!("*/{sub}"))).collect();
        all.push("*".to_owned());
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Subtracts the rules of a role. Returns whether there are steps left.
    pub(crate) fn add(&mut self, grants: &[Grant]) -> bool {
        grants.iter().all(|grant| self.add_one(grant).is_some())
    }

    fn spend(&mut self, steps: usize) -> Option<()> {
        self.remaining_steps = self.remaining_steps.checked_sub(steps)?;
        Some(())
    }

    fn add_one(&mut self, grant: &Grant) -> Option<()> {
        self.spend(grant.resources.len().saturating_add(1))?;
        for resource in &grant.resources {
            let indexes: Vec<usize> = if resource == "*" {
                (0..self.required.len()).collect()
            } else if let Some(sub) = resource.strip_prefix("*/") {
                self.spend(self.by_resource.len())?;
                let is_sub = |wanted: &&str| wanted.split_once('/').is_some_and(|(_, s)| s == sub);
                let found = self.by_resource.iter().filter(|(wanted, _)| is_sub(wanted));
                found.flat_map(|(_, indexes)| indexes.iter().copied()).collect()
            } else {
                self.by_resource.get(resource.as_str()).cloned().unwrap_or_default()
            };
            let each = grant.groups.len().saturating_add(grant.verbs.len()).saturating_add(1);
            self.spend(indexes.len().saturating_mul(each))?;
            for index in indexes {
                let Some(one) = self.required.get(index) else { continue };
                if !has(&grant.groups, one.group) || !has(&grant.verbs, one.verb) {
                    continue;
                }
                if !grant.names.is_empty() {
                    let names = &one.grant.names;
                    self.spend(names.len().saturating_mul(grant.names.len()))?;
                    let is_within = |name: &String| grant.names.contains(name);
                    if names.is_empty() || !names.iter().all(is_within) {
                        continue;
                    }
                }
                if let Some(is_granted) = self.is_granted.get_mut(index) {
                    *is_granted = true;
                }
            }
        }
        Some(())
    }

    /// The missing permissions, each verb on each resource once.
    pub(crate) fn missing(&self) -> Vec<&'w RequiredPermission<'w>> {
        let mut known = std::collections::HashSet::new();
        let all = self.required.iter().zip(&self.is_granted);
        let missing = all.filter(|(_, is_granted)| !**is_granted).map(|(wanted, _)| wanted);
        missing.filter(|one| known.insert((one.group, one.resource, one.verb))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(rules: &str) -> Vec<Grant> {
        read_grants(
            &Document::parse(&format!(r#"{{"rules":{rules}}}"#)).unwrap(),
            &mut ReadBudget::for_own_role(),
        )
        .unwrap()
    }

    fn missing(wants: &str, has: &str) -> Vec<String> {
        let wants = role(wants);
        let wanted = required_permissions(&wants).unwrap();
        let mut coverage = Coverage::new(&wanted);
        assert!(coverage.add(&role(has)));
        coverage.missing().iter().map(|one| format!("{} {}", one.verb, one.resource())).collect()
    }

    #[test]
    fn wildcards_and_names_grant_as_in_kubernetes() {
        let get = r#"[{"apiGroups":["a.b"],"resources":["c","c/status"],"verbs":["get"]}]"#;
        let none: [&str; 0] = [];
        for (wants, has, expected) in [
            (get, "[]", &["get c.a.b", "get c/status.a.b"][..]),
            (get, r#"[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]"#, &none),
            (
                get,
                r#"[{"apiGroups":["a.b"],"resources":["*/status"],"verbs":["get"]}]"#,
                &["get c.a.b"],
            ),
            (
                get,
                r#"[{"apiGroups":[""],"resources":["*"],"verbs":["get"]}]"#,
                &["get c.a.b", "get c/status.a.b"],
            ),
            (
                get,
                r#"[{"apiGroups":["a.b"],"resources":["*"],"verbs":["get"],"resourceNames":["x"]}]"#,
                &["get c.a.b", "get c/status.a.b"],
            ),
            (
                r#"[{"apiGroups":[""],"resources":["pods"],"verbs":["get"],"resourceNames":["x"]}]"#,
                r#"[{"apiGroups":[""],"resources":["pods"],"verbs":["get"],"resourceNames":["x","y"]}]"#,
                &none,
            ),
            (
                r#"[{"apiGroups":[""],"resources":["pods"],"verbs":["*"]}]"#,
                r#"[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]"#,
                &["* pods"],
            ),
            (
                r#"[1,null,{"apiGroups":7,"verbs":[7]},{"nonResourceURLs":["/x"],"verbs":["get"]}]"#,
                "{}",
                &none,
            ),
        ] {
            assert_eq!(missing(wants, has), expected, "{wants} {has}");
        }
    }

    #[test]
    fn roles_over_the_limit_are_not_compared() {
        let many = |n: usize| {
            let list: Vec<_> = (0..n).map(|n| format!("\"n{n}\"")).collect();
            list.join(",")
        };
        let all = many(30);
        let grants =
            role(&format!(r#"[{{"apiGroups":[{all}],"resources":[{all}],"verbs":[{all}]}}]"#));
        assert!(required_permissions(&grants).is_none());
        let all = many(20);
        let grants =
            role(&format!(r#"[{{"apiGroups":[{all}],"resources":[{all}],"verbs":[{all}]}}]"#));
        let wanted = required_permissions(&grants).unwrap();
        let mut coverage = Coverage::new(&wanted);
        assert!(coverage.add(&grants));
        assert!(coverage.missing().is_empty());
        assert!(!coverage.add(&grants) || !coverage.add(&grants));
    }
}
