//! A Helm chart: the objects as templates.
//!
//! ```text
//! objects of each variant ─▶ merge ─▶ one object with holes ─▶ YAML ─▶ template
//!                                     (values, choices)                (holes filled with expressions)
//! ```
//!
//! The templates use few features of Helm: `if`, `else if`, `else`, `eq`, `gt`, `int`, `hasPrefix`, `trimPrefix`,
//! `coalesce`, `printf`, and `toJson` for each value, because JSON is valid YAML at every position, and a value
//! cannot change the structure.

use serde_json::{Map, Value, json};

use super::values::{chart_values, values_schema, values_yaml};
use super::{Files, kind, name, yaml};
use crate::installation::alerts::runbook_section;
use crate::installation::servers::EVENTS_VARIABLE;
use crate::installation::{ApiServers, Certificates, Installation, Registrar};
use opgate_admission::policy::Policy;

/// Stands for the namespace until it is one of the release. No object has such a text.
const NAMESPACE_PLACEHOLDER: &str = "HOLE-NAMESPACE-HOLE";

/// Stands for the peers of the webhook port in the network policy.
const PEERS_PLACEHOLDER: &str = "HOLE-PEERS-HOLE";

const NOTES: &str = "\
opgate is starting. Its webhooks are registered when its servers are ready:

  kubectl -n {{ .Release.Namespace }} rollout status deployment/opgate
  kubectl get validatingwebhookconfiguration opgate
";

/// Expressions for places in objects.
#[derive(Default)]
struct Placeholders(Vec<String>);

impl Placeholders {
    /// Returns a value that becomes an expression when it is written.
    fn add(&mut self, expression: String) -> Value {
        self.0.push(expression);
        Value::String(format!("HOLE-{}-HOLE", self.0.len()))
    }

    /// Sets a member of an object at a pointer.
    fn set(&mut self, object: &mut Value, pointer: &str, member: &str, expression: &str) {
        let value = self.add(expression.to_owned());
        if let Some(members) = object.pointer_mut(pointer).and_then(Value::as_object_mut) {
            members.insert(member.to_owned(), value);
        }
    }

    /// Replaces the holes in YAML by expressions.
    fn replace_in(&self, yaml: &str) -> String {
        // Fields that other programs expand as templates stay unchanged.
        let escaped = |part: &str| match part {
            "{{" | "}}" => format!("{{{{ \"{part}\" }}}}"),
            part => part.to_owned(),
        };
        let mut text: String = split_braces(yaml).map(escaped).collect();
        // A later hole can hold earlier ones, and never the other way round.
        for (number, expression) in self.0.iter().enumerate().rev() {
            text = text.replace(&format!("HOLE-{}-HOLE", number.saturating_add(1)), expression);
        }
        let peers = "{{ toJson .Values.networkPolicy.from }}";
        let text = text
            .replace(&format!("\"{PEERS_PLACEHOLDER}\""), peers)
            .replace(PEERS_PLACEHOLDER, peers);
        text.replace(NAMESPACE_PLACEHOLDER, "{{ .Release.Namespace }}")
    }
}

fn split_braces(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive("{{").flat_map(|part| {
        let (rest, open) = match part.strip_suffix("{{") {
            Some(rest) => (rest, Some("{{")),
            None => (part, None),
        };
        let closed = rest.split_inclusive("}}").flat_map(|part| match part.strip_suffix("}}") {
            Some(rest) => [Some(rest), Some("}}")],
            None => [Some(part), None],
        });
        closed.flatten().chain(open)
    })
}

/// A choice: the condition of each variant but the last.
struct VariantConditions {
    conditions: Vec<&'static str>,
}

impl VariantConditions {
    /// Builds `{{ if … }}…{{ else }}…{{ end }}`. At most one of the conditions holds.
    fn render(&self, texts: &[String]) -> String {
        let Some((otherwise, texts)) = texts.split_last() else { return String::new() };
        let named = self.conditions.iter().zip(texts).filter(|(_, text)| *text != otherwise);
        let branch = |(number, (condition, text)): (usize, (&&str, &String))| {
            let word = if number == 0 { "if" } else { "else if" };
            format!("{{{{ {word} {condition} }}}}{text}")
        };
        let branches: String = named.enumerate().map(branch).collect();
        format!("{branches}{{{{ else }}}}{otherwise}{{{{ end }}}}")
    }

    /// Returns one value for all variants; `None` if one of them lacks it.
    fn merge(&self, placeholders: &mut Placeholders, variants: &[Option<&Value>]) -> Option<Value> {
        let values: Vec<&Value> = variants.iter().copied().collect::<Option<_>>()?;
        let first = values.first()?;
        if values.iter().all(|value| value == first) {
            return Some((*first).clone());
        }
        // Objects one by one. Lists of words stay together.
        let lists: Option<Vec<_>> = values.iter().map(|value| value.as_array()).collect();
        if let Some(lists) = lists
            && let Some(length) = lists.first().map(|list| list.len())
            && lists.iter().all(|list| list.len() == length && list.iter().all(Value::is_object))
        {
            let item = |at| {
                let of_each: Vec<_> = lists.iter().map(|list| list.get(at)).collect();
                self.merge(placeholders, &of_each)
            };
            return (0..length).map(item).collect::<Option<_>>().map(Value::Array);
        }
        let objects: Option<Vec<_>> = values.iter().map(|value| value.as_object()).collect();
        let merged = objects.and_then(|objects| {
            let mut merged = Map::new();
            for name in objects.iter().flat_map(|object| object.keys()) {
                let of_each: Vec<_> = objects.iter().map(|object| object.get(name)).collect();
                if !merged.contains_key(name) {
                    merged.insert(name.clone(), self.merge(placeholders, &of_each)?);
                }
            }
            Some(Value::Object(merged))
        });
        merged.or_else(|| {
            let texts: Vec<_> = values.iter().map(ToString::to_string).collect();
            Some(placeholders.add(self.render(&texts)))
        })
    }
}

/// The version of the value, or the one that the cluster serves.
const FLOW_CONTROL_VERSION: &str = concat!(
    "{{ toJson (coalesce .Values.flowControl.apiVersion (ternary ",
    r#""flowcontrol.apiserver.k8s.io/v1" "flowcontrol.apiserver.k8s.io/v1beta3" "#,
    r#"(.Capabilities.APIVersions.Has "flowcontrol.apiserver.k8s.io/v1"))) }}"#
);

/// Returns the condition under which an object is rendered, if any.
fn render_condition(object: &Value) -> Option<&'static str> {
    match (kind(object), name(object)) {
        ("Issuer" | "Certificate", _) => Some(r#"eq .Values.certificates "cert-manager""#),
        ("Secret", _) => Some(r#"eq .Values.certificates "self-managed""#),
        ("ServiceMonitor" | "PrometheusRule", _) => Some(".Values.monitoring.enabled"),
        ("ConfigMap", name) if name.ends_with("-dashboard") => Some(".Values.monitoring.dashboard"),
        ("ClusterRole" | "ClusterRoleBinding", name) if name.ends_with("-denial-events") => {
            Some(".Values.events.enabled")
        }
        ("PodDisruptionBudget", _) => Some("gt (int .Values.replicas) 1"),
        ("FlowSchema" | "PriorityLevelConfiguration", _) => Some(".Values.flowControl.enabled"),
        ("NetworkPolicy", _) => Some(".Values.networkPolicy.enabled"),
        ("ResourceQuota", _) => Some(r#"hasPrefix "system-" .Values.priorityClassName"#),
        ("ClusterRole" | "ClusterRoleBinding" | "Role" | "RoleBinding", name)
            if !name.ends_with("-controller") =>
        {
            Some(".Values.rbac.create")
        }
        _ => None,
    }
}

/// Puts the values of the chart into an object.
fn insert_values(placeholders: &mut Placeholders, object: &mut Value) {
    set_labels(placeholders, object, "/metadata");
    match kind(object) {
        "ConfigMap" if object.pointer("/data/opgate.yaml").is_some() => {
            placeholders.set(object, "/data", "opgate.yaml", "{{ toJson .Values.config }}");
        }
        "FlowSchema" | "PriorityLevelConfiguration" => {
            placeholders.set(object, "", "apiVersion", FLOW_CONTROL_VERSION);
        }
        "PrometheusRule" => set_runbooks(placeholders, object),
        "ResourceQuota" => {
            let class = placeholders.add("{{ toJson .Values.priorityClassName }}".to_owned());
            if let Some(of) = object.pointer_mut("/spec/scopeSelector/matchExpressions/0/values/0")
            {
                *of = class;
            }
        }
        "Deployment" => {
            set_labels(placeholders, object, "/spec/template/metadata");
            set_event_variable(placeholders, object);
            let (pod, container) = ("/spec/template/spec", "/spec/template/spec/containers/0");
            for (at, member, expression) in [
                ("/spec", "replicas", "{{ int .Values.replicas }}"),
                (container, "image", "{{ toJson .Values.image }}"),
                (container, "resources", "{{ toJson .Values.resources }}"),
                (pod, "nodeSelector", "{{ toJson .Values.nodeSelector }}"),
                (pod, "tolerations", "{{ toJson .Values.tolerations }}"),
                (pod, "imagePullSecrets", "{{ toJson .Values.imagePullSecrets }}"),
                (pod, "priorityClassName", "{{ toJson .Values.priorityClassName }}"),
            ] {
                placeholders.set(object, at, member, expression);
            }
        }
        _ => {}
    }
    set_namespaces(placeholders, object);
}

/// Puts the address of the documentation into the alerts.
fn set_runbooks(placeholders: &mut Placeholders, object: &mut Value) {
    let rules = object.pointer_mut("/spec/groups/0/rules").and_then(Value::as_array_mut);
    for rule in rules.into_iter().flatten() {
        let alert = rule.get("alert").and_then(Value::as_str).unwrap_or_default();
        let section = runbook_section(alert);
        let expression = format!(
            r#"{{{{ toJson (printf "%s/{section}" (coalesce .Values.monitoring.docsUrl "docs")) }}}}"#
        );
        placeholders.set(rule, "/annotations", "runbook_url", &expression);
    }
}

/// Keeps the environment variable for Events only if they are on.
fn set_event_variable(placeholders: &mut Placeholders, object: &mut Value) {
    let container = "/spec/template/spec/containers/0";
    let Some(all) = object.pointer(&format!("{container}/env")).and_then(Value::as_array) else {
        return;
    };
    let is_other =
        |item: &&Value| item.get("name").is_none_or(|name| name.as_str() != Some(EVENTS_VARIABLE));
    let others: Vec<_> = all.iter().filter(is_other).collect();
    let choice = VariantConditions { conditions: vec![".Values.events.enabled"] };
    let expression =
        choice.render(&[with_extra_variables(&json!(all)), with_extra_variables(&json!(others))]);
    placeholders.set(object, container, "env", &expression);
}

/// Writes a list of environment variables, to which the templates append those of the values.
fn with_extra_variables(list: &Value) -> String {
    let text = list.to_string();
    let items = text.strip_suffix(']').unwrap_or(&text);
    let more = r#"{{ if .Values.extraEnv }},{{ trimPrefix "[" (toJson .Values.extraEnv) }}{{ else }}]{{ end }}"#;
    format!("{items}{more}")
}

/// Adds the labels of the values; those of the object take precedence.
fn set_labels(placeholders: &mut Placeholders, object: &mut Value, at: &str) {
    let Some(Value::Object(labels)) = object.pointer(&format!("{at}/labels")) else { return };
    let own: Vec<_> = labels.iter().map(|(key, value)| format!("{} {value}", json!(key))).collect();
    // In an expression, not in text.
    let own = own.join(" ").replace(&format!("\"{NAMESPACE_PLACEHOLDER}\""), ".Release.Namespace");
    let expression = format!("{{{{ toJson (merge (dict {own}) .Values.labels) }}}}");
    placeholders.set(object, at, "labels", &expression);
}

/// Quotes the value of a namespace, which stays a string even if it resembles a number.
fn set_namespaces(placeholders: &mut Placeholders, value: &mut Value) {
    match value {
        Value::String(text) if text == NAMESPACE_PLACEHOLDER => {
            *value = placeholders.add("{{ toJson .Release.Namespace }}".to_owned());
        }
        Value::Array(items) => items.iter_mut().for_each(|item| set_namespaces(placeholders, item)),
        Value::Object(members) => {
            members.values_mut().for_each(|member| set_namespaces(placeholders, member));
        }
        _ => {}
    }
}

/// Returns the objects of a variant. Values control the network policy and the clients that it admits.
fn objects(installation: &Installation, policies: &[&Policy]) -> Vec<Value> {
    let mut objects = installation.objects(policies);
    for object in objects.iter_mut().filter(|object| kind(object) == "NetworkPolicy") {
        if let Some(Value::Object(rule)) = object.pointer_mut("/spec/ingress/0") {
            rule.insert("from".to_owned(), PEERS_PLACEHOLDER.into());
        }
    }
    objects
}

pub(super) fn files(policies: &[&Policy], installation: &Installation) -> anyhow::Result<Files> {
    let with = |certificates, monitoring| Installation {
        namespace: NAMESPACE_PLACEHOLDER.to_owned(),
        api_servers: ApiServers::Any,
        registration: Registrar::Managed,
        events: true,
        dashboard: true,
        docs_url: None,
        replicas: installation.replicas.max(2),
        certificates,
        monitoring,
        ..installation.clone()
    };
    let kept = [Certificates::SelfManaged, Certificates::CertManager, Certificates::Files];
    let mut variants = Vec::new();
    for certificates in kept {
        variants.push(objects(&with(certificates, true), policies));
    }
    let unwatched = objects(&with(Certificates::SelfManaged, false), policies);
    let of_certificates = VariantConditions {
        conditions: vec![
            r#"eq .Values.certificates "self-managed""#,
            r#"eq .Values.certificates "cert-manager""#,
        ],
    };
    let of_monitoring = VariantConditions { conditions: vec![".Values.monitoring.enabled"] };

    // cert-manager has its objects, and servers that keep their certificates have a Secret.
    let [kept_by_itself, all, _] = variants.as_slice() else { return Ok(Vec::new()) };
    let is_one =
        |object: &Value, other: &Value| kind(other) == kind(object) && name(other) == name(object);
    let only_kept = kept_by_itself.iter().filter(|object| !all.iter().any(|o| is_one(object, o)));
    let mut templates: Vec<(String, String)> = Vec::new();
    for object in all.iter().chain(only_kept).filter(|object| kind(object) != "Namespace") {
        let is_same = |other: &&Value| is_one(object, other);
        let of_each: Vec<_> =
            variants.iter().filter_map(|objects| objects.iter().find(is_same)).map(Some).collect();
        let mut placeholders = Placeholders::default();
        let watched = kept_by_itself.iter().find(is_same);
        let mut merged = match (watched, unwatched.iter().find(is_same)) {
            (Some(on), Some(off)) if on != off => {
                of_monitoring.merge(&mut placeholders, &[Some(on), Some(off)])
            }
            _ if of_each.len() < kept.len() => Some(object.clone()),
            _ => of_certificates.merge(&mut placeholders, &of_each),
        };
        let Some(merged) = merged.as_mut() else { continue };
        insert_values(&mut placeholders, merged);
        let template = placeholders.replace_in(&yaml(merged)?);
        let template = match render_condition(object) {
            Some(condition) => format!("{{{{- if {condition} }}}}\n{template}{{{{- end }}}}\n"),
            None => template,
        };
        let file = kind(object).to_lowercase();
        match templates.iter_mut().find(|(other, _)| *other == file) {
            Some((_, text)) => {
                text.push_str("---\n");
                text.push_str(&template);
            }
            None => templates.push((file, template)),
        }
    }
    let deployment = all.iter().find(|object| kind(object) == "Deployment");
    let of_pod = |pointer: &str| {
        let value = deployment
            .and_then(|object| object.pointer(&format!("/spec/template/spec{pointer}")).cloned());
        value.unwrap_or_default()
    };
    let table = chart_values(
        &installation.image,
        installation.replicas,
        &of_pod("/containers/0/resources"),
        &installation.configuration,
        &installation.priority_class,
    );
    let version = env!("CARGO_PKG_VERSION");
    let chart = json!({
        "apiVersion": "v2",
        "name": "opgate",
        "description": "Admission webhook for Operators, with sandboxed WebAssembly policies",
        "type": "application",
        "version": version,
        "appVersion": version,
        "kubeVersion": ">=1.28.0-0",
    });
    let at = |path: &str| format!("helm/opgate/{path}").into();
    let mut files: Files = vec![
        (at("Chart.yaml"), yaml(&chart)?),
        (at("values.yaml"), values_yaml(&table)?),
        (at("values.schema.json"), values_schema(&table)?),
        (at("templates/NOTES.txt"), NOTES.to_owned()),
    ];
    for (kind, text) in templates {
        files.push((at(&format!("templates/{kind}.yaml")), text));
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_template_braces_are_escaped() {
        let mut placeholders = Placeholders::default();
        let hole = placeholders.add("{{ toJson .Values.a }}".to_owned());
        let text = format!("a: {}\nb: x {{{{ $l.p }}}} y }}}} z {{{{\n", hole.as_str().unwrap());
        let filled = placeholders.replace_in(&text);
        assert_eq!(
            filled,
            "a: {{ toJson .Values.a }}\nb: x {{ \"{{\" }} $l.p {{ \"}}\" }} y {{ \"}}\" }} z {{ \"{{\" }}\n"
        );
    }

    #[test]
    fn objects_of_lists_differ_one_by_one() {
        let choice = VariantConditions { conditions: vec!["a"] };
        let list = |n: i32| json!([{"x": n}, {"y": ["l", n]}]);
        let mut placeholders = Placeholders::default();
        let merged = choice.merge(&mut placeholders, &[Some(&list(1)), Some(&list(2))]).unwrap();
        let expected = r#"[{"x":"{{ if a }}1{{ else }}2{{ end }}"},{"y":"{{ if a }}["l",1]{{ else }}["l",2]{{ end }}"}]"#;
        assert_eq!(placeholders.replace_in(&merged.to_string()), expected);
    }

    #[test]
    fn differing_values_become_template_conditions() {
        let choice = VariantConditions { conditions: vec!["a", "b"] };
        let merge = |values: [Value; 3]| {
            let mut placeholders = Placeholders::default();
            let [a, b, c] = &values;
            let merged = choice.merge(&mut placeholders, &[Some(a), Some(b), Some(c)]).unwrap();
            placeholders.replace_in(&merged.to_string())
        };
        let same = json!({"x": 1});
        assert_eq!(merge([same.clone(), same.clone(), same.clone()]), r#"{"x":1}"#);
        let nested = |n: i32| json!({"x": {"y": n}, "z": 0});
        assert_eq!(
            merge([nested(1), nested(2), nested(2)]),
            r#"{"x":{"y":"{{ if a }}1{{ else }}2{{ end }}"},"z":0}"#
        );
        // A member that only some have.
        assert_eq!(
            merge([json!({"x": 1}), json!({"x": 1, "y": 2}), json!({"x": 1})]),
            r#""{{ if b }}{"x":1,"y":2}{{ else }}{"x":1}{{ end }}""#
        );
    }
}
