//! A denied request, reduced to what its Event shows, in few bytes: users determine most of it.

use aws_lc_rs::digest::{Context, SHA256};
use opgate_admission::policy::{Decision, Effect};
use opgate_admission::review::{Controller, GroupVersionName, Operation, Review};
use opgate_text::one_line;
use time::OffsetDateTime;

use super::hour;

/// An API server accepts a note of 1,024 bytes.
const MAX_NOTE_BYTES: usize = 1_024;

/// Maximum bytes of the rules in a note.
const MAX_RULES_BYTES: usize = 256;

/// Maximum bytes of a name, of a kind, and of the group and version of one.
const MAX_NAME_BYTES: usize = 253;
const MAX_KIND_BYTES: usize = 63;
const MAX_UID_BYTES: usize = 64;

/// The namespace of Events about cluster-scoped objects, as in Kubernetes.
const CLUSTER_SCOPED_NAMESPACE: &str = "default";

/// Bytes of the digest in the name of an Event.
const DIGEST_BYTES: usize = 16;

/// The namespace of a request, or its user if there is none.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Tenant {
    Namespace(String),
    User(String),
}

impl Tenant {
    /// Bytes of its name.
    pub(super) fn size(&self) -> usize {
        let (Self::Namespace(name) | Self::User(name)) = self;
        name.len()
    }
}

/// A reference to an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ObjectReference {
    pub(super) api_version: String,
    pub(super) kind: String,
    /// Empty for a cluster-scoped object.
    pub(super) namespace: String,
    pub(super) name: String,
    /// Empty if the object is not stored.
    pub(super) uid: String,
}

impl ObjectReference {
    fn size(&self) -> usize {
        let Self { api_version, kind, namespace, name, uid } = self;
        [api_version, kind, namespace, name, uid].into_iter().map(String::len).sum()
    }
}

/// A denied request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Denial {
    pub(super) tenant: Tenant,
    /// The name of its Event: equal for the same object, rules and hour.
    pub(super) event: String,
    /// The namespace of its Event.
    pub(super) namespace: String,
    /// The number of its hour.
    pub(super) hour: i64,
    pub(super) at: OffsetDateTime,
    /// The object, or the controller that creates it.
    pub(super) regarding: ObjectReference,
    /// The object, if it is not `regarding`.
    pub(super) related: Option<ObjectReference>,
    pub(super) action: &'static str,
    pub(super) note: String,
}

impl Denial {
    /// The denial of a review; `None` without one, for a dry run, and for Events themselves: a denied
    /// Event would cause the next one.
    pub(super) fn of(review: &Review<'_>, decision: &Decision, at: OffsetDateTime) -> Option<Self> {
        let denial = decision.denial.as_ref()?;
        if review.dry_run || is_event(&review.resource) {
            return None;
        }
        let own_namespace = review.own_namespace();
        let (tenant, namespace) = if own_namespace.is_empty() {
            let user = one_line(&review.username, MAX_NAME_BYTES);
            (Tenant::User(user), CLUSTER_SCOPED_NAMESPACE)
        } else if is_namespace_name(own_namespace) {
            (Tenant::Namespace(own_namespace.to_owned()), own_namespace)
        } else {
            // No API server sends it, and it would be a part of a path.
            return None;
        };
        let object = ObjectReference {
            api_version: api_version(&review.kind),
            kind: one_line(&review.kind.name, MAX_KIND_BYTES),
            namespace: own_namespace.to_owned(),
            name: one_line(&review.name, MAX_NAME_BYTES),
            uid: one_line(&review.stored_uid().unwrap_or_default(), MAX_UID_BYTES),
        };
        let owner = review.creating_controller().map(|owner| reference(owner, own_namespace));
        let action = action(review.operation);
        let deny = decision.violations.iter().filter(|v| v.effect == Effect::Deny);
        let mut rules: Vec<_> = deny.map(|violation| violation.rule.as_str()).collect();
        rules.sort_unstable();
        rules.dedup();
        let prefix = review.generated_name_prefix();
        let hour = hour(at);
        let series =
            Series { review, object: &object, owner: owner.as_ref(), prefix, rules: &rules };
        let event = series.event_name(namespace, hour);
        let note = note(review, &object, &rules, &denial.message);
        let (regarding, related) = match owner {
            Some(owner) => (owner, Some(object)),
            None => (object, None),
        };
        let namespace = namespace.to_owned();
        Some(Self { tenant, event, namespace, hour, at, regarding, related, action, note })
    }

    /// Bytes of its texts.
    pub(super) fn size(&self) -> usize {
        let Self { tenant, event, namespace, regarding, related, note, .. } = self;
        let related = related.as_ref().map_or(0, ObjectReference::size);
        let texts = event.len() + namespace.len() + note.len();
        tenant.size() + texts + regarding.size() + related
    }
}

/// What distinguishes one Event from another.
struct Series<'a> {
    review: &'a Review<'a>,
    object: &'a ObjectReference,
    owner: Option<&'a ObjectReference>,
    /// The start of a generated name. Each attempt of a controller has another name.
    prefix: Option<String>,
    rules: &'a [&'a str],
}

impl Series<'_> {
    fn event_name(&self, namespace: &str, hour: i64) -> String {
        let Self { review, object, owner, prefix, rules } = self;
        let mut digest = Context::new(&SHA256);
        let mut add = |text: &str| {
            digest.update(&u64::try_from(text.len()).unwrap_or(u64::MAX).to_be_bytes());
            digest.update(text.as_bytes());
        };
        add(namespace);
        add(&hour.to_string());
        add(review.operation.as_str());
        add(&review.sub_resource);
        add(&object.api_version);
        add(&object.kind);
        add(if prefix.is_some() { "prefix" } else { "name" });
        add(prefix.as_deref().unwrap_or(&object.name));
        add(&object.uid);
        add(owner.map_or("", |owner| &owner.uid));
        rules.iter().for_each(|rule| add(rule));
        let digest = digest.finish();
        let bytes = digest.as_ref().iter().take(DIGEST_BYTES);
        let digits = bytes.map(|byte| format!("{byte:02x}"));
        std::iter::once("opgate-denied.".to_owned()).chain(digits).collect()
    }
}

fn note(review: &Review<'_>, object: &ObjectReference, rules: &[&str], message: &str) -> String {
    let rules = one_line(&rules.join(", "), MAX_RULES_BYTES);
    let sub_resource = one_line(&review.sub_resource, MAX_KIND_BYTES);
    let slash = if sub_resource.is_empty() { "" } else { "/" };
    let ObjectReference { kind, name, .. } = object;
    let operation = review.operation.as_str();
    let text =
        format!("{operation} of {kind} {name}{slash}{sub_resource} denied: {rules}: {message}");
    one_line(&text, MAX_NOTE_BYTES)
}

fn is_event(resource: &GroupVersionName<'_>) -> bool {
    resource.name == "events" && matches!(&*resource.group, "" | "events.k8s.io")
}

/// Reports whether a text can be the name of a Namespace.
fn is_namespace_name(text: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=63).contains(&text.len()) && text.bytes().all(is_plain)
}

fn action(operation: Operation) -> &'static str {
    match operation {
        Operation::Create => "Create",
        Operation::Update => "Update",
        Operation::Delete => "Delete",
        Operation::Connect => "Connect",
    }
}

fn api_version(kind: &GroupVersionName<'_>) -> String {
    let GroupVersionName { group, version, .. } = kind;
    let text = if group.is_empty() { version.to_string() } else { format!("{group}/{version}") };
    one_line(&text, MAX_NAME_BYTES)
}

/// A reference to the controller of an object in a namespace, which is that of the controller, too.
fn reference(owner: Controller, namespace: &str) -> ObjectReference {
    let Controller { api_version, kind, name, uid } = owner;
    let cut = |text: &str, limit| one_line(text, limit);
    ObjectReference {
        api_version: cut(&api_version, MAX_NAME_BYTES),
        kind: cut(&kind, MAX_KIND_BYTES),
        namespace: namespace.to_owned(),
        name: cut(&name, MAX_NAME_BYTES),
        uid: cut(&uid, MAX_UID_BYTES),
    }
}
