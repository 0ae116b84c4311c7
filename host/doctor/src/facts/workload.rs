//! The servers: the Deployment behind the Service, and the arguments of its container.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use opgate_text::units::parse_duration;
use serde_json::Value;

use super::Facts;
use super::object::{Kind, Object, list, string_map, text};

/// The container of a server, and what surrounds it.
#[derive(Debug)]
pub(crate) struct Workload<'f> {
    /// The Deployment, or one of the pods if there is none.
    pub(crate) object: &'f Object,
    /// `/spec/template/spec`, or `/spec`.
    pub(crate) spec_pointer: &'static str,
    /// The specification of the pod.
    pub(crate) spec: &'f Value,
    pub(crate) container: &'f Value,
    /// Place of the container.
    index: usize,
    /// Labels of the pods.
    pub(crate) labels: BTreeMap<&'f str, &'f str>,
    arguments: Vec<&'f str>,
}

impl<'f> Workload<'f> {
    /// Selects the Deployment whose pods the Service selects, or a pod that it selects.
    pub(crate) fn of(facts: &'f Facts) -> Option<Self> {
        let selector = facts.service().map(|service| string_map(service.at("/spec/selector")));
        let selector = selector.filter(|selector| !selector.is_empty());
        let is_selected = |object: &Object, labels: &str| match &selector {
            Some(selector) => contains_labels(&string_map(object.at(labels)), selector),
            None => false,
        };
        let deployments = || facts.own_objects(Kind::Deployment);
        let template = "/spec/template/metadata/labels";
        let is_ours = |one: &&Object| one.label("app.kubernetes.io/name") == Some("opgate");
        let is_named = |one: &&Object| one.name == facts.installation.service;
        let serves = |one: &&Object| {
            Workload::from(one, "/spec/template/spec").is_some_and(|w| w.is_server())
        };
        let found = deployments()
            .find(|one| is_selected(one, template))
            .or_else(|| deployments().find(|one| is_named(one) && serves(one)))
            .or_else(|| deployments().find(|one| is_ours(one) && serves(one)));
        if let Some(deployment) = found {
            return Self::from(deployment, "/spec/template/spec");
        }
        let pod = facts.own_objects(Kind::Pod).find(|pod| is_selected(pod, "/metadata/labels"))?;
        Self::from(pod, "/spec")
    }

    fn from(object: &'f Object, at: &'static str) -> Option<Self> {
        let spec = object.at(at)?;
        let containers = list(spec, "/containers");
        let is_server = |container: &&Value| command_words(container).any(|word| word == "serve");
        let position = containers.iter().position(|container| is_server(&container));
        let named = || containers.iter().position(|one| text(one, "/name") == "opgate");
        let index = position.or_else(named).unwrap_or_default();
        let container = containers.get(index)?;
        let labels = match at {
            "/spec" => object.labels(),
            _ => string_map(object.at("/spec/template/metadata/labels")),
        };
        let arguments = command_words(container).collect();
        Some(Self { object, spec_pointer: at, spec, container, index, labels, arguments })
    }

    fn is_server(&self) -> bool {
        self.arguments.contains(&"serve")
    }

    /// Returns `spec.template.spec.containers[0].resources`.
    pub(crate) fn field(&self, of: &str) -> String {
        let at = self.spec_pointer.trim_start_matches('/').replace('/', ".");
        format!("{at}.containers[{}].{of}", self.index)
    }

    /// Returns `spec.template.spec.volumes`.
    pub(crate) fn pod_field(&self, of: &str) -> String {
        format!("{}.{of}", self.spec_pointer.trim_start_matches('/').replace('/', "."))
    }

    /// Returns the desired number of pods.
    pub(crate) fn replicas(&self) -> Option<i64> {
        let wanted = self.object.at("/spec/replicas").and_then(Value::as_i64);
        (self.object.kind == Kind::Deployment).then(|| wanted.unwrap_or(1))
    }

    /// Returns the value of a flag, by argument or by its variable.
    pub(crate) fn flag(&self, name: &str, variable: Option<&str>) -> Option<&'f str> {
        if let Some(value) = flag_value(&self.arguments, name) {
            return Some(value);
        }
        let variable = variable?;
        let mut all = list(self.container, "/env").iter();
        all.find(|one| text(one, "/name") == variable).map(|one| text(one, "/value"))
    }

    /// Returns the value of a flag that is a time, or its default.
    pub(crate) fn duration_flag(&self, name: &str, default: Duration) -> Duration {
        self.flag(name, None).and_then(|text| parse_duration(text).ok()).unwrap_or(default)
    }

    /// Reports whether the servers keep their certificate themselves.
    pub(crate) fn manages_certificates(&self) -> bool {
        self.flag("--certificates", Some("OPGATE_CERTIFICATES")) == Some("self-managed")
    }

    /// Reports whether they keep the registration.
    pub(crate) fn manages_registration(&self) -> bool {
        let flag = self.flag("--manage-webhooks", Some("OPGATE_MANAGE_WEBHOOKS"));
        flag.is_some_and(|value| value != "false")
    }

    /// Reports whether they write Events for denials, in all namespaces.
    pub(crate) fn writes_denial_events(&self) -> bool {
        let flag = self.flag("--events", Some("OPGATE_EVENTS"));
        flag.is_some_and(|value| value != "false")
    }

    /// Returns the port that a server listens on.
    pub(crate) fn port(&self) -> i64 {
        let listen = self.flag("--listen", Some("OPGATE_LISTEN"));
        let port = listen.and_then(|address| address.rsplit_once(':')?.1.parse().ok());
        port.unwrap_or(9443)
    }

    /// Returns the port of `/policies`.
    pub(crate) fn ops_port(&self) -> u16 {
        let listen = self.flag("--ops-listen", Some("OPGATE_OPS_LISTEN"));
        listen.and_then(|address| address.rsplit_once(':')?.1.parse().ok()).unwrap_or(8081)
    }

    /// Returns a volume of the pod by what is mounted at a path or above it, and what of it is left of the
    /// path.
    pub(crate) fn volume(&self, path: &str) -> Option<(&'f Value, String)> {
        let mounts = list(self.container, "/volumeMounts").iter();
        let (mount, rest) = mounts
            .filter_map(|mount| {
                let rest = Path::new(path).strip_prefix(text(mount, "/mountPath")).ok()?;
                Some((mount, rest.to_string_lossy().into_owned()))
            })
            .min_by_key(|(_, rest)| rest.len())?;
        let mut volumes = list(self.spec, "/volumes").iter();
        let volume = volumes.find(|one| text(one, "/name") == text(mount, "/name"))?;
        Some((volume, rest))
    }

    /// Returns the Secret of the certificate, if it comes from one, and the directory.
    pub(crate) fn secret(&self) -> Option<&'f str> {
        if self.manages_certificates() {
            return Some(super::DEFAULT_SECRET);
        }
        let directory = self.flag("--tls-dir", Some("OPGATE_TLS_DIR"));
        let file = self.flag("--tls-cert", Some("OPGATE_TLS_CERT"));
        let (volume, _) = self.volume(directory.or(file)?)?;
        let plain = volume.pointer("/secret/secretName").and_then(Value::as_str);
        let projected = list(volume, "/projected/sources").iter();
        let projected = projected.filter_map(|one| one.pointer("/secret/name")?.as_str());
        plain.or_else(|| projected.into_iter().next())
    }

    /// Returns the ConfigMap that the configuration is read from, and the key.
    pub(crate) fn config_map(&self) -> Option<(&'f str, String)> {
        let path = self.flag("--config", Some("OPGATE_CONFIG"))?;
        let (volume, rest) = self.volume(path)?;
        let name = volume.pointer("/configMap/name").and_then(Value::as_str)?;
        let items = list(volume, "/configMap/items").iter();
        let key = items.into_iter().find(|item| text(item, "/path") == rest);
        Some((name, key.map_or(rest, |item| text(item, "/key").to_owned())))
    }

    /// Returns the ServiceAccount of the pods.
    pub(crate) fn service_account(&self) -> &'f str {
        match text(self.spec, "/serviceAccountName") {
            "" => "default",
            name => name,
        }
    }
}

/// Returns the value of a flag, with `=` or as the next argument.
pub(crate) fn flag_value<'a>(arguments: &[&'a str], name: &str) -> Option<&'a str> {
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        if *argument == name {
            return Some(arguments.next().copied().unwrap_or_default());
        }
        let value = argument.strip_prefix(name).and_then(|rest| rest.strip_prefix('='));
        if value.is_some() {
            return value;
        }
    }
    None
}

/// Reports whether a flag without a value is set.
pub(crate) fn has_flag(arguments: &[&str], name: &str) -> bool {
    arguments.contains(&name)
}

/// Iterates over command and arguments of a container.
pub(crate) fn command_words(container: &Value) -> impl Iterator<Item = &str> {
    let all = list(container, "/command").iter().chain(list(container, "/args"));
    all.filter_map(Value::as_str)
}

/// Returns the pods that a Service selects, except ended and terminating ones.
pub(crate) fn selected_pods<'f>(
    facts: &'f Facts,
    service: &'f Object,
) -> impl Iterator<Item = &'f Object> {
    let selector = string_map(service.at("/spec/selector"));
    let pods = facts.all(Kind::Pod).filter(move |pod| pod.namespace == service.namespace);
    let stays = |pod: &&Object| {
        let has_ended = matches!(pod.text("/status/phase"), "Failed" | "Succeeded");
        !has_ended && pod.at("/metadata/deletionTimestamp").is_none()
    };
    pods.filter(stays)
        .filter(move |pod| !selector.is_empty() && contains_labels(&pod.labels(), &selector))
}

/// Reports whether labels have all of others.
pub(crate) fn contains_labels(
    labels: &BTreeMap<&str, &str>,
    wanted: &BTreeMap<&str, &str>,
) -> bool {
    wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
}
