//! Runs the cases in `cases/`, natively: without a host, and in milliseconds.

opgate_cases::tests!(images::POLICY);
