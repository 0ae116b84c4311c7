//! The Pods that workloads in files create: one request for each pod template.
//!
//! ```text
//! Deployment, Job, … ─▶ its template ─▶ CREATE of a Pod, whose violations have places in the template
//! ```
//!
//! A server evaluates these Pods when a controller creates them. In files there are only the workloads.

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

/// Members of the metadata of a Pod that its controller sets.
const CONTROLLER_MEMBERS: [&str; 4] = ["name", "generateName", "namespace", "ownerReferences"];

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
        let json = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{},"spec":{}}}"#,
            self.pod_metadata(workload, template),
            spec.raw()
        );
        let mut pod = object.clone();
        pod.pointer.push_str(workload.template);
        pod.original_json = Some(json.into());
        Some(Self {
            group: String::new(),
            version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            resource: "pods".to_owned(),
            namespace: self.namespace.clone(),
            // The API server generates it.
            name: String::new(),
            object: RequestObject::Object(pod),
            old: None,
            prefix: self.prefix.clone(),
            is_stored: false,
            recorded: None,
            template: Some(PodTemplate {
                pointer: workload.template,
                workload: self.display_name(),
            }),
        })
    }

    /// Returns the metadata of a Pod, as its controller writes it.
    fn pod_metadata(&self, workload: &Workload, template: Value<'_>) -> String {
        let members = template.get("/metadata").into_iter().flat_map(|value| value.members());
        let members = members.filter(|(name, _)| !CONTROLLER_MEMBERS.contains(name));
        let mut json = "{".to_owned();
        for (name, value) in members {
            // Writing to a text does not fail.
            let _ = write!(json, "{}:{},", json_string(name), value.raw());
        }
        if !self.namespace.is_empty() {
            let _ = write!(json, r#""namespace":{},"#, json_string(&self.namespace));
        }
        let group = if self.group.is_empty() { "" } else { "/" };
        let api_version = json_string(&format!("{}{group}{}", self.group, self.version));
        let _ = write!(
            json,
            r#""generateName":{},"ownerReferences":[{{"apiVersion":{api_version},"kind":{},"name":{},"uid":"","controller":true,"blockOwnerDeletion":true}}]}}"#,
            json_string(&format!("{}-", self.name)),
            json_string(workload.owner),
            json_string(&self.name),
        );
        json
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
}
