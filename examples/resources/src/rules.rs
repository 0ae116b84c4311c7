//! The rules.

use opgate_sdk::{rule, rules};

use crate::targets::{CRON_JOB, DAEMON_SET, DEPLOYMENT, JOB, POD, STATEFUL_SET};

rules![RES_1, RES_2, RES_3];

rule! {
    /// a container declares its resources
    ///
    /// Every container and init container has the requests and limits of the setting `require`, by default
    /// `requests.cpu`, `requests.memory` and `limits.memory`, and they are not zero. A limit counts as a
    /// missing request, and `spec.resources` of the pod applies to all of its containers. On UPDATE, also of
    /// the sub-resource `resize`, the rule evaluates containers whose resources change, and containers with a
    /// new name. Ephemeral containers cannot have resources. With the setting `templates: false` it evaluates
    /// Pods only.
    ///
    /// # Why
    ///
    /// Without requests the scheduler puts pods where there is no room. Without a limit one
    /// container takes the memory of all others on its node.
    ///
    /// # Remediation
    ///
    /// Set what is missing, or create a LimitRange with defaults for the namespace.
    ///
    /// # Accepted
    ///
    /// `resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 64Mi}}`
    ///
    /// # Rejected
    ///
    /// `resources: {requests: {cpu: 100m}}`
    pub(crate) RES_1: Deny {
        on: [
            POD: Create | Update,
            DEPLOYMENT: Create | Update,
            STATEFUL_SET: Create | Update,
            DAEMON_SET: Create | Update,
            JOB: Create | Update,
            CRON_JOB: Create | Update,
        ],
        source: ["Kubernetes, Resource Management for Pods and Containers"],
    }
}

rule! {
    /// a container has no more than the settings allow
    ///
    /// The limits of every container and init container are not above the setting `max`. A container
    /// without a limit, or with a limit of zero, has no end, and is rejected, too. Off until the
    /// setting is there.
    ///
    /// # Why
    ///
    /// A quota is for all pods of a namespace. One container that requests all of it, or more
    /// than a node has, never starts.
    ///
    /// # Remediation
    ///
    /// Lower the limit, or use several replicas.
    ///
    /// # Accepted
    ///
    /// With `max: {memory: 8Gi}`: `limits: {memory: 8192Mi}`
    ///
    /// # Rejected
    ///
    /// `limits: {memory: 9Gi}`
    pub(crate) RES_2: Deny {
        on: [
            POD: Create | Update,
            DEPLOYMENT: Create | Update,
            STATEFUL_SET: Create | Update,
            DAEMON_SET: Create | Update,
            JOB: Create | Update,
            CRON_JOB: Create | Update,
        ],
        enabled_by: ["/max"],
        source: ["Kubernetes, Resource Management for Pods and Containers"],
    }
}

rule! {
    /// a container that runs for ever has probes
    ///
    /// Every container has the probes of the setting `probes`, each with `exec`, `httpGet`, `tcpSocket` or
    /// `grpc`. Init containers, Jobs, CronJobs and pods with another `restartPolicy` than `Always` need none.
    /// On UPDATE the rule evaluates probes that change. Off until the setting is set.
    ///
    /// # Why
    ///
    /// Without a readiness probe a Service sends requests to a container that has just started.
    ///
    /// # Remediation
    ///
    /// Add the probe.
    ///
    /// # Accepted
    ///
    /// `readinessProbe: {httpGet: {path: /ready, port: 8080}}`
    ///
    /// # Rejected
    ///
    /// `readinessProbe: {periodSeconds: 5}`
    pub(crate) RES_3: Deny {
        on: [
            POD: Create | Update,
            DEPLOYMENT: Create | Update,
            STATEFUL_SET: Create | Update,
            DAEMON_SET: Create | Update,
        ],
        enabled_by: ["/probes"],
        source: ["Kubernetes, Liveness, Readiness, and Startup Probes"],
    }
}
