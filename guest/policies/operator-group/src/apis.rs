//! Provided APIs: those of the annotation `olm.providedAPIs` of an OperatorGroup, and the owned
//! APIs of a ClusterServiceVersion (OLM `pkg/controller/registry/resolver/cache/operators.go` and
//! `pkg/controller/operators/olm/labeler.go`).
//!
//! ```text
//! annotation ─ items ─▶ Part ─┐
//!                             ├─▶ ApiSet ─ intersection, is_subset, Display
//! owned APIs of a CSV ─▶ Api ─┘
//! ```

use std::fmt;

use opgate_sdk::Document;

use crate::lists;

/// An API that a group of Operators provides.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Api {
    /// Kind.
    pub kind: String,
    /// Version.
    pub version: String,
    /// Group.
    pub group: String,
}

impl Api {
    /// An API by its parts.
    #[must_use]
    pub fn new(kind: &str, version: &str, group: &str) -> Self {
        Self { kind: kind.to_owned(), version: version.to_owned(), group: group.to_owned() }
    }

    /// Whether its text parses as this API again. Only such an API can be in an annotation.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        let plain = |text: &str| !text.contains([' ', ',']);
        let whole = |text: &str| plain(text) && !text.contains('.');
        whole(&self.kind) && whole(&self.version) && plain(&self.group)
    }
}

/// The text in the annotation: `<kind>.<version>.<group>`.
impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.kind, self.version, self.group)
    }
}

/// One item of the annotation, split at its first two dots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApiParts<'t> {
    /// Kind.
    pub kind: &'t str,
    /// Version.
    pub version: &'t str,
    /// Group, with all further dots.
    pub group: &'t str,
}

impl<'t> ApiParts<'t> {
    /// An item that has two dots; OLM ignores any other.
    #[must_use]
    pub fn of(item: &'t str) -> Option<Self> {
        let (kind, rest) = item.split_once('.')?;
        let (version, group) = rest.split_once('.')?;
        Some(Self { kind, version, group })
    }
}

/// A set of APIs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApiSet(
    /// Sorted, each once.
    Vec<Api>,
);

impl ApiSet {
    /// Parses the annotation. Spaces do not count. Items without two dots are ignored.
    #[must_use]
    pub fn parse(annotation: &str) -> Self {
        let text = annotation.replace(' ', "");
        let parts = text.split(',').filter_map(ApiParts::of);
        parts.map(|part| Api::new(part.kind, part.version, part.group)).collect()
    }

    /// The APIs of the owned custom resources and API services of a ClusterServiceVersion. A custom
    /// resource definition whose name has no dot has no group and provides nothing.
    #[must_use]
    pub fn of_csv(csv: &Document) -> Self {
        let owned = |pointer| csv.rows(pointer, &["/kind", "/version", "/name", "/group"]);
        let resources = owned("/spec/customresourcedefinitions/owned");
        let resources = resources.iter().filter_map(|owned| {
            let (_, group) = owned.text_or_empty(2).split_once('.')?;
            Some(Api::new(owned.text_or_empty(0), owned.text_or_empty(1), group))
        });
        let services = owned("/spec/apiservicedefinitions/owned");
        let services = services.iter().map(|owned| {
            Api::new(owned.text_or_empty(0), owned.text_or_empty(1), owned.text_or_empty(3))
        });
        resources.chain(services).collect()
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of APIs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The APIs, in the order of their parts.
    pub fn iter(&self) -> impl Iterator<Item = &Api> {
        self.0.iter()
    }

    /// Whether the set contains an API.
    #[must_use]
    pub fn contains(&self, api: &Api) -> bool {
        self.0.binary_search(api).is_ok()
    }

    /// The intersection of both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.iter().filter(|api| other.contains(api)).cloned().collect()
    }

    /// Whether the other set contains all of this one.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        self.iter().all(|api| other.contains(api))
    }

    /// The texts of the APIs in an annotation, in byte order.
    #[must_use]
    pub fn texts(&self) -> Vec<String> {
        let mut texts: Vec<_> = self.iter().map(Api::to_string).collect();
        texts.sort_unstable();
        texts
    }
}

impl FromIterator<Api> for ApiSet {
    fn from_iter<I: IntoIterator<Item = Api>>(apis: I) -> Self {
        let mut apis: Vec<_> = apis.into_iter().collect();
        apis.sort_unstable();
        apis.dedup();
        Self(apis)
    }
}

/// The annotation as OLM writes it.
impl fmt::Display for ApiSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.texts().join(","))
    }
}

/// At most `shown` APIs, for a message.
pub(crate) fn list_apis(apis: &ApiSet, shown: usize) -> String {
    lists::join_shortened(&apis.texts(), shown)
}
