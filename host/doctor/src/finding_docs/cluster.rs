//! The cluster, and its parts that the doctor could not read.

use super::Level::Warning;
use super::{Doc, Topic};

pub(crate) const TOPIC: Topic =
    Topic { name: "cluster", title: "Cluster", docs: &[&CLOCK_SKEW, &UNREADABLE_OBJECTS] };

pub(crate) const CLOCK_SKEW: Doc = Doc {
    id: "DOC-90",
    level: Warning,
    title: "The clocks differ",
    impact: "The clock of the API server and that of the machine on which the doctor runs differ by more than 30 s. Clients reject certificates near the beginning and the end of their validity, Leases expire too early, and the expiry times in the doctor's findings differ by the same time.",
    remediation: "Synchronise the clocks (NTP, chrony) of the machines, starting with those of the control plane and the nodes of opgate.",
};

pub(crate) const UNREADABLE_OBJECTS: Doc = Doc {
    id: "DOC-91",
    level: Warning,
    title: "Some objects could not be read",
    impact: "The doctor lacks permission to read an object, or got no response in time. It did not run the checks that depend on the object, so there may be more problems. It lists each omitted check as `not checked`.",
    remediation: "Run the doctor as a user with permission to read the objects; `cluster-reader` or `view` with roles and webhook configurations is sufficient, and `get` on the Secret of the certificate, from which the doctor reads only the certificates. \
To accept it in a pipeline: `--skip DOC-91`.",
};
