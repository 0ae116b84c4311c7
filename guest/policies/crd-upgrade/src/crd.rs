//! A CRD and its versions, in the schema of either version of the API.
//!
//! ```text
//! spec.versions   a list                       ─┐
//! spec.versions   a mapping: one element        ├─▶ versions: name, served, storage, where
//! spec.version    v1beta1, where there is none ─┘
//! ```

use opgate_sdk::{Document, Kind};

/// The location of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VersionLocation {
    /// In the list.
    Element(usize),
    /// The mapping instead of the list.
    Mapping,
    /// `spec.version`.
    Single,
}

/// A version of a CRD.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) name: String,
    pub(crate) served: bool,
    pub(crate) storage: bool,
    location: VersionLocation,
}

impl Version {
    /// The field of a member: `name`, `served`, `schema`.
    pub(crate) fn member(&self, member: &str) -> String {
        match self.location {
            VersionLocation::Element(index) => format!("spec.versions[{index}].{member}"),
            VersionLocation::Mapping => format!("spec.versions.{member}"),
            VersionLocation::Single => "spec.version".to_owned(),
        }
    }

    /// Position in the list.
    pub(crate) fn index(&self) -> usize {
        match self.location {
            VersionLocation::Element(index) => index,
            VersionLocation::Mapping | VersionLocation::Single => 0,
        }
    }

    /// Pointer of the schema of the version.
    fn schema(&self) -> String {
        match self.location {
            VersionLocation::Element(index) => format!("{VERSIONS}/{index}/schema/openAPIV3Schema"),
            VersionLocation::Mapping => format!("{VERSIONS}/schema/openAPIV3Schema"),
            VersionLocation::Single => SHARED_SCHEMA.to_owned(),
        }
    }
}

/// The location of a schema.
#[derive(Debug)]
pub(crate) struct SchemaLocation {
    pub(crate) pointer: String,
    pub(crate) field: String,
}

/// The schema of all versions, in v1beta1.
const SHARED_SCHEMA: &str = "/spec/validation/openAPIV3Schema";
const VERSIONS: &str = "/spec/versions";

/// A CRD.
#[derive(Debug)]
pub(crate) struct Crd<'d> {
    pub(crate) document: &'d Document,
    pub(crate) versions: Vec<Version>,
    /// Positions of the first versions of each name, by name.
    by_name_order: Vec<usize>,
    /// Whether `spec.versions` is a mapping, as in some documents.
    pub(crate) is_mapping: bool,
    pub(crate) is_v1beta1: bool,
}

impl<'d> Crd<'d> {
    pub(crate) fn of(document: &'d Document) -> Self {
        Self::read(document, is_v1beta1(document), document.kind(VERSIONS) == Kind::Object)
    }

    /// A CRD of the cluster, which is read as v1. API servers store versions as a list only, so the fields of
    /// a mapping are not declared; a file with the state of a cluster can have one.
    pub(crate) fn stored(document: &'d Document) -> Self {
        Self::read(document, false, false)
    }

    fn read(document: &'d Document, is_v1beta1: bool, is_mapping: bool) -> Self {
        let mut versions = Vec::new();
        if is_mapping {
            for row in document.fields(VERSIONS, &["/name", "/served", "/storage"]).iter() {
                versions.push(Version {
                    name: row.text_or_empty(0).to_owned(),
                    served: row.boolean(1) == Some(true),
                    storage: row.boolean(2) == Some(true),
                    location: VersionLocation::Mapping,
                });
            }
        } else if document.kind(VERSIONS) == Kind::List {
            let rows = document.rows(VERSIONS, &["/name", "/served", "/storage"]);
            versions.extend(rows.iter().enumerate().map(|(index, row)| Version {
                name: row.text_or_empty(0).to_owned(),
                served: row.boolean(1) == Some(true),
                storage: row.boolean(2) == Some(true),
                location: VersionLocation::Element(index),
            }));
        }
        // With the defaults of the API server.
        if versions.is_empty()
            && is_v1beta1
            && let Some(name) = document.text("/spec/version").filter(|name| !name.is_empty())
        {
            versions.push(Version {
                name,
                served: true,
                storage: true,
                location: VersionLocation::Single,
            });
        }
        let named = versions.iter().enumerate().map(|(at, version)| (&*version.name, at));
        let mut named: Vec<(&str, usize)> = named.collect();
        named.sort_unstable();
        named.dedup_by(|(later, _), (first, _)| later == first);
        let order = named.into_iter().map(|(_, at)| at).collect();
        Self { document, versions, by_name_order: order, is_mapping, is_v1beta1 }
    }

    pub(crate) fn name(&self) -> String {
        self.document.text_or_empty("/metadata/name")
    }

    /// The first version of a name.
    pub(crate) fn version(&self, name: &str) -> Option<&Version> {
        let at = |at: &usize| self.versions.get(*at);
        let found = self
            .by_name_order
            .binary_search_by(|known| at(known).map(|v| &*v.name).cmp(&Some(name)));
        at(self.by_name_order.get(found.ok()?)?)
    }

    /// The first versions of each name, by name.
    pub(crate) fn by_name(&self) -> impl Iterator<Item = &Version> {
        self.by_name_order.iter().filter_map(|at| self.versions.get(*at))
    }

    /// Whether there is a version of this name. In v1beta1 a version can be set in addition to the
    /// list.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.version(name).is_some()
            || (self.is_v1beta1 && self.document.text("/spec/version").as_deref() == Some(name))
    }

    /// The effective schema of a version, if there is one.
    pub(crate) fn schema(&self, version: &Version) -> Option<SchemaLocation> {
        let own = version.schema();
        if own != SHARED_SCHEMA && self.document.has(&own) {
            return Some(SchemaLocation {
                pointer: own,
                field: version.member("schema.openAPIV3Schema"),
            });
        }
        (self.is_v1beta1 && self.document.has(SHARED_SCHEMA)).then(|| SchemaLocation {
            pointer: SHARED_SCHEMA.to_owned(),
            field: "spec.validation.openAPIV3Schema".to_owned(),
        })
    }

    /// Whether a version has the same schema in another CRD.
    pub(crate) fn has_schema_of(&self, version: &Version, other: &Crd<'_>, its: &Version) -> bool {
        match (self.schema(version), other.schema(its)) {
            (None, None) => true,
            (Some(own), Some(its)) => {
                self.document.equal(&own.pointer, other.document, &its.pointer)
            }
            _ => false,
        }
    }

    /// Whether a webhook converts the objects.
    pub(crate) fn has_webhook(&self) -> bool {
        self.document.text_or_empty("/spec/conversion/strategy") == "Webhook"
    }
}

/// Whether a CRD is of the API version that Kubernetes 1.22 removed.
pub(crate) fn is_v1beta1(document: &Document) -> bool {
    document.text_or_empty("/apiVersion") == "apiextensions.k8s.io/v1beta1"
}
