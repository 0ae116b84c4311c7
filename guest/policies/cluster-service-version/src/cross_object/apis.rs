//! APIs that ClusterServiceVersions own and require, and the versions in the cluster that own or
//! require them.
//!
//! The rules evaluate only the first entries of a very long list. Rules that use them warn.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use opgate_sdk::Document;
use opgate_sdk::cluster::{IndexMatch, Query, ReadError};

use crate::entries::Entries;
use crate::reads::CSVS;

/// The relation of a ClusterServiceVersion to its APIs. The words are the names of its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Owned,
    Required,
}

/// A version of a custom resource, or of an API service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Api {
    is_service: bool,
    /// The name of the CRD, or the group of the API service.
    name: String,
    version: String,
    kind: String,
}

/// As in the annotation `olm.providedAPIs`: `<kind>.<version>.<group>`.
impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let group = match self.name.split_once('.') {
            Some((_, group)) if !self.is_service => group,
            _ => &self.name,
        };
        write!(f, "{}.{}.{group}", self.kind, self.version)
    }
}

const LISTS: [(bool, &str, &str); 2] =
    [(false, "customresourcedefinitions", "/name"), (true, "apiservicedefinitions", "/group")];

/// The APIs of a ClusterServiceVersion, each with its field, and whether the list is complete.
pub(super) struct Apis {
    pub(super) list: Vec<(Api, ApiLocation)>,
    pub(super) is_complete: bool,
}

/// The location of an API.
#[derive(Debug, Clone, Copy)]
pub(super) struct ApiLocation {
    list: &'static str,
    role: Role,
    index: usize,
}

impl ApiLocation {
    /// The field of the list.
    pub(super) fn list(self) -> String {
        format!("spec.{}.{}", self.list, self.role.member())
    }

    /// The field of the element.
    pub(super) fn element(self) -> String {
        format!("{}[{}]", self.list(), self.index)
    }
}

impl Apis {
    pub(super) fn of(csv: &Document, role: Role) -> Self {
        let mut apis = Self { list: Vec::new(), is_complete: true };
        for (is_service, list, name) in LISTS {
            let pointer = format!("/spec/{list}/{}", role.member());
            let entries = Entries::read_first(csv, &pointer, &[name, "/version", "/kind"]);
            apis.is_complete &= entries.is_complete();
            for (index, entry) in entries.iter() {
                let [name, version, kind] = [0, 1, 2].map(|at| entry.text_or_empty(at).to_owned());
                if !name.is_empty() {
                    let api = Api { is_service, name, version, kind };
                    apis.list.push((api, ApiLocation { list, role, index }));
                }
            }
        }
        apis
    }

    /// Each API once, with its first location.
    pub(super) fn by_api(self) -> BTreeMap<Api, ApiLocation> {
        self.list.into_iter().rev().collect()
    }
}

impl Role {
    fn member(self) -> &'static str {
        match self {
            Self::Owned => "owned",
            Self::Required => "required",
        }
    }

    /// The index of [`CSVS`] for custom resources, or for API services.
    fn index(self, is_service: bool) -> &'static str {
        match (self, is_service) {
            (Self::Owned, false) => "crd",
            (Self::Owned, true) => "apiservice",
            (Self::Required, false) => "required-crd",
            (Self::Required, true) => "required-apiservice",
        }
    }
}

/// Calls `visit` with each ClusterServiceVersion of the cluster that owns, or requires, one of the
/// APIs, and with the APIs that it owns or requires, until `visit` returns `false`.
pub(super) fn visit_csvs(
    role: Role,
    apis: &BTreeSet<Api>,
    mut visit: impl FnMut(&Document, BTreeSet<Api>) -> bool,
) -> Result<(), ReadError> {
    for (is_service, ..) in LISTS {
        let some = apis.iter().filter(|api| api.is_service == is_service);
        let values: BTreeSet<String> = some
            .map(|api| match &api.name {
                group if is_service => format!("{group}/{}", api.version),
                name => name.clone(),
            })
            .collect();
        if values.is_empty() {
            continue;
        }
        let values: Vec<String> = values.into_iter().collect();
        let matches =
            [IndexMatch { index: role.index(is_service), values: &values, include_missing: false }];
        let mut goes_on = true;
        CSVS.each(Query { matches: &matches, ..Query::default() }, |other| {
            let its = Apis::of(&other, role).list.into_iter().map(|(api, _)| api);
            let shared: BTreeSet<Api> =
                its.filter(|api| api.is_service == is_service && apis.contains(api)).collect();
            if !shared.is_empty() {
                goes_on = visit(&other, shared);
            }
            goes_on
        })?;
        if !goes_on {
            break;
        }
    }
    Ok(())
}

/// Namespace and name of an object.
pub(super) fn key(object: &Document) -> (String, String) {
    (object.text_or_empty("/metadata/namespace"), object.text_or_empty("/metadata/name"))
}
