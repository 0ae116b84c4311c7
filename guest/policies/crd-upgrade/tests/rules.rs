//! What the policy answers: the cases of its rules, and what no case can show.

use opgate_crd_upgrade::POLICY;

opgate_cases::tests!(POLICY);
