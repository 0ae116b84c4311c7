//! Policy `deletion-protection`: what is protected is not deleted by mistake.
//!
//! ```text
//! DELETE ─▶ is the old object protected? ──────────────▶ DEL-1
//!        ─▶ Namespace: protected claims in it ─────────▶ DEL-2
//! UPDATE ─▶ was it protected, and no longer? by whom? ─▶ DEL-3
//! ```

use opgate_sdk::cluster::{Query, ReadError};
use opgate_sdk::{
    ClusterRead, Document, Operation, Report, Review, Target, escape, go, policy, rule, rules,
};

/// Labels and annotations can be changed through sub-resources, too.
static NAMESPACE: Target = Target {
    groups: &[""],
    versions: &["v1"],
    resources: &["namespaces", "namespaces/status", "namespaces/finalize"],
    kind: "Namespace",
    ..Target::EMPTY
};

static CLAIM: Target = Target {
    groups: &[""],
    versions: &["v1"],
    resources: &["persistentvolumeclaims", "persistentvolumeclaims/status"],
    kind: "PersistentVolumeClaim",
    ..Target::EMPTY
};

static CLAIMS: ClusterRead = ClusterRead {
    version: "v1",
    resource: "persistentvolumeclaims",
    fields: &["/metadata/annotations"],
    ..ClusterRead::EMPTY
};

policy! {
    name: "deletion-protection",
    title: "what is protected is not deleted by mistake",
    rules: [RULES],
    routes: [NAMESPACE => judge_namespace, CLAIM => judge_claim],
    settings: include_str!("settings.json"),
}

rules![DEL_1, DEL_2, DEL_3];

rule! {
    /// a protected object is not deleted
    ///
    /// A Namespace or PersistentVolumeClaim with the label or the annotation of the setting `key`
    /// (`opgate.dev/protected`), with any value but `false`, is not deleted, whoever asks: not one
    /// by one, not as part of a collection, and not by a controller.
    ///
    /// # Why
    ///
    /// Nobody gets a namespace or a volume back.
    ///
    /// # Repair
    ///
    /// Let somebody who may do so remove the label or annotation, then delete the object.
    ///
    /// # Accepted
    ///
    /// DELETE of a claim with the label `opgate.dev/protected: "false"`
    ///
    /// # Rejected
    ///
    /// DELETE of a claim with the label `opgate.dev/protected: "true"`
    DEL_1: Deny {
        on: [NAMESPACE: Delete, CLAIM: Delete],
        source: "house rules, section 1",
    }
}

rule! {
    /// a Namespace with protected claims is not deleted
    ///
    /// No PersistentVolumeClaim in the Namespace is protected.
    ///
    /// # Why
    ///
    /// The controller deletes everything in a Namespace that is being deleted. DEL-1 stops it at the
    /// claims, and the Namespace hangs between life and death.
    ///
    /// # Repair
    ///
    /// Move or unprotect the claims, then delete the Namespace.
    ///
    /// # Accepted
    ///
    /// DELETE of a Namespace without claims
    ///
    /// # Rejected
    ///
    /// DELETE of a Namespace with a claim that has the label `opgate.dev/protected: "true"`
    DEL_2: Deny {
        on: [NAMESPACE: Delete],
        reads: [CLAIMS],
        source: "house rules, section 1",
    }
}

rule! {
    /// protection is taken away by those who may
    ///
    /// An UPDATE that leaves a protected object without protection comes from one of the users or
    /// groups of the setting `unprotect`. The sub-resources `status` and `finalize` count, because
    /// API servers take labels and annotations from them, too.
    ///
    /// # Why
    ///
    /// Otherwise everybody who may delete the object just writes to it first.
    ///
    /// # Repair
    ///
    /// Ask those who may.
    ///
    /// # Accepted
    ///
    /// An UPDATE that removes the label, by a member of `unprotect.groups`
    ///
    /// # Rejected
    ///
    /// The same by anybody else
    DEL_3: Deny {
        on: [NAMESPACE: Update, CLAIM: Update],
        source: "house rules, section 2",
    }
}

const KEY: &str = "opgate.dev/protected";

fn judge_namespace(review: &Review<'_>, report: &mut Report<'_>) {
    judge(review, report, "Namespace");
    if review.operation() == Operation::Delete && report.is_on(&DEL_2) {
        let claims = protected_claims(review);
        let Some(claims) = report.answer(&[&DEL_2], "PersistentVolumeClaims", claims) else {
            return;
        };
        if let Some((first, others)) = claims.split_first() {
            let more = if others.is_empty() {
                String::new()
            } else {
                format!(" and {} more", others.len())
            };
            let message = format!(
                "the Namespace has the protected PersistentVolumeClaim {}{more}: move or unprotect it first",
                go::quote(first)
            );
            report.add(&DEL_2, "", message);
        }
    }
}

fn judge_claim(review: &Review<'_>, report: &mut Report<'_>) {
    judge(review, report, "PersistentVolumeClaim");
}

fn judge(review: &Review<'_>, report: &mut Report<'_>, kind: &str) {
    let Some(old) = review.old else { return };
    let key = key(review);
    let Some(place) = protection(old, &key) else { return };
    match (review.operation(), review.object) {
        (Operation::Delete, _) => {
            let name = go::quote(&review.name(old));
            let message = format!(
                "{kind} {name} is protected: let somebody who may do so remove the {} {key} first",
                place.one
            );
            report.add(&DEL_1, place.field(&key), message);
        }
        (Operation::Update, Some(new))
            if protection(new, &key).is_none() && !may_unprotect(review) =>
        {
            let message = format!(
                "the {} {key} protects the {kind}, and you may not remove it: ask those who may",
                place.one
            );
            report.add(&DEL_3, place.field(&key), message);
        }
        _ => {}
    }
}

fn key(review: &Review<'_>) -> String {
    review.settings.text("/key").filter(|key| !key.is_empty()).unwrap_or_else(|| KEY.to_owned())
}

/// Where the protection stands.
struct Place {
    one: &'static str,
    list: &'static str,
}

impl Place {
    fn field(&self, key: &str) -> String {
        format!("metadata.{}[{key}]", self.list)
    }
}

const PLACES: [Place; 2] =
    [Place { one: "label", list: "labels" }, Place { one: "annotation", list: "annotations" }];

/// The label or annotation that protects an object. A word that somebody misspelt protects, too.
fn protection(object: &Document, key: &str) -> Option<&'static Place> {
    PLACES.iter().find(|place| {
        let value = object.text(&format!("/metadata/{}/{}", place.list, escape(key)));
        value.is_some_and(|value| value != "false")
    })
}

fn may_unprotect(review: &Review<'_>) -> bool {
    let user = review.request.user();
    review.settings.texts("/unprotect/users").contains(&user.username)
        || review.settings.texts("/unprotect/groups").iter().any(|it| user.groups.contains(it))
}

/// Names of the protected claims in the Namespace under review.
fn protected_claims(review: &Review<'_>) -> Result<Vec<String>, ReadError> {
    let name = review.old.map(|old| review.name(old)).unwrap_or_default();
    let key = key(review);
    let mut found: Vec<String> = Vec::new();
    CLAIMS.each(Query { namespace: Some(&name), ..Query::default() }, |claim| {
        let name = claim.text_or_empty("/metadata/name");
        // While another request is under way, the cluster may show a claim twice in a row.
        if protection(&claim, &key).is_some() && found.last() != Some(&name) {
            found.push(name);
        }
        true
    })?;
    Ok(found)
}
