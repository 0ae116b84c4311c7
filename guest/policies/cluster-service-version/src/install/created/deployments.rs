//! Deployments: their selectors and containers.

use std::collections::{BTreeMap, HashSet};

use opgate_compat::json;
use opgate_sdk::{Document, Kind, Row, Selector, SelectorError, lists, pods};

use super::mounts::Mounts;
use super::{
    DEPLOYMENTS, Problem, SERVED_LISTS, has_in_other_case, is_full, lacks, quoted, required,
};
use crate::entries::Entries;

const SELECTOR: usize = 2;
const CONTAINERS: usize = 3;
/// Maximum number of deployments that are read. Each takes a dozen calls of the host. The API
/// server evaluates the others.
const MAX_DEPLOYMENTS: usize = 2_000;
/// Maximum number of labels that a message repeats.
const MAX_SHOWN_LABELS: usize = 16;

/// A deployment with a spec. Documents print fragments without one.
struct Deployment {
    /// Pointer of the spec.
    pointer: String,
    /// Field of the spec.
    field: String,
    name: String,
}

impl Deployment {
    fn problem(&self, member: impl Into<String>, error: String) -> Problem {
        Problem {
            place: self.field.clone(),
            is_in_deployment: true,
            owner: self.name.clone(),
            member: member.into(),
            error,
            ..Problem::default()
        }
    }
}

pub(super) fn check(object: &Document, problems: &mut Vec<Problem>) {
    let columns = ["/name", "/spec", "/spec/selector", "/spec/template/spec/containers"];
    let entries = Entries::read_all(object, DEPLOYMENTS, &columns);
    let mut deployments = BTreeMap::new();
    let with_spec = entries.iter().filter(|(_, row)| row.kind(1) == Kind::Object);
    for (index, row) in with_spec.take(MAX_DEPLOYMENTS) {
        let deployment = Deployment {
            pointer: format!("{DEPLOYMENTS}/{index}/spec"),
            field: format!("spec.install.spec.deployments[{index}].spec"),
            name: row.text_or_empty(0).to_owned(),
        };
        if is_full(problems) {
            return;
        }
        check_selector(object, &deployment, row.kind(SELECTOR), problems);
        check_presence(object, &deployment, row, problems);
        deployments.insert(index, deployment);
    }
    check_containers(object, &deployments, problems);
}

fn check_selector(
    object: &Document,
    deployment: &Deployment,
    kind: Kind,
    problems: &mut Vec<Problem>,
) {
    match kind {
        Kind::Missing | Kind::Null if lacks(object, &deployment.pointer, &["selector"]) => {
            problems.push(deployment.problem("selector", required()));
        }
        Kind::Object => match read_selector(object, &deployment.pointer) {
            Some(Ok(selector)) if selector.is_empty() => {
                let error = "Invalid value: {}: empty selector is invalid for deployment";
                problems.push(deployment.problem("selector", error.to_owned()));
            }
            Some(Ok(selector)) => check_labels(object, deployment, &selector, problems),
            Some(Err(error)) => problems.push(deployment.problem("selector", error.to_string())),
            None => {}
        },
        _ => {}
    }
}

/// The selector of a deployment, or its problem; none if it has values of other types.
fn read_selector(object: &Document, spec: &str) -> Option<Result<Selector, SelectorError>> {
    let pointer = format!("{spec}/selector");
    let members = ["matchLabels", "matchExpressions"];
    if members.iter().any(|member| has_in_other_case(object, &pointer, member)) {
        return None;
    }
    let mut selector = Selector::default();
    for (key, value) in read_labels(object, &format!("{pointer}/matchLabels"))? {
        if let Err(error) = selector.add_match_label(&key, &value) {
            return Some(Err(error));
        }
    }
    let list = format!("{pointer}/matchExpressions");
    match object.kind(&list) {
        Kind::Missing | Kind::Null => return Some(Ok(selector)),
        Kind::List => {}
        _ => return None,
    }
    let expressions = Entries::read_all(object, &list, &["/key", "/operator", "/values"]);
    for (index, row) in expressions.iter() {
        let (key, operator) = (row.text(0)?, row.text(1)?);
        let values = match row.kind(2) {
            Kind::Missing | Kind::Null => Vec::new(),
            Kind::List => lists::texts(object, &format!("{list}/{index}/values")),
            _ => return None,
        };
        let length = row.length(2).unwrap_or_default();
        if usize::try_from(length) != Ok(values.len()) {
            return None;
        }
        if let Err(error) =
            selector.add_match_expression(key, operator, values.iter().map(String::as_str))
        {
            return Some(Err(error));
        }
    }
    Some(Ok(selector))
}

/// Labels by key; none if they have values of other types.
fn read_labels(object: &Document, pointer: &str) -> Option<BTreeMap<String, String>> {
    match object.kind(pointer) {
        Kind::Missing | Kind::Null => return Some(BTreeMap::new()),
        Kind::Object => {}
        _ => return None,
    }
    let raw = object.raw(pointer)?;
    let mut labels = BTreeMap::new();
    let mut are_texts = true;
    json::each_child(&raw, |child| {
        let key = child.key.map(json::text).unwrap_or_default();
        are_texts &= child.kind == json::Kind::Text;
        labels.insert(key, json::text(child.raw));
    })
    .ok()?;
    are_texts.then_some(labels)
}

fn check_labels(
    object: &Document,
    deployment: &Deployment,
    selector: &Selector,
    problems: &mut Vec<Problem>,
) {
    let path = ["template", "metadata", "labels"];
    let pointer = format!("{}/{}", deployment.pointer, path.join("/"));
    let Some(labels) = read_labels(object, &pointer) else { return };
    if selector.matches(|key| labels.get(key).map(String::as_str))
        || labels.is_empty()
            && object.kind(&pointer) != Kind::Object
            && !lacks(object, &deployment.pointer, &path)
    {
        return;
    }
    let shown = labels.iter().take(MAX_SHOWN_LABELS);
    let shown: Vec<_> =
        shown.map(|(key, value)| format!("{}:{}", quoted(key), quoted(value))).collect();
    let more = if labels.len() > MAX_SHOWN_LABELS { ",…" } else { "" };
    let shown = shown.join(",");
    let error =
        format!("Invalid value: {{{shown}{more}}}: `selector` does not match template `labels`");
    problems.push(deployment.problem(path.join("."), error));
}

/// Checks that a pod has a container.
fn check_presence(
    object: &Document,
    deployment: &Deployment,
    row: Row<'_>,
    problems: &mut Vec<Problem>,
) {
    let path = ["template", "spec", "containers"];
    let is_none = match row.kind(CONTAINERS) {
        Kind::List => row.length(CONTAINERS) == Some(0),
        Kind::Missing | Kind::Null => lacks(object, &deployment.pointer, &path),
        _ => false,
    };
    if is_none {
        problems.push(deployment.problem(path.join("."), required()));
    }
}

fn check_containers(
    object: &Document,
    deployments: &BTreeMap<usize, Deployment>,
    problems: &mut Vec<Problem>,
) {
    let served = SERVED_LISTS.map(|list| Entries::read_all(object, list, &["/deploymentName"]));
    let served = served.iter().flat_map(Entries::iter);
    let served: HashSet<_> = served.filter_map(|(_, row)| row.text(0)).collect();
    let specs = pods::in_csv(object);
    let mut mounts = Mounts::new(object);
    let columns = ["", "/name", "/image", "/ports", "/volumeMounts"];
    pods::each_container(object, &specs, &columns, |index, container| {
        let Some(deployment) = deployments.get(&index) else { return };
        let row = container.row;
        if row.kind(0) != Kind::Object || is_full(problems) {
            return;
        }
        let is_regular = container.is_regular();
        if !is_regular && container.list != "initContainers" {
            return;
        }
        let (pointer, field) = (container.pointer(), container.field());
        let member = field.strip_prefix(&deployment.field).unwrap_or_default();
        let member = member.trim_start_matches('.');
        let mut add = |name: &str, error: String, is_of_volume: bool| {
            let problem = deployment.problem(format!("{member}.{name}"), error);
            let container = row.text_or_empty(1).to_owned();
            problems.push(Problem { container, is_of_volume, ..problem });
        };
        for (column, name) in [(1, "name"), (2, "image")] {
            let is_none = match row.kind(column) {
                Kind::Text => row.text_or_empty(column).is_empty(),
                Kind::Missing | Kind::Null => lacks(object, &pointer, &[name]),
                _ => false,
            };
            if is_none {
                add(name, required(), false);
            }
        }
        if row.kind(3) == Kind::List && row.length(3).is_some_and(|length| length > 0) {
            mounts.check_ports(&pointer, |name, error| add(&name, error, false));
        }
        if row.kind(4) == Kind::List && row.length(4).is_some_and(|length| length > 0) {
            let has_certificates = served.contains(deployment.name.as_str());
            let has_mounts = has_certificates && is_regular;
            let of_olm = [has_certificates, has_mounts];
            mounts.check_volumes(index, &deployment.pointer, &pointer, of_olm, |name, error| {
                add(&name, error, true);
            });
        }
    });
}
