//! Other groups that provide the same APIs in the same namespaces.
//!
//! ```text
//! APIs, reach ─▶ queries on the indexes of GROUPS ─▶ candidates ─ exact decision ─▶ ConflictingGroups
//! ```
//!
//! A cluster can have thousands of groups, with annotations of hundreds of kilobytes and thousands
//! of namespaces in each status. The indexes find the few groups that matter and evaluate most of
//! the condition. The policy reads only the name and the start of the status of a candidate. It
//! reads in full only the rivals that a message names.

use std::collections::BTreeSet;

use opgate_sdk::Document;
use opgate_sdk::cluster::{IndexMatch, MAX_INDEX_VALUES, Query, ReadError};

use crate::apis::{self, Api, ApiSet};
use crate::group_surface::{
    PROVIDED_APIS, STATUS, Selection, TARGETS, TargetExtent, status_extent, status_targets,
    targets_with_own,
};
use crate::namespaces::NamespaceSet;
use crate::olm_reason::OlmReason;
use crate::reads::GROUPS;
use crate::{lists, targets};

/// Maximum number of names in a query. Passing more names takes longer than comparing the few
/// groups that provide the same APIs.
const MAX_QUERIED_NAMES: usize = 64;
/// Maximum length of a list of namespaces. The policy does not read a longer list: any author of a
/// group could store one of a megabyte, and every other review would have to read it. The indexes
/// find the names that it shares with a group.
const MAX_NAMESPACES: u32 = 1_024;
/// Maximum number of rivals in a message.
const MAX_SHOWN_GROUPS: usize = 3;
/// Maximum number of APIs, and of namespaces, that a message names for each rival.
const MAX_SHOWN_PER_GROUP: usize = 5;

/// Namespace and name, in the order of the host's results.
type Key = (String, String);

/// The other groups, described for a message.
#[derive(Debug, Default)]
pub(crate) struct ConflictingGroups {
    shown: Vec<String>,
    more: usize,
}

impl ConflictingGroups {
    pub(crate) fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }

    /// The groups, their namespaces and their provided APIs.
    pub(crate) fn describe(&self) -> String {
        let list = self.shown.join("; ");
        match self.more {
            0 => list,
            more => format!("{list}; and {more} more"),
        }
    }
}

/// The groups other than `own`, including those that are being deleted, that work in the namespaces
/// of `mine` and provide one of the APIs.
pub(crate) fn find_conflicts(
    own: (&str, &str),
    mine: &NamespaceSet,
    wanted: &ApiSet,
) -> Result<ConflictingGroups, ReadError> {
    // An API whose text parses as another one is in no annotation.
    let texts: Vec<_> = wanted.iter().filter(|api| api.is_readable()).map(Api::to_string).collect();
    if mine.is_empty() || texts.is_empty() {
        return Ok(ConflictingGroups::default());
    }
    let mut search = Search {
        own,
        targets: mine,
        found: BTreeSet::new(),
        undecided: None,
        has_large_lists: false,
    };
    for texts in texts.chunks(MAX_INDEX_VALUES) {
        search.search_providers(texts)?;
    }
    search.into_conflicts(wanted)
}

/// The message for a conflict.
pub(crate) fn conflict_message(conflicting: &ConflictingGroups) -> String {
    format!(
        "intersecting operatorgroups provide the same apis: {}; choose other target namespaces, or remove the other Operator or group ({})",
        conflicting.describe(),
        OlmReason::InterOperatorGroupOwnerConflict
    )
}

/// The source of the namespaces in a query.
#[derive(Debug, Clone, Copy)]
enum NamespaceSource {
    /// The status of a group in one of the namespaces, or of any group if all namespaces are meant.
    Own,
    Status,
    /// The status, which has one of the names.
    Named,
    Spec,
    /// The spec of a group that no index has compared.
    Whole,
}

struct Search<'s> {
    own: (&'s str, &'s str),
    targets: &'s NamespaceSet,
    found: BTreeSet<Key>,
    /// The reason why the targets of a candidate without status are unknown.
    undecided: Option<ReadError>,
    /// Some lists were too long to read.
    has_large_lists: bool,
}

impl Search<'_> {
    /// Finds the groups that provide one of the APIs with these texts.
    fn search_providers(&mut self, texts: &[String]) -> Result<(), ReadError> {
        let provided = IndexMatch { index: "provided", values: texts, include_missing: false };
        if self.targets.is_all() {
            self.search_index(&[provided], NamespaceSource::Own)?;
        } else {
            let names: Vec<String> = self.targets.iter().cloned().collect();
            let here = IndexMatch { index: "namespace", values: &names, include_missing: false };
            self.search_index(&[provided, here], NamespaceSource::Own)?;
            let is_long = names.len() > MAX_QUERIED_NAMES;
            let mut names = names;
            let count = names.len();
            names.push(String::new());
            // By the status and by the spec: either can be outdated, and users other than OLM may
            // write the status.
            let status = IndexMatch { index: "targets", values: &names, include_missing: true };
            self.search_index(&[provided, status], NamespaceSource::Status)?;
            if is_long {
                self.search_index(&[provided], NamespaceSource::Whole)?;
            }
            if !is_long || self.has_large_lists {
                let spec = IndexMatch { index: "named", values: &names, include_missing: true };
                self.search_index(&[provided, spec], NamespaceSource::Spec)?;
            }
            if self.has_large_lists {
                let plain = names.get(..count).unwrap_or_default();
                let status = IndexMatch { index: "targets", values: plain, include_missing: false };
                self.search_index(&[provided, status], NamespaceSource::Named)?;
            }
        }
        Ok(())
    }

    fn search_index(
        &mut self,
        matches: &[IndexMatch<'_>],
        by: NamespaceSource,
    ) -> Result<(), ReadError> {
        GROUPS.each(Query { matches, ..Query::default() }, |group| {
            self.check_candidate(&group, by);
            true
        })
    }

    fn check_candidate(&mut self, group: &Document, by: NamespaceSource) {
        let key =
            (group.text_or_empty("/metadata/namespace"), group.text_or_empty("/metadata/name"));
        if (key.0.as_str(), key.1.as_str()) == self.own || self.found.contains(&key) {
            return;
        }
        match self.overlaps(group, &key.0, by) {
            Ok(true) => drop(self.found.insert(key)),
            Ok(false) => {}
            Err(why) => self.undecided = Some(why),
        }
    }

    /// Whether a candidate works where this group does. It was found by its own namespace, or by a
    /// target, so the index has already compared plain names.
    fn overlaps(
        &mut self,
        group: &Document,
        namespace: &str,
        by: NamespaceSource,
    ) -> Result<bool, ReadError> {
        let is_large = |list: &str| group.length(list).is_some_and(|names| names > MAX_NAMESPACES);
        let targets = match by {
            NamespaceSource::Named => return Ok(true),
            NamespaceSource::Own | NamespaceSource::Status => match status_extent(group) {
                TargetExtent::Mixed if is_large(STATUS) => {
                    self.has_large_lists = true;
                    return Ok(self.targets.is_all());
                }
                // Its own namespace is one of its targets. The index covers the others.
                TargetExtent::Unknown if is_large(TARGETS) => {
                    self.has_large_lists = true;
                    return Ok(matches!(by, NamespaceSource::Own));
                }
                TargetExtent::All | TargetExtent::Names => return Ok(true),
                TargetExtent::Mixed => status_targets(group).unwrap_or_default(),
                TargetExtent::Unknown => targets::select_namespaces(Selection::of(group))?,
            },
            NamespaceSource::Spec if group.length(TARGETS).is_some_and(|names| names > 0) => {
                return Ok(true);
            }
            // The index has already compared its status.
            NamespaceSource::Spec | NamespaceSource::Whole
                if targets::status_without_spec(group).is_some() =>
            {
                return Ok(false);
            }
            NamespaceSource::Whole if is_large(TARGETS) => {
                self.has_large_lists = true;
                return Ok(false);
            }
            NamespaceSource::Spec | NamespaceSource::Whole => {
                targets::select_namespaces(Selection::of(group))?
            }
        };
        Ok(targets_with_own(&targets, namespace).intersects(self.targets))
    }

    fn into_conflicts(self, wanted: &ApiSet) -> Result<ConflictingGroups, ReadError> {
        let mut conflicting = ConflictingGroups {
            shown: Vec::new(),
            more: self.found.len().saturating_sub(MAX_SHOWN_GROUPS),
        };
        for (namespace, name) in self.found.iter().take(MAX_SHOWN_GROUPS) {
            let Some(group) = GROUPS.get(namespace, name)? else { continue };
            let apis = ApiSet::parse(&group.text_or_empty(PROVIDED_APIS)).intersection(wanted);
            let apis = apis::list_apis(&apis, MAX_SHOWN_PER_GROUP);
            if has_large_list(&group) {
                let text = format!(
                    "OperatorGroup {namespace}/{name} (more than {MAX_NAMESPACES} namespaces) also provides {apis}"
                );
                conflicting.shown.push(text);
                continue;
            }
            let shared =
                targets_with_own(&targets::of(&group)?, namespace).intersection(self.targets);
            let shared = if shared.is_all() {
                "all namespaces".to_owned()
            } else {
                let names: Vec<_> = shared.iter().cloned().collect();
                format!("namespaces: {}", lists::join_shortened(&names, MAX_SHOWN_PER_GROUP))
            };
            conflicting
                .shown
                .push(format!("OperatorGroup {namespace}/{name} ({shared}) also provides {apis}"));
        }
        match self.undecided {
            Some(why) if conflicting.is_empty() => Err(why),
            _ => Ok(conflicting),
        }
    }
}

/// Whether one of the lists of a group is too long to read. Most groups are too small for such a
/// list, so the policy reads the size first, once for both.
fn has_large_list(group: &Document) -> bool {
    // An element and its comma.
    let may_be = group.size("").is_some_and(|bytes| bytes > 2 * MAX_NAMESPACES);
    may_be
        && [TARGETS, STATUS]
            .iter()
            .any(|list| group.length(list).is_some_and(|n| n > MAX_NAMESPACES))
}
