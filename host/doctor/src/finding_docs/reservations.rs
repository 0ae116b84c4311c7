//! Reservations of the servers, and the ledger in which they share them.

use super::Level::{Critical, Warning};
use super::{Doc, Topic};

pub(crate) const TOPIC: Topic = Topic {
    name: "reservations",
    title: "Reservations",
    docs: &[&RESERVATION_LIMIT, &LEDGER_UNUSABLE, &LOCAL_RESERVATIONS],
};

pub(crate) const RESERVATION_LIMIT: Doc = Doc {
    id: "DOC-77",
    level: Warning,
    title: "A tenant has nearly reached its reservation limit",
    impact: "A tenant (a namespace and a user) uses 80 % or more of its [reservations](../operate/reservations.md): it sends many requests that opgate allows and that are then not stored, for example because of a quota or another webhook. \
When the tenant reaches the limit, the server responds to its further requests for the resource with 503. Other tenants have separate limits.",
    remediation: "The finding names the tenant. Find the reason for the rejected requests in the audit log of the API server by user and namespace, and stop or fix that client. If the load is legitimate, raise the limit with `--client-ca`.",
};

pub(crate) const LEDGER_UNUSABLE: Doc = Doc {
    id: "DOC-78",
    level: Critical,
    title: "A server cannot use the ledger of reservations, or it is nearly full",
    impact: "The servers share their [reservations](../operate/reservations.md#replicas) in the ConfigMap `opgate-reservations`. A server that cannot read or write it fails requests that would reserve a change, and `onError` decides about them. \
If the ledger is full, such requests get 503.",
    remediation: "The finding has the reason. The [table of reasons](../operate/reservations.md#replicas) has the remedies. If it is nearly full, find the tenant with the most reservations in `/policies`.",
};

pub(crate) const LOCAL_RESERVATIONS: Doc = Doc {
    id: "DOC-79",
    level: Warning,
    title: "Several servers do not share their reservations",
    impact: "The configuration has `reservations: local`, or the servers have no `--installation`, and several servers run. Two requests that exclude each other can both be allowed if they reach two servers within milliseconds: rules that compare objects, such as OPG-01, are then broken in the cluster.",
    remediation: "Remove `reservations: local` from the configuration, and restart the servers. Servers outside of an installation need `--installation` and the [permissions for the ledger](../operate/reservations.md#replicas).",
};
