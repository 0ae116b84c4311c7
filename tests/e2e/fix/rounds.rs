//! Fixes that wait for each other, and those that are refused.

use std::fs;
use std::os::unix::fs::symlink;

use super::*;

/// A Bundle with these elements of a list.
fn bundle(list: &[&str]) -> String {
    let lines = list.iter().map(|element| format!("  - {element}\n"));
    format!("{}  list:\n{}", crate::check::VALID_BUNDLE, lines.collect::<String>())
}

/// The Bundle after its fixes, and stderr.
fn fix(list: &[&str]) -> (String, String) {
    let directory = hostile("list-fixes");
    let path = write(&directory, "bundle.yaml", &bundle(list));
    let output = run(&directory, &["--config", "opgate.yaml", "--fix", "bundle.yaml"]);
    (fs::read_to_string(path).unwrap(), text(&output.stderr))
}

#[test]
fn fixes_of_one_list_do_not_shift_each_other() {
    let list = ["remove", "keep", "replace", "remove", "remove", "end", "replace"];
    let (found, stderr) = fix(&list);
    assert_eq!(found, bundle(&["keep", "good", "end", "good"]), "{stderr}");
    assert!(stderr.contains("5 violations fixed in 1 file"), "{stderr}");
}

/// The second one has the same fixes, by another path.
#[test]
fn a_file_and_a_link_to_it_in_one_bundle_are_fixed_once() {
    let directory = hostile("list-fixes");
    let list = ["remove", "keep", "remove", "replace", "end"];
    let path = write(&directory, "plain/manifests/a.yaml", &bundle(&list));
    symlink("a.yaml", path.with_file_name("b.yaml")).unwrap();
    let output = run(&directory, &["--config", "opgate.yaml", "--fix", "plain"]);
    let stderr = text(&output.stderr);
    assert_eq!(fs::read_to_string(path).unwrap(), bundle(&["keep", "good", "end"]), "{stderr}");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
}

#[test]
fn one_refused_fix_does_not_keep_all_others_from_being_made() {
    let mut list = vec!["replace"; 100];
    list[65] = "trap";
    let mut expected = vec!["good"; 100];
    expected[65] = "trap";
    let (found, stderr) = fix(&list);
    assert_eq!(found, bundle(&expected), "{stderr}");
    assert!(stderr.contains("\n99 violations fixed in 1 file"), "{stderr}");
    assert_eq!(stderr.matches("not fixed: ").count(), 1, "{stderr}");
    let why = "violations; make this change manually, and correct them: EVIL-1 worse 65";
    assert!(stderr.contains(why), "{stderr}");
}

#[test]
fn violations_that_a_fix_reveals_are_named() {
    let directory = planted();
    run(&directory, &["--fix", "bundle"]);
    let csv = directory.path().join("bundle/manifests/etcdoperator.clusterserviceversion.yaml");
    let content = fs::read_to_string(&csv).unwrap();
    // Only the rules of the right version evaluate the rest.
    let content = content.replace("operators.coreos.com/v1alpha1", "operators.coreos.com/v1");
    let content = content.replace("maturity: alpha", "maturity: unripe");
    fs::write(&csv, &content).unwrap();
    let output = run(&directory, &["--fix", "bundle"]);
    let stderr = text(&output.stderr);
    let why = "not fixed: RBF-12 write \"operators.coreos.com/v1alpha1\": it adds or reveals a violation; make this change manually, and correct it: CSV-17 spec.maturity \"unripe\"";
    assert!(stderr.contains(why), "{stderr}");
    assert_eq!(fs::read_to_string(&csv).unwrap(), content);
}

/// A dependency is read as one of a package after its type is corrected, and then its version is wrong.
#[test]
fn violations_that_a_fix_reveals_are_fixed_with_it() {
    let directory = planted();
    run(&directory, &["--fix", "bundle"]);
    let content = |kind: &str, version: &str| {
        format!(
            "dependencies:
  - type: {kind} # of a package
    value:
      packageName: etcd
      version: \"{version}\" # at least
"
        )
    };
    let path =
        write(&directory, "bundle/metadata/dependencies.yaml", &content("olm.packge", ">=v1.2.0"));
    let output = run(&directory, &["--fix", "--unsafe-fixes", "bundle"]);
    let stderr = text(&output.stderr);
    assert_eq!(fs::read_to_string(&path).unwrap(), content("olm.package", ">=1.2.0"), "{stderr}");
    assert!(stderr.contains("\n2 violations fixed in 1 file"), "{stderr}");
    // No rule can correct this version, so the first fix is not made either.
    let unfixable = content("olm.packge", "newest");
    fs::write(&path, &unfixable).unwrap();
    let output = run(&directory, &["--fix", "--unsafe-fixes", "bundle"]);
    let stderr = text(&output.stderr);
    assert_eq!(fs::read_to_string(&path).unwrap(), unfixable);
    assert!(stderr.contains("correct it: CON-20 Invalid semver format version"), "{stderr}");
}

/// Fixes can need much more than the evaluation itself: files are evaluated without them then.
#[test]
fn fixes_over_the_limits_of_a_policy_do_not_prevent_a_result() {
    for (what, limit) in [
        ("fixes-grow", "limits: {memory: 8Mi}"),
        ("fixes-spin", "limits: {time: 100ms}"),
        ("fixes-long-violations, number: 200", "limits: {memory: 64Mi}"),
    ] {
        let directory = hostile("");
        configure(&directory, &format!("settings: {{do: {what}}}\n  {limit}"));
        let output =
            run(&directory, &["--config", "opgate.yaml", "-v", "-o", "json", "bundle.yaml"]);
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(1), "{what}: {stdout}{stderr}");
        assert!(stdout.contains("\"message\": \"no fixes\""), "{what}: {stdout}{stderr}");
        assert!(stderr.contains("call repeated without fixes"), "{what}: {stderr}");
        let quiet = run(&directory, &["--config", "opgate.yaml", "bundle.yaml"]);
        assert!(!text(&quiet.stderr).contains("repeated"), "{}", text(&quiet.stderr));
    }
    // As a server decides, which wants no fixes.
    let directory = hostile("");
    configure(&directory, "settings: {do: fixes-grow}\n  limits: {memory: 8Mi}");
    let arguments = ["replay", "--config", "opgate.yaml", "-o", "json", "bundle.yaml"];
    let output = command(directory.path(), &arguments).output().unwrap();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(stdout.contains("\"message\": \"no fixes\""), "{stdout}{stderr}");
}
