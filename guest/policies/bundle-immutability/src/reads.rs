//! The reads of the rules: ConfigMaps, and the Bundles that refer to them.

use std::collections::{BTreeMap, BTreeSet};

use opgate_sdk::cluster::{Query, ReadError};
use opgate_sdk::{ClusterRead, Document, Index};

use crate::targets::{GROUP, SYSTEM_NAMESPACE};

/// ConfigMaps with the names of their files.
pub(crate) static CONFIG_MAPS: ClusterRead = ClusterRead {
    version: "v1",
    resource: "configmaps",
    fields: &["/immutable"],
    keys: &["/data", "/binaryData"],
    namespace: Some(SYSTEM_NAMESPACE),
    ..ClusterRead::EMPTY
};

/// Bundles with the ConfigMaps that they refer to.
pub(crate) static BUNDLES: ClusterRead = ClusterRead {
    group: GROUP,
    version: "v1alpha1",
    resource: "bundles",
    fields: &["/spec/source/type", "/spec/source/configMaps"],
    indexes: &[Index {
        name: "configmap",
        field: "/spec/source/configMaps/*/configMap/name",
        separator: "",
    }],
    ..ClusterRead::EMPTY
};

/// The reason why a rule that needs ConfigMaps is skipped if [`ConfigMaps::are_unavailable`].
pub(crate) const NO_CONFIG_MAPS: &str = "the cluster's ConfigMaps are not available";

/// For this number of ConfigMaps or more, one query for all names is cheaper: a source can name
/// tens of thousands that do not exist.
const MAX_SINGLE_QUERIES: usize = 256;

/// The ConfigMaps that one source refers to, each queried once.
pub(crate) struct ConfigMaps {
    namespace: String,
    mutable: BTreeMap<String, bool>,
    existing: Option<BTreeSet<String>>,
    is_unavailable: bool,
}

impl ConfigMaps {
    pub(crate) fn new(settings: &Document) -> Self {
        Self {
            namespace: SYSTEM_NAMESPACE.of(settings),
            mutable: BTreeMap::new(),
            existing: None,
            is_unavailable: false,
        }
    }

    /// Whether a query failed because there is no cluster state.
    pub(crate) fn are_unavailable(&self) -> bool {
        self.is_unavailable
    }

    /// Whether the ConfigMap exists and is not immutable.
    pub(crate) fn query_mutable(&mut self, name: &str) -> bool {
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

    /// The names of the ConfigMap's files. Empty if it does not exist.
    pub(crate) fn query_files(&mut self, name: &str) -> BTreeSet<String> {
        let found = self.get(name);
        let keys = |found: Document| [found.keys("/data"), found.keys("/binaryData")];
        found.map(keys).into_iter().flatten().flatten().collect()
    }

    fn get(&mut self, name: &str) -> Option<Document> {
        // There is no cluster state, or the query is empty.
        if self.is_unavailable || name.is_empty() {
            return None;
        }
        self.query(name).unwrap_or_else(|_| {
            self.is_unavailable = true;
            None
        })
    }

    fn query(&mut self, name: &str) -> Result<Option<Document>, ReadError> {
        if self.existing.is_none() && self.mutable.len() >= MAX_SINGLE_QUERIES {
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
