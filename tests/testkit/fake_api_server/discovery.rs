//! Discovery: groups, versions and resource types, and the release of the server.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Scope;
use super::reply::Reply;
use super::resource::{Resource, ResourceType, api_version};
use super::state::ClusterState;
use super::status::{ApiResult, not_found};

impl ClusterState {
    pub(super) fn groups(&self) -> Value {
        let names: BTreeSet<&str> = self.resources.keys().map(|of| of.0.as_str()).collect();
        let groups: Vec<_> = names.into_iter().filter_map(|name| self.group(name)).collect();
        json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
    }

    /// Describes a group, unless it is the core group or there is none of that name.
    pub(super) fn group(&self, name: &str) -> Option<Value> {
        let types = self.resources.iter().filter(|(of, _)| of.0 == name && !name.is_empty());
        let versions: BTreeSet<&String> = types.flat_map(|(_, r)| &r.versions).collect();
        let describe = |v: &String| json!({"groupVersion": api_version(name, v), "version": v});
        let versions: Vec<_> = versions.into_iter().map(describe).collect();
        let mut group = json!({"kind": "APIGroup", "apiVersion": "v1", "name": name});
        group["preferredVersion"] = versions.first()?.clone();
        group["versions"] = json!(versions);
        Some(group)
    }

    /// The index of schemas.
    pub(super) fn schema_index(&self) -> ApiResult<Value> {
        if self.schemas.is_empty() {
            return Err(not_found());
        }
        let entry = |(version, hash): (&String, &String)| {
            let root = if version.contains('/') { "apis" } else { "api" };
            let path = format!("{root}/{version}");
            let address = json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}")});
            (path, address)
        };
        let paths: serde_json::Map<_, _> = self.schemas.iter().map(entry).collect();
        Ok(json!({"paths": paths}))
    }

    pub(super) fn types(&self, group: &str, version: &str) -> ApiResult<Reply> {
        let types = self.resources.iter().filter(|(of, _)| of.0 == group);
        let types = types.filter(|(_, resource)| resource.versions.contains(version));
        let all = ["create", "delete", "get", "list", "patch", "update", "watch"];
        let describe = |(of, resource): (&ResourceType, &Resource)| {
            let verbs = if self.aggregated.contains(of) { &["get", "list"][..] } else { &all };
            let plural = &of.1;
            json!({
                "name": plural,
                "singularName": resource.kind.to_lowercase(),
                "kind": resource.kind,
                "namespaced": resource.scope == Scope::Namespaced,
                "verbs": verbs,
            })
        };
        let types: Vec<_> = types.map(describe).collect();
        if types.is_empty() && !group.is_empty() {
            return Err(not_found());
        }
        let mut list = json!({"kind": "APIResourceList", "apiVersion": "v1", "resources": types});
        list["groupVersion"] = json!(api_version(group, version));
        Ok(Reply::Json(200, list))
    }
}

pub(super) fn release() -> Value {
    json!({
        "major": "1", "minor": "34", "gitVersion": "v1.34.0", "gitCommit": "",
        "gitTreeState": "clean", "buildDate": "2025-01-01T00:00:00Z", "goVersion": "go1.24",
        "compiler": "gc", "platform": "linux/amd64",
    })
}
