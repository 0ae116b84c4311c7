//! Prints a cluster as `kubectl get -A -o yaml` does: this many objects of the kinds that Operators
//! bring.
//!
//!     cargo run --release -p opgate-tests --example dump -- 10000 > cluster.yaml

use std::io::{self, Write as _};

/// Number of lines of `managedFields`, which no reader uses.
const FIELDS: usize = 120;

fn metadata(namespace: &str, name: &str, number: usize) -> String {
    let namespace =
        if namespace.is_empty() { String::new() } else { format!("    namespace: {namespace}\n") };
    let fields = many(FIELDS, |field| format!("          f:field{field}: {{}}\n"));
    format!(
        "  metadata:
    annotations:
      kubectl.kubernetes.io/last-applied-configuration: |
        {{\"apiVersion\":\"v1\",\"kind\":\"{name}\"}}
    creationTimestamp: \"2026-01-01T00:00:00Z\"
    labels:
      app: {name}
    managedFields:
    - apiVersion: v1
      fieldsType: FieldsV1
      fieldsV1:
        f:spec:
{fields}      manager: kubectl
      operation: Update
    name: {name}
{namespace}    resourceVersion: \"{number}\"
    uid: 00000000-0000-4000-8000-{number:012}
"
    )
}

/// A list of this many lines.
fn many(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(line).collect::<Vec<_>>().concat()
}

fn pod(indent: &str) -> String {
    let env =
        many(30, |n| format!("{indent}  - name: VARIABLE_{n}\n{indent}    value: value-{n}\n"));
    format!(
        "{indent}containers:
{indent}- command:
{indent}  - /manager
{indent}  env:
{env}{indent}  image: quay.io/example/manager@sha256:{digest}
{indent}  name: manager
{indent}serviceAccountName: manager
",
        digest = "0".repeat(64)
    )
}

/// The objects of one Operator in its namespace.
fn objects(number: usize) -> Vec<String> {
    let namespace = format!("operator-{number}");
    let group = format!("g{number}.example.com");
    let of = |api: &str, kind: &str, namespace: &str, name: &str, rest: &str| {
        format!("- apiVersion: {api}\n  kind: {kind}\n{}{rest}", metadata(namespace, name, number))
    };
    let template = |indent: &str| {
        format!(
            "{indent}selector:\n{indent}  matchLabels: {{app: x}}\n{indent}template:\n{indent}  metadata:\n{indent}    labels: {{app: x}}\n{indent}  spec:\n{}",
            pod(&format!("{indent}    "))
        )
    };
    let modes = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"];
    let modes = modes.map(|mode| format!("    - supported: true\n      type: {mode}\n")).concat();
    let text = "A sentence about what the Operator does and how it is used. ".repeat(60);
    let csv = format!(
        "  spec:
    customresourcedefinitions:
      owned:
      - description: A thing
        displayName: Thing
        kind: Thing
        name: things.{group}
        version: v1
    description: {text}
    displayName: Operator
    install:
      spec:
        deployments:
        - name: manager
          spec:
{deployment}      strategy: deployment
    installModes:
{modes}    version: 1.0.0
  status:
    phase: Succeeded
",
        deployment = template("            ")
    );
    let properties = many(80, |n| {
        format!(
            "                field{n}:\n                  description: What the field is for\n                  type: string\n"
        )
    });
    let crd = format!(
        "  spec:
    group: {group}
    names:
      kind: Thing
      plural: things
    scope: Namespaced
    versions:
    - name: v1
      schema:
        openAPIV3Schema:
          properties:
            spec:
              properties:
{properties}              type: object
          type: object
      served: true
      storage: true
  status:
    storedVersions:
    - v1
"
    );
    let subscription = "  spec:\n    channel: stable\n    name: operator\n    source: catalog\n    sourceNamespace: olm\n";
    let targets = format!(
        "  spec:\n    targetNamespaces:\n    - {namespace}\n  status:\n    namespaces:\n    - {namespace}\n"
    );
    let own = &namespace;
    vec![
        of("v1", "Namespace", "", own, "  status:\n    phase: Active\n"),
        of("operators.coreos.com/v1", "OperatorGroup", own, "group", &targets),
        of(
            "operators.coreos.com/v1alpha1",
            "ClusterServiceVersion",
            own,
            &format!("operator{number}.v1.0.0"),
            &csv,
        ),
        of("operators.coreos.com/v1alpha1", "Subscription", own, "operator", subscription),
        of(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            "",
            &format!("things.{group}"),
            &crd,
        ),
        of("apps/v1", "Deployment", own, "manager", &format!("  spec:\n{}", template("    "))),
        of("v1", "Pod", own, "manager-0", &format!("  spec:\n{}", pod("    "))),
    ]
}

fn main() -> io::Result<()> {
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(10_000);
    let mut out = io::BufWriter::new(io::stdout().lock());
    out.write_all(b"apiVersion: v1\nitems:\n")?;
    for object in (0..).flat_map(objects).take(count) {
        out.write_all(object.as_bytes())?;
    }
    out.write_all(b"kind: List\nmetadata:\n  resourceVersion: \"\"\n")?;
    out.flush()
}
