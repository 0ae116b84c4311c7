//! Ports and volume mounts of containers.
//!
//! OLM adds two volumes with the certificates of webhooks and API services to the deployments that
//! serve them, and mounts them into each container: where a mount of another volume has the same path,
//! OLM replaces it.

use std::collections::{HashMap, HashSet};

use opgate_sdk::{Document, Kind};

use super::{has_in_other_case, quoted, required};
use crate::entries::Entries;

/// OLM's volumes, each with its path, in the order in which OLM adds them.
const CERTIFICATES: [(&str, &str); 2] = [
    ("apiservice-cert", "/apiserver.local.config/certificates"),
    ("webhook-cert", "/tmp/k8s-webhook-server/serving-certs"),
];
/// Maximum number of lists of ports and of mounts that are read. Each takes a call of the host.
const MAX_LISTS: usize = 4_000;
/// Maximum number of ports that are read. Each takes two calls of the host.
const MAX_PORTS: usize = 10_000;

/// The volumes of the pods, and the number of lists and ports read.
pub(super) struct Mounts<'o> {
    object: &'o Document,
    /// By index of the deployment; none if the volumes are unknown.
    volumes: HashMap<usize, Option<HashSet<String>>>,
    lists: usize,
    ports: usize,
}

impl<'o> Mounts<'o> {
    pub(super) fn new(object: &'o Document) -> Self {
        Self { object, volumes: HashMap::new(), lists: 0, ports: 0 }
    }

    /// Whether another list may be read.
    fn count_list(&mut self) -> bool {
        self.lists = self.lists.saturating_add(1);
        self.lists <= MAX_LISTS
    }

    /// Checks the ports of the container at the pointer.
    pub(super) fn check_ports(&mut self, container: &str, mut add: impl FnMut(String, String)) {
        if !self.count_list() {
            return;
        }
        let list = format!("{container}/ports");
        let ports = Entries::read_all(self.object, &list, &["", "/containerPort", "/hostPort"]);
        for (index, row) in ports.iter().filter(|(_, row)| row.kind(0) == Kind::Object) {
            self.ports = self.ports.saturating_add(1);
            if self.ports > MAX_PORTS {
                return;
            }
            let pointer = format!("{list}/{index}");
            let value = |column: usize, member: &str| match row.kind(column) {
                Kind::Number => self.object.integer(&format!("{pointer}/{member}")),
                _ => None,
            };
            let member = |name: &str| format!("ports[{index}].{name}");
            let is_missing = matches!(row.kind(1), Kind::Missing | Kind::Null)
                && super::lacks(self.object, &pointer, &["containerPort"]);
            match value(1, "containerPort") {
                Some(0) => add(member("containerPort"), required()),
                None if is_missing => add(member("containerPort"), required()),
                Some(port) if !is_port(port) => add(member("containerPort"), not_port(port)),
                _ => {}
            }
            // Go omits 0.
            if let Some(port) = value(2, "hostPort").filter(|port| *port != 0 && !is_port(*port)) {
                add(member("hostPort"), not_port(port));
            }
        }
    }

    /// Checks the mounts of the container at the pointer, whose deployment has the index and the
    /// spec. The booleans state whether OLM adds its volumes to the pod, and whether it mounts them
    /// into the container.
    pub(super) fn check_volumes(
        &mut self,
        deployment: usize,
        spec: &str,
        container: &str,
        [has_certificates, has_mounts]: [bool; 2],
        mut add: impl FnMut(String, String),
    ) {
        if !self.count_list() {
            return;
        }
        let object = self.object;
        let volumes = self.volumes.entry(deployment).or_insert_with(|| read_volumes(object, spec));
        let Some(volumes) = volumes else { return };
        let list = format!("{container}/volumeMounts");
        let mounts = Entries::read_all(object, &list, &["/name", "/mountPath"]);
        // The first mount with the name or the path: OLM keeps it or replaces it.
        let of_olm = CERTIFICATES.map(|(name, path)| {
            let mut rows = mounts.iter();
            let first =
                rows.find(|(_, row)| row.text(0) == Some(name) || row.text(1) == Some(path));
            first.filter(|_| has_mounts).map(|(index, _)| index)
        });
        for (index, row) in mounts.iter() {
            let Some(name) = row.text(0).filter(|name| !name.is_empty()) else { continue };
            let is_of_olm = has_certificates
                && CERTIFICATES.iter().any(|(known, _)| *known == name)
                || of_olm.contains(&Some(index));
            if !volumes.contains(name) && !is_of_olm {
                let error = format!("Not found: {}", quoted(name));
                add(format!("volumeMounts[{index}].name"), error);
            }
        }
    }
}

fn is_port(port: i64) -> bool {
    (1..=65_535).contains(&port)
}

fn not_port(port: i64) -> String {
    format!("Invalid value: {port}: must be between 1 and 65535, inclusive")
}

/// Names of the volumes of a pod; none if they are unknown.
fn read_volumes(object: &Document, spec: &str) -> Option<HashSet<String>> {
    let pod = format!("{spec}/template/spec");
    let list = format!("{pod}/volumes");
    match object.kind(&list) {
        Kind::Missing | Kind::Null if !has_in_other_case(object, &pod, "volumes") => {
            return Some(HashSet::new());
        }
        Kind::List => {}
        _ => return None,
    }
    let volumes = Entries::read_all(object, &list, &["/name"]);
    volumes.iter().map(|(_, row)| row.text(0).map(str::to_owned)).collect()
}
