//! The path and method of a request determine the function that serves it. This module also answers
//! requests that are refused before: forbidden ones, and those that a test lets fail.

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::Scope;
use super::discovery::release;
use super::read_request::ReadRequest;
use super::reply::Reply;
use super::request::ApiRequest;
use super::resource::{Resource, resource_type};
use super::state::{ClusterState, PodEndpoint};
use super::status::{ApiResult, not_found, status, status_about};

/// The user as which the server authenticates every client.
const USER: &str = "system:serviceaccount:opgate:opgate";

impl ClusterState {
    /// Whether a call is a list that is held.
    pub(super) fn is_held(&self, call: &ApiRequest) -> bool {
        let path: Vec<&str> = call.path.iter().map(String::as_str).collect();
        let (group, plural) = match *path {
            ["api", _, .., plural] => ("", plural),
            ["apis", group, _, .., plural] => (group, plural),
            _ => return false,
        };
        self.held_lists.contains(&resource_type(group, plural)) && !call.has_flag("watch")
    }

    /// Where a call for a pod leads that may be made.
    pub(super) fn proxied(&self, call: &ApiRequest) -> Option<PodEndpoint> {
        let path: Vec<&str> = call.path.iter().map(String::as_str).collect();
        let ["api", "v1", "namespaces", _, "pods", pod, "proxy", ..] = *path else { return None };
        let is_permitted = !self.refused_tokens.contains(&call.token)
            && !self.forbidden.contains(&resource_type("", "pods/proxy"));
        self.proxies.get(pod).copied().filter(|_| is_permitted)
    }

    pub(super) fn serve(&mut self, mut call: ApiRequest) -> ApiResult<Reply> {
        if self.refused_tokens.contains(&call.token) {
            return Err(status(401, "Unauthorized"));
        }
        if call.path.get(6).is_some_and(|part| part == "proxy") {
            return Err(if self.forbidden.contains(&resource_type("", "pods/proxy")) {
                status(403, "pods/proxy is forbidden")
            } else {
                not_found()
            });
        }
        if let Some(code) = self.next_failures.pop_front() {
            return Err(status(code, "the test asked for this answer"));
        }
        let line = format!("{} /{}", call.method, call.path.join("/"));
        if let Some(code) = self.failing_requests.get_mut(&line).and_then(VecDeque::pop_front) {
            return Err(status(code, "the test asked for this answer"));
        }
        let path = std::mem::take(&mut call.path);
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        if let ["apis", group, ..] = *path
            && self.unreachable_groups.contains(group)
        {
            return Ok(Reply::Text(503, "service unavailable\n"));
        }
        match *path {
            ["version"] => match self.version_response.clone().unwrap_or_else(release) {
                Value::Number(code) if code == 403.into() => {
                    let text = format!("forbidden: User \"{USER}\" cannot get path \"/version\"");
                    Err(status(403, &text))
                }
                Value::Number(_) => Err(not_found()),
                version => Ok(Reply::Json(200, version)),
            },
            ["readyz"] => Ok(Reply::Text(200, "ok")),
            ["api"] => Ok(Reply::Json(200, json!({"kind": "APIVersions", "versions": ["v1"]}))),
            ["apis"] => Ok(Reply::Json(200, self.groups())),
            ["openapi", "v3"] => Ok(Reply::Json(200, self.schema_index()?)),
            ["apis", group] => Ok(Reply::Json(200, self.group(group).ok_or_else(not_found)?)),
            ["api", "v1", ref rest @ ..] => self.resource("", "v1", rest, call),
            ["apis", group, version, ref rest @ ..] => self.resource(group, version, rest, call),
            _ => Err(not_found()),
        }
    }

    /// Requests below a group and version.
    fn resource(
        &mut self,
        group: &str,
        version: &str,
        rest: &[&str],
        call: ApiRequest,
    ) -> ApiResult<Reply> {
        let (namespace, plural, name) = match *rest {
            [] => return self.types(group, version),
            ["namespaces", namespace, plural] => (Some(namespace), plural, None),
            ["namespaces", namespace, plural, name] => (Some(namespace), plural, Some(name)),
            [plural] => (None, plural, None),
            [plural, name] => (None, plural, Some(name)),
            _ => return Err(not_found()),
        };
        let verb = match (call.method.as_str(), name) {
            ("GET", None) if call.has_flag("watch") => "watch",
            ("GET", None) => "list",
            ("GET", Some(_)) => "get",
            ("POST", None) => "create",
            ("PUT", Some(_)) => "update",
            ("PATCH", Some(_)) => "patch",
            ("DELETE", Some(_)) => "delete",
            _ => return Err(status(405, "the server does not allow this method")),
        };
        let of = resource_type(group, plural);
        if self.forbidden.contains(&of) || (verb == "watch" && self.watch_forbidden.contains(&of)) {
            let inside = |namespace| format!("in the namespace \"{namespace}\"");
            let place = namespace.map_or("at the cluster scope".to_owned(), inside);
            let message = format!(
                "{{}} is forbidden: User \"{USER}\" cannot {verb} resource \"{plural}\" in API \
                 group \"{group}\" {place}"
            );
            return Err(status_about(&of, name, 403, &message));
        }
        let collection = matches!(verb, "list" | "watch");
        let fits = |resource: &&Resource| match resource.scope {
            _ if !resource.versions.contains(version) => false,
            Scope::Cluster => namespace.is_none(),
            Scope::Namespaced => namespace.is_some() || collection,
        };
        self.resources.get(&of).filter(fits).ok_or_else(not_found)?;
        let mut fields = call.query("fieldSelector").split(',').map(str::trim_start);
        // Of "metadata.namespace", too.
        let strange = |term: &&str| !term.is_empty() && !term.starts_with("metadata.name");
        if let Some(term) = fields.find(strange) {
            return Err(status(400, &format!("field label not supported: {term}")));
        }
        let namespace = namespace.map(str::to_owned);
        let view = ReadRequest { of, version: version.to_owned(), namespace, call };
        match verb {
            "list" => {
                let failures = self.failing_lists.get_mut(&view.of);
                if let Some(code) = failures.and_then(VecDeque::pop_front) {
                    return Err(status(code, "the test asked for this answer"));
                }
                let answer = self.list(&view);
                if let Some((of, left)) = &mut self.expiring_lists
                    && *of == view.of
                {
                    *left -= 1;
                    if *left == 0 {
                        self.expiring_lists = None;
                        self.version += 1;
                        self.oldest_version = self.version;
                        self.history.clear();
                    }
                }
                answer
            }
            "watch" if self.aggregated.contains(&view.of) => {
                let kind = &self.resources[&view.of].kind;
                Err(status(405, &format!("watch is not supported on resources of kind \"{kind}\"")))
            }
            "watch" => self.watch(view),
            _ => self.serve_object(verb, name, &view),
        }
    }
}
