//! What the policy answers: the cases of its rules.
#![expect(clippy::expect_used, reason = "tests may panic")]

use opgate_pod_security::POLICY;

opgate_cases::tests!(POLICY);
