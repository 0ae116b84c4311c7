//! Runs the cases in `cases/`, natively: without a host, and in milliseconds.

opgate_cases::tests!(service_accounts::POLICY);
