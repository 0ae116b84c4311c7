//! Runs the cases in `cases/`, natively: without a host, and in milliseconds.

opgate_sdk_testing::tests!({{snake}}::POLICY);
