//! Upgrade safety: the effect of a new schema on the objects and clients of the old one, with the
//! checks of [crdify](https://github.com/kubernetes-sigs/crdify) for OLM 1.0.
//!
//! ```text
//! scope ───────────────────────────────────────────────▶ CRD-18
//! spec.versions, old and new, by name
//!   └─ schemas that differ ─▶ tree ─▶ walk ─┬─▶ fields   CRD-19, CRD-20, CRD-21
//!                                           ├─▶ values   CRD-22, CRD-24, CRD-25
//!                                           ├─▶ bounds   CRD-23
//!                                           └─▶ strict   CRD-26 (also between served versions)
//! ```
//!
//! The host compares versions without copying them. Only a schema that differs is read (`tree`,
//! `schema`, `go`); `place` and `change` produce the texts of violations.

mod bounds;
mod change;
mod fields;
mod place;
mod strict;
mod values;
mod walk;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Kind, Report, Review, Rule, rule, rules};

use crate::schema::Keyword;
use crate::schema::tree::Tree;
use crate::targets::CRD;
use bounds::CRD_23;
use change::Change;
use fields::{CRD_19, CRD_20, CRD_21};
use place::Location;
use strict::CRD_26;
use values::{CRD_22, CRD_24, CRD_25};
use walk::Visitor;

rules![CRD_18, CRD_19, CRD_20, CRD_21, CRD_22, CRD_23, CRD_24, CRD_25, CRD_26];

/// Evaluates an UPDATE of a CRD.
pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    let (Some(new), Some(old)) = (review.subject(), review.old_of_update()) else { return };
    check_scope(review, report, new, old);
    let pointers = ["/spec/versions", "/spec/validation", "/spec/version"];
    if pointers.iter().all(|pointer| is_same(new, pointer, old, pointer)) {
        return;
    }
    let new = Definition { document: new, versions: versions(new) };
    let old = Definition { document: old, versions: versions(old) };
    check_same_versions(review, report, &new, &old);
    if is_selected(review, report, &CRD_26) {
        strict::check_served_versions(report, &new, &old);
    }
}

/// A `CustomResourceDefinition` with its versions.
struct Definition<'a> {
    document: &'a Document,
    versions: Vec<Version>,
}

/// Whether a rule is on. The setting turns off the rules without a configured level.
fn is_selected(review: &Review<'_>, report: &Report<'_>, rule: &'static Rule) -> bool {
    let is_off = || review.settings.text_or_empty("/crd/upgradeSafety") == "off";
    report.is_on(rule) && (report.is_configured(rule) || !is_off())
}

/// Whether Kubernetes decodes two values to the same value. The host treats an empty list like a
/// missing value, but an empty default differs from a missing default: their sizes distinguish
/// them.
fn is_same(new: &Document, pointer: &str, old: &Document, old_pointer: &str) -> bool {
    new.size(pointer) == old.size(old_pointer) && new.equal(pointer, old, old_pointer)
}

rule! {
    /// the scope of a CRD does not change
    ///
    /// On UPDATE, `spec.scope` is that of the old CRD. The setting `crd.upgradeSafety` turns CRD-18
    /// to CRD-25 off, or makes them deny.
    ///
    /// # Why
    ///
    /// The objects of a CRD are stored below their namespaces, or outside of any. After a change of
    /// the scope no client finds them. The API server also rejects the change, unless the old CRD
    /// is not established.
    ///
    /// # Remediation
    ///
    /// Keep the scope. To change the scope, define another kind with a separate CRD, and move the
    /// objects to it.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// scope: Namespaced # before and after
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// scope: Cluster # Namespaced before
    /// # message: 'scope: scope changed : "Namespaced" -> "Cluster"'
    /// ```
    CRD_18: Warn {
        name: "crd-scope-unchanged",
        on: [CRD: Update],
        denies_with: ["/crd/upgradeSafety"],
        source: ["crdify test/scopechanged", "operator-controller internal/operator-controller/rukpak/preflights/crdupgradesafety/crdupgradesafety.go"],
    }
}
fn check_scope(review: &Review<'_>, report: &mut Report<'_>, new: &Document, old: &Document) {
    let (is, was) = (new.text_or_empty("/spec/scope"), old.text_or_empty("/spec/scope"));
    if is != was && is_selected(review, report, &CRD_18) {
        let message = format!("scope: scope changed : {} -> {}", quote(&was), quote(&is));
        report.add(&CRD_18, "spec.scope", message);
    }
}

/// A version of a CRD.
struct Version {
    name: String,
    is_served: bool,
    /// The field of the schema, or of the version or CRD without one.
    field: String,
    /// The pointer of the schema, if there is one.
    pointer: Option<String>,
    /// Read at most once.
    tree: OnceCell<Option<Tree>>,
}

impl Version {
    /// The schema, if there is one.
    fn tree(&self, crd: &Document) -> Option<&Tree> {
        let read = || crd.raw(self.pointer.as_deref()?).map(Tree::of);
        self.tree.get_or_init(read).as_ref()
    }

    fn location(&self) -> Location {
        Location::new(self.field.clone())
    }

    /// Whether it has the same schema as another.
    fn is_as(&self, crd: &Document, other: &Self, other_crd: &Document) -> bool {
        let size = |version: &Self, crd: &Document| crd.size(version.pointer.as_deref()?);
        // A schema of another size is read later, if at all. The host would compare all values to
        // find the difference; comparing bytes is faster here.
        size(self, crd) == size(other, other_crd)
            && match (self.tree(crd), other.tree(other_crd)) {
                (Some(tree), Some(other)) => tree.is_copy_of(other),
                (tree, other) => tree.is_none() && other.is_none(),
            }
    }
}

/// The schema of all versions without their own in `apiextensions.k8s.io/v1beta1`.
const SHARED_SCHEMA: &str = "/spec/validation/openAPIV3Schema";

/// The versions of a CRD, the first one of a name.
fn versions(crd: &Document) -> Vec<Version> {
    let shared = crd.has(SHARED_SCHEMA);
    let version = |name: &str, is_served, field: String, pointer: Option<String>| {
        let (field, pointer) = match pointer {
            None if shared => {
                ("spec.validation.openAPIV3Schema".to_owned(), Some(SHARED_SCHEMA.to_owned()))
            }
            pointer => (field, pointer),
        };
        Version { name: name.to_owned(), is_served, field, pointer, tree: OnceCell::new() }
    };
    let rows = crd.rows("/spec/versions", &["/name", "/served", "/schema/openAPIV3Schema"]);
    let mut known = BTreeSet::new();
    let mut versions = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let name = row.text_or_empty(0);
        if !known.insert(name.to_owned()) {
            continue;
        }
        let field = format!("spec.versions[{index}]");
        let (field, pointer) = match row.kind(2) {
            Kind::Missing | Kind::Null => (field, None),
            _ => (
                format!("{field}.schema.openAPIV3Schema"),
                Some(format!("/spec/versions/{index}/schema/openAPIV3Schema")),
            ),
        };
        versions.push(version(name, row.boolean(1) == Some(true), field, pointer));
    }
    if versions.is_empty()
        && let Some(name) = crd.text("/spec/version")
    {
        versions.push(version(&name, true, "spec".to_owned(), None));
    }
    versions
}

/// Compares each version with the version of the same name.
fn check_same_versions(
    review: &Review<'_>,
    report: &mut Report<'_>,
    new: &Definition<'_>,
    old: &Definition<'_>,
) {
    let selected: Vec<_> =
        RULES.iter().copied().filter(|rule| is_selected(review, report, rule)).collect();
    let by_name: BTreeMap<&str, &Version> =
        old.versions.iter().map(|version| (version.name.as_str(), version)).collect();
    let (news, old, new) = (&new.versions, old.document, new.document);
    for version in news {
        let Some(before) = by_name.get(version.name.as_str()) else { continue };
        if version.is_as(new, before, old) {
            continue;
        }
        let Some(old_tree) = before.tree(old) else { continue };
        let (new_tree, at) = (version.tree(new), version.location());
        let mut violations =
            VersionViolations { report, version: &version.name, selected: &selected };
        walk::compare(old_tree, new_tree, at, usize::MAX, &mut violations);
    }
}

/// The violations of a version.
struct VersionViolations<'f, 'r> {
    report: &'f mut Report<'r>,
    version: &'f str,
    selected: &'f [&'static Rule],
}

impl VersionViolations<'_, '_> {
    /// Adds a violation. The text is only created if it is shown.
    fn add(
        &mut self,
        rule: &'static Rule,
        field: impl FnOnce() -> String,
        text: impl FnOnce() -> String,
    ) {
        if !self.selected.iter().any(|selected| std::ptr::eq(*selected, rule)) {
            return;
        }
        if self.report.is_full(rule) {
            self.report.add_count(rule, 1);
        } else {
            self.report.add(rule, field(), text());
        }
    }
}

impl Visitor for VersionViolations<'_, '_> {
    const NEEDS_HASHES: bool = false;

    fn visit_removed(&mut self, at: &Location) -> bool {
        let version = self.version;
        let field = || at.field().to_owned();
        self.add(&CRD_19, field, || fields::removed_text(version, at.path()));
        // Once: its type, enum and default are removed with it.
        false
    }

    fn visit_changed(&mut self, at: &Location, change: &Change<'_>, has_keyword: bool) {
        let rule = match change.keyword() {
            None => &CRD_26,
            Some(Keyword::Required) => &CRD_20,
            Some(Keyword::Type) => &CRD_21,
            Some(Keyword::Enum) => &CRD_22,
            Some(Keyword::Default) => &CRD_24,
            Some(Keyword::Nullable | Keyword::Pattern) => &CRD_25,
            Some(_) => &CRD_23,
        };
        let version = self.version;
        let field = || field(at, change, has_keyword);
        self.add(rule, field, || format!("{version}: {}: {change}", at.path()));
    }
}

/// The field of a change: the keyword, if the new schema has it.
fn field(at: &Location, change: &Change<'_>, has_keyword: bool) -> String {
    let keyword = change.keyword().filter(|_| has_keyword);
    keyword.map_or_else(
        || at.field().to_owned(),
        |keyword| format!("{}.{}", at.field(), keyword.text()),
    )
}
