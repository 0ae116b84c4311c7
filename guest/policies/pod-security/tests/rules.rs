//! Runs the cases of the rules.

use opgate_pod_security::POLICY;

opgate_sdk_testing::tests!(POLICY);
