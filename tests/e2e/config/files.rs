//! Configuration files: every key, and the location of every error.

use crate::cli::{directory, err, lines, opgate, out, write};
use serde_json::json;

/// Line, column and a hint for everything that is wrong, all at once where that is possible.
#[test]
fn invalid_configuration_reports_line_column_and_hint() {
    let directory = directory();
    let head = "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\n";
    let policy = "policies:\n  - name: bundle-immutability\n";
    let cases = [
        (
            format!("{head}polices: []\n"),
            vec!["3:1: unknown field `polices`", "did you mean \"policies\"?"],
        ),
        (
            format!("{head}{policy}    mod: warn\n"),
            vec!["5:5: unknown field `mod`", "did you mean \"mode\"?"],
        ),
        (
            format!("{head}{policy}    mode: enforced\n"),
            vec!["5:5: unknown variant `enforced`", "did you mean \"enforce\"?"],
        ),
        (
            format!("{head}profile: ocp-4.16\n"),
            vec!["3:1: unknown variant `ocp-4.16`", "did you mean \"ocp-4.1"],
        ),
        (
            format!("{head}identities:\n  old: [a]\n"),
            vec!["4:3: unknown field `old`", "did you mean \"olm\"?"],
        ),
        (format!("{head}identities: {{olm: a}}\n"), vec!["3:14: invalid type: string \"a\""]),
        (
            format!("{head}identities:\n  olm: [a, \"\"]\n  rukpak: [\" b\"]\n"),
            vec!["4:12: \"\" is not the name of a user", "5:12: \" b\" is not the name of a user"],
        ),
        (
            format!("{head}{policy}    settings: {{identities: {{rukpak: [\"\"]}}}}\n"),
            vec!["5:38: \"\" is shorter than 1 character"],
        ),
        (
            format!("{head}{policy}    rules: {{RPK-1: off, RPK-02: off, RPX-99: warn}}\n"),
            vec!["5:13: policy bundle-immutability has no rule \"RPK-1\"", "RPX-99"],
        ),
        (
            format!("{head}{policy}    rules:\n      RPK-02: maybe\n"),
            vec!["6:7: unknown variant `maybe`"],
        ),
        (
            format!("{head}{policy}    settings:\n      rukpak:\n        strictPath: true\n"),
            vec!["7:9: unknown setting `strictPath`; did you mean \"strictPaths\"?"],
        ),
        (
            format!("{head}{policy}    settings: {{strictPaths: true}}\n"),
            vec![
                "5:16: unknown setting `strictPaths`; it belongs at `settings.rukpak.strictPaths`",
            ],
        ),
        (
            format!(
                "{head}{policy}    settings: {{rukpak: {{strictPaths: 1, bundleDeploymentNameMax: 0}}}}\n"
            ),
            vec!["5:25: 1 is not of type", "5:41: 0 is less than the minimum of 1"],
        ),
        (
            format!("{head}{policy}    settings: {{rules: {{}}}}\n"),
            vec!["5:16: the levels of rules do not belong in `settings`"],
        ),
        (
            format!("{head}{policy}    limits: {{memory: 32MB, time: 100, concurrency: 0}}\n"),
            vec!["5:28: invalid type: integer `100`, expected a string"],
        ),
        (
            format!("{head}{policy}    limits: {{memory: 32MB, time: 1d, concurrency: 0}}\n"),
            vec![
                "5:14: \"32MB\" is not a size",
                "5:28: \"1d\" is not a duration",
                "5:38: must be between 1 and 256",
            ],
        ),
        (
            format!("{head}{policy}    allowedReads: [configmaps]\n"),
            vec!["5:20: \"configmaps\" is not a resource: write group/version/resource"],
        ),
        (
            format!("{head}{policy}  - name: bundle-immutability\n"),
            vec!["5:5: a policy named \"bundle-immutability\" is already there"],
        ),
        (
            format!("{head}policies:\n  - name: X Y\n    module: builtin:bundle-immutability\n"),
            vec!["4:5: \"X Y\" is not a name"],
        ),
        (
            format!("{head}policies:\n  - name: bundle-imutability\n"),
            vec!["4:5: there is no built-in policy", "did you mean \"bundle-immutability\"?"],
        ),
        (format!("{head}policies:\n  - module: x\n"), vec!["4:5: missing field `name`"]),
        ("kind: Configuration\n".to_owned(), vec!["1:1: missing field `apiVersion`"]),
        (
            "apiVersion: v1\nkind: Config\n".to_owned(),
            vec!["1:1: apiVersion is \"v1\"", "2:1: kind is \"Config\""],
        ),
        (format!("{head}policies:\n"), vec!["3:1: policies has no value: name policies"]),
        (format!("{head}policies: ~\n"), vec!["3:1: policies has no value"]),
        (format!("{head}---\n{head}"), vec!["4:1: a second document: leave one"]),
        ("a: [\n".to_owned(), vec![":1:4: unclosed bracket"]),
        (format!("{head}kind: Configuration\n"), vec![":3:1: "]),
        (String::new(), vec!["1:1: "]),
    ];
    for (text, expected) in cases {
        write(&directory, "opgate.yaml", &text);
        for command in [
            &["rules", "--config", "opgate.yaml"][..],
            &["replay", "--config", "opgate.yaml", "reviews"],
        ] {
            let output = opgate(directory.path(), command);
            let errors = err(&output);
            assert_eq!(
                (output.status.code(), out(&output).as_str()),
                (Some(2), ""),
                "{text}\n{errors}"
            );
            for part in &expected {
                assert!(errors.contains(part), "{part} is not in\n{errors}\nof\n{text}");
            }
            assert!(errors.lines().all(|l| l.starts_with("error: opgate.yaml:")), "{errors}");
        }
    }
}

/// As the documentation prints it, with bare words.
#[test]
fn every_key_of_the_configuration_is_understood() {
    let directory = directory();
    let text = "\
apiVersion: opgate.dev/v1alpha1
kind: Configuration
profile: ocp-4.15                           # where editions contradict each other
identities: {olm: [me], rukpak: []}
policies:
  - name: bundle-immutability
    module: builtin:bundle-immutability
    mode: enforce
    onError: failurePolicy
    rules: {RPK-07: off, RPK-17: off}
    settings: {}
    limits: {memory: 32Mi, time: 100ms, concurrency: 4}
    exclude: {namespaces: [kube-system], users: []}
    allowedReads: [operators.coreos.com/v1/operatorgroups]
  - name: again
    module: builtin:bundle-immutability
    mode: off
";
    write(&directory, "opgate.yaml", text);
    let output = opgate(
        directory.path(),
        &["replay", "--config", "opgate.yaml", "--output", "jsonl", "reviews"],
    );
    assert_eq!((output.status.code(), err(&output).as_str()), (Some(1), ""));
    assert!(lines(&output).iter().all(|r| r["warnings"] == json!([])));
    let rules = opgate(directory.path(), &["rules", "--config", "opgate.yaml"]);
    assert!(out(&rules).contains("RPK-17   off "), "{}", out(&rules));
    assert!(!directory.path().join("cache").exists(), "built-in policies need no cache");
}
