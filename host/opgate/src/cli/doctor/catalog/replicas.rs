//! Servers that differ from each other.

use super::Level::Warning;
use super::{Doc, Theme};

pub(in crate::cli::doctor) const THEME: Theme = Theme {
    name: "replicas",
    title: "Differences between servers",
    docs: &[&VERSIONS, &CONFIGURATIONS, &BUNDLES],
};

pub(in crate::cli::doctor) const VERSIONS: Doc = Doc {
    id: "DOC-70",
    level: Warning,
    title: "Servers of different versions run side by side",
    harm: "The Leases of the servers (`opgate-replica-…`) name different versions, or their pods run images with different digests. During an update that lasts seconds. If it lasts longer, the same request is judged in two ways, \
and the registration follows the older one.",
    repair: "See why the update does not end:\n\n    kubectl -n opgate-system rollout status deployment opgate",
};

pub(in crate::cli::doctor) const CONFIGURATIONS: Doc = Doc {
    id: "DOC-71",
    level: Warning,
    title: "Servers serve different configurations",
    harm: "The Leases of the servers name different digests of their configuration or of the registration that belongs to it. After a change of the ConfigMap that lasts a minute or two. If it lasts longer, one of them \
cannot use the new configuration and keeps the last good one: the same request is judged in two ways.",
    repair: "Look for the error in the log of the server that the finding names, and at its `/policies` and `/readyz?verbose`. Repair the configuration, or restart the pod.",
};

pub(in crate::cli::doctor) const BUNDLES: Doc = Doc {
    id: "DOC-72",
    level: Warning,
    title: "Servers know different CA bundles",
    harm: "The Leases of the servers name different digests of the CA bundle (`opgate.dev/ca`). The leader does not complete the rotation of a CA before all servers have seen the new bundle. If it lasts longer than some minutes, the rotation stands still.",
    repair: "See whether the volume of the Secret is updated on the node of the server that the finding names, and restart its pod if it is not.",
};
