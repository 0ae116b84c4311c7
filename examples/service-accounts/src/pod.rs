//! Access of pods to their nodes: privileged containers, namespaces and directories of the host.

use opgate_sdk::pods::PodSpec;
use opgate_sdk::{Document, Kind, Rule, go};

use crate::rules::{SVA_3, SVA_4, SVA_5};

/// Something that a pod should not have.
pub(crate) struct Violation {
    pub(crate) rule: &'static Rule,
    pub(crate) field: String,
    pub(crate) message: String,
    /// Identifies it in another version of the object, at any position.
    pub(crate) key: String,
}

const HOST_NAMESPACES: [(&str, &str); 3] = [
    ("hostNetwork", "the network"),
    ("hostPID", "the processes"),
    ("hostIPC", "the shared memory"),
];

/// Returns all violations, by field.
pub(crate) fn find_violations(
    object: &Document,
    spec: &PodSpec,
    directories: &[String],
) -> Vec<Violation> {
    let mut found = Vec::new();
    for (member, what) in HOST_NAMESPACES {
        if object.boolean(&format!("{}/{member}", spec.pointer())) == Some(true) {
            found.push(Violation {
                rule: &SVA_4,
                field: format!("{}.{member}", spec.field()),
                message: format!("the pod shares {what} of its node: remove {member}"),
                key: member.to_owned(),
            });
        }
    }
    find_privileged(object, spec, &mut found);
    find_host_paths(object, spec, directories, &mut found);
    found
}

fn find_privileged(object: &Document, spec: &PodSpec, found: &mut Vec<Violation>) {
    const ADDED_CAPABILITIES: &str = "/securityContext/capabilities/add";
    let columns = ["/securityContext/privileged", "/name", ADDED_CAPABILITIES];
    spec.each(object, &columns, |container| {
        if container.row.boolean(0) == Some(true) {
            let name = container.row.text_or_empty(1);
            found.push(Violation {
                rule: &SVA_3,
                field: format!("{}.securityContext.privileged", container.field()),
                message: format!(
                    "container {} is privileged, and has all rights on its node: remove privileged",
                    go::quote(name)
                ),
                key: format!("{}/{name}", container.list),
            });
        }
        if container.row.length(2).unwrap_or(0) == 0 {
            return;
        }
        let added = object.rows(&format!("{}{ADDED_CAPABILITIES}", container.pointer()), &[""]);
        for (index, capability) in added.iter().enumerate() {
            let capability = capability.text_or_empty(0);
            if is_all(capability) {
                let name = container.row.text_or_empty(1);
                found.push(Violation {
                    rule: &SVA_3,
                    field: format!("{}.securityContext.capabilities.add[{index}]", container.field()),
                    message: format!(
                        "container {} has the capability {}, which is as good as privileged: remove it",
                        go::quote(name),
                        go::quote(capability)
                    ),
                    key: format!("{}/{name}/{capability}", container.list),
                });
            }
        }
    });
}

/// Reports whether a capability grants all rights on the node. Runtimes ignore its case, and some accept a
/// prefix.
fn is_all(capability: &str) -> bool {
    let name = capability.to_ascii_uppercase();
    matches!(name.strip_prefix("CAP_").unwrap_or(&name), "ALL" | "SYS_ADMIN")
}

fn find_host_paths(
    object: &Document,
    spec: &PodSpec,
    directories: &[String],
    found: &mut Vec<Violation>,
) {
    let list = format!("{}/volumes", spec.pointer());
    let volumes = object.rows(&list, &["/hostPath", "/hostPath/path", "/name"]);
    for (index, volume) in volumes.iter().enumerate() {
        if !matches!(volume.kind(0), Kind::Object) {
            continue;
        }
        let (path, name) = (volume.text_or_empty(1), volume.text_or_empty(2));
        let field = format!("{}.volumes[{index}].hostPath", spec.field());
        if !directories.iter().any(|directory| is_inside(path, directory)) {
            let path = go::quote(path);
            found.push(Violation {
                rule: &SVA_5,
                field,
                message: format!("the pod mounts {path} of its node: use another kind of volume"),
                key: format!("{path} in {name}"),
            });
            continue;
        }
        for (mount, container) in writable_mounts(object, spec, name) {
            found.push(Violation {
                rule: &SVA_5,
                field: mount,
                message: format!(
                    "container {} can write to {} of its node: set readOnly",
                    go::quote(&container),
                    go::quote(path)
                ),
                key: format!("{} in {name} of {container}", go::quote(path)),
            });
        }
    }
}

/// Reports whether a path is a directory or below it. API servers refuse paths with `..`; files can contain
/// them.
fn is_inside(path: &str, directory: &str) -> bool {
    let is_straight = !path.split('/').any(|part| part == "..");
    let rest = path.strip_prefix(directory.trim_end_matches('/'));
    is_straight && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the mounts of a volume that are not read-only, each with the name of its container.
fn writable_mounts(object: &Document, spec: &PodSpec, volume: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    spec.each(object, &["/volumeMounts", "/name"], |container| {
        if container.row.length(0).unwrap_or(0) == 0 {
            return;
        }
        let list = format!("{}/volumeMounts", container.pointer());
        let mounts = object.rows(&list, &["/name", "/readOnly"]);
        for (index, mount) in mounts.iter().enumerate() {
            if mount.text(0) == Some(volume) && mount.boolean(1) != Some(true) {
                let field = format!("{}.volumeMounts[{index}].readOnly", container.field());
                found.push((field, container.row.text_or_empty(1).to_owned()));
            }
        }
    });
    found
}
