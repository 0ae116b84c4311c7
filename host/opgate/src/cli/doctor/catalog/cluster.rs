//! The cluster, and what could not be seen of it.

use super::Level::Warning;
use super::{Doc, Theme};

pub(in crate::cli::doctor) const THEME: Theme =
    Theme { name: "cluster", title: "Cluster", docs: &[&CLOCK, &UNREAD] };

pub(in crate::cli::doctor) const CLOCK: Doc = Doc {
    id: "DOC-90",
    level: Warning,
    title: "The clocks differ",
    harm: "The clock of the API server and that of the machine on which the doctor runs differ by more than 30 s. Certificates are refused around the beginning and the end of their validity, Leases end too early, and the doctor's own findings about expiry are off by as much.",
    repair: "Synchronise the clocks (NTP, chrony) of the machines, first of all those of the control plane and of the nodes of opgate.",
};

pub(in crate::cli::doctor) const UNREAD: Doc = Doc {
    id: "DOC-91",
    level: Warning,
    title: "Something could not be read",
    harm: "The doctor was not permitted to read something, or got no answer in time. What depends on it was not checked, and may be wrong. Each check that was left out is listed as `not checked`.",
    repair: "Run the doctor as a user who may read it; `cluster-reader` or `view` with roles and webhook configurations is enough, and `get` on the Secret of the certificate, of which only the certificates are looked at. \
To accept it in a pipeline: `--skip DOC-91`.",
};
