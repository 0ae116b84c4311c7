//! Objects of one resource type: lists in pages, watches, reads, and changes.

use std::ops::Bound;

use serde_json::{Value, json};
use tokio::sync::mpsc::unbounded_channel;

use super::WatchBehavior;
use super::read_request::{ReadRequest, line};
use super::reply::Reply;
use super::request::number;
use super::state::{ClusterState, Watch};
use super::status::{ApiResult, status, status_about};

impl ClusterState {
    pub(super) fn list(&self, view: &ReadRequest) -> ApiResult<Reply> {
        let call = &view.call;
        // Single objects may have been written.
        let is_of_one = call.query("fieldSelector").starts_with("metadata.name=");
        let is_written = is_of_one
            && self.resources[&view.of].objects.values().any(|object| view.is_selected(object));
        if let Some(prepared) = self.prepared.get(&view.of).filter(|_| !is_written) {
            return Ok(Reply::Prepared(prepared.page(view, self.version)?));
        }
        let token: Vec<&str> = call.query("continue").split('/').collect();
        let (version, after) = match *token.as_slice() {
            [""] => (self.version, Bound::Unbounded),
            [version, namespace, name] => {
                (number(version)?, Bound::Excluded((namespace.to_owned(), name.to_owned())))
            }
            _ => return Err(status(400, "continue key is not valid")),
        };
        if version < self.oldest_version {
            let message = "The provided continue parameter is too old to display a consistent list \
                           result. You can start a new list without the continue parameter.";
            let mut expired = status(410, message);
            if let (Bound::Excluded((namespace, name)), false) = (&after, self.lacks_tokens) {
                let token = format!("{}/{namespace}/{name}", self.version);
                expired["metadata"]["continue"] = json!(token);
            }
            return Err(expired);
        }
        // As a real server, which answers a list of any version from a cache that has no pages.
        let any = call.query("resourceVersion") == "0";
        let limit = usize::try_from(call.number("limit")?).unwrap();
        let is_aggregated = self.aggregated.contains(&view.of);
        let limit = if any || limit == 0 || is_aggregated { usize::MAX } else { limit };
        let objects = self.snapshot(&view.of, version);
        let mut rest =
            objects.range((after, Bound::Unbounded)).filter(|(_, o)| view.is_selected(o));
        let page: Vec<_> = rest.by_ref().take(limit).collect();
        let remaining = rest.count();
        let mut metadata = json!({"resourceVersion": version.to_string()});
        if let Some(((namespace, name), _)) = page.last().filter(|_| remaining > 0) {
            metadata["continue"] = json!(format!("{version}/{namespace}/{name}"));
            if call.query("labelSelector").is_empty() && call.query("fieldSelector").is_empty() {
                metadata["remainingItemCount"] = json!(remaining);
            }
        }
        if is_aggregated {
            metadata = json!({});
        }
        let show = |object: &Value| {
            let mut object = view.render(object);
            if is_aggregated {
                let metadata = object["metadata"].as_object_mut().unwrap();
                metadata.retain(|name, _| !matches!(name.as_str(), "uid" | "resourceVersion"));
                let name = metadata["name"].as_str().unwrap();
                metadata["name"] = json!(name.split('@').next().unwrap());
            }
            object
        };
        let items: Vec<_> = page.iter().map(|(_, object)| show(object)).collect();
        let mut list = view.render(&json!({"kind": self.resources[&view.of].kind}));
        list["kind"] = json!(format!("{}List", list["kind"].as_str().unwrap()));
        list["metadata"] = metadata;
        list["items"] = json!(items);
        Ok(Reply::Json(200, list))
    }

    pub(super) fn watch(&mut self, view: ReadRequest) -> ApiResult<Reply> {
        let since = view.call.number("resourceVersion")?;
        let seconds = view.call.number("timeoutSeconds")?;
        let initial = view.call.has_flag("sendInitialEvents");
        match self.watch_behaviors.get(&view.of) {
            None | Some(WatchBehavior::Served) => {}
            Some(WatchBehavior::ClosedImmediately) => {
                let (_, lines) = unbounded_channel();
                return Ok(Reply::Watch { lines, seconds, cuts: self.watch_cuts, last: None });
            }
            Some(WatchBehavior::InternalError) => {
                return Err(status(500, "the test asked for this answer"));
            }
        }
        // A real server says it shortly before the end, too.
        let allowed = view.call.has_flag("allowWatchBookmarks");
        let last = allowed.then(|| Box::new(view.clone()));
        let (sender, lines) = unbounded_channel();
        let send = |line| drop(sender.send(line));
        let reply = Reply::Watch { lines, seconds, cuts: self.watch_cuts, last };
        if since > self.version {
            let message = format!("Too large resource version: {since}, current: {}", self.version);
            return Err(status(504, &message));
        }
        if since == 0 || initial {
            let objects = self.resources[&view.of].objects.values();
            objects
                .filter(|o| view.is_selected(o))
                .for_each(|o| send(line("ADDED", &view.render(o))));
            if initial {
                send(self.bookmark(&view, &json!({"k8s.io/initial-events-end": "true"})));
            }
        } else if since < self.oldest_version {
            let message = format!("too old resource version: {since} ({})", self.oldest_version);
            send(line("ERROR", &status(410, &message)));
            return Ok(reply);
        } else {
            let missed = self.history.iter().filter(|change| change.version > since);
            let missed = missed.filter(|change| change.of == view.of);
            missed.filter_map(|change| view.event_line(change)).for_each(send);
        }
        self.watches.push(Watch { view, lines: sender });
        Ok(reply)
    }

    /// Requests that concern one object.
    pub(super) fn serve_object(
        &mut self,
        verb: &str,
        name: Option<&str>,
        view: &ReadRequest,
    ) -> ApiResult<Reply> {
        let reads = matches!(verb, "get" | "delete");
        let mut sent = if reads { Value::Null } else { view.call.object()? };
        let given = sent["metadata"]["name"].as_str().map(str::to_owned);
        let name = name.map(str::to_owned).or(given);
        let name = name.ok_or_else(|| status(400, "name must be provided"))?;
        let refused = |code, message| Err(status_about(&view.of, Some(&name), code, message));
        let key = (view.namespace.clone().unwrap_or_default(), name.clone());
        let old = self.resources[&view.of].objects.get(&key).cloned();
        match (verb, old.as_deref()) {
            ("create", Some(_)) => return refused(409, "{} already exists"),
            ("create", None) => {}
            ("patch", _) if view.call.is_apply => {
                let members = sent.as_object().into_iter().flatten();
                let fields: Value =
                    members.map(|(name, _)| (format!("f:{name}"), json!({}))).collect();
                let manager = json!({"manager": view.call.query("fieldManager"), "operation": "Apply", "fieldsV1": fields});
                sent["metadata"]["managedFields"] = json!([manager]);
            }
            (_, None) => return refused(404, "{} not found"),
            ("get", Some(old)) => return Ok(Reply::Json(200, view.render(old))),
            ("delete", Some(_)) => {
                self.record(&view.of, key, None);
                let done = json!({"kind": "Status", "apiVersion": "v1", "status": "Success"});
                return Ok(Reply::Json(200, done));
            }
            ("patch", Some(old)) => {
                let patch = std::mem::replace(&mut sent, old.clone());
                merge(&mut sent, patch);
            }
            (_, Some(_)) => {}
        }
        let is_created = old.is_none();
        let seen = sent["metadata"]["resourceVersion"].as_str().filter(|seen| !seen.is_empty());
        if let Some(old) = old
            && seen.is_some_and(|seen| old["metadata"]["resourceVersion"] != seen)
        {
            let message = "Operation cannot be fulfilled on {}: the object has been modified; \
                           please apply your changes to the latest version and try again";
            return refused(409, message);
        }
        sent["metadata"]["name"] = json!(name);
        if let Some(namespace) = &view.namespace {
            sent["metadata"]["namespace"] = json!(namespace);
        }
        let new = self.put(&view.of, &view.version, sent);
        Ok(Reply::Json(if is_created { 201 } else { 200 }, view.render(&new)))
    }
}

/// RFC 7396.
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in patch {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(&name);
        } else {
            merge(&mut target[name], value);
        }
    }
}
