//! Runs the cases of the rules, and tests what no case can express.

use opgate_olm_v1::POLICY;

opgate_sdk_testing::tests!(POLICY);

/// Names and values that the rules query.
const WORDS: [&str; 26] = [
    "image",
    "Ignore",
    "Enforce",
    "1.2.3",
    ">=0.0.1 <0.1.0",
    "24h",
    "latest",
    "cluster",
    "TechPreviewNoUpgrade",
    "quay.io/x/y@sha256:0123",
    "registry.redhat.io/a",
    "redhat-cred",
    "packageName",
    "channel",
    "version",
    "upgradeConstraintPolicy",
    "source",
    "type",
    "ref",
    "pullSecret",
    "pollInterval",
    "installModes",
    "webhookdefinitions",
    "olm.bundle.object",
    "olm.csv.metadata",
    "metadata",
];

#[test]
fn any_value_in_any_field_has_a_verdict() {
    opgate_sdk_testing::any::value_in_any_place_has_a_verdict(&POLICY, DIRECTORY, &WORDS);
}
