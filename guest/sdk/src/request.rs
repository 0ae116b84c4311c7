//! The request under review. Each part is read from the host when a policy needs it, and then kept.

use std::cell::OnceCell;

use crate::bindings::opgate::policy::request::Request as Handle;
use crate::{GroupVersionKind, GroupVersionResource, Operation, UserInfo};

/// The request under review, without its objects. In a component, the first access to each part is
/// a call of the host.
#[derive(Debug, Default)]
pub struct Request<'h> {
    operation: Option<Operation>,
    handle: Option<&'h Handle>,
    uid: OnceCell<String>,
    kind: OnceCell<GroupVersionKind>,
    resource: OnceCell<GroupVersionResource>,
    sub_resource: OnceCell<String>,
    name: OnceCell<String>,
    namespace: OnceCell<String>,
    user: OnceCell<UserInfo>,
    dry_run: OnceCell<bool>,
    wants_fixes: OnceCell<bool>,
}

/// The parts of a request for native tests.
#[derive(Debug, Clone)]
pub struct RequestParts {
    /// Identifies the call.
    pub uid: String,
    /// The operation.
    pub operation: Operation,
    /// Group, version and kind of the object.
    pub kind: GroupVersionKind,
    /// Group, version and plural.
    pub resource: GroupVersionResource,
    /// `status`, or empty.
    pub sub_resource: String,
    /// Name of the object.
    pub name: String,
    /// Namespace of the object.
    pub namespace: String,
    /// The user who sent the request.
    pub user: UserInfo,
    /// Whether the request is a dry run.
    pub dry_run: bool,
}

impl Default for RequestParts {
    /// Creates an empty CREATE.
    fn default() -> Self {
        Self {
            uid: String::new(),
            operation: Operation::Create,
            kind: GroupVersionKind::default(),
            resource: GroupVersionResource::default(),
            sub_resource: String::new(),
            name: String::new(),
            namespace: String::new(),
            user: UserInfo::default(),
            dry_run: false,
        }
    }
}

impl From<RequestParts> for Request<'_> {
    fn from(parts: RequestParts) -> Self {
        Self {
            operation: Some(parts.operation),
            handle: None,
            uid: parts.uid.into(),
            kind: parts.kind.into(),
            resource: parts.resource.into(),
            sub_resource: parts.sub_resource.into(),
            name: parts.name.into(),
            namespace: parts.namespace.into(),
            user: parts.user.into(),
            dry_run: parts.dry_run.into(),
            wants_fixes: true.into(),
        }
    }
}

impl<'h> Request<'h> {
    pub(crate) fn of(operation: Operation, handle: &'h Handle) -> Self {
        Self { operation: Some(operation), handle: Some(handle), ..Self::default() }
    }

    fn fetch<'s, T: Default>(&'s self, part: &'s OnceCell<T>, ask: fn(&Handle) -> T) -> &'s T {
        part.get_or_init(|| self.handle.map(ask).unwrap_or_default())
    }

    /// Returns the operation.
    #[must_use]
    pub fn operation(&self) -> Operation {
        self.operation.unwrap_or(Operation::Create)
    }

    /// Identifies this call. It differs between retries of the same API request.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.fetch::<String>(&self.uid, Handle::uid)
    }

    /// Returns group, version and kind of the object.
    #[must_use]
    pub fn kind(&self) -> &GroupVersionKind {
        self.fetch(&self.kind, Handle::kind)
    }

    /// Returns group, version and plural of the resource.
    #[must_use]
    pub fn resource(&self) -> &GroupVersionResource {
        self.fetch(&self.resource, Handle::resource)
    }

    /// Returns `status`, `scale`, … or empty for the resource itself.
    #[must_use]
    pub fn sub_resource(&self) -> &str {
        self.fetch::<String>(&self.sub_resource, Handle::sub_resource)
    }

    /// Returns the name of the object.
    #[must_use]
    pub fn name(&self) -> &str {
        self.fetch::<String>(&self.name, Handle::name)
    }

    /// Returns the namespace of the object, empty for a cluster-scoped one.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.fetch::<String>(&self.namespace, Handle::namespace)
    }

    /// Returns the user who sent the request, as the API server authenticated them.
    #[must_use]
    pub fn user(&self) -> &UserInfo {
        self.fetch(&self.user, Handle::user)
    }

    /// Reports whether the request is a dry run, which the API server does not persist.
    #[must_use]
    pub fn is_dry_run(&self) -> bool {
        *self.fetch(&self.dry_run, Handle::dry_run)
    }

    /// Reports whether the host uses fixes. A server does not, and [`crate::Report::set_fix`] then creates none.
    #[must_use]
    pub fn wants_fixes(&self) -> bool {
        *self.fetch(&self.wants_fixes, Handle::wants_fixes)
    }
}

#[allow(clippy::derivable_impls, reason = "the type is generated")]
impl Default for GroupVersionKind {
    fn default() -> Self {
        Self { group: String::new(), version: String::new(), kind: String::new() }
    }
}

#[allow(clippy::derivable_impls, reason = "the type is generated")]
impl Default for GroupVersionResource {
    fn default() -> Self {
        Self { group: String::new(), version: String::new(), resource: String::new() }
    }
}

#[allow(clippy::derivable_impls, reason = "the type is generated")]
impl Default for UserInfo {
    fn default() -> Self {
        Self { username: String::new(), uid: String::new(), groups: Vec::new() }
    }
}
