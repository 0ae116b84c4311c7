//! Declares what a policy reads from the cluster.

use crate::Document;
use crate::bindings::opgate::policy::types as wit;
use crate::document::DeclaredFields;

/// A text that the settings may name, for example the name of a namespace.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// JSON pointer into the settings.
    pub pointer: &'static str,
    /// Used if the settings have no text there.
    pub default: &'static str,
}

impl Setting {
    /// Returns the text in the settings, or the default.
    #[must_use]
    pub fn of(&self, settings: &Document) -> String {
        settings.text(self.pointer).unwrap_or_else(|| self.default.to_owned())
    }
}

/// A value by which a policy finds objects of the cluster.
#[derive(Debug, Clone, Copy)]
pub struct Index {
    /// Its name in queries.
    pub name: &'static str,
    /// JSON pointer of a text, with `*` for every element of a list or member of an object, and `#`
    /// as the last token for the names of the members.
    pub field: &'static str,
    /// If it is not empty, each text is a list with this separator.
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
    /// always available.
    pub fields: &'static [&'static str],
    /// JSON pointers of objects of which the host keeps only the names of the members.
    pub keys: &'static [&'static str],
    /// Label selector as JSON. The host does not read other objects. If it is empty, the host reads
    /// all.
    pub label_selector: &'static str,
    /// Only in this namespace.
    pub namespace: Option<Setting>,
    /// Values by which a policy finds objects.
    pub indexes: &'static [Index],
    /// Settings (JSON pointers) for objects that are read only if asked to: unless one of them is
    /// present and not `false`, a server does not read the objects. Files are always read. If the
    /// list is empty, no setting is needed.
    pub enabled_by: &'static [&'static str],
}

impl ClusterRead {
    /// Empty lists only.
    pub const EMPTY: Self = Self {
        group: "",
        version: "",
        resource: "",
        fields: &[],
        keys: &[],
        label_selector: "",
        namespace: None,
        indexes: &[],
        enabled_by: &[],
    };

    pub(crate) fn declared(&self) -> DeclaredFields {
        let resource = [self.group, self.version, self.resource];
        DeclaredFields { resource, fields: self.fields, keys: self.keys }
    }

    pub(crate) fn resource(&self) -> wit::GroupVersionResource {
        wit::GroupVersionResource {
            group: self.group.into(),
            version: self.version.into(),
            resource: self.resource.into(),
        }
    }
}
