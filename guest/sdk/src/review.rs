//! A review for rules: the request, the object before it, the user who sent it, and the settings.

use crate::identities::Identities;
use crate::rule::FILES_GROUP;
use crate::{Document, InputType, Operation, Request, Shape};

/// The user of requests that `opgate check` makes of files.
pub(crate) const CHECK_USER: &str = "opgate:check";

/// Reports whether an object has been deleted and waits for its finalizers.
#[must_use]
pub fn is_terminating(object: &Document) -> bool {
    object.has("/metadata/deletionTimestamp")
}

/// A request with its objects and the settings of the policy.
#[derive(Debug, Clone, Copy)]
pub struct Review<'r> {
    /// The request.
    pub request: &'r Request<'r>,
    /// The object, absent on DELETE.
    pub object: Option<&'r Document>,
    /// The object before, absent on CREATE and CONNECT.
    pub old: Option<&'r Document>,
    /// The settings, an object.
    pub settings: &'r Document,
}

impl<'r> Review<'r> {
    /// Returns the operation of the request.
    #[must_use]
    pub fn operation(&self) -> Operation {
        self.request.operation()
    }

    /// Reports whether the request comes from an identity that the settings exempt (`exempt.users`,
    /// `exempt.groups`). The report ignores violations of such a request, except those of rules without
    /// exemptions. A policy that checks first avoids the work.
    #[must_use]
    pub fn is_exempt(&self) -> bool {
        self.settings.has("/exempt") && {
            let user = self.request.user();
            self.settings.texts("/exempt/users").contains(&user.username)
                || self.settings.texts("/exempt/groups").iter().any(|g| user.groups.contains(g))
        }
    }

    /// Returns the object, unless the user who sent the request is exempt.
    #[must_use]
    pub fn subject(&self) -> Option<&'r Document> {
        self.object.filter(|_| !self.is_exempt())
    }

    /// Returns the object before an UPDATE.
    #[must_use]
    pub fn old_of_update(&self) -> Option<&'r Document> {
        self.old.filter(|_| self.operation() == Operation::Update)
    }

    /// Reports whether the request is an UPDATE of an object.
    #[must_use]
    pub fn is_update(&self) -> bool {
        self.old_of_update().is_some()
    }

    /// Returns the object before an UPDATE, if violations in unchanged fields are omitted. The setting
    /// `ratcheting` controls this (on unless set). For an object that is being deleted they are always
    /// omitted.
    ///
    /// An object that is being deleted is exempt from nothing else. Any user can keep an object
    /// with a finalizer, and controllers continue to read it. But the user must be able to remove
    /// the finalizer.
    #[must_use]
    pub fn ratchet_base(&self) -> Option<&'r Document> {
        let object = self.object?;
        // The setting first: each look-up in a document costs time, and the setting is nearly
        // always on.
        self.old_of_update().filter(|_| {
            self.settings.boolean("/ratcheting").unwrap_or(true) || is_terminating(object)
        })
    }

    /// Reports whether a rule must evaluate the value at the pointer: always on CREATE, on UPDATE only if it
    /// changed. Values with the same meaning are equal: a controller that writes an object back adds members
    /// that its author omitted.
    #[must_use]
    #[track_caller]
    pub fn touches(&self, object: &Document, pointer: &str, shape: &Shape) -> bool {
        // There is no closure, so that an error has the location of the caller.
        match self.ratchet_base() {
            Some(old) => !shape.equal(object, old, pointer),
            None => true,
        }
    }

    /// [`Review::touches`] for a map or any other value that is compared as JSON.
    #[must_use]
    #[track_caller]
    pub fn touches_json(&self, object: &Document, pointer: &str) -> bool {
        match self.ratchet_base() {
            Some(old) => !object.equal(pointer, old, pointer),
            None => true,
        }
    }

    /// Returns the name of the object.
    #[must_use]
    pub fn name(&self, object: &Document) -> String {
        object.text("/metadata/name").unwrap_or_else(|| self.request.name().to_owned())
    }

    /// Returns the namespace of the object.
    #[must_use]
    pub fn namespace(&self) -> &'r str {
        self.request.namespace()
    }

    /// Returns the users as which controllers send requests.
    #[must_use]
    pub fn identities(&self) -> Identities<'r> {
        Identities(self.settings)
    }

    /// Reports whether the object is a manifest in a file: `opgate check` created the request, and not in an
    /// audit of a cluster (group `opgate:audit`).
    #[must_use]
    pub fn is_from_file(&self) -> bool {
        !matches!(self.input_type(), InputType::Review | InputType::Cluster)
    }

    /// Reports whether the object is a manifest of a bundle in files: `opgate check` sends those as a member
    /// of the group `opgate:bundle`.
    #[must_use]
    pub fn is_from_bundle(&self) -> bool {
        self.input_type() == InputType::Bundle
    }

    /// Reports whether the object is stored in a cluster and its writer is unknown: an audit of `opgate
    /// check` sends requests as a member of the group `opgate:audit`. A rule that evaluates the user of the
    /// request does not apply.
    #[must_use]
    pub fn is_audit(&self) -> bool {
        self.input_type() == InputType::Cluster
    }

    /// Returns the source of the object.
    #[must_use]
    pub fn input_type(&self) -> InputType {
        let resource = self.request.resource();
        if resource.group == FILES_GROUP {
            return match resource.resource.as_str() {
                "filebasedcatalogs" => InputType::Catalog,
                "operatorprojects" => InputType::Project,
                _ => InputType::Bundle,
            };
        }
        let user = self.request.user();
        let is_member = |name: &str| user.groups.iter().any(|group| group == name);
        match user.username == CHECK_USER {
            false => InputType::Review,
            true if is_member("opgate:audit") => InputType::Cluster,
            true if is_member("opgate:bundle") => InputType::Bundle,
            true => InputType::Manifest,
        }
    }

    /// Reports whether OLM sent the request, or may have written an object whose writer is unknown.
    #[must_use]
    pub fn may_be_olm(&self) -> bool {
        self.identities().is_olm(self.request) || self.is_audit()
    }
}
