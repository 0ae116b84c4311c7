//! Policy `resources`: containers declare their resources and probes.
//!
//! ```text
//! Pod, template ─▶ containers that the request touches ─┬─▶ requests and limits ─▶ RES-1, RES-2
//!                                                       └─▶ probes ─────────────▶ RES-3
//! ```

mod probes;
mod quantity;
mod rules;
mod targets;
mod usage;

use std::collections::BTreeMap;

use opgate_sdk::pods::{self, PodSpec};
use opgate_sdk::{Document, Report, Review, SettingsError, policy};
use quantity::Quantity;
use targets::{CRON_JOB, DAEMON_SET, DEPLOYMENT, JOB, POD, STATEFUL_SET};

policy! {
    name: "resources",
    title: "containers declare their resources and probes",
    rules: [rules::RULES],
    routes: [
        POD => check_containers,
        DEPLOYMENT => check_containers,
        STATEFUL_SET => check_containers,
        DAEMON_SET => check_containers,
        JOB => check_containers,
        CRON_JOB => check_containers,
    ],
    settings: include_str!("settings.json"),
    check_settings: validate_settings,
}

fn check_containers(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(object) = review.subject() else { return };
    let kind = review.request.kind().kind.as_str();
    if kind != "Pod" && review.settings.boolean("/templates") == Some(false) {
        return;
    }
    let Some(spec) = pods::in_object(object, kind) else { return };
    let old = review.ratchet_base().and_then(|old| Some((old, pods::in_object(old, kind)?)));
    let before = old.as_ref().map(|(old, spec)| OldPod::of(old, spec));
    let usage = usage::Requirements::of(review.settings);
    let probes = review.settings.texts("/probes");
    let runs_for_ever = probes::runs_for_ever(object, &spec, kind);
    // A pod that only now runs for ever needs probes now.
    let ran_for_ever =
        old.as_ref().is_some_and(|(old, spec)| probes::runs_for_ever(old, spec, kind));
    for container in list_containers(object, &spec) {
        let is_same = |part: &str| {
            before.as_ref().is_some_and(|before| before.has_same(object, &container, part))
        };
        let is_same_pod =
            || before.as_ref().is_some_and(|before| before.has_same_pod(object, &spec));
        // The resources of a container follow from its fields and those of the pod.
        if !is_same("/resources") || !is_same_pod() {
            usage.check(object, &spec, &container, report);
        }
        if container.is_regular && runs_for_ever {
            let is_new = |probe: &&String| !(ran_for_ever && is_same(&format!("/{probe}")));
            for probe in probes.iter().filter(is_new) {
                probes::check_probe(object, &container, probe, report);
            }
        }
    }
}

/// A container or init container. Ephemeral containers have neither resources nor probes.
pub(crate) struct Container {
    pub(crate) name: String,
    pub(crate) pointer: String,
    pub(crate) field: String,
    pub(crate) is_regular: bool,
    list: &'static str,
}

fn list_containers(object: &Document, spec: &PodSpec) -> Vec<Container> {
    let mut found = Vec::new();
    spec.each(object, &["/name"], |container| {
        if container.list != "ephemeralContainers" {
            found.push(Container {
                name: container.row.text_or_empty(0).to_owned(),
                pointer: container.pointer(),
                field: container.field(),
                is_regular: container.is_regular(),
                list: container.list,
            });
        }
    });
    found
}

/// The pod before an UPDATE, its containers by list and name: a container that moves in its list is
/// the same, and one with another name is new.
struct OldPod<'d> {
    old: &'d Document,
    spec: PodSpec,
    containers: BTreeMap<(&'static str, String), String>,
}

impl<'d> OldPod<'d> {
    fn of(old: &'d Document, spec: &PodSpec) -> Self {
        let containers = list_containers(old, spec).into_iter();
        let containers = containers.map(|it| ((it.list, it.name), it.pointer)).collect();
        Self { old, spec: spec.clone(), containers }
    }

    fn has_same(&self, object: &Document, container: &Container, part: &str) -> bool {
        let key = (container.list, container.name.clone());
        self.containers.get(&key).is_some_and(|old| {
            let (new, old) = (format!("{}{part}", container.pointer), format!("{old}{part}"));
            object.equal(&new, self.old, &old)
        })
    }

    fn has_same_pod(&self, object: &Document, spec: &PodSpec) -> bool {
        let (new, old) =
            (format!("{}/resources", spec.pointer()), format!("{}/resources", self.spec.pointer()));
        object.equal(&new, self.old, &old)
    }
}

/// Checks constraints that the schema cannot express.
fn validate_settings(settings: &Document) -> Result<(), Vec<SettingsError>> {
    let mut wrong = Vec::new();
    for resource in settings.keys("/max") {
        let pointer = format!("/max/{}", opgate_sdk::escape(&resource));
        if settings.text(&pointer).as_deref().and_then(Quantity::parse).is_none() {
            let message = "write a quantity, such as 500m or 8Gi".to_owned();
            wrong.push(SettingsError { pointer, message });
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}
