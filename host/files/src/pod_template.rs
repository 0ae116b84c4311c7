//! The Pods that workloads in files create: one request for each pod template.
//!
//! ```text
//! Deployment, Job, … ─▶ its template ─▶ CREATE of a Pod, whose violations have places in the template
//! ```
//!
//! A server evaluates these Pods when a controller creates them. In files there are only the workloads.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write as _;

use opgate_document::{Document, Kind, Value, equal};

use crate::json::json_string;
use crate::reviews::{Object, PodTemplate, Request, RequestObject, Subject};

/// A controller that creates Pods, and the object that owns them.
struct Workload {
    group: &'static str,
    kind: &'static str,
    /// JSON pointer of the pod template.
    template: &'static str,
    /// The kind of the owner of a Pod, in the same group.
    owner: &'static str,
}

const TEMPLATE: &str = "/spec/template";

const WORKLOADS: [Workload; 7] = [
    Workload {
        group: "",
        kind: "ReplicationController",
        template: TEMPLATE,
        owner: "ReplicationController",
    },
    Workload { group: "apps", kind: "DaemonSet", template: TEMPLATE, owner: "DaemonSet" },
    Workload { group: "apps", kind: "Deployment", template: TEMPLATE, owner: "ReplicaSet" },
    Workload { group: "apps", kind: "ReplicaSet", template: TEMPLATE, owner: "ReplicaSet" },
    Workload { group: "apps", kind: "StatefulSet", template: TEMPLATE, owner: "StatefulSet" },
    Workload {
        group: "batch",
        kind: "CronJob",
        template: "/spec/jobTemplate/spec/template",
        owner: "Job",
    },
    Workload { group: "batch", kind: "Job", template: TEMPLATE, owner: "Job" },
];

/// Members of the metadata of a template that its controller copies.
const TEMPLATE_MEMBERS: [&str; 3] = ["labels", "annotations", "finalizers"];

/// JSON pointer of the volumes of a Pod.
const VOLUMES: &str = "/spec/volumes";

impl Subject {
    /// Adds the creation of a Pod after each request for a workload with a pod template. A template that equals that
    /// of the published version creates no Pods.
    pub fn expand_pod_templates(&mut self) {
        let requests = std::mem::take(&mut self.requests);
        for request in requests {
            let pod = request.pod();
            self.requests.push(request);
            self.requests.extend(pod);
        }
    }
}

impl Request {
    /// Returns the creation of a Pod by this workload.
    fn pod(&self) -> Option<Self> {
        let is_it =
            |workload: &&Workload| workload.group == self.group && workload.kind == self.kind;
        let workload = WORKLOADS.iter().find(is_it)?;
        if self.is_stored || self.recorded.is_some() || self.template.is_some() {
            return None;
        }
        let RequestObject::Object(object) = &self.object else { return None };
        let document = object.document()?;
        let template = document.get(workload.template)?;
        let spec = template.get("/spec").filter(|spec| spec.kind() == Kind::Object)?;
        if let Some(RequestObject::Object(old)) = &self.old
            && let Some(old) = old.document()
            && equal(Some(template), old.get(workload.template))
        {
            return None;
        }
        let names = PodNames::of(self, &document);
        let json = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{},"spec":{}}}"#,
            self.pod_metadata(workload, template, &names),
            names.spec_with_claims(&document, spec)
        );
        let mut pod = object.clone();
        pod.pointer.push_str(workload.template);
        pod.original_json = Some(json.into());
        let mut shown = self.display_name();
        if self.name.is_empty() {
            shown.push_str(&names.owner);
        }
        Some(Self {
            group: String::new(),
            version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            resource: "pods".to_owned(),
            namespace: self.namespace.clone(),
            name: names.pod.unwrap_or_default(),
            object: RequestObject::Object(pod),
            old: None,
            prefix: self.prefix.clone(),
            is_stored: false,
            recorded: None,
            template: Some(PodTemplate {
                pointer: workload.template,
                workload: shown.trim_end().to_owned(),
                object: self.object.clone(),
            }),
        })
    }

    /// Returns the metadata of a Pod, as its controller writes it.
    fn pod_metadata(&self, workload: &Workload, template: Value<'_>, names: &PodNames) -> String {
        let members = template.get("/metadata").into_iter().flat_map(|value| value.members());
        let members = members.filter(|(name, _)| TEMPLATE_MEMBERS.contains(name));
        let mut json = "{".to_owned();
        for (name, value) in members {
            // Writing to a text does not fail.
            let _ = write!(json, "{}:{},", json_string(name), value.raw());
        }
        if !self.namespace.is_empty() {
            let _ = write!(json, r#""namespace":{},"#, json_string(&self.namespace));
        }
        let (member, name) = match &names.pod {
            Some(name) => ("name", name.clone()),
            None => ("generateName", format!("{}-", names.owner.trim_end_matches('-'))),
        };
        let group = if self.group.is_empty() { "" } else { "/" };
        let api_version = json_string(&format!("{}{group}{}", self.group, self.version));
        let _ = write!(
            json,
            r#""{member}":{},"ownerReferences":[{{"apiVersion":{api_version},"kind":{},"name":{},"uid":"","controller":true,"blockOwnerDeletion":true}}]}}"#,
            json_string(&name),
            json_string(workload.owner),
            json_string(&names.owner),
        );
        json
    }
}

/// The names that a Pod has from its workload.
struct PodNames {
    /// The workload, or the beginning of its name if the API server generates it.
    owner: String,
    /// The first Pod of a `StatefulSet`. The API server generates the names of others.
    pod: Option<String>,
    is_stateful: bool,
}

impl PodNames {
    fn of(request: &Request, workload: &Document) -> Self {
        let is_stateful = request.group == "apps" && request.kind == "StatefulSet";
        let generated = workload.get("/metadata/generateName").and_then(|value| value.text());
        let first = workload.get("/spec/ordinals/start").and_then(|value| value.integer());
        let is_named = !request.name.is_empty();
        Self {
            owner: if is_named { &request.name } else { generated.unwrap_or_default() }.to_owned(),
            pod: (is_stateful && is_named)
                .then(|| format!("{}-{}", request.name, first.unwrap_or_default())),
            is_stateful,
        }
    }

    /// Returns the spec of a Pod: that of the template, and of a `StatefulSet` with a volume for each template of a
    /// claim, in the place of a volume with the same name.
    fn spec_with_claims<'s>(&self, workload: &Document, spec: Value<'s>) -> Cow<'s, str> {
        let templates = workload.get("/spec/volumeClaimTemplates").filter(|_| self.is_stateful);
        let templates = templates.into_iter().flat_map(|templates| templates.items());
        let names = templates.filter_map(|claim| claim.get("/metadata/name")?.text());
        let claims: Vec<&str> = names.collect();
        let written = spec.get("/volumes").filter(|volumes| volumes.kind() != Kind::Null);
        if claims.is_empty() || written.is_some_and(|volumes| volumes.kind() != Kind::List) {
            return spec.raw();
        }
        let claim_volume = |claim: &str| {
            let instance = self.pod.as_ref().unwrap_or(&self.owner);
            let (name, of) = (json_string(claim), json_string(&format!("{claim}-{instance}")));
            format!(r#"{{"name":{name},"persistentVolumeClaim":{{"claimName":{of}}}}}"#)
        };
        let mut left: HashSet<&str> = claims.iter().copied().collect();
        let mut volumes = Vec::new();
        for volume in written.into_iter().flat_map(|volumes| volumes.items()) {
            let name = volume.get("/name").and_then(|name| name.text());
            match name.and_then(|name| left.take(name)) {
                Some(claim) => volumes.push(claim_volume(claim)),
                None => volumes.push(volume.raw().into_owned()),
            }
        }
        volumes.extend(claims.into_iter().filter(|claim| left.remove(claim)).map(claim_volume));
        let mut json = "{".to_owned();
        for (name, value) in spec.members().filter(|(name, _)| *name != "volumes") {
            // Writing to a text does not fail.
            let _ = write!(json, "{}:{},", json_string(name), value.raw());
        }
        let _ = write!(json, r#""volumes":[{}]}}"#, volumes.join(","));
        Cow::Owned(json)
    }
}

impl Object {
    /// Returns the object as a document.
    fn document(&self) -> Option<Document> {
        match &self.original_json {
            Some(json) => Document::of(str::to_owned(json)).ok(),
            None => self.file.documents().map(|documents| documents.document(self.index)),
        }
    }

    /// Reports whether a JSON pointer into a Pod leads to a part that its template has. Its controller writes the rest.
    pub(crate) fn is_in_template(&self, pointer: &str) -> bool {
        let is_in = |part: &str| {
            pointer.strip_prefix(part).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if pointer == "/spec" || is_in(VOLUMES) {
            // A volume, or all of them, with those of a StatefulSet.
            let end = pointer.match_indices('/').nth(3).map_or(pointer.len(), |(end, _)| end);
            let part = pointer.get(..end).unwrap_or_default();
            let written = self.file.documents().map(|documents| documents.document(self.index));
            let written = written.as_ref();
            let written = written.and_then(|all| all.get(&format!("{}{part}", self.pointer)));
            let pod = self.document();
            return equal(pod.as_ref().and_then(|pod| pod.get(part)), written);
        }
        let is_metadata = |member| is_in(&format!("/metadata/{member}"));
        is_in("/spec") || TEMPLATE_MEMBERS.into_iter().any(is_metadata)
    }
}

#[cfg(test)]
mod tests {
    use opgate_input::read::Reader;
    use serde_json::{Value, json};

    use crate::kinds::{CheckInputType, DetectedInput};
    use crate::testing::TempDirectory;

    /// Returns the Pod of a workload, the name of its request and what it is called.
    fn pod(api: &str, kind: &str, metadata: &str, spec: &str) -> (Value, String, String) {
        let text = format!("apiVersion: {api}\nkind: {kind}\nmetadata: {metadata}\nspec: {spec}\n");
        let directory = TempDirectory::new(&[("a.yaml", &text)]);
        let input = DetectedInput::new(directory.path().join("a.yaml"), CheckInputType::Manifest);
        let mut subject = crate::load(&input, None, &Reader::default()).unwrap().remove(0);
        subject.expand_pod_templates();
        let request = &subject.requests[1];
        let review: Value = serde_json::from_str(&request.review()).unwrap();
        let name = review["request"]["name"].as_str().unwrap().to_owned();
        (review["request"]["object"].clone(), name, request.display_name())
    }

    #[test]
    fn pods_have_names_and_owners_of_their_controllers() {
        const SPEC: &str = "{template: {spec: {}}}";
        let started = "{ordinals: {start: 3}, template: {spec: {}}}";
        for (api, kind, metadata, spec, expected, shown) in [
            (
                "apps/v1",
                "Deployment",
                "{name: web}",
                SPEC,
                [None, Some("web-"), Some("web")],
                "web",
            ),
            ("apps/v1", "StatefulSet", "{name: db}", SPEC, [Some("db-0"), None, Some("db")], "db"),
            (
                "apps/v1",
                "StatefulSet",
                "{name: db}",
                started,
                [Some("db-3"), None, Some("db")],
                "db",
            ),
            (
                "batch/v1",
                "Job",
                "{generateName: web-, namespace: dev}",
                SPEC,
                [None, Some("web-"), Some("web-")],
                "dev/web-",
            ),
            (
                "apps/v1",
                "StatefulSet",
                "{generateName: db-}",
                SPEC,
                [None, Some("db-"), Some("db-")],
                "db-",
            ),
        ] {
            let (pod, name, display_name) = pod(api, kind, metadata, spec);
            let found =
                ["/metadata/name", "/metadata/generateName", "/metadata/ownerReferences/0/name"]
                    .map(|pointer| pod.pointer(pointer).and_then(Value::as_str));
            assert_eq!(found, expected, "{kind} {metadata}");
            assert_eq!(name, expected[0].unwrap_or_default(), "{kind} {metadata}");
            assert_eq!(display_name, format!("Pod of {kind} {shown}"));
        }
        assert_eq!(pod("apps/v1", "Deployment", "{}", SPEC).2, "Pod of Deployment");
    }

    #[test]
    fn controllers_copy_labels_annotations_and_finalizers() {
        let template = "{template: {spec: {}, metadata: {name: x, labels: {a: b}, annotations: {c: d}, finalizers: [e], uid: f, creationTimestamp: null, deletionTimestamp: g, ownerReferences: []}}}";
        let (pod, ..) = pod("apps/v1", "ReplicaSet", "{name: web, namespace: dev}", template);
        let owner = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "",
            "controller": true, "blockOwnerDeletion": true,
        });
        let expected = json!({
            "generateName": "web-", "namespace": "dev", "ownerReferences": [owner],
            "labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["e"],
        });
        assert_eq!(pod["metadata"], expected);
    }

    #[test]
    fn pods_of_a_stateful_set_have_the_volumes_of_its_claims() {
        let claim = |name: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": format!("{name}-db-0")}});
        let claims = "volumeClaimTemplates: [{metadata: {name: data}}, {metadata: {name: log}}]";
        for (kind, volumes, expected) in [
            ("StatefulSet", "", json!([claim("data"), claim("log")])),
            ("StatefulSet", ", volumes: null", json!([claim("data"), claim("log")])),
            (
                "StatefulSet",
                ", volumes: [{name: log, emptyDir: {}}, {name: tmp}]",
                json!([claim("log"), {"name": "tmp"}, claim("data")]),
            ),
            // The API server rejects it.
            ("StatefulSet", ", volumes: x", json!("x")),
            ("Deployment", ", volumes: [{name: log}]", json!([{"name": "log"}])),
        ] {
            let spec = format!("{{{claims}, template: {{spec: {{hostIPC: true{volumes}}}}}}}");
            let (pod, ..) = pod("apps/v1", kind, "{name: db}", &spec);
            assert_eq!(
                pod["spec"],
                json!({"hostIPC": true, "volumes": expected}),
                "{kind}{volumes}"
            );
        }
    }
}
