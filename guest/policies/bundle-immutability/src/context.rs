//! What the rules read from the cluster, and which of them had to go without.

use std::collections::{BTreeMap, BTreeSet};

use opgate_sdk::cluster::{Query, ReadError};
use opgate_sdk::{ClusterRead, Document, Index, Setting, Verdict};

use crate::{GROUP, Review};

/// RukPak's namespace: the only one in which Bundles find their ConfigMaps.
pub(crate) const SYSTEM_NAMESPACE: Setting =
    Setting { pointer: "/rukpak/systemNamespace", default: "rukpak-system" };

/// ConfigMaps with the names of their files.
pub(crate) const CONFIG_MAPS: ClusterRead = ClusterRead {
    version: "v1",
    resource: "configmaps",
    fields: &["/immutable"],
    keys: &["/data", "/binaryData"],
    namespace: Some(SYSTEM_NAMESPACE),
    rules: &["RPK-07", "RPK-21", "RPK-22", "RPK-23"],
    ..ClusterRead::EMPTY
};

/// Bundles with the ConfigMaps that they refer to.
pub(crate) const BUNDLES: ClusterRead = ClusterRead {
    group: GROUP,
    version: "v1alpha1",
    resource: "bundles",
    fields: &["/spec/source/type", "/spec/source/configMaps"],
    indexes: &[Index {
        name: "configmap",
        field: "/spec/source/configMaps/*/configMap/name",
        separator: "",
    }],
    rules: &["RPK-19", "RPK-20"],
    ..ClusterRead::EMPTY
};

/// From so many ConfigMaps on it is cheaper to ask once which ones there are: a source may name tens
/// of thousands that do not exist.
const ASKED_SINGLY: usize = 256;

/// The ConfigMaps that one source refers to, each asked for once.
pub(crate) struct ConfigMaps {
    namespace: String,
    mutable: BTreeMap<String, bool>,
    existing: Option<BTreeSet<String>>,
    absent: bool,
}

impl ConfigMaps {
    pub(crate) fn new(settings: &Document) -> Self {
        Self {
            namespace: SYSTEM_NAMESPACE.of(settings),
            mutable: BTreeMap::new(),
            existing: None,
            absent: false,
        }
    }

    /// Whether a question went without an answer because there is no cluster to ask.
    pub(crate) fn are_absent(&self) -> bool {
        self.absent
    }

    /// Whether the ConfigMap exists and may change.
    pub(crate) fn is_mutable(&mut self, name: &str) -> bool {
        if let Some(&known) = self.mutable.get(name) {
            return known;
        }
        let found = self.get(name);
        let mutable = found.is_some_and(|found| found.boolean("/immutable") != Some(true));
        if self.existing.is_none() {
            self.mutable.insert(name.to_owned(), mutable);
        }
        mutable
    }

    /// The names of the ConfigMap's files, none where it does not exist.
    pub(crate) fn files(&mut self, name: &str) -> BTreeSet<String> {
        let found = self.get(name);
        let keys = |found: Document| [found.keys("/data"), found.keys("/binaryData")];
        found.map(keys).into_iter().flatten().flatten().collect()
    }

    fn get(&mut self, name: &str) -> Option<Document> {
        // There is no cluster to ask, or nothing to ask for.
        if self.absent || name.is_empty() {
            return None;
        }
        self.ask(name).unwrap_or_else(|_| {
            self.absent = true;
            None
        })
    }

    fn ask(&mut self, name: &str) -> Result<Option<Document>, ReadError> {
        if self.existing.is_none() && self.mutable.len() >= ASKED_SINGLY {
            let all = Query { namespace: Some(&self.namespace), ..Query::default() };
            let names = CONFIG_MAPS.names(all)?.into_iter().map(|found| found.name);
            self.existing = Some(names.collect());
        }
        if self.existing.as_ref().is_some_and(|existing| !existing.contains(name)) {
            return Ok(None);
        }
        CONFIG_MAPS.get(&self.namespace, name)
    }
}

/// Rules that a review left out, at least in part, and why (decision A-6).
#[derive(Default)]
pub(crate) struct LeftOut(Vec<(&'static str, &'static str)>);

pub(crate) const NO_CONFIG_MAPS: &str =
    "was not evaluated: the cluster's ConfigMaps are not available";
pub(crate) const NO_CONFIG_MAPS_IN_PART: &str =
    "was evaluated in part: the cluster's ConfigMaps are not available";
pub(crate) const NO_BUNDLES: &str = "was not evaluated: the cluster's Bundles are not available";
pub(crate) const TOO_MANY_FILES: &str = "was not evaluated: the ConfigMaps have too many files";

impl LeftOut {
    pub(crate) fn add(&mut self, rule: &'static str, why: &'static str) {
        self.0.push((rule, why));
    }

    /// Names the rules in the audit log, and to the person who sends the request where
    /// `context.missing` asks for it.
    pub(crate) fn report(mut self, review: &Review<'_>, field: &str, verdict: &mut Verdict) {
        // What is off is not missed, and where all that need a resource are off, nobody watches it.
        let level = |rule: &str| review.settings.text_or_empty(&format!("/rules/{rule}"));
        self.0.retain(|(rule, _)| level(rule) != "off");
        if self.0.is_empty() {
            return;
        }
        let rules: Vec<&str> = self.0.iter().map(|(rule, _)| *rule).collect();
        verdict.audit_annotations.push(("not-evaluated".to_owned(), rules.join(" ")));
        if review.settings.text_or_empty("/context/missing") == "warn" {
            for (rule, why) in self.0 {
                // A rule that the configuration sets to deny would turn this into a denial of every
                // such object.
                if !review.conventions.denies(rule, false) {
                    verdict.warn(rule, field, format!("{rule} {why}"));
                }
            }
        }
    }
}
