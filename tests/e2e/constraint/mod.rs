//! `opgate constraint`.

use crate::cli::{err, opgate, out, write};
use serde_json::{Value, json};

const PROPERTIES: &str = "
- {type: olm.package, value: {packageName: etcd, version: 1.2.3}}
- {type: olm.gvk, value: {group: a.b, version: v1, kind: K}}
- {type: certified, value: true}
";

#[test]
fn a_constraint_is_evaluated_with_its_expressions() {
    let directory = tempfile::tempdir().unwrap();
    write(&directory, "properties.yaml", PROPERTIES);
    // More steps than an evaluation may take.
    let ten = "[0,1,2,3,4,5,6,7,8,9]";
    let explodes = ["a", "b", "c", "d", "e", "f", "g"]
        .iter()
        .fold("true".to_owned(), |inner, name| format!("{ten}.all({name}, {inner})"));
    let rule = |rule: &str| json!({"failureMessage": "sorry", "cel": {"rule": rule}});
    for (constraint, status, expected) in [
        (rule("properties.exists(p, p.type == 'certified' && p.value)"), 0, "yes: cel "),
        (rule("properties.exists(p, p.type == 'stable')"), 1, "is false (sorry)"),
        (
            rule("properties.size() == 3 && properties[0].type == 'x'"),
            1,
            r#"is false because "properties[0].type == 'x'" is (sorry)"#,
        ),
        (rule("properties[3].value"), 1, "deny CON-12 /cel/rule: "),
        (rule("properties[3].value == 1"), 1, "fails: index out of bounds: 3 (sorry)"),
        (rule("semver_compare(properties[0].value.version, '1.3.0') < 0"), 0, "is true"),
        (rule("nothing == 1"), 1, "undeclared reference to 'nothing' (in container '')"),
        (rule(&explodes), 3, "is given up: the evaluation takes more than 1000000 steps"),
        (json!({"any": {"constraints": [rule(&explodes), rule("true")]}}), 0, "yes: any of"),
    ] {
        write(&directory, "constraint.json", constraint.to_string());
        let arguments =
            ["constraint", "eval", "constraint.json", "--properties", "properties.yaml"];
        let output = opgate(directory.path(), &arguments);
        assert_eq!(output.status.code(), Some(status), "{constraint}: {}", err(&output));
        assert!(out(&output).contains(expected), "{constraint}: {}", out(&output));
        // The same as an object.
        let output = opgate(directory.path(), &[&arguments[..], &["--output", "json"]].concat());
        assert_eq!(output.status.code(), Some(status), "{constraint}");
        let holds = [Value::Bool(true), Value::Bool(false), Value::Null, Value::Null];
        let document: Value = serde_json::from_str(&out(&output)).unwrap();
        let denied = document["violations"].as_array().is_some_and(|found| !found.is_empty());
        if !denied {
            assert_eq!(document["holds"], holds[usize::try_from(status).unwrap()], "{constraint}");
        }
    }
}

/// In a policy, with its small stack: as deep as it goes, and deeper.
#[test]
fn deep_expressions_get_a_verdict() {
    let directory = tempfile::tempdir().unwrap();
    for (open, inner, close) in [
        ("(", "true", ")"),
        ("!(", "true", ")"),
        ("[", "true", "] == []"),
        ("{1:", "true", "}"),
        ("true?true:", "true", ""),
        ("", "1", "+1"),
        ("", "properties[0]", ".a"),
        ("type(", "true", ")"),
        ("[1].exists(x,", "true", ")"),
        ("[1].map(x,[", "x", "])"),
    ] {
        for levels in [8, 28, 31, 60, 63, 64, 1_000] {
            let rule = format!("{}{inner}{}", open.repeat(levels), close.repeat(levels));
            let value = json!({"failureMessage": "x", "cel": {"rule": rule}});
            let properties = json!({"properties": [{"type": "olm.constraint", "value": value}]});
            let csv = json!({
                "apiVersion": "operators.coreos.com/v1alpha1",
                "kind": "ClusterServiceVersion",
                "metadata": {
                    "name": "a.v1.0.0",
                    "namespace": "a",
                    "annotations": {"operatorframework.io/properties": properties.to_string()},
                },
                "spec": {"displayName": "a", "install": {"strategy": "deployment"}},
            });
            write(&directory, "csv.json", csv.to_string());
            write(
                &directory,
                "opgate.yaml",
                "{apiVersion: opgate.dev/v1alpha1, kind: Configuration, policies: [{name: constraint-limits}]}",
            );
            let output =
                opgate(directory.path(), &["check", "--config", "opgate.yaml", "csv.json"]);
            let status = output.status.code();
            assert!(matches!(status, Some(0 | 1)), "{open} {levels}: {status:?} {}", out(&output));
            if levels > 64 {
                assert_eq!(status, Some(1), "{open} {levels}");
                assert!(out(&output).contains("expression recursion limit exceeded: 64"), "{open}");
            }
        }
    }
}
