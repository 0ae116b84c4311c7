//! The request under review, for policies.

use crate::bindings::request::{self as wit, GroupVersionKind, GroupVersionResource, UserInfo};

/// The request of a call.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestHandle {
    pub(crate) uid: String,
    /// Group, version and kind.
    pub(crate) kind: [String; 3],
    /// Group, version and resource.
    pub(crate) resource: [String; 3],
    pub(crate) sub_resource: String,
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) username: String,
    pub(crate) user_uid: String,
    pub(crate) groups: Vec<String>,
    pub(crate) dry_run: bool,
}

impl wit::GuestRequest for RequestHandle {
    fn uid(&self) -> String {
        self.uid.clone()
    }

    fn kind(&self) -> GroupVersionKind {
        let [group, version, kind] = self.kind.clone();
        GroupVersionKind { group, version, kind }
    }

    fn resource(&self) -> GroupVersionResource {
        let [group, version, resource] = self.resource.clone();
        GroupVersionResource { group, version, resource }
    }

    fn sub_resource(&self) -> String {
        self.sub_resource.clone()
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn namespace(&self) -> String {
        self.namespace.clone()
    }

    fn user(&self) -> UserInfo {
        UserInfo {
            username: self.username.clone(),
            uid: self.user_uid.clone(),
            groups: self.groups.clone(),
        }
    }

    fn dry_run(&self) -> bool {
        self.dry_run
    }

    fn wants_fixes(&self) -> bool {
        false
    }
}
