//! Settings that the policies shipped with opgate have in common.
//!
//! A policy that uses them puts their properties into its settings schema. `rules` is not set by
//! hand: the host writes the levels that the configuration gives to the policy's rules there.

use crate::identities::Identities;
use crate::{Document, Level, Operation, Request, Verdict};

/// Whether an object has been deleted and waits for its finalizers.
#[must_use]
pub fn is_terminating(object: &Document) -> bool {
    object.has("/metadata/deletionTimestamp")
}

/// The common settings of one evaluation; looked up only where they are asked for.
#[derive(Debug, Clone, Copy)]
pub struct Conventions<'d>(pub &'d Document);

impl Conventions<'_> {
    /// Whether the request comes from an identity that the settings exempt (`exempt.users`,
    /// `exempt.groups`).
    #[must_use]
    pub fn exempts(&self, request: &Request) -> bool {
        self.0.has("/exempt") && {
            self.0.texts("/exempt/users").contains(&request.user.username)
                || self.0.texts("/exempt/groups").iter().any(|g| request.user.groups.contains(g))
        }
    }

    /// Whether a finding about the object is left out where what the rule looks at did not change:
    /// by the setting `ratcheting` (on unless set), and whatever it says where the object is on its
    /// way out.
    ///
    /// That is all that being on the way out exempts from. A finalizer of somebody's own keeps an
    /// object for as long as he likes, and controllers go on reading it; but whoever takes his
    /// finalizer away must be able to.
    #[must_use]
    pub fn ratchets(&self, object: &Document) -> bool {
        // The setting first: each look at a document costs, and it is nearly always on.
        self.0.boolean("/ratcheting").unwrap_or(true) || is_terminating(object)
    }

    /// What an UPDATE starts from, where a finding about what did not change is left out.
    #[must_use]
    pub fn spares<'o>(
        &self,
        request: &Request,
        object: &Document,
        old: Option<&'o Document>,
    ) -> Option<&'o Document> {
        old.filter(|_| request.operation == Operation::Update && self.ratchets(object))
    }

    /// As whom controllers write.
    #[must_use]
    pub fn identities(&self) -> Identities<'_> {
        Identities(self.0)
    }

    /// Whether a rule refuses requests, by the level that the configuration gives to it and
    /// otherwise by its own.
    #[must_use]
    pub fn denies(&self, rule: &str, by_default: bool) -> bool {
        match self.0.text(&format!("/rules/{rule}")) {
            Some(level) => level == "deny",
            None => by_default,
        }
    }

    /// Deny where a boolean setting is on, otherwise warn.
    #[must_use]
    pub fn deny_if(&self, pointer: &str) -> Level {
        if self.0.boolean(pointer) == Some(true) { Level::Deny } else { Level::Warn }
    }

    /// Puts the rule's id before each message where `messages.prefixRuleId` is on.
    #[must_use]
    pub fn finish(&self, mut verdict: Verdict) -> Verdict {
        if !verdict.violations.is_empty() && self.0.boolean("/messages/prefixRuleId") == Some(true)
        {
            for violation in &mut verdict.violations {
                violation.message = format!("{}: {}", violation.rule, violation.message);
            }
        }
        verdict
    }
}
