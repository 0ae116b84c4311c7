//! From a manifest to the AdmissionReview that an API server would send for it.
//!
//! ```text
//! Manifest, the older one ─┐
//! RequestOptions: who, what, where ─┼▶ GeneratedReview: the review, and what was guessed
//! Kinds ────────────────────────────┘
//! ```
//!
//! The object is used unchanged, plus the fields that an API server sets before it calls a webhook: a
//! namespace and a generated name. Defaults of the kind are not added.

use std::fmt::Write as _;

use opgate_admission::review::Operation;
use opgate_document::{Document, Kind, Value};
use opgate_input::objects::TypedObject;
use opgate_text::one_line;
use serde_json::{Value as Json, json};

use crate::cli::kinds::{Kinds, misspelling_hint};

/// The reason why no review can be made of a manifest.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum MakeReviewError {
    /// Its error, after its source.
    #[error("{0}")]
    Manifest(String),
    /// The object cannot be read.
    #[error(transparent)]
    Object(#[from] opgate_document::Error),
}

/// Default user of requests: the user of a cluster created with kubeadm.
pub(in crate::cli) const DEFAULT_USER: &str = "kubernetes-admin";
const ADMIN_GROUP: &str = "kubeadm:cluster-admins";
const AUTHENTICATED_GROUP: &str = "system:authenticated";
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// Characters of generated names, as Kubernetes takes them: none that make a word.
const NAME_SUFFIX_CHARS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const NAME_SUFFIX_LENGTH: usize = 5;

/// Bytes of an object that is made into a review.
const MAX_OBJECT_BYTES: usize = 256 << 20;

/// Parameters of a request.
#[derive(Debug, Clone, Default)]
pub(in crate::cli) struct RequestOptions {
    /// By whether there is an older object if it is not named.
    pub(in crate::cli) operation: Option<Operation>,
    pub(in crate::cli) user: Option<String>,
    pub(in crate::cli) groups: Vec<String>,
    /// Default namespace of objects.
    pub(in crate::cli) namespace: Option<String>,
    pub(in crate::cli) dry_run: bool,
    pub(in crate::cli) sub_resource: String,
    /// The resource, if it is not the known or guessed one.
    pub(in crate::cli) resource: Option<String>,
}

/// An object in a file.
#[derive(Debug, Clone)]
pub(in crate::cli) struct Manifest {
    /// Its source.
    pub(in crate::cli) source: String,
    pub(in crate::cli) group: String,
    pub(in crate::cli) version: String,
    pub(in crate::cli) kind: String,
    pub(in crate::cli) namespace: String,
    pub(in crate::cli) name: String,
    json: String,
}

/// A review, and what there is to say about it.
#[derive(Debug)]
pub(in crate::cli) struct GeneratedReview {
    /// JSON in one line.
    pub(in crate::cli) json: String,
    pub(in crate::cli) operation: Operation,
    pub(in crate::cli) user: String,
    /// Assumptions, one line each.
    pub(in crate::cli) notes: Vec<String>,
}

impl Manifest {
    pub(in crate::cli) fn of(source: &str, found: &TypedObject<'_, '_>) -> Self {
        let text = |pointer: &str| {
            let value = found.value.get(pointer).and_then(|value| value.text());
            value.unwrap_or_default().to_owned()
        };
        let (group, version) = found.group_version();
        let mut json = found.value.raw().into_owned();
        if !found.declares_type() {
            let said = format!(
                "\"apiVersion\":{},\"kind\":{}",
                json_string(found.api_version),
                json_string(found.kind)
            );
            json = insert_member(&json, 1, &said, found.value.length() != Some(0));
        }
        Self {
            source: source.to_owned(),
            group: group.to_owned(),
            version: version.to_owned(),
            kind: found.kind.to_owned(),
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name"),
            json,
        }
    }

    /// Reports whether both are versions of one object.
    pub(in crate::cli) fn is_same_object(&self, other: &Self) -> bool {
        let or = |namespace: &str| match namespace {
            "" => "default".to_owned(),
            other => other.to_owned(),
        };
        self.group == other.group
            && self.kind == other.kind
            && self.name == other.name
            && or(&self.namespace) == or(&other.namespace)
    }

    /// Returns `Pod default/web`.
    pub(in crate::cli) fn display_name(&self) -> String {
        let Self { kind, namespace, name, .. } = self;
        let namespace = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        one_line(&format!("{kind} {namespace}{name}"), 512)
    }

    /// Adds a missing member to its metadata.
    fn add_metadata(&mut self, member: &str, text: &str) -> Result<(), MakeReviewError> {
        let wrong =
            || MakeReviewError::Manifest(format!("{}: metadata is not an object", self.source));
        let document = Document::of(self.json.clone())?;
        let metadata = document.get("/metadata");
        let metadata = metadata.filter(|m| m.kind() == Kind::Object).ok_or_else(wrong)?;
        let said = format!("{}:{}", json_string(member), json_string(text));
        let at = metadata.range().start.saturating_add(1);
        let is_more = metadata.length() != Some(0);
        let json = insert_member(&self.json, at, &said, is_more);
        self.json = json;
        Ok(())
    }
}

/// Inserts a member at an offset, at which an object begins.
fn insert_member(json: &str, at: usize, member: &str, is_more: bool) -> String {
    let (before, after) = json.split_at_checked(at).unwrap_or((json, ""));
    let comma = if is_more { "," } else { "" };
    format!("{before}{member}{comma}{after}")
}

/// Returns a JSON string.
fn json_string(text: &str) -> String {
    Json::from(text).to_string()
}

/// Returns bytes that only depend on texts.
fn digest(texts: &[&str]) -> [u8; 32] {
    use aws_lc_rs::digest::{Context, SHA256};
    let mut context = Context::new(&SHA256);
    for text in texts {
        context.update(&text.len().to_be_bytes());
        context.update(text.as_bytes());
    }
    let mut bytes = [0; 32];
    for (byte, made) in bytes.iter_mut().zip(context.finish().as_ref()) {
        *byte = *made;
    }
    bytes
}

/// Returns a UUID of bytes (version 8: of one's own making).
fn uuid(bytes: &[u8; 32]) -> String {
    let mut text = String::with_capacity(36);
    for (index, byte) in bytes.iter().take(16).enumerate() {
        let byte = match index {
            6 => (byte & 0x0f) | 0x80,
            8 => (byte & 0x3f) | 0x80,
            _ => *byte,
        };
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        // Writing to a text does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Returns the groups of a user, as an API server assigns them.
fn groups_of(user: &str, named: &[String]) -> Vec<String> {
    let mut groups: Vec<String> = named.to_vec();
    if let Some(account) = user.strip_prefix(SERVICE_ACCOUNT_PREFIX) {
        let namespace = account.split(':').next().unwrap_or_default();
        groups.push("system:serviceaccounts".to_owned());
        groups.push(format!("system:serviceaccounts:{namespace}"));
    } else if user == DEFAULT_USER && named.is_empty() {
        groups.push(ADMIN_GROUP.to_owned());
    }
    if user != "system:anonymous" && !groups.iter().any(|group| group == AUTHENTICATED_GROUP) {
        groups.push(AUTHENTICATED_GROUP.to_owned());
    }
    groups
}

/// Returns the `options` of a request.
pub(in crate::cli) fn options_of(operation: Operation, dry_run: bool) -> Json {
    let mut options = match operation {
        Operation::Create => {
            json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "kubectl-client-side-apply", "fieldValidation": "Strict"})
        }
        Operation::Update => {
            json!({"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "kubectl-client-side-apply", "fieldValidation": "Strict"})
        }
        Operation::Delete => {
            json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "propagationPolicy": "Background"})
        }
        Operation::Connect => return Json::Null,
    };
    if dry_run && let Some(options) = options.as_object_mut() {
        options.insert("dryRun".to_owned(), json!(["All"]));
    }
    options
}

/// The object of a request for a sub-resource, with its own kind.
struct SubResourceObject {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    json: String,
}

/// Returns the object of a request for a sub-resource; none if it is that of the resource.
fn sub_resource_object(
    resource: &str,
    sub: &str,
    manifest: &Manifest,
) -> Result<Option<SubResourceObject>, MakeReviewError> {
    let empty = |kind: &str| json!({"kind": kind, "apiVersion": "v1"}).to_string();
    let (group, version, kind, json) = match (resource, sub) {
        ("pods", "exec") => ("", "v1", "PodExecOptions", json!({"kind": "PodExecOptions", "apiVersion": "v1", "stdin": true, "stdout": true, "stderr": true, "tty": true, "command": ["sh"]}).to_string()),
        ("pods", "attach") => ("", "v1", "PodAttachOptions", json!({"kind": "PodAttachOptions", "apiVersion": "v1", "stdin": true, "stdout": true, "stderr": true}).to_string()),
        ("pods", "portforward") => ("", "v1", "PodPortForwardOptions", empty("PodPortForwardOptions")),
        ("pods", "proxy") => ("", "v1", "PodProxyOptions", empty("PodProxyOptions")),
        ("services", "proxy") => ("", "v1", "ServiceProxyOptions", empty("ServiceProxyOptions")),
        ("nodes", "proxy") => ("", "v1", "NodeProxyOptions", empty("NodeProxyOptions")),
        ("pods", "eviction") if manifest.kind == "Pod" => {
            let metadata = json!({"name": manifest.name, "namespace": manifest.namespace});
            let eviction = json!({"kind": "Eviction", "apiVersion": "policy/v1", "metadata": metadata});
            ("policy", "v1", "Eviction", eviction.to_string())
        }
        (_, "scale") if manifest.kind != "Scale" => {
            let document = Document::of(manifest.json.clone())?;
            let replicas = document.get("/spec/replicas").and_then(|value: Value<'_>| value.integer());
            let metadata = json!({"name": manifest.name, "namespace": manifest.namespace});
            let scale = json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": {"replicas": replicas.unwrap_or(1)}, "status": {"replicas": replicas.unwrap_or(1)}});
            ("autoscaling", "v1", "Scale", scale.to_string())
        }
        _ => return Ok(None),
    };
    Ok(Some(SubResourceObject { group, version, kind, json }))
}

/// Returns the default operation of a request.
fn default_operation(request_options: &RequestOptions, has_old: bool) -> Operation {
    let by_sub = || match request_options.sub_resource.as_str() {
        "exec" | "attach" | "portforward" | "proxy" => Operation::Connect,
        "eviction" | "binding" | "token" => Operation::Create,
        "status" | "scale" | "ephemeralcontainers" | "resize" | "approval" | "finalize" => {
            Operation::Update
        }
        _ if has_old => Operation::Update,
        _ => Operation::Create,
    };
    request_options.operation.unwrap_or_else(by_sub)
}

/// Creates the review of a manifest. `old` is the stored version.
///
/// # Errors
/// Returns an error that names the missing input.
pub(in crate::cli) fn make_review(
    manifest: &Manifest,
    old: Option<&Manifest>,
    request_options: &RequestOptions,
    kinds: &Kinds,
) -> Result<GeneratedReview, MakeReviewError> {
    let fail = |why: &str| Err(MakeReviewError::Manifest(format!("{}: {why}", manifest.source)));
    if manifest.json.len().saturating_add(old.map_or(0, |old| old.json.len())) > MAX_OBJECT_BYTES {
        return fail("larger than any object of an API server");
    }
    let operation = default_operation(request_options, old.is_some());
    let mut notes = Vec::new();
    let known = kinds.of(&manifest.group, &manifest.kind);
    let resource = request_options.resource.clone().unwrap_or(known.resource);
    if known.is_guess && request_options.resource.is_none() {
        let (group, kind) = (&manifest.group, &manifest.kind);
        let what = misspelling_hint(group, kind).unwrap_or_else(|| {
            format!("the resource of {} is not known", one_line(&format!("{kind} in {group}"), 128))
        });
        notes.push(format!("{}: {what}: taken for {}", manifest.source, one_line(&resource, 64)));
    }
    let mut new = manifest.clone();
    let mut old = old.cloned();
    if old.is_none() && operation == Operation::Update {
        return fail("an UPDATE has an older object as well: name it with --old");
    }
    let document = Document::of(new.json.clone())
        .map_err(|e| MakeReviewError::Manifest(format!("{}: {e}", new.source)))?;
    let prefix = document.get("/metadata/generateName").and_then(|value| value.text());
    let prefix = prefix.filter(|prefix| !prefix.is_empty()).map(str::to_owned);
    // The name in the request is that of the sender: empty where the API server makes one.
    let name = new.name.clone();
    if name.is_empty() && (prefix.is_none() || operation != Operation::Create) {
        let kind = one_line(&new.kind, 64);
        return fail(&format!("a {kind} without metadata.name: give it one"));
    }
    for one in std::iter::once(&mut new).chain(&mut old) {
        if known.is_namespaced && one.namespace.is_empty() {
            let namespace = request_options.namespace.as_deref().unwrap_or("default");
            namespace.clone_into(&mut one.namespace);
            one.add_metadata("namespace", namespace)?;
        }
    }
    if let Some(prefix) = prefix.filter(|_| name.is_empty()) {
        let bytes = digest(&[&new.json]);
        let letter = |byte: &u8| {
            NAME_SUFFIX_CHARS.get(usize::from(*byte) % NAME_SUFFIX_CHARS.len()).copied()
        };
        let made = bytes.iter().filter_map(letter).take(NAME_SUFFIX_LENGTH).map(char::from);
        let generated = format!("{prefix}{}", made.collect::<String>());
        new.add_metadata("name", &generated)?;
        new.name = generated;
    }
    let sub = request_options.sub_resource.as_str();
    let (mut group, mut version, mut kind) =
        (new.group.as_str(), new.version.as_str(), new.kind.as_str());
    let (mut object, mut old_object) = match operation {
        Operation::Create | Operation::Update => (new.json.clone(), old.map(|old| old.json)),
        Operation::Delete => {
            ("null".to_owned(), Some(old.map_or_else(|| new.json.clone(), |old| old.json)))
        }
        Operation::Connect => (new.json.clone(), None),
    };
    if let Some(own) = sub_resource_object(&resource, sub, &new)? {
        (group, version, kind) = (own.group, own.version, own.kind);
        if operation == Operation::Update
            && let Some(old) = &old_object
        {
            let older = Manifest { json: old.clone(), ..new.clone() };
            old_object = sub_resource_object(&resource, sub, &older)?.map(|own| own.json);
        }
        object = own.json;
    } else if operation == Operation::Connect {
        return fail(
            "a CONNECT requires a sub-resource: name it with --sub-resource, such as exec of a Pod",
        );
    }
    let user = request_options.user.clone().unwrap_or_else(|| DEFAULT_USER.to_owned());
    // The API server names a Namespace as its own namespace.
    let is_namespace = new.group.is_empty() && new.kind == "Namespace";
    let namespace = if is_namespace { &new.name } else { &new.namespace };
    let old_object = old_object.unwrap_or_else(|| "null".to_owned());
    let mut info = json!({"username": user, "groups": groups_of(&user, &request_options.groups)});
    if let (Some(account), Some(info)) =
        (user.strip_prefix(SERVICE_ACCOUNT_PREFIX), info.as_object_mut())
    {
        info.insert("uid".to_owned(), uuid(&digest(&[account])).into());
    }
    let (info, options) =
        (info.to_string(), options_of(operation, request_options.dry_run).to_string());
    let id = [operation.as_str(), &resource, sub, &object, &old_object, &info, &options];
    let uid = uuid(&digest(&id));
    let json = review_json(&ReviewParts {
        uid: &uid,
        kind: (group, version, kind),
        resource: (&new.group, &new.version, &resource),
        sub_resource: sub,
        name: &name,
        namespace,
        operation,
        user: &info,
        object: &object,
        old_object: &old_object,
        is_dry_run: request_options.dry_run,
        options: &options,
    });
    Ok(GeneratedReview { json, operation, user, notes })
}

/// The parts of an AdmissionReview. Members of a request that only repeat others are made from them.
pub(in crate::cli) struct ReviewParts<'a> {
    pub(in crate::cli) uid: &'a str,
    /// Group, version and kind of the object.
    pub(in crate::cli) kind: (&'a str, &'a str, &'a str),
    /// Group, version and resource of the request.
    pub(in crate::cli) resource: (&'a str, &'a str, &'a str),
    pub(in crate::cli) sub_resource: &'a str,
    pub(in crate::cli) name: &'a str,
    pub(in crate::cli) namespace: &'a str,
    pub(in crate::cli) operation: Operation,
    /// `userInfo` as JSON.
    pub(in crate::cli) user: &'a str,
    /// The object and the older one as JSON, or `null`.
    pub(in crate::cli) object: &'a str,
    pub(in crate::cli) old_object: &'a str,
    pub(in crate::cli) is_dry_run: bool,
    /// `options` as JSON.
    pub(in crate::cli) options: &'a str,
}

/// Returns an AdmissionReview as JSON in one line.
pub(in crate::cli) fn review_json(parts: &ReviewParts<'_>) -> String {
    let ReviewParts { uid, sub_resource, user, object, old_object, is_dry_run, options, .. } =
        parts;
    let typed = |(group, version, name): (&str, &str, &str), member: &str| {
        let (group, version, name) = (json_string(group), json_string(version), json_string(name));
        format!(r#"{{"group":{group},"version":{version},"{member}":{name}}}"#)
    };
    let (kind, resource) = (typed(parts.kind, "kind"), typed(parts.resource, "resource"));
    let optional = |member: &str, text: &str| match text {
        "" => String::new(),
        text => format!("{}:{},", json_string(member), json_string(text)),
    };
    let sub = optional("subResource", sub_resource);
    let request_sub = optional("requestSubResource", sub_resource);
    let (name, namespace) = (optional("name", parts.name), optional("namespace", parts.namespace));
    let (uid, operation) = (json_string(uid), parts.operation.as_str());
    let json = format!(
        r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{{"uid":{uid},"kind":{kind},"resource":{resource},{sub}"requestKind":{kind},"requestResource":{resource},{request_sub}{name}{namespace}"operation":"{operation}","userInfo":{user},"object":{object},"oldObject":{old_object},"dryRun":{is_dry_run},"options":{options}}}}}"#
    );
    // Between values; texts have them escaped.
    json.replace(['\n', '\r'], " ")
}
