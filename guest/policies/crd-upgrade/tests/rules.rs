//! What the policy answers: the cases of its rules, and what no case can show.

use opgate_crd_upgrade::POLICY;

opgate_cases::tests!(POLICY);

/// Names and values that the rules ask for.
const WORDS: [&str; 48] = [
    "Namespaced",
    "Webhook",
    "BundleDeployment",
    "ConversionWebhook",
    "Copied",
    "spec",
    "status",
    "metadata",
    "name",
    "versions",
    "version",
    "served",
    "storage",
    "schema",
    "openAPIV3Schema",
    "validation",
    "type",
    "object",
    "array",
    "string",
    "integer",
    "number",
    "nullable",
    "format",
    "date-time",
    "properties",
    "additionalProperties",
    "items",
    "required",
    "enum",
    "pattern",
    "maximum",
    "minLength",
    "multipleOf",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "x-kubernetes-int-or-string",
    "conversion",
    "strategy",
    "storedVersions",
    "replaces",
    "owned",
    "conversionCRDs",
    "v1",
    "replicas",
    "crontabs.stable.example.com",
];

#[test]
fn any_value_in_any_place_has_a_verdict() {
    opgate_cases::any::value_in_any_place_has_a_verdict(&POLICY, FOLDER, &WORDS);
}
