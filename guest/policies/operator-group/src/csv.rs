//! A ClusterServiceVersion and the OperatorGroup of its namespace: OPG-20 to OPG-27, OPG-30 and
//! OPG-31.
//!
//! ```text
//! groups of the namespace ─┬─ none, several ─▶ OPG-20, OPG-21 (CREATE)
//!                          └─ one ─▶ targets ─▶ OPG-24, install modes, annotations
//!                                       └─ reach ─▶ rivals ─▶ Outcome ─▶ OPG-25, OPG-26, OPG-27
//! ```

use opgate_sdk::cluster::{Query, ReadError};
use opgate_sdk::copies::Marks;
use opgate_sdk::go::quote;
use opgate_sdk::{Document, Level, Shape};

use crate::Review;
use crate::apis::{self, ApiSet};
use crate::findings::Findings;
use crate::groups::{Outcome, PROVIDED_APIS, STATIC, reach, reconcile};
use crate::install_modes::InstallModes;
use crate::namespaces::NamespaceSet;
use crate::reads::GROUPS;
use crate::{copies, grants, owners, rivals, targets, texts};

pub(crate) const MODES: Shape =
    Shape::List(&Shape::Struct(&[("type", Shape::Scalar), ("supported", Shape::Scalar)]));
const TARGET_ANNOTATION: &str = "/metadata/annotations/olm.targetNamespaces";
/// Annotations by which OLM notes the group, OPG-30.
pub(crate) const NOTES: [&str; 3] =
    ["olm.operatorGroup", "olm.operatorNamespace", "olm.targetNamespaces"];

/// OLM's word for a member that a static group does not provide for.
const STATIC_GROUP: &str = "CannotModifyStaticOperatorGroupProvidedAPIs";
/// Names of groups, and APIs, that a message has.
const SHOWN: usize = 5;

pub(crate) fn judge(review: &Review<'_>, object: &Document, findings: &mut Findings<'_>) {
    let namespace = review.namespace();
    let marks = Marks::of(object, namespace);
    if marks.are_outright() {
        copied(review, object, findings);
    }
    let claim = copies::examine(review, object, &marks, findings);
    let review = Review { old: claim.old, ..*review };
    if !claim.is_exempt {
        Member::of(&review, object).judge(findings);
        owners::judge(&review, object, findings);
    }
    if !claim.is_olms {
        grants::csv(&review, object, findings);
    }
}

/// OPG-31: a copy does not tell one tenant about the namespaces of another.
fn copied(review: &Review<'_>, object: &Document, findings: &mut Findings<'_>) {
    let was_so = |old: &Document| {
        Marks::of(old, review.namespace()).are_outright() && old.has(TARGET_ANNOTATION)
    };
    if object.has(TARGET_ANNOTATION) && !review.spares().is_some_and(was_so) {
        let message = "copied CSV must not carry the olm.targetNamespaces annotation";
        findings.warn("OPG-31", "metadata.annotations[olm.targetNamespaces]", message);
    }
}

/// The ClusterServiceVersion under review, with what of it is to be judged.
struct Member<'r> {
    review: &'r Review<'r>,
    /// Its install modes, unless they are as before.
    modes: Option<InstallModes>,
    /// What it provides; nothing where that is as before.
    apis: ApiSet,
    /// Annotations that name the group, as far as they are new.
    notes: Vec<(&'static str, String)>,
}

impl<'r> Member<'r> {
    fn of(review: &'r Review<'r>, object: &Document) -> Self {
        let modes = review.touches(object, "/spec/installModes", &MODES);
        let owned = ["/spec/customresourcedefinitions/owned", "/spec/apiservicedefinitions/owned"];
        let mut apis = ApiSet::default();
        if owned.iter().any(|pointer| review.touches_json(object, pointer)) {
            apis = ApiSet::of_csv(object);
            if review.spares().is_some_and(|old| ApiSet::of_csv(old) == apis) {
                apis = ApiSet::default();
            }
        }
        let note = |key: &'static str| {
            let pointer = format!("/metadata/annotations/{key}");
            let text = object.text(&pointer)?;
            review.touches_json(object, &pointer).then_some((key, text))
        };
        Self {
            review,
            modes: modes.then(|| InstallModes::of(object)),
            apis,
            notes: NOTES.into_iter().filter_map(note).collect(),
        }
    }

    /// The rules that have something to look at, for what is left out without a cluster.
    fn rules(&self, findings: &Findings<'_>) -> Vec<&'static str> {
        let mut rules = Vec::new();
        if self.review.creates() {
            rules.extend(["OPG-20", "OPG-21", "OPG-24"]);
        }
        match &self.modes {
            Some(modes) if modes.is_empty() => rules.push("OPG-23"),
            Some(_) => rules.push("OPG-22"),
            None => {}
        }
        if !self.apis.is_empty() {
            rules.extend(["OPG-25", "OPG-26", "OPG-27"]);
        }
        if !self.notes.is_empty() {
            rules.push("OPG-30");
        }
        rules.retain(|rule| findings.is_on(rule));
        rules
    }

    fn judge(&self, findings: &mut Findings<'_>) {
        let mut rules = self.rules(findings);
        if rules.is_empty() {
            return;
        }
        let groups = groups(self.review.namespace());
        let Some((first, names)) = findings.answer(&rules, "OperatorGroups", groups) else {
            return;
        };
        let Some(group) = first else {
            if self.review.creates() {
                let message = "csv in namespace with no operatorgroups";
                findings.add(
                    Level::Deny,
                    "NoOperatorGroup",
                    "OPG-20",
                    "metadata.namespace",
                    message,
                );
            }
            return;
        };
        if names.len() > 1 {
            if self.review.creates() {
                let message = format!(
                    "csv created in namespace with multiple operatorgroups, can't pick one automatically: {} has {}; delete all but one",
                    self.review.namespace(),
                    texts::some(&names, SHOWN)
                );
                let word = "TooManyOperatorGroups";
                findings.add(Level::Deny, word, "OPG-21", "metadata.namespace", message);
            }
            return;
        }
        rules.retain(|rule| !matches!(*rule, "OPG-20" | "OPG-21"));
        if rules.is_empty() {
            return;
        }
        let targets = targets::of(&group);
        let Some(targets) = findings.answer(&rules, "Namespaces", targets) else { return };
        self.fits(&targets, findings);
        self.noted(&group, &targets, findings);
        self.provides(&group, &targets, findings);
    }

    /// OPG-22, OPG-23 and OPG-24: there are targets, and the install modes support them.
    fn fits(&self, targets: &NamespaceSet, findings: &mut Findings<'_>) {
        if targets.is_empty() {
            if self.review.creates() {
                let message = "no targetNamespaces are matched operatorgroups namespace selection";
                findings.warn("OPG-24", "metadata.namespace", message);
            }
            return;
        }
        let Some(modes) = &self.modes else { return };
        let names: Vec<_> = targets.iter().map(String::as_str).collect();
        let Err(why) = modes.supports(self.review.namespace(), &names) else { return };
        let word = "UnsupportedOperatorGroup";
        if modes.is_empty() {
            let strict =
                self.review.settings.text_or_empty("/operatorGroup/emptyInstallModes") == "deny";
            let level = if strict { Level::Deny } else { Level::Warn };
            let message = format!("spec.installModes is empty: {why}");
            findings.add(level, word, "OPG-23", "spec.installModes", message);
        } else {
            findings.add(Level::Deny, word, "OPG-22", "spec.installModes", why);
        }
    }

    /// OPG-30: the annotations, where they are there, name this group and its targets.
    fn noted(&self, group: &Document, targets: &NamespaceSet, findings: &mut Findings<'_>) {
        let namespace = self.review.namespace();
        let name = group.text_or_empty("/metadata/name");
        for (key, text) in &self.notes {
            let expected = match *key {
                "olm.operatorGroup" => name.clone(),
                "olm.operatorNamespace" => namespace.to_owned(),
                // OLM writes no targets as long as there are none.
                _ if targets.is_empty() => continue,
                _ => targets.iter().map(String::as_str).collect::<Vec<_>>().join(","),
            };
            if *text != expected {
                let (text, expected) = (quote(text), quote(&expected));
                let message = format!(
                    "annotation {key} is {text}, expected {expected} from operator group {namespace}/{name}"
                );
                findings.warn("OPG-30", &format!("metadata.annotations[{key}]"), message);
            }
        }
    }

    /// OPG-25, OPG-26 and OPG-27: what OLM will do with the APIs.
    fn provides(&self, group: &Document, targets: &NamespaceSet, findings: &mut Findings<'_>) {
        let rules = ["OPG-25", "OPG-26", "OPG-27"];
        if self.apis.is_empty() || !rules.iter().any(|rule| findings.is_on(rule)) {
            return;
        }
        let namespace = self.review.namespace();
        let name = group.text_or_empty("/metadata/name");
        let rivals = rivals::find((namespace, &name), &reach(targets, namespace), &self.apis);
        let Some(rivals) = findings.answer(&rules, "OperatorGroups and Namespaces", rivals) else {
            return;
        };
        let provided = ApiSet::parse(&group.text_or_empty(PROVIDED_APIS));
        let outcome = reconcile(&self.apis, &provided, !rivals.is_empty());
        let field = "spec.customresourcedefinitions.owned";
        let is_static = group.boolean(STATIC) == Some(true);
        let mut fixed = |detail: String| {
            let message = format!(
                "static provided api operatorgroup cannot be modified by these apis: {detail} ({STATIC_GROUP})"
            );
            findings.add(Level::Deny, STATIC_GROUP, "OPG-27", field, message);
        };
        match outcome {
            Outcome::Add if is_static => {
                let missing =
                    self.apis.iter().filter(|api| !provided.contains(api)).cloned().collect();
                fixed(format!(
                    "OperatorGroup {namespace}/{name} is static and does not provide {}; add it to its annotation olm.providedAPIs, or install the Operator in another namespace",
                    apis::some(&missing, SHOWN)
                ));
            }
            Outcome::Remove if is_static => fixed(format!(
                "OperatorGroup {namespace}/{name} is static, and {}; choose other target namespaces, or remove the other Operator or group",
                rivals.tell()
            )),
            Outcome::NoConflict | Outcome::Add => {}
            Outcome::Conflict => {
                let message = rivals::message(&rivals);
                findings.add(Level::Deny, rivals::CONFLICT, "OPG-25", field, message);
            }
            Outcome::Remove => {
                let strict =
                    self.review.settings.text_or_empty("/operatorGroup/removeAPIs") == "deny";
                let level = if strict { Level::Deny } else { Level::Warn };
                let message = format!(
                    "intersecting operatorgroups provide the same apis; olm.providedAPIs of {namespace}/{name} will lose {}",
                    self.apis
                );
                findings.add(level, rivals::CONFLICT, "OPG-26", field, message);
            }
        }
    }
}

/// The first group of a namespace, and the names of all, also of those on their way out: OLM reads
/// them until they are gone.
fn groups(namespace: &str) -> Result<(Option<Document>, Vec<String>), ReadError> {
    let (mut first, mut names) = (None, Vec::new());
    GROUPS.each(Query { namespace: Some(namespace), ..Query::default() }, |group| {
        names.push(group.text_or_empty("/metadata/name"));
        first.get_or_insert(group);
        true
    })?;
    // One that is about to change may be shown as it is and as it will be.
    names.dedup();
    Ok((first, names))
}
