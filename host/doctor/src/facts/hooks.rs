//! Webhooks of any configuration, and what they match. Only `matchConditions` are not evaluated.

use std::collections::{BTreeMap, BTreeSet};

use opgate_compat::labels::Selector;
use serde_json::Value;

use super::object::{Kind, Object, list, string_map, text};

/// Time that an API server waits for a webhook that does not say.
const DEFAULT_TIMEOUT_SECONDS: i64 = 10;

/// A webhook.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hook<'f> {
    /// The configuration that it is in.
    pub(crate) object: &'f Object,
    /// Its place there.
    pub(crate) index: usize,
    pub(crate) value: &'f Value,
}

/// A Service as a webhook names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ServiceReference<'f> {
    pub(crate) namespace: &'f str,
    pub(crate) name: &'f str,
    pub(crate) port: i64,
}

/// A rule of a webhook, for quick questions whatever its size.
#[derive(Debug)]
pub(crate) struct WebhookRule<'f> {
    pub(crate) groups: BTreeSet<&'f str>,
    pub(crate) resources: BTreeSet<&'f str>,
    pub(crate) operations: BTreeSet<&'f str>,
    scope: &'f str,
}

/// Returns the webhooks of a configuration.
pub(crate) fn hooks(object: &Object) -> impl Iterator<Item = Hook<'_>> {
    let all = object.list("/webhooks").iter().enumerate();
    all.map(move |(index, value)| Hook { object, index, value })
}

impl<'f> Hook<'f> {
    pub(crate) fn name(&self) -> &'f str {
        text(self.value, "/name")
    }

    /// Returns `webhooks[3].rules`.
    pub(crate) fn field(&self, of: &str) -> String {
        format!("webhooks[{}].{of}", self.index)
    }

    pub(crate) fn service(&self) -> Option<ServiceReference<'f>> {
        let service = self.value.pointer("/clientConfig/service")?;
        let port = service.get("port").and_then(Value::as_i64).unwrap_or(443);
        Some(ServiceReference {
            namespace: text(service, "/namespace"),
            name: text(service, "/name"),
            port,
        })
    }

    pub(crate) fn url(&self) -> Option<&'f str> {
        self.value.pointer("/clientConfig/url").and_then(Value::as_str)
    }

    /// Returns `/validate/…` of the Service or of the URL.
    pub(crate) fn path(&self) -> &'f str {
        match self.url() {
            Some(url) => url.find("/validate").and_then(|at| url.get(at..)).unwrap_or_default(),
            None => text(self.value, "/clientConfig/service/path"),
        }
    }

    /// Reports whether a call that fails refuses the request.
    pub(crate) fn fails_closed(&self) -> bool {
        text(self.value, "/failurePolicy") != "Ignore"
    }

    pub(crate) fn timeout_seconds(&self) -> i64 {
        self.value.get("timeoutSeconds").and_then(Value::as_i64).unwrap_or(DEFAULT_TIMEOUT_SECONDS)
    }

    /// Reports whether it is narrowed by conditions, which are not evaluated here.
    pub(crate) fn has_conditions(&self) -> bool {
        !list(self.value, "/matchConditions").is_empty()
    }

    pub(crate) fn is_mutating(&self) -> bool {
        self.object.kind == Kind::MutatingWebhookConfiguration
    }

    pub(crate) fn rules(&self) -> impl Iterator<Item = WebhookRule<'f>> + use<'f> {
        list(self.value, "/rules").iter().map(|rule| {
            let all =
                |pointer: &str| list(rule, pointer).iter().filter_map(Value::as_str).collect();
            WebhookRule {
                groups: all("/apiGroups"),
                resources: all("/resources"),
                operations: all("/operations"),
                scope: text(rule, "/scope"),
            }
        })
    }

    /// Reports whether the creation or a change of a resource in a namespace with these labels may be sent.
    /// Without labels the resource is in no namespace. Conditions are assumed to exclude requests that no
    /// rule names.
    pub(crate) fn matches(
        &self,
        group: &str,
        resource: &str,
        namespace: Option<&BTreeMap<&str, &str>>,
    ) -> bool {
        let is_in = namespace.is_some();
        let is_narrow = self.has_conditions();
        self.rules().any(|rule| {
            rule.covers(group, resource)
                && rule.matches_scope(is_in)
                && (rule.matches_operation("CREATE") || rule.matches_operation("UPDATE"))
                && (!is_narrow || rule.resources.contains(resource))
        }) && namespace.is_none_or(|labels| self.selects_namespace(labels))
    }

    /// Reports whether it matches a namespace with these labels.
    pub(crate) fn selects_namespace(&self, labels: &BTreeMap<&str, &str>) -> bool {
        is_selected(self.value.get("namespaceSelector"), labels)
    }

    /// Reports whether it matches an object with these labels.
    pub(crate) fn selects_object(&self, labels: &BTreeMap<&str, &str>) -> bool {
        is_selected(self.value.get("objectSelector"), labels)
    }
}

impl WebhookRule<'_> {
    /// Reports whether requests for a resource, `pods` or `pods/binding`, are among it.
    pub(crate) fn covers(&self, group: &str, resource: &str) -> bool {
        let has = |resource: &str| self.resources.contains(resource);
        let is_group = self.groups.contains("*") || self.groups.contains(group);
        is_group
            && match resource.split_once('/') {
                None => has(resource) || has("*") || has("*/*") || has(&format!("{resource}/*")),
                Some((of, sub)) => {
                    has(resource)
                        || has("*/*")
                        || has(&format!("{of}/*"))
                        || has(&format!("*/{sub}"))
                }
            }
    }

    fn matches_scope(&self, is_namespaced: bool) -> bool {
        match self.scope {
            "Cluster" => !is_namespaced,
            "Namespaced" => is_namespaced,
            _ => true,
        }
    }

    pub(crate) fn matches_operation(&self, operation: &str) -> bool {
        self.operations.contains("*") || self.operations.contains(operation)
    }
}

/// Reports whether a label selector matches these labels. An invalid selector matches all: that is the safe
/// result for a possible effect.
pub(crate) fn is_selected(selector: Option<&Value>, labels: &BTreeMap<&str, &str>) -> bool {
    let Some(selector) = selector else { return true };
    let mut parsed = Selector::default();
    for (key, value) in string_map(selector.get("matchLabels")) {
        if parsed.add_match_label(key, value).is_err() {
            return true;
        }
    }
    for expression in list(selector, "/matchExpressions") {
        let values = list(expression, "/values").iter().filter_map(Value::as_str);
        let (key, operator) = (text(expression, "/key"), text(expression, "/operator"));
        if parsed.add_match_expression(key, operator, values).is_err() {
            return true;
        }
    }
    parsed.matches(|key| labels.get(key).copied())
}
