//! The rules as people meet them: their list, their levels, and the pages that explain them.

pub(crate) mod documented;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::BINARY;
use crate::policy::cases::POLICIES;

fn opgate(directory: &TempDir, arguments: &[&str]) -> Output {
    let cache = directory.path().join("cache");
    let arguments = [&["--log", "error"], arguments].concat();
    Command::new(BINARY)
        .args(arguments)
        .env("OPGATE_CACHE_DIR", cache)
        .current_dir(directory.path())
        .output()
        .unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A directory with a configuration, a plain bundle without objects, and a catalog that only warns.
fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let configuration = "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\n";
    let put = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let url = "https://docs.example.com/rules/";
    put("directory.yaml", &format!("{configuration}docsUrl: {url}\n"));
    let url = "https://docs.example.com/{policy}?rule={rule}";
    put("page.yaml", &format!("{configuration}docsUrl: {url:?}\n"));
    put("wrong.yaml", &format!("{configuration}docsUrl: docs.example.com\n"));
    put("plain/manifests/empty.yaml", "# nothing\n");
    let package = "---\nschema: olm.package\nname: p\ndefaultChannel: c\n";
    let entries: Vec<_> = (0..9).map(|n| format!("- name: p.v1.0.{n}\n")).collect();
    let mut catalog = format!("{package}---\nschema: olm.channel\npackage: p\nname: c\nentries:\n");
    for (n, entry) in entries.iter().enumerate() {
        catalog.push_str(entry);
        if n > 0 {
            writeln!(catalog, "  replaces: p.v1.0.{}", n - 1).unwrap();
        }
    }
    for n in 0..9 {
        write!(
            catalog,
            "---\nschema: olm.bundle\npackage: p\nname: p.v1.0.{n}\nimage: example.com/p:v{n}\nproperties:\n- type: olm.package\n  value: {{packageName: p, version: 1.0.{n}}}\n- type: olm.package.required\n  value: {{packageName: q, versionRange: '>=1.0.0 <1.1.0'}}\n"
        )
        .unwrap();
    }
    put("catalog/catalog.yaml", &catalog);
    directory
}

#[test]
fn declared_rules_are_listed_with_documented_levels() {
    let directory = directory();
    let listed = out(&opgate(&directory, &["rules", "--output", "json"]));
    let listed: Vec<Value> = serde_json::from_str(&listed).unwrap();
    let declared = POLICIES.iter().flat_map(|policy| {
        policy.all_rules().into_iter().map(|rule| {
            json!({"policy": policy.name, "id": rule.id, "name": rule.name, "title": rule.title, "sources": rule.sources})
        })
    });
    let known = |rule: &Value| {
        let members = ["policy", "id", "name", "title", "sources"];
        members.iter().map(|name| ((*name).to_owned(), rule[name].clone())).collect::<Value>()
    };
    assert_eq!(listed.iter().map(known).collect::<Vec<_>>(), declared.collect::<Vec<_>>());
    let levels: BTreeMap<_, _> =
        documented::documented_rules().iter().map(|row| (row.id, row.level())).collect();
    for rule in &listed {
        let id = rule["id"].as_str().unwrap();
        // The row of CRD-07 has the level outside of bundles.
        let denies_in_bundles = id == "CRD-07" && rule["deniesIn"] == json!(["bundle"]);
        let level = if denies_in_bundles { Some("warn") } else { rule["default"].as_str() };
        assert_eq!(levels.get(id).copied(), level, "{id}");
    }
    let markdown = out(&opgate(&directory, &["rules", "--output", "markdown"]));
    assert_eq!(markdown.lines().count(), listed.len() + 2);
    assert!(markdown.contains("| RPK-01 | immutable-bundle-spec | deny | Bundle | UPDATE | "));
}

#[test]
fn a_rule_is_explained_in_full() {
    let directory = directory();
    let page = out(&opgate(&directory, &["rules", "explain", "opg-25"]));
    assert!(page.starts_with("## OPG-25\n\na ClusterServiceVersion brings no API"), "{page}");
    for part in
        ["* Level: deny", "### Why", "### Remediation", "### Accepted", "### Rejected", "```yaml"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    let both = out(&opgate(&directory, &["rules", "explain", "PBF-02", "RPK-08"]));
    assert!(both.contains("## PBF-02") && both.contains("## RPK-08"), "{both}");
    assert!(both.contains("* Denies with the setting: `rukpak.strictPaths`"), "{both}");
    let unknown = opgate(&directory, &["rules", "explain", "OPG-52"]);
    assert_eq!(unknown.status.code(), Some(2));
    let text = err(&unknown);
    assert!(
        text.contains("no configured policy has a rule \"OPG-52\": `opgate rules` lists them; did you mean \"OPG-"),
        "{text}"
    );
    // A policy of others may bring no pages.
    let configuration = testkit::configuration(&[testkit::misbehaves("evil", &json!({}))]);
    fs::write(directory.path().join("evil.yaml"), configuration).unwrap();
    let page = out(&opgate(&directory, &["rules", "explain", "--config", "evil.yaml", "EVIL-1"]));
    assert!(page.starts_with("## EVIL-1\n\nthe policy behaves\n"), "{page}");
}

/// The pages in `docs/rules` equal the documentation of the rules.
#[test]
fn the_published_pages_are_up_to_date() {
    let directory = directory();
    let output = opgate(&directory, &["rules", "docs", "pages"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let published = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/rules");
    let files = |directory: &Path| {
        let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        let read = |path: std::path::PathBuf| {
            (path.file_name().unwrap().to_owned(), fs::read_to_string(path).unwrap())
        };
        entries.map(read).collect::<BTreeMap<_, _>>()
    };
    let (made, published) = (files(&directory.path().join("pages")), files(&published));
    assert_eq!(made.len(), POLICIES.len() + 1);
    let stale: Vec<_> =
        made.iter().filter(|(name, text)| published.get(*name) != Some(text)).collect();
    let names: Vec<_> = stale.iter().map(|(name, _)| name).collect();
    assert!(
        names.is_empty() && made.len() == published.len(),
        "run `opgate rules docs docs/rules`: {names:?}"
    );
}

/// Whatever looks like the ID of a rule.
fn rule_ids(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    words.filter(|word| {
        let (prefix, number) = word.split_once('-').unwrap_or_default();
        prefix.len() == 3
            && prefix.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
            && number.len() >= 2
            && number.bytes().all(|b| b.is_ascii_digit())
    })
}

/// Every list of rules marks the rules that document a gap. `docs/gaps.md` lists these gaps.
#[test]
fn documented_gaps_of_rules_are_listed() {
    let directory = directory();
    let listed = out(&opgate(&directory, &["rules", "--output", "json"]));
    let listed: Vec<Value> = serde_json::from_str(&listed).unwrap();
    let table = out(&opgate(&directory, &["rules"]));
    let mut lines = String::new();
    for (rule, row) in listed.iter().zip(table.lines()) {
        let (id, policy) = (rule["id"].as_str().unwrap(), rule["policy"].as_str().unwrap());
        assert!(row.starts_with(id), "{row}");
        assert_eq!(row.ends_with(" (evaluated in part)"), rule["gap"].is_string(), "{row}");
        if let Some(gap) = rule["gap"].as_str() {
            let anchor = id.to_ascii_lowercase();
            writeln!(lines, "| [{id}](rules/{policy}.md#{anchor}) | {gap} |").unwrap();
        }
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/gaps.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, section) = page.split_once("## Rules that are evaluated in part\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let rows: Vec<_> = section.lines().filter(|line| line.starts_with("| [")).collect();
    assert!(
        rows == lines.lines().collect::<Vec<_>>(),
        "docs/gaps.md has not these lines, but others:\n{lines}"
    );
    let known: Vec<_> = documented::documented_rules().iter().map(|row| row.id).collect();
    let unknown: Vec<_> = rule_ids(&page).filter(|id| !known.contains(id)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// `docs/configuration.md` has the settings of each policy, and no others.
#[test]
fn settings_of_each_policy_are_documented() {
    let directory = directory();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/configuration.md");
    let page = fs::read_to_string(page).unwrap();
    for policy in POLICIES {
        let name = policy.name;
        let inspected = out(&opgate(&directory, &["policy", "inspect", name, "--output", "json"]));
        let inspected: Value = serde_json::from_str(&inspected).unwrap();
        let mut settings = BTreeSet::new();
        for (group, schema) in inspected["settingsSchema"]["properties"].as_object().unwrap() {
            // The host writes these.
            if schema["readOnly"] == true {
                continue;
            }
            match schema["properties"].as_object() {
                Some(members) => {
                    settings.extend(members.keys().map(|member| format!("{group}.{member}")));
                }
                None => drop(settings.insert(group.clone())),
            }
        }
        let heading = format!("\n## Settings of `{name}`\n");
        let (_, section) = page.split_once(&heading).unwrap_or_else(|| panic!("{heading}"));
        let section = section.split("\n## ").next().unwrap();
        let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
        let rows = rows.filter_map(|row| row.split_once('`'));
        let documented: BTreeSet<_> = rows.map(|(setting, _)| setting.to_owned()).collect();
        assert_eq!(documented, settings, "{name}");
    }
}

#[test]
fn denials_link_to_their_rule_pages() {
    let directory = directory();
    let check = |config: Option<&str>, form: &str| {
        let config: Vec<_> = config.into_iter().flat_map(|file| ["--config", file]).collect();
        let arguments =
            [&["check", "plain", "--input-type", "plain", "--output", form], &config[..]];
        let output = opgate(&directory, &arguments.concat());
        assert_eq!(output.status.code(), Some(1), "{}", err(&output));
        out(&output)
    };
    let command = "opgate rules explain PBF-02";
    let page = "https://docs.example.com/rules/plain-bundle.md#pbf-02";
    for form in ["table", "junit"] {
        assert!(check(None, form).contains(command), "{form}");
        assert!(check(Some("directory.yaml"), form).contains(page), "{form}");
        assert!(!check(Some("directory.yaml"), form).contains(command), "{form}");
    }
    let rule = |config: Option<&str>| {
        let sarif: Value = serde_json::from_str(&check(config, "sarif")).unwrap();
        let rules = sarif["runs"][0]["tool"]["driver"]["rules"].as_array().unwrap().clone();
        rules.into_iter().find(|rule| rule["id"] == "PBF-02").unwrap()
    };
    assert_eq!(rule(None)["helpUri"], Value::Null);
    assert_eq!(rule(Some("directory.yaml"))["helpUri"], page);
    let other = "https://docs.example.com/plain-bundle?rule=pbf-02";
    assert_eq!(rule(Some("page.yaml"))["helpUri"], other);
    let help = rule(None)["help"].clone();
    assert!(help["text"].as_str().unwrap().contains("* Source: OCP 4.12"));
    assert!(help["markdown"].as_str().unwrap().contains("### Remediation"));
    let wrong = opgate(&directory, &["rules", "--config", "wrong.yaml"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        err(&wrong).contains("wrong.yaml:3:1: docsUrl is \"docs.example.com\""),
        "{}",
        err(&wrong)
    );
}

#[test]
fn repeated_warning_is_printed_on_one_line() {
    let directory = directory();
    let rows = |arguments: &[&str]| {
        let output = opgate(&directory, &[&["check", "catalog"], arguments].concat());
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        let table = out(&output);
        let rows = table.lines().filter(|line| line.contains(" warn CON-27 "));
        rows.map(str::to_owned).collect::<Vec<_>>()
    };
    let [row] = &rows(&[])[..] else { panic!("{:?}", rows(&[])) };
    assert!(row.starts_with("catalog/catalog.yaml:"), "{row}");
    assert!(row.ends_with("(9 times, first here; --verbose shows all)"), "{row}");
    assert_eq!(rows(&["--verbose"]).len(), 9);
    let json = out(&opgate(&directory, &["check", "catalog", "--output", "json"]));
    assert_eq!(json.matches("\"CON-27\"").count(), 9, "lists are whole");
}
