//! One review with what rules ask about it: what was there before, who sends it, which settings count.

use crate::identities::Identities;
use crate::{Document, Operation, Request, Shape};

/// Whether an object has been deleted and waits for its finalizers.
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
    /// What the request does.
    #[must_use]
    pub fn operation(&self) -> Operation {
        self.request.operation()
    }

    /// Whether the request comes from an identity that the settings exempt (`exempt.users`,
    /// `exempt.groups`). No finding of a rule that respects that gets into the report; who asks first
    /// saves the work.
    #[must_use]
    pub fn is_exempt(&self) -> bool {
        self.settings.has("/exempt") && {
            let user = self.request.user();
            self.settings.texts("/exempt/users").contains(&user.username)
                || self.settings.texts("/exempt/groups").iter().any(|g| user.groups.contains(g))
        }
    }

    /// The object, unless who sends it is exempt.
    #[must_use]
    pub fn subject(&self) -> Option<&'r Document> {
        self.object.filter(|_| !self.is_exempt())
    }

    /// What an UPDATE starts from.
    #[must_use]
    pub fn updates_from(&self) -> Option<&'r Document> {
        self.old.filter(|_| self.operation() == Operation::Update)
    }

    /// Whether there is nothing that the object was before.
    #[must_use]
    pub fn creates(&self) -> bool {
        self.updates_from().is_none()
    }

    /// What an UPDATE starts from, where a finding about what did not change is left out: by the setting
    /// `ratcheting` (on unless set), and whatever it says where the object is on its way out.
    ///
    /// That is all that being on the way out exempts from. A finalizer of somebody's own keeps an
    /// object for as long as he likes, and controllers go on reading it; but whoever takes his
    /// finalizer away must be able to.
    #[must_use]
    pub fn spares(&self) -> Option<&'r Document> {
        let object = self.object?;
        // The setting first: each look at a document costs, and it is nearly always on.
        self.updates_from().filter(|_| {
            self.settings.boolean("/ratcheting").unwrap_or(true) || is_terminating(object)
        })
    }

    /// Whether a rule that looks at what is at the pointer has anything to say: always on CREATE,
    /// on UPDATE only where it changed. Values of one meaning are the same: a controller that
    /// writes an object back spells out what its author left out.
    #[must_use]
    pub fn touches(&self, object: &Document, pointer: &str, shape: &Shape) -> bool {
        self.spares().is_none_or(|old| !shape.equal(object, old, pointer))
    }

    /// [`Review::touches`] for a map or anything else of which the JSON decides.
    #[must_use]
    pub fn touches_json(&self, object: &Document, pointer: &str) -> bool {
        self.spares().is_none_or(|old| !object.equal(pointer, old, pointer))
    }

    /// Name of the object.
    #[must_use]
    pub fn name(&self, object: &Document) -> String {
        object.text("/metadata/name").unwrap_or_else(|| self.request.name().to_owned())
    }

    /// Namespace of the object.
    #[must_use]
    pub fn namespace(&self) -> &'r str {
        self.request.namespace()
    }

    /// As whom controllers write.
    #[must_use]
    pub fn identities(&self) -> Identities<'r> {
        Identities(self.settings)
    }

    /// Whether OLM sends it.
    #[must_use]
    pub fn is_olms(&self) -> bool {
        self.identities().is_olm(self.request)
    }
}
