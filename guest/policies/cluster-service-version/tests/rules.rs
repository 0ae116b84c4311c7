//! What the policy answers: the cases of its rules.

use opgate_cluster_service_version::POLICY;

opgate_cases::tests!(POLICY);
