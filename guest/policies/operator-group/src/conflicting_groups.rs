//! Other groups that provide the same APIs in the same namespaces.
//!
//! ```text
//! APIs, reach ─▶ queries on the indexes of GROUPS ─▶ candidates ─ exact decision ─▶ Rivals
//! ```
//!
//! A cluster can have thousands of groups, with annotations of hundreds of kilobytes and thousands
//! of namespaces in each status. The indexes find the few groups that matter and evaluate most of
//! the condition. The policy reads only the name and the start of the status of a candidate. It
//! reads in full only the rivals that a message names.

use std::collections::BTreeSet;

use opgate_sdk::Document;
use opgate_sdk::cluster::{IndexMatch, Query, ReadError, VALUES};

use crate::apis::{self, Api, ApiSet};
use crate::groups::{
    Extent, PROVIDED_APIS, STATUS, Selection, TARGETS, reach, status_extent, synchronised,
};
use crate::namespaces::NamespaceSet;
use crate::olm_reason::OlmReason;
use crate::reads::GROUPS;
use crate::{lists, targets};

/// Maximum number of names in a query. Passing more names takes longer than comparing the few
/// groups that provide the same APIs.
const MANY: usize = 64;
/// Maximum length of a list of namespaces. The policy does not read a longer list: any author of a
/// group could store one of a megabyte, and every other review would have to read it. The indexes
/// find the names that it shares with a group.
const LARGE: u32 = 1_024;
/// Maximum number of rivals in a message.
const SHOWN: usize = 3;
/// Maximum number of APIs, and of namespaces, that a message names for each rival.
const SHOWN_OF_EACH: usize = 5;

/// Namespace and name, in the order of the host's results.
type Key = (String, String);

/// The other groups, described for a message.
#[derive(Debug, Default)]
pub(crate) struct Rivals {
    shown: Vec<String>,
    more: usize,
}

impl Rivals {
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
pub(crate) fn find(
    own: (&str, &str),
    mine: &NamespaceSet,
    wanted: &ApiSet,
) -> Result<Rivals, ReadError> {
    // An API whose text parses as another one is in no annotation.
    let texts: Vec<_> = wanted.iter().filter(|api| api.is_readable()).map(Api::to_string).collect();
    if mine.is_empty() || texts.is_empty() {
        return Ok(Rivals::default());
    }
    let mut search = Search { own, mine, found: BTreeSet::new(), undecided: None, large: false };
    for texts in texts.chunks(VALUES) {
        search.providers(texts)?;
    }
    search.into_rivals(wanted)
}

/// The message for a conflict.
pub(crate) fn message(rivals: &Rivals) -> String {
    format!(
        "intersecting operatorgroups provide the same apis: {}; choose other target namespaces, or remove the other Operator or group ({})",
        rivals.describe(),
        OlmReason::InterOperatorGroupOwnerConflict
    )
}

/// The source of the namespaces in a query.
#[derive(Debug, Clone, Copy)]
enum By {
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
    mine: &'s NamespaceSet,
    found: BTreeSet<Key>,
    /// The reason why the targets of a candidate without status are unknown.
    undecided: Option<ReadError>,
    /// Some lists were too long to read.
    large: bool,
}

impl Search<'_> {
    /// Finds the groups that provide one of the APIs with these texts.
    fn providers(&mut self, texts: &[String]) -> Result<(), ReadError> {
        let provided = IndexMatch { index: "provided", values: texts, include_missing: false };
        if self.mine.is_all() {
            self.through(&[provided], By::Own)?;
        } else {
            let names: Vec<String> = self.mine.iter().cloned().collect();
            let here = IndexMatch { index: "namespace", values: &names, include_missing: false };
            self.through(&[provided, here], By::Own)?;
            let is_long = names.len() > MANY;
            let mut names = names;
            let count = names.len();
            names.push(String::new());
            // By the status and by the spec: either can be outdated, and users other than OLM may
            // write the status.
            let status = IndexMatch { index: "targets", values: &names, include_missing: true };
            self.through(&[provided, status], By::Status)?;
            if is_long {
                self.through(&[provided], By::Whole)?;
            }
            if !is_long || self.large {
                let spec = IndexMatch { index: "named", values: &names, include_missing: true };
                self.through(&[provided, spec], By::Spec)?;
            }
            if self.large {
                let plain = names.get(..count).unwrap_or_default();
                let status = IndexMatch { index: "targets", values: plain, include_missing: false };
                self.through(&[provided, status], By::Named)?;
            }
        }
        Ok(())
    }

    fn through(&mut self, matches: &[IndexMatch<'_>], by: By) -> Result<(), ReadError> {
        GROUPS.each(Query { matches, ..Query::default() }, |group| {
            self.look_at(&group, by);
            true
        })
    }

    fn look_at(&mut self, group: &Document, by: By) {
        let key =
            (group.text_or_empty("/metadata/namespace"), group.text_or_empty("/metadata/name"));
        if (key.0.as_str(), key.1.as_str()) == self.own || self.found.contains(&key) {
            return;
        }
        match self.meets(group, &key.0, by) {
            Ok(true) => drop(self.found.insert(key)),
            Ok(false) => {}
            Err(why) => self.undecided = Some(why),
        }
    }

    /// Whether a candidate works where this group does. It was found by its own namespace, or by a
    /// target, so the index has already compared plain names.
    fn meets(&mut self, group: &Document, namespace: &str, by: By) -> Result<bool, ReadError> {
        let is_large = |list: &str| group.length(list).is_some_and(|names| names > LARGE);
        let targets = match by {
            By::Named => return Ok(true),
            By::Own | By::Status => match status_extent(group) {
                Extent::Mixed if is_large(STATUS) => {
                    self.large = true;
                    return Ok(self.mine.is_all());
                }
                // Its own namespace is one of its targets. The index covers the others.
                Extent::Unknown if is_large(TARGETS) => {
                    self.large = true;
                    return Ok(matches!(by, By::Own));
                }
                Extent::All | Extent::Names => return Ok(true),
                Extent::Mixed => synchronised(group).unwrap_or_default(),
                Extent::Unknown => targets::selected(Selection::of(group))?,
            },
            By::Spec if group.length(TARGETS).is_some_and(|names| names > 0) => return Ok(true),
            // The index has already compared its status.
            By::Spec | By::Whole if targets::only_status(group).is_some() => return Ok(false),
            By::Whole if is_large(TARGETS) => {
                self.large = true;
                return Ok(false);
            }
            By::Spec | By::Whole => targets::selected(Selection::of(group))?,
        };
        Ok(reach(&targets, namespace).meets(self.mine))
    }

    fn into_rivals(self, wanted: &ApiSet) -> Result<Rivals, ReadError> {
        let mut rivals = Rivals { shown: Vec::new(), more: self.found.len().saturating_sub(SHOWN) };
        for (namespace, name) in self.found.iter().take(SHOWN) {
            let Some(group) = GROUPS.get(namespace, name)? else { continue };
            let apis = ApiSet::parse(&group.text_or_empty(PROVIDED_APIS)).intersection(wanted);
            let apis = apis::shortened(&apis, SHOWN_OF_EACH);
            if is_one_large(&group) {
                let text = format!(
                    "OperatorGroup {namespace}/{name} (more than {LARGE} namespaces) also provides {apis}"
                );
                rivals.shown.push(text);
                continue;
            }
            let shared = reach(&targets::of(&group)?, namespace).intersection(self.mine);
            let shared = if shared.is_all() {
                "all namespaces".to_owned()
            } else {
                let names: Vec<_> = shared.iter().cloned().collect();
                format!("namespaces: {}", lists::shortened(&names, SHOWN_OF_EACH))
            };
            rivals
                .shown
                .push(format!("OperatorGroup {namespace}/{name} ({shared}) also provides {apis}"));
        }
        match self.undecided {
            Some(why) if rivals.is_empty() => Err(why),
            _ => Ok(rivals),
        }
    }
}

/// Whether one of the lists of a group is too long to read. Most groups are too small for such a
/// list, so the policy reads the size first, once for both.
fn is_one_large(group: &Document) -> bool {
    // An element and its comma.
    let may_be = group.size("").is_some_and(|bytes| bytes > 2 * LARGE);
    may_be && [TARGETS, STATUS].iter().any(|list| group.length(list).is_some_and(|n| n > LARGE))
}
