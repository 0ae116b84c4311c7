//! The input of a policy.

use std::sync::Arc;

use opgate_document::Document;

use super::bindings::types as wit;

/// The input of a policy: one review, shared by all policies that evaluate it.
#[derive(Debug)]
pub struct Inputs {
    /// The operation.
    pub operation: wit::Operation,
    /// The request without its objects.
    pub request: RequestParts,
    /// The object, absent on DELETE.
    pub object: Option<Arc<Document>>,
    /// The object before the request, absent on CREATE.
    pub old_object: Option<Arc<Document>>,
}

impl Inputs {
    /// The same input for a host that uses no fixes; none if it is this already.
    #[must_use]
    pub fn without_fixes(&self) -> Option<Self> {
        self.request.wants_fixes.then(|| Self {
            operation: self.operation,
            request: self.request.clone().wanting_fixes(false),
            object: self.object.clone(),
            old_object: self.old_object.clone(),
        })
    }
}

/// A request without its objects. Few policies read any part of it, so all its texts are in one,
/// without an allocation for each.
#[derive(Debug, Clone)]
pub struct RequestParts {
    texts: String,
    /// The end of each text: those of [`RequestTexts`] in their order, then the groups.
    ends: Vec<usize>,
    dry_run: bool,
    wants_fixes: bool,
}

/// The texts of a request, except for the groups of its user. See `wit/policy.wit`.
#[derive(Debug)]
#[expect(missing_docs, reason = "documented once, in wit/policy.wit")]
pub struct RequestTexts<'t> {
    pub uid: &'t str,
    /// Group, version, kind.
    pub kind: [&'t str; 3],
    /// Group, version, resource.
    pub resource: [&'t str; 3],
    pub sub_resource: &'t str,
    pub name: &'t str,
    pub namespace: &'t str,
    pub username: &'t str,
    pub user_uid: &'t str,
}

/// Positions of the texts.
const UID: usize = 0;
const KIND: usize = 1;
const RESOURCE: usize = 4;
const SUB_RESOURCE: usize = 7;
const NAME: usize = 8;
const NAMESPACE: usize = 9;
const USERNAME: usize = 10;
const USER_UID: usize = 11;
const GROUPS: usize = 12;

impl RequestParts {
    /// A copy of the texts.
    #[must_use]
    pub fn new(texts: &RequestTexts<'_>, groups: &[impl AsRef<str>], dry_run: bool) -> Self {
        let RequestTexts { kind, resource, .. } = texts;
        let fixed: [&str; GROUPS] = [
            texts.uid,
            kind[0],
            kind[1],
            kind[2],
            resource[0],
            resource[1],
            resource[2],
            texts.sub_resource,
            texts.name,
            texts.namespace,
            texts.username,
            texts.user_uid,
        ];
        let all = || fixed.into_iter().chain(groups.iter().map(AsRef::as_ref));
        let mut parts = Self {
            texts: String::with_capacity(all().map(str::len).sum()),
            ends: Vec::with_capacity(GROUPS.saturating_add(groups.len())),
            dry_run,
            wants_fixes: false,
        };
        for text in all() {
            parts.texts.push_str(text);
            parts.ends.push(parts.texts.len());
        }
        parts
    }

    /// The same request, for a host that uses fixes or not.
    #[must_use]
    pub fn wanting_fixes(mut self, wants_fixes: bool) -> Self {
        self.wants_fixes = wants_fixes;
        self
    }

    fn text(&self, position: usize) -> &str {
        let end = |position: usize| self.ends.get(position).copied().unwrap_or_default();
        let start = position.checked_sub(1).map_or(0, end);
        self.texts.get(start..end(position)).unwrap_or_default()
    }

    fn owned(&self, position: usize) -> String {
        self.text(position).to_owned()
    }

    /// Identifies the call.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.text(UID)
    }

    pub(super) fn sub_resource(&self) -> &str {
        self.text(SUB_RESOURCE)
    }

    pub(super) fn name(&self) -> &str {
        self.text(NAME)
    }

    pub(super) fn namespace(&self) -> &str {
        self.text(NAMESPACE)
    }

    pub(super) fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    pub(super) fn wants_fixes(&self) -> bool {
        self.wants_fixes
    }

    pub(super) fn kind(&self) -> wit::GroupVersionKind {
        let [group, version, kind] = [KIND, KIND + 1, KIND + 2].map(|at| self.owned(at));
        wit::GroupVersionKind { group, version, kind }
    }

    pub(super) fn resource(&self) -> wit::GroupVersionResource {
        let positions = [RESOURCE, RESOURCE + 1, RESOURCE + 2];
        let [group, version, resource] = positions.map(|at| self.owned(at));
        wit::GroupVersionResource { group, version, resource }
    }

    pub(super) fn user(&self) -> wit::UserInfo {
        wit::UserInfo {
            username: self.owned(USERNAME),
            uid: self.owned(USER_UID),
            groups: (GROUPS..self.ends.len()).map(|at| self.owned(at)).collect(),
        }
    }

    /// The number of the user's groups.
    pub(super) fn groups(&self) -> usize {
        self.ends.len().saturating_sub(GROUPS)
    }

    /// Bytes of the texts from one position up to another.
    fn bytes(&self, from: usize, to: usize) -> usize {
        (from..to).map(|at| self.text(at).len()).sum()
    }

    /// Bytes of the texts of the kind.
    pub(super) fn kind_size(&self) -> usize {
        self.bytes(KIND, RESOURCE)
    }

    /// Bytes of the texts of the resource.
    pub(super) fn resource_size(&self) -> usize {
        self.bytes(RESOURCE, SUB_RESOURCE)
    }

    /// Bytes of the texts of the user.
    pub(super) fn user_size(&self) -> usize {
        self.bytes(USERNAME, self.ends.len())
    }
}
