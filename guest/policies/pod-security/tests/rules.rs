//! What the policy answers: the cases of its rules.

use opgate_pod_security::POLICY;

opgate_cases::tests!(POLICY);
