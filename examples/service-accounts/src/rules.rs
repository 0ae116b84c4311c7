//! The rules.

use opgate_sdk::{rule, rules};

use crate::SERVICE_ACCOUNTS;
use crate::targets::{
    CRON_JOB, DAEMON_SET, DEPLOYMENT, JOB, POD, REPLICA_SET, SERVICE_ACCOUNT, STATEFUL_SET,
};

rules![SVA_1, SVA_2, SVA_3, SVA_4, SVA_5];

rule! {
    /// a pod gets no token of the API that it does not need
    ///
    /// The pod has `automountServiceAccountToken: false`, or does not set the field and its ServiceAccount
    /// has it. No projected volume has a `serviceAccountToken` without an audience, or with one of the
    /// setting `audiences`. Service accounts in the setting `tokens` are exempt. On UPDATE the rule evaluates
    /// pods that got no token before, or have another account now.
    ///
    /// # Why
    ///
    /// An attacker in the container can use the token against the API server. Most pods never do.
    ///
    /// # Remediation
    ///
    /// Set `automountServiceAccountToken: false`, or ask for the service account to be listed in the
    /// setting `tokens`.
    ///
    /// # Accepted
    ///
    /// `automountServiceAccountToken: false`
    ///
    /// # Rejected
    ///
    /// `automountServiceAccountToken: true`
    pub(crate) SVA_1: Deny {
        on: [
            POD: Create | Update,
            DEPLOYMENT: Create | Update,
            STATEFUL_SET: Create | Update,
            DAEMON_SET: Create | Update,
            REPLICA_SET: Create | Update,
            JOB: Create | Update,
            CRON_JOB: Create | Update,
        ],
        reads: [SERVICE_ACCOUNTS],
        source: ["Kubernetes, Configure Service Accounts for Pods"],
    }
}

rule! {
    /// a ServiceAccount gives its token to no pod that does not request it
    ///
    /// `automountServiceAccountToken` is false. Service accounts in the setting `tokens` are exempt, and so
    /// is `default` if the field is missing, as the controller creates it. On UPDATE the rule evaluates the
    /// field if it changes.
    ///
    /// # Why
    ///
    /// Every pod of the account gets a token unless its author thinks of it.
    ///
    /// # Remediation
    ///
    /// Set `automountServiceAccountToken: false` here, and `true` in the pods that use the API.
    ///
    /// # Accepted
    ///
    /// `automountServiceAccountToken: false`
    ///
    /// # Rejected
    ///
    /// A ServiceAccount without the field
    pub(crate) SVA_2: Deny {
        on: [SERVICE_ACCOUNT: Create | Update],
        source: ["Kubernetes, Configure Service Accounts for Pods"],
    }
}

rule! {
    /// a container is not privileged
    ///
    /// No container, init container or ephemeral container has `securityContext.privileged: true`, or adds
    /// the capability `ALL` or `SYS_ADMIN`, which are equivalent. On UPDATE, also of the sub-resource
    /// `ephemeralcontainers`, the rule evaluates containers that were not privileged before.
    ///
    /// # Why
    ///
    /// A privileged container is root on its node: it reads the secrets of all other pods there.
    ///
    /// # Remediation
    ///
    /// Remove the field, and add the capability that the container needs.
    ///
    /// # Accepted
    ///
    /// `securityContext: {capabilities: {add: [NET_BIND_SERVICE]}}`
    ///
    /// # Rejected
    ///
    /// `securityContext: {privileged: true}`
    pub(crate) SVA_3: Deny {
        on: [
            POD: Create | Update,
            DEPLOYMENT: Create | Update,
            STATEFUL_SET: Create | Update,
            DAEMON_SET: Create | Update,
            REPLICA_SET: Create | Update,
            JOB: Create | Update,
            CRON_JOB: Create | Update,
        ],
        source: ["Kubernetes, Pod Security Standards, Baseline"],
    }
}

rule! {
    /// a pod does not share namespaces of its node
    ///
    /// `hostNetwork`, `hostPID` and `hostIPC` are not true. On UPDATE the rule evaluates those that were not
    /// true before.
    ///
    /// # Why
    ///
    /// Such a pod sees the traffic, the processes or the memory of everything on its node, and
    /// network policies do not hold for it.
    ///
    /// # Remediation
    ///
    /// Remove the field. To be reached at a port of the node, use a Service of type NodePort.
    ///
    /// # Accepted
    ///
    /// A pod without the fields
    ///
    /// # Rejected
    ///
    /// `hostNetwork: true`
    pub(crate) SVA_4: Deny {
        on: [
            POD: Create | Update,
            DEPLOYMENT: Create | Update,
            STATEFUL_SET: Create | Update,
            DAEMON_SET: Create | Update,
            REPLICA_SET: Create | Update,
            JOB: Create | Update,
            CRON_JOB: Create | Update,
        ],
        source: ["Kubernetes, Pod Security Standards, Baseline"],
    }
}

rule! {
    /// a pod mounts no directory of its node
    ///
    /// No volume is a `hostPath`, except in the directories of the setting `hostPaths`, and these are mounted
    /// with `readOnly: true` only. `/var/logs` is not in `/var/log`. On UPDATE the rule evaluates volumes and
    /// mounts that are new.
    ///
    /// # Why
    ///
    /// Folders of a node have the credentials of the kubelet and the files of other pods. Who can
    /// write to one can put a link to another one into it.
    ///
    /// # Remediation
    ///
    /// Use a volume of another kind: `emptyDir`, `persistentVolumeClaim`, `configMap`.
    ///
    /// # Accepted
    ///
    /// `volumes: [{name: data, emptyDir: {}}]`
    ///
    /// # Rejected
    ///
    /// `volumes: [{name: data, hostPath: {path: /}}]`
    pub(crate) SVA_5: Deny {
        on: [
            POD: Create | Update,
            DEPLOYMENT: Create | Update,
            STATEFUL_SET: Create | Update,
            DAEMON_SET: Create | Update,
            REPLICA_SET: Create | Update,
            JOB: Create | Update,
            CRON_JOB: Create | Update,
        ],
        source: ["Kubernetes, Pod Security Standards, Baseline"],
    }
}
