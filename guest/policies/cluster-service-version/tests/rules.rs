//! Evaluates the cases of the policy's rules.

use opgate_cluster_service_version::POLICY;

opgate_sdk_testing::tests!(POLICY);
