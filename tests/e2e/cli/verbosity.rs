//! How much commands say, how it looks, and what makes the exit status 1.

use std::process::Command;

use crate::BINARY;
use crate::cli::{directory, err, opgate, out, write};

#[test]
fn quiet_prints_only_violations_and_errors() {
    let directory = directory();
    let plain = opgate(directory.path(), &["replay", "reviews"]);
    assert!(
        err(&plain).contains("9 allowed, 2 warned, 1 denied, 0 errors, 2 not evaluated"),
        "{}",
        err(&plain)
    );
    assert!(err(&plain).contains("warning: not evaluated: "), "{}", err(&plain));
    assert!(out(&plain).contains("opgate rules explain RPK-01"), "{}", out(&plain));
    let quiet = opgate(directory.path(), &["replay", "-q", "reviews"]);
    assert_eq!((quiet.status.code(), err(&quiet).as_str()), (Some(1), ""));
    let lines = out(&quiet);
    assert!(lines.contains("deny  RPK-01 spec: bundle.spec is immutable"), "{lines}");
    assert!(lines.contains("warn  RPK-17"), "{lines}");
    assert!(lines.contains("013-delete") && lines.contains("not evaluated"), "{lines}");
    assert!(!lines.contains("explain") && !lines.contains("009-create"), "{lines}");
    write(&directory, "broken.json", "{");
    let quiet = opgate(directory.path(), &["-q", "replay", "broken.json"]);
    assert_eq!(quiet.status.code(), Some(2));
    assert!(err(&quiet).starts_with("error: broken.json:1:"), "{}", err(&quiet));
    let both = opgate(directory.path(), &["replay", "-q", "-v", "reviews"]);
    assert_eq!(both.status.code(), Some(2), "{}", out(&both));
}

#[test]
fn verbose_logs_more_unless_a_level_is_given() {
    let directory = directory();
    write(
        &directory,
        "group.yaml",
        "apiVersion: operators.coreos.com/v1\nkind: OperatorGroup\nmetadata: {name: a, namespace: b}\n",
    );
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: b}\n";
    write(&directory, "context.yaml", namespace);
    let told = |arguments: &[&str], log: Option<&str>| {
        let mut command = Command::new(BINARY);
        command.args(arguments).args(["--cluster-state", "context.yaml"]);
        command.current_dir(directory.path()).env_remove("OPGATE_CONFIG");
        match log {
            Some(level) => command.env("OPGATE_LOG", level),
            None => command.env_remove("OPGATE_LOG"),
        };
        err(&command.output().unwrap()).contains("info: in the cluster state")
    };
    for (arguments, log, expected) in [
        (&["check", "group.yaml"][..], None, false),
        (&["check", "-v", "group.yaml"], None, true),
        (&["-v", "check", "group.yaml"], None, true),
        (&["check", "-vv", "group.yaml"], Some("error"), true),
        (&["check", "-v", "--log", "warn", "group.yaml"], None, false),
        (&["check", "group.yaml"], Some("info"), true),
        (&["check", "-q", "group.yaml"], Some("info"), false),
    ] {
        assert_eq!(told(arguments, log), expected, "{arguments:?} {log:?}");
    }
}

#[test]
fn colors_are_used_only_on_terminals_by_default() {
    let directory = directory();
    let colored = |arguments: &[&str], no_color: &str| {
        let mut command = Command::new(BINARY);
        command.args(arguments).current_dir(directory.path()).env_remove("OPGATE_CONFIG");
        let output = command.env("NO_COLOR", no_color).output().unwrap();
        (output.stdout.contains(&0x1b), output.stderr.contains(&0x1b))
    };
    for (arguments, no_color, expected) in [
        (&["replay", "reviews"][..], "", (false, false)),
        (&["replay", "--color", "always", "reviews"], "", (true, true)),
        (&["--color=always", "replay", "reviews"], "1", (true, true)),
        (&["replay", "--color", "never", "reviews"], "", (false, false)),
        (&["replay", "--color", "always", "--nonsense"], "", (false, true)),
        (&["replay", "--color", "always", "nowhere"], "", (false, true)),
        (&["replay", "--color", "always", "-o", "json", "reviews"], "", (false, true)),
    ] {
        assert_eq!(colored(arguments, no_color), expected, "{arguments:?} {no_color:?}");
    }
}

/// What denies, what only warns, and what cannot be read, by what is to make the status 1.
#[test]
fn exit_status_follows_the_lowest_failing_level() {
    let directory = directory();
    let bundle = |name: &str, spec: &str| {
        format!(
            "apiVersion: core.rukpak.io/v1alpha1\nkind: Bundle\nmetadata: {{name: {name}}}\nspec: {spec}\n"
        )
    };
    let tagged = "{provisionerClassName: core-rukpak-io-plain, source: {type: git, git: {repository: https://x.example/y, ref: {tag: v1}}}}";
    write(
        &directory,
        "deny.yaml",
        bundle("deny", "{provisionerClassName: core-rukpak-io-plain, source: {type: image}}"),
    );
    write(&directory, "warn.yaml", bundle("warn", tagged));
    write(&directory, "broken.yaml", "a: [\n");
    let (warns, denies) = (
        "reviews/006-create-bundles-combo-tag-ref.json",
        "reviews/007-update-bundles-combo-tag-ref.json",
    );
    for (command, paths, expected) in [
        ("check", ["deny.yaml", "warn.yaml", "broken.yaml"], [[1, 1, 0], [0, 1, 0], [2, 2, 2]]),
        ("replay", [denies, warns, "broken.yaml"], [[1, 1, 0], [0, 1, 0], [2, 2, 2]]),
    ] {
        for (path, expected) in paths.into_iter().zip(expected) {
            for (level, expected) in ["deny", "warn", "never"].into_iter().zip(expected) {
                let output = opgate(directory.path(), &[command, "--fail-on", level, path]);
                let said = err(&output);
                assert_eq!(
                    output.status.code(),
                    Some(expected),
                    "{command} {level} {path}: {said}"
                );
            }
        }
    }
    write(&directory, "a.yaml", testkit::configuration(&[testkit::builtin_policy()]));
    for (what, expected) in [("any", 1), ("never", 0)] {
        let output = opgate(directory.path(), &["diff", "--fail-on", what, "a.yaml", "-"]);
        assert_eq!(output.status.code(), Some(2), "standard input is empty");
        write(
            &directory,
            "b.yaml",
            "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\npolicies: []\n",
        );
        let output = opgate(directory.path(), &["diff", "--fail-on", what, "a.yaml", "b.yaml"]);
        assert_eq!(output.status.code(), Some(expected), "{}", err(&output));
    }
    let webhook = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: opgate}\nwebhooks:\n- {name: a.opgate.dev, sideEffects: None, admissionReviewVersions: [v1], failurePolicy: Fail, timeoutSeconds: 30, clientConfig: {service: {namespace: opgate-system, name: opgate}}, rules: [{apiGroups: ['*'], apiVersions: ['*'], resources: ['*'], operations: ['*']}]}\n";
    write(&directory, "webhook.yaml", webhook);
    for (level, expected) in [("critical", 1), ("warning", 1), ("note", 1), ("never", 0)] {
        let output = opgate(directory.path(), &["doctor", "--fail-on", level, "webhook.yaml"]);
        assert_eq!(
            output.status.code(),
            Some(expected),
            "{level}: {}{}",
            out(&output),
            err(&output)
        );
    }
}

/// What GitHub shows, and nothing that it would drop without a word.
#[test]
fn annotations_equal_the_shown_violations() {
    let directory = directory();
    let output = opgate(directory.path(), &["replay", "-o", "github", "reviews"]);
    assert_eq!(output.status.code(), Some(1));
    let first = out(&output);
    let first = first.lines().next().unwrap();
    assert!(
        first.starts_with("::error file=reviews/007-update-bundles-combo-tag-ref.json,line=1,col=1,title=opgate%3A deny RPK-01::UPDATE core.rukpak.io/v1alpha1/bundles combo-tag-ref: spec: bundle.spec is immutable%0A"),
        "{first}"
    );
    for number in 0..12 {
        let bundle = format!(
            "apiVersion: core.rukpak.io/v1alpha1\nkind: Bundle\nmetadata: {{name: b{number}}}\nspec:\n  provisionerClassName: core-rukpak-io-plain\n  source: {{type: image}}\n"
        );
        write(&directory, &format!("all/::stop-commands::{number:02}.yaml"), bundle);
    }
    write(&directory, "x.yaml", "a: [\n");
    let output = opgate(directory.path(), &["check", "-o", "github", "all", "x.yaml"]);
    assert_eq!(output.status.code(), Some(2));
    let lines = out(&output);
    let (shown, rest) =
        lines.split_once("more, which GitHub would not show as annotations:").unwrap();
    assert_eq!(shown.lines().filter(|line| line.starts_with("::error ")).count(), 10, "{lines}");
    assert!(shown.contains("file=all/%3A%3Astop-commands%3A%3A00.yaml,line=6,col="), "{lines}");
    assert!(rest.lines().skip(1).all(|line| line.starts_with("- ")), "{lines}");
    assert!(rest.contains("\n- x.yaml:1:4: "), "what cannot be read is there, too: {lines}");
}
