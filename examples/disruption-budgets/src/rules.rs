//! The rules.

use opgate_sdk::{rule, rules};

use crate::{BUDGET, BUDGETS, DEPLOYMENT, DEPLOYMENTS, STATEFUL_SET, STATEFUL_SETS};

rules![PDB_1, PDB_2, PDB_3, PDB_4];

rule! {
    /// a PodDisruptionBudget allows evictions
    ///
    /// `maxUnavailable` is neither 0 nor `0%`, `minAvailable` is less than `100%`, and one of both is set. On
    /// UPDATE the rule evaluates `spec` if it changes.
    ///
    /// # Why
    ///
    /// Such a budget forbids every eviction: drains of nodes wait for ever, and so do upgrades of
    /// the cluster. Without any of the two fields the disruption controller expects no pods, and
    /// allows no disruption.
    ///
    /// # Remediation
    ///
    /// Use `maxUnavailable: 1`.
    ///
    /// # Accepted
    ///
    /// `maxUnavailable: 1`
    ///
    /// # Rejected
    ///
    /// `maxUnavailable: 0`
    pub(crate) PDB_1: Deny {
        on: [BUDGET: Create | Update],
        source: ["Kubernetes, Specifying a Disruption Budget for your Application"],
    }
}

rule! {
    /// a PodDisruptionBudget keeps fewer pods than its workloads have
    ///
    /// The replicas of all Deployments and StatefulSets that the selector matches are more than the pods that
    /// must stay. Shares are rounded up, as in the disruption controller. Workloads without replicas do not
    /// count. On UPDATE the rule evaluates `spec` if it changes.
    ///
    /// # Why
    ///
    /// `minAvailable: 3` for three replicas allows no eviction, even if all are healthy.
    ///
    /// # Remediation
    ///
    /// Lower `minAvailable`, use `maxUnavailable`, or add replicas first.
    ///
    /// # Accepted
    ///
    /// `minAvailable: 2` for a Deployment with `replicas: 3`
    ///
    /// # Rejected
    ///
    /// `minAvailable: 3` for a Deployment with `replicas: 3`
    pub(crate) PDB_2: Deny {
        on: [BUDGET: Create | Update],
        reads: [DEPLOYMENTS, STATEFUL_SETS],
        source: ["Kubernetes, Specifying a Disruption Budget for your Application"],
    }
}

rule! {
    /// a workload has more replicas than its PodDisruptionBudgets keep
    ///
    /// No PodDisruptionBudget of the namespace needs all the pods that it selects: those of this Deployment
    /// or StatefulSet, and those of others. On UPDATE, also of the sub-resource `scale`, a budget that
    /// already allows no eviction counts only if the replicas become fewer. Zero replicas are always valid.
    ///
    /// # Why
    ///
    /// A workload that shrinks to what its budget keeps can no longer be moved to another node.
    ///
    /// # Remediation
    ///
    /// Keep one replica more than the budget does, or change the budget first.
    ///
    /// # Accepted
    ///
    /// `replicas: 3`, and a budget with `minAvailable: 2`
    ///
    /// # Rejected
    ///
    /// `replicas: 2`, and a budget with `minAvailable: 2`
    pub(crate) PDB_3: Deny {
        on: [DEPLOYMENT: Create | Update, STATEFUL_SET: Create | Update],
        reads: [BUDGETS, DEPLOYMENTS, STATEFUL_SETS],
        source: ["Kubernetes, Specifying a Disruption Budget for your Application"],
    }
}

rule! {
    /// pods have one PodDisruptionBudget
    ///
    /// No other PodDisruptionBudget of the namespace selects pods of a Deployment or StatefulSet that this
    /// one selects. On UPDATE the rule evaluates `spec` if it changes.
    ///
    /// # Why
    ///
    /// The API server evicts no pod that has more than one budget.
    ///
    /// # Remediation
    ///
    /// Remove one of the budgets, or make the selectors disjoint.
    ///
    /// # Accepted
    ///
    /// Two budgets with `app: shop` and `app: cart`
    ///
    /// # Rejected
    ///
    /// Two budgets with `app: shop`
    pub(crate) PDB_4: Deny {
        on: [BUDGET: Create | Update],
        reads: [BUDGETS, DEPLOYMENTS, STATEFUL_SETS],
        source: ["Kubernetes, API-initiated Eviction"],
    }
}
