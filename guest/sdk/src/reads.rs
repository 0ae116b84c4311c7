//! What a policy declares to read of the cluster.

use crate::Document;
use crate::bindings::opgate::policy::types as wit;

/// A text that the settings may name, for example the name of a namespace.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// JSON pointer into the settings.
    pub pointer: &'static str,
    /// What counts where the settings have no text there.
    pub default: &'static str,
}

impl Setting {
    /// What the settings say.
    #[must_use]
    pub fn of(&self, settings: &Document) -> String {
        settings.text(self.pointer).unwrap_or_else(|| self.default.to_owned())
    }
}

/// A value by which objects of the cluster are found.
#[derive(Debug, Clone, Copy)]
pub struct Index {
    /// Its name in queries.
    pub name: &'static str,
    /// JSON pointer of a text, with `*` for every element of a list or member of an object.
    pub field: &'static str,
    /// Where it is not empty, each text is a list separated by this.
    pub separator: &'static str,
}

/// Objects of the cluster that a policy reads.
#[derive(Debug, Clone, Copy)]
pub struct ClusterRead {
    /// API group, the core group is empty.
    pub group: &'static str,
    /// API version.
    pub version: &'static str,
    /// Plural, lower case.
    pub resource: &'static str,
    /// JSON pointers of the fields that the policy needs, with `*` for every element of a list or
    /// member of an object. Name, namespace, uid, labels, resourceVersion and deletionTimestamp are
    /// always there.
    pub fields: &'static [&'static str],
    /// JSON pointers of objects of which only the names of the members are kept.
    pub keys: &'static [&'static str],
    /// Label selector as JSON: other objects are not read. Empty: all.
    pub labels: &'static str,
    /// Only in this namespace.
    pub namespace: Option<Setting>,
    /// Values by which objects are found.
    pub indexes: &'static [Index],
}

impl ClusterRead {
    /// Nothing but empty lists.
    pub const EMPTY: Self = Self {
        group: "",
        version: "",
        resource: "",
        fields: &[],
        keys: &[],
        labels: "",
        namespace: None,
        indexes: &[],
    };

    pub(crate) fn resource(&self) -> wit::GroupVersionResource {
        wit::GroupVersionResource {
            group: self.group.into(),
            version: self.version.into(),
            resource: self.resource.into(),
        }
    }
}
