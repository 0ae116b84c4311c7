//! An OperatorGroup among what else there is in the cluster: OPG-01 to OPG-03, OPG-11 and OPG-15 to
//! OPG-18.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use opgate_sdk::cluster::{Match, Query, ReadError};
use opgate_sdk::conventions::is_terminating;
use opgate_sdk::go::quote;
use opgate_sdk::{Document, Level, Shape};

use crate::Review;
use crate::apis::ApiSet;
use crate::findings::{Findings, MOST};
use crate::groups::{PROVIDED_APIS, STATIC, Selection, reach};
use crate::install_modes::InstallModes;
use crate::namespaces::NamespaceSet;
use crate::reads::{CLUSTER_ROLES, CSVS, GROUPS, NAMESPACES, SERVICE_ACCOUNTS};
use crate::{rivals, targets, texts};

/// Name of another group, as far as a message names them.
const SHOWN: usize = 3;

pub(crate) fn judge(review: &Review<'_>, object: &Document, findings: &mut Findings<'_>) {
    let group = Group { review, object, keeps_targets: OnceCell::new(), targets: OnceCell::new() };
    if review.creates() {
        group.only_one(findings);
        group.unique_name(findings);
    }
    group.annotation(findings);
    group.account(findings);
    group.members(findings);
    group.conflict(findings);
    group.selects_something(findings);
}

/// The group under review.
struct Group<'r> {
    review: &'r Review<'r>,
    object: &'r Document,
    /// Both are found out once, and only where a rule asks.
    keeps_targets: OnceCell<bool>,
    targets: OnceCell<Result<NamespaceSet, ReadError>>,
}

impl Group<'_> {
    /// Whether the UPDATE leaves what the group selects as it is.
    fn keeps_targets(&self) -> bool {
        *self.keeps_targets.get_or_init(|| {
            self.review.updates_from().is_some_and(|old| Selection::is_same(old, self.object))
        })
    }

    /// The targets that the group will have. A status counts as long as the spec is the one that it
    /// belongs to.
    fn targets(&self) -> Result<&NamespaceSet, ReadError> {
        let found = self.targets.get_or_init(|| {
            if self.keeps_targets() || targets::only_status(self.object).is_some() {
                targets::of(self.object)
            } else {
                targets::selected(Selection::of(self.object))
            }
        });
        found.as_ref().map_err(Clone::clone)
    }

    /// OPG-01: a namespace holds one group.
    fn only_one(&self, findings: &mut Findings<'_>) {
        if !findings.is_on("OPG-01") {
            return;
        }
        let namespace = self.review.namespace();
        let name = self.review.name(self.object);
        let mut others = Vec::new();
        let query = Query { namespace: Some(namespace), ..Query::default() };
        let asked = GROUPS.each(query, |other| {
            let other_name = other.text_or_empty("/metadata/name");
            // One that is about to change may be shown as it is and as it will be.
            if other_name != name && others.last() != Some(&other_name) {
                others.push(other_name);
            }
            true
        });
        if findings.answer(&["OPG-01"], "OperatorGroups", asked).is_none() || others.is_empty() {
            return;
        }
        let them = if others.len() == 1 {
            "delete it first, or change it instead of creating another"
        } else {
            "delete them first, or change one of them instead of creating another"
        };
        let message = format!(
            "Multiple OperatorGroup found in the same namespace: {namespace} already has {}; {them}",
            texts::some(&others, SHOWN)
        );
        findings.add(
            Level::Deny,
            "MultipleOperatorGroupsFound",
            "OPG-01",
            "metadata.namespace",
            message,
        );
    }

    /// OPG-02 and OPG-03: the name belongs to one group and the ClusterRoles that OLM makes for it,
    /// where the profile's edition says so.
    fn unique_name(&self, findings: &mut Findings<'_>) {
        let settings = self.review.settings;
        let by_profile =
            || matches!(settings.text_or_empty("/profile").as_str(), "ocp-4.12" | "ocp-4.5");
        let unique = settings.boolean("/operatorGroup/uniqueNames").unwrap_or_else(by_profile);
        // Who sets the level of a rule wants it, whatever the profile.
        let wanted = |rule: &str| findings.is_on(rule) && (unique || findings.is_enabled(rule));
        let (by_group, by_role) = (wanted("OPG-02"), wanted("OPG-03"));
        let name = self.review.name(self.object);
        let text = format!(
            "operator group {}: you must specify a unique name that does not conflict with the existing cluster roles or other Operator groups on the cluster",
            quote(&name)
        );
        if by_group {
            let names = [name.clone()];
            let matches = [Match { index: "name", values: &names, absent: false }];
            let mut taken = false;
            let asked = GROUPS.each(Query { matches: &matches, ..Query::default() }, |other| {
                taken = other.text_or_empty("/metadata/namespace") != self.review.namespace();
                !taken
            });
            if findings.answer(&["OPG-02"], "OperatorGroups", asked).is_some() && taken {
                findings.deny("OPG-02", "metadata.name", text.as_str());
            }
        }
        if !by_role {
            return;
        }
        for verb in ["admin", "edit", "view"] {
            let role = format!("{name}-{verb}");
            let Some(found) =
                findings.answer(&["OPG-03"], "ClusterRoles", CLUSTER_ROLES.get("", &role))
            else {
                return;
            };
            if found.is_some_and(|found| !is_left_over(&found, &name)) {
                let message = format!("{text} (ClusterRole {} exists)", quote(&role));
                findings.deny("OPG-03", "metadata.name", message);
            }
        }
    }

    /// Who is not OLM and writes what OLM writes is told apart from OLM by a list, and the list may
    /// be wrong.
    fn annotation(&self, findings: &mut Findings<'_>) {
        let changed = |old: &Document| !self.object.equal(PROVIDED_APIS, old, PROVIDED_APIS);
        if self.review.updates_from().is_some_and(changed)
            && self.object.boolean(STATIC) != Some(true)
            && !self.review.is_olms()
        {
            findings.unlisted(self.review.request, "writes olm.providedAPIs");
        }
    }

    /// OPG-15: the ServiceAccount is there.
    fn account(&self, findings: &mut Findings<'_>) {
        let pointer = "/spec/serviceAccountName";
        let account = self.object.text_or_empty(pointer);
        if account.is_empty()
            || !self.review.touches(self.object, pointer, &Shape::Scalar)
            || !findings.is_on("OPG-15")
        {
            return;
        }
        let found = SERVICE_ACCOUNTS.get(self.review.namespace(), &account);
        if let Some(None) = findings.answer(&["OPG-15"], "ServiceAccounts", found) {
            let message = format!("ServiceAccount {account} not found");
            findings.add(
                Level::Deny,
                "ServiceAccountNotFound",
                "OPG-15",
                "spec.serviceAccountName",
                message,
            );
        }
    }

    /// OPG-16 and OPG-17: the members that are there already support the targets.
    fn members(&self, findings: &mut Findings<'_>) {
        let rule = if self.review.creates() { "OPG-17" } else { "OPG-16" };
        if !findings.is_on(rule) || self.keeps_targets() {
            return;
        }
        let namespace = self.review.namespace();
        let mut members = Vec::new();
        // Without copies: they carry a label, and what only has the reason of one is none. Whoever
        // writes the status would otherwise hide a member, change the group, and show it again.
        let query = Query { namespace: Some(namespace), ..Query::default() };
        let asked = CSVS.each(query, |csv| {
            if !is_terminating(&csv) {
                members.push((csv.text_or_empty("/metadata/name"), InstallModes::of(&csv)));
            }
            true
        });
        let asked = findings.answer(&[rule], "ClusterServiceVersions", asked);
        if asked.is_none() || members.is_empty() {
            return;
        }
        let Some(new) = findings.answer(&[rule], "Namespaces", self.targets()) else { return };
        // Without targets the members wait for some: OPG-11.
        if new.is_empty() {
            return;
        }
        let new_names: Vec<_> = new.iter().map(String::as_str).collect();
        let Some(old) = self.review.updates_from() else {
            let unsupported = members.iter().filter_map(|(name, modes)| {
                let why = modes.supports(namespace, &new_names).err()?;
                Some(format!("csv {name}: {why} (UnsupportedOperatorGroup)"))
            });
            for message in unsupported.take(MOST) {
                findings.warn("OPG-17", "spec", message);
            }
            return;
        };
        // Not what the status adds: somebody may have written it for this.
        let old = targets::selected(Selection::of(old));
        let Some(old) = findings.answer(&[rule], "Namespaces", old) else { return };
        if old == *new {
            return;
        }
        let old_names: Vec<_> = old.iter().map(String::as_str).collect();
        let lost =
            members.iter().filter(|(_, modes)| modes.supports(namespace, &old_names).is_ok());
        let mut reasons: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, modes) in lost {
            if let Err(why) = modes.supports(namespace, &new_names) {
                reasons.entry(why).or_default().push(name.clone());
            }
        }
        for (why, names) in reasons {
            let message = format!("{why} (csv {})", texts::some(&names, SHOWN));
            let word = "UnsupportedOperatorGroup";
            findings.add(Level::Deny, word, "OPG-16", "spec.targetNamespaces", message);
        }
    }

    /// OPG-18: no other group provides the same APIs in the same namespaces.
    fn conflict(&self, findings: &mut Findings<'_>) {
        if !findings.is_on("OPG-18") {
            return;
        }
        let review = self.review;
        let mut apis = ApiSet::parse(&self.object.text_or_empty(PROVIDED_APIS));
        let mut level = Level::Deny;
        if let Some(old) = review.updates_from() {
            let is_static = |group: &Document| group.boolean(STATIC).unwrap_or_default();
            let old_apis = ApiSet::parse(&old.text_or_empty(PROVIDED_APIS));
            let same_spec = self.keeps_targets() && is_static(old) == is_static(self.object);
            if same_spec && review.spares().is_some() {
                // What has been there before is not brought by this change.
                apis = apis.iter().filter(|api| !old_apis.contains(api)).cloned().collect();
            }
            if same_spec
                && !is_static(self.object)
                && !self.object.equal(PROVIDED_APIS, old, PROVIDED_APIS)
                && review.is_olms()
            {
                // OLM's writes are never refused, whatever the level.
                if review.conventions.denies("OPG-18", false) {
                    return;
                }
                level = Level::Warn;
            }
        }
        if apis.is_empty() {
            return;
        }
        let needed = "OperatorGroups and Namespaces";
        let own = review.name(self.object);
        let namespace = review.namespace();
        let rivals = self
            .targets()
            .and_then(|targets| rivals::find((namespace, &own), &reach(targets, namespace), &apis));
        let Some(rivals) = findings.answer(&["OPG-18"], needed, rivals) else { return };
        if !rivals.is_empty() {
            if level == Level::Deny && self.brings_nothing(&apis) {
                // A step towards repair. Where the level is set, the host would make it a denial.
                if review.conventions.denies("OPG-18", false) {
                    return;
                }
                level = Level::Warn;
            }
            let message = rivals::message(&rivals);
            let field = if review.creates() || self.keeps_targets() {
                "metadata.annotations[olm.providedAPIs]"
            } else {
                "spec"
            };
            findings.add(level, rivals::CONFLICT, "OPG-18", field, message);
        }
    }

    /// Whether an UPDATE leaves the group with no more APIs and namespaces than it has had: whatever
    /// conflict there is was there before.
    fn brings_nothing(&self, apis: &ApiSet) -> bool {
        let Some(old) = self.review.spares() else { return false };
        let is_static = |group: &Document| group.boolean(STATIC).unwrap_or_default();
        let old_apis = ApiSet::parse(&old.text_or_empty(PROVIDED_APIS));
        let namespace = self.review.namespace();
        // Not what the status adds: somebody may have written it for this.
        let old_targets = || targets::selected(Selection::of(old));
        let narrower = || match (self.targets(), old_targets()) {
            (Ok(new), Ok(old)) => reach(new, namespace).is_within(&reach(&old, namespace)),
            _ => false,
        };
        is_static(old) == is_static(self.object)
            && apis.iter().all(|api| old_apis.contains(api))
            && narrower()
    }

    /// OPG-11: the selector finds a Namespace.
    fn selects_something(&self, findings: &mut Findings<'_>) {
        let Selection::Labels(labels) = Selection::of(self.object) else { return };
        if !self.review.touches_json(self.object, "/spec") || !findings.is_on("OPG-11") {
            return;
        }
        if self.review.spares().is_some() && self.keeps_targets() {
            return;
        }
        // Whether there is one costs less than which ones there are, unless that is known.
        let query = Query { labels: Some(&labels), ..Query::default() };
        let any = match self.targets.get() {
            Some(Ok(targets)) => Ok(!targets.is_empty()),
            _ => NAMESPACES.any(query),
        };
        if findings.answer(&["OPG-11"], "Namespaces", any) == Some(false) {
            let message = "no targetNamespaces are matched operatorgroups namespace selection";
            findings.warn("OPG-11", "spec.selector", message);
        }
    }
}

/// Whether a ClusterRole is what OLM made for an earlier group of this name.
fn is_left_over(role: &Document, name: &str) -> bool {
    role.items("/aggregationRule/clusterRoleSelectors").any(|selector| {
        ["admin", "edit", "view"].iter().any(|verb| {
            let label = format!("/matchLabels/olm.opgroup.permissions~1aggregate-to-{verb}");
            selector.text(&label).is_some_and(|value| value == name)
        })
    })
}
