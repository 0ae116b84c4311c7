//! `new-rule`: what a rule starts from.
//!
//! ```text
//! sources of the policy ─▶ Found (every rule, where it is) ─▶ id free? which module?
//!     ├─▶ src/<module>.rs   section with TODOs, name in rules![…] (a new list: in lib.rs too)
//!     └─▶ cases/<ID>.yaml   a case to accept and one to reject, with TODOs
//! ```
//!
//! Everything is checked before anything is written. The tests of a policy fail for every TODO that is
//! left, so that nothing of it is forgotten.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::source::{self, RuleDeclaration};

/// Options of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NewRuleOptions<'a> {
    /// Folder of the policy.
    pub(crate) policy: &'a str,
    /// Id of the rule.
    pub(crate) id: &'a str,
    /// Module of the rule.
    pub(crate) module: Option<&'a str>,
}

/// A rule of the policy, and the file that declares it.
struct RuleLocation {
    rule: RuleDeclaration,
    file: PathBuf,
}

/// Writes the section and the cases. Gives the files that it wrote.
///
/// # Errors
/// Fails if there is no such policy or module, or if the id is invalid or exists.
pub(crate) fn create_rule(root: &Path, wanted: &NewRuleOptions<'_>) -> Result<Vec<PathBuf>> {
    let NewRuleOptions { policy, id, module } = *wanted;
    let policies = root.join("guest/policies");
    let crate_directory = policies.join(policy);
    let sources = crate_directory.join("src");
    if policy.is_empty() || policy.contains(['/', '\\', '.']) || !sources.is_dir() {
        bail!(
            "there is no policy {policy}; the policies are {}",
            list_entries(&policies)?.join(", ")
        );
    }
    let (prefix, number) = parse_rule_id(id)?;
    let rules = find_rules(&sources)?;
    let same =
        |found: &&RuleLocation| parse_rule_name(&found.rule.name).is_some_and(|(p, _)| p == prefix);
    let place = |found: &&RuleLocation| parse_rule_name(&found.rule.name).map(|(_, number)| number);
    if let Some(taken) = rules.iter().filter(same).find(|found| place(found) == Some(number)) {
        bail!("{id} is taken by {}; choose another number", taken.file.display());
    }
    let cases = crate_directory.join("cases").join(format!("{id}.yaml"));
    if cases.exists() {
        bail!("{} is there already; remove it, or choose another id", cases.display());
    }
    let highest = rules.iter().filter(same).max_by_key(place);
    let file = match (module, highest) {
        (Some(module), _) => module_file(&sources, module)?,
        (None, Some(highest)) => highest.file.clone(),
        (None, None) => {
            bail!("{policy} has no rule {prefix}-…; say with --in which module it is for")
        }
    };

    let read = |path: &Path| {
        fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))
    };
    let library_file = sources.join("lib.rs");
    let is_library = file == library_file;
    let library = read(&library_file)?;
    let of_module = || rules.iter().filter(|found| found.file == file);
    // Targets of the rules in the same module are in scope.
    let on = match of_module().max_by_key(place) {
        Some(extra) => extra.rule.on.clone(),
        None => match source::first_target(&library) {
            Some(target) if is_library => format!("{target}: Create | Update"),
            Some(target) => format!("crate::{target}: Create | Update"),
            None => bail!("src/lib.rs declares no route; declare it in policy! first"),
        },
    };
    let name = id.replace('-', "_");
    let (text, is_new) = source::add_to_list(&read(&file)?, &name);
    let mut changes =
        vec![(file.clone(), source::insert_section(&text, &render_section(&name, &on)))];
    if is_new {
        // A policy in one file has its own list in it.
        let library = if is_library { &changes.remove(0).1 } else { &library };
        let Some(library) = source::add_module(library, &rules_path(&sources, &file)) else {
            bail!("src/lib.rs has no list of rules; declare it in policy! first");
        };
        changes.push((library_file, library));
    }
    changes.push((cases, render_cases(id, &on, &crate_directory)?));
    for (path, text) in &changes {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)
                .with_context(|| format!("{} cannot be made", directory.display()))?;
        }
        fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    Ok(changes.into_iter().map(|(path, _)| path).collect())
}

/// Prefix and number of an id.
fn parse_rule_id(id: &str) -> Result<(String, u64)> {
    let is_id = |(prefix, number): &(&str, &str)| {
        prefix.starts_with(|c: char| c.is_ascii_uppercase())
            && prefix.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'-')
            && number.bytes().all(|b| b.is_ascii_digit())
    };
    let found = id.rsplit_once('-').filter(is_id);
    let found = found.and_then(|(prefix, number)| Some((prefix.to_owned(), number.parse().ok()?)));
    found.with_context(|| format!("{id} is no id of a rule; write it like RBF-33"))
}

fn parse_rule_name(name: &str) -> Option<(String, u64)> {
    parse_rule_id(&name.replace('_', "-")).ok()
}

/// Lists the entries of a directory, sorted.
fn list_entries(directory: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(directory)
        .with_context(|| format!("{} cannot be read", directory.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// Returns every rule that the sources declare.
fn find_rules(sources: &Path) -> Result<Vec<RuleLocation>> {
    let (mut rules, mut directories) = (Vec::new(), vec![sources.to_owned()]);
    while let Some(directory) = directories.pop() {
        for name in list_entries(&directory)? {
            let file = directory.join(name);
            if file.is_dir() {
                directories.push(file);
            } else if file.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&file)
                    .with_context(|| format!("{} cannot be read", file.display()))?;
                let found = source::declared_rules(&text).into_iter();
                rules.extend(found.map(|rule| RuleLocation { rule, file: file.clone() }));
            }
        }
    }
    Ok(rules)
}

/// The file of a module: `rbac::subjects` is `rbac/subjects.rs` or `rbac/subjects/mod.rs`.
fn module_file(sources: &Path, module: &str) -> Result<PathBuf> {
    let path = module.replace("::", "/");
    let is_name = |part: &str| part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if path.split('/').all(|part| !part.is_empty() && is_name(part)) {
        let files = [format!("{path}.rs"), format!("{path}/mod.rs")];
        if let Some(file) = files.iter().map(|file| sources.join(file)).find(|file| file.is_file())
        {
            return Ok(file);
        }
    }
    bail!(
        "there is no module {module} in {}; create it, and name it in src/lib.rs",
        sources.display()
    )
}

/// Returns the path of a file's rules in `lib.rs`: `rbac::subjects::RULES`.
fn rules_path(sources: &Path, file: &Path) -> String {
    let path = file.strip_prefix(sources).unwrap_or(file).with_extension("");
    let parts = path.iter().map(|part| part.to_string_lossy());
    let parts = parts.filter(|part| part != "lib" && part != "mod");
    let parts = parts.map(Cow::into_owned).chain(["RULES".to_owned()]);
    parts.collect::<Vec<_>>().join("::")
}

fn render_section(name: &str, on: &str) -> String {
    format!(
        "\
rule! {{
    /// TODO the requirement, as one sentence without a full stop
    ///
    /// TODO the requirement in full: the fields, the exemptions, the settings that change it.
    ///
    /// # Why
    ///
    /// TODO the effect of a violation, and the document that describes it.
    ///
    /// # Remediation
    ///
    /// TODO what the user does, in one to three sentences.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// TODO: the smallest example
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// TODO: the smallest example
    /// ```
    ///
    /// `message: TODO`
    {name}: Deny {{
        on: [{on}],
        source: \"TODO\",
    }}
}}
"
    )
}

/// Returns the file of cases, for an object of the kind that the other cases use.
fn render_cases(id: &str, on: &str, crate_directory: &Path) -> Result<String> {
    let cases = crate_directory.join("cases");
    let mut others = String::new();
    if cases.is_dir() {
        for name in list_entries(&cases)?.iter().filter(|name| *name != "objects.yaml") {
            others.push_str(&fs::read_to_string(cases.join(name)).unwrap_or_default());
        }
    }
    let object = "{apiVersion: TODO, kind: TODO, metadata: {name: x}}";
    let evaluated = if others.contains("\n  directory:") {
        "directory: {}".to_owned()
    } else if others.contains("\n  catalog:") {
        "catalog: {blobs: []}".to_owned()
    } else if on.contains("Create") {
        format!("create: {object}")
    } else if on.contains("Update") {
        format!("update:\n  - {object}\n  - {object}")
    } else {
        format!("delete: {object}")
    };
    Ok(format!(
        "\
rule: {id}
accept:
- name: TODO what the rule accepts
  {evaluated}
reject:
- name: TODO what the rule rejects
  {evaluated}
  field: TODO
  message: TODO
"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Copies a policy to a directory like the project's.
    fn copy(policy: &str) -> tempfile::TempDir {
        fn copy_directory(from: &Path, to: &Path) {
            fs::create_dir_all(to).unwrap();
            for name in list_entries(from).unwrap() {
                let (from, to) = (from.join(&name), to.join(&name));
                if from.is_dir() {
                    copy_directory(&from, &to);
                } else {
                    fs::copy(from, to).unwrap();
                }
            }
        }
        let root = tempfile::tempdir().unwrap();
        let directory = Path::new("guest/policies").join(policy);
        let project = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        copy_directory(&project.join(&directory), &root.path().join(&directory));
        root
    }

    fn texts(root: &Path, written: &[PathBuf]) -> Vec<(String, String)> {
        let directory = root.join("guest/policies");
        let text = |path: &PathBuf| {
            let name = path.strip_prefix(&directory).unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(path).unwrap())
        };
        written.iter().map(text).collect()
    }

    fn wanted<'a>(policy: &'a str, id: &'a str, module: Option<&'a str>) -> NewRuleOptions<'a> {
        NewRuleOptions { policy, id, module }
    }

    #[test]
    fn a_rule_starts_in_the_module_of_the_highest_of_its_prefix() {
        let root = copy("plain-bundle");
        let rules_before =
            find_rules(&root.path().join("guest/policies/plain-bundle/src")).unwrap();
        let written = create_rule(root.path(), &wanted("plain-bundle", "PBF-91", None)).unwrap();
        let texts = texts(root.path(), &written);
        let [(module, code), (cases, case)] = &texts[..] else { panic!("{texts:?}") };
        assert_eq!(module, "plain-bundle/src/objects.rs");
        assert_eq!(cases, "plain-bundle/cases/PBF-91.yaml");
        assert!(code.contains("rules![PBF_04, PBF_05, PBF_91];"), "{code}");
        let new =
            RuleDeclaration { name: "PBF_91".to_owned(), on: "BUNDLE: Create | Update".to_owned() };
        assert!(source::declared_rules(code).contains(&new), "{code}");
        for heading in ["Why", "Remediation", "Accepted", "Rejected"] {
            assert_eq!(
                render_section("A_1", "").matches(&format!("    /// # {heading}\n")).count(),
                1
            );
        }
        for line in ["rule: PBF-91", "accept:", "reject:", "  directory: {}", "  message: TODO"] {
            assert!(case.lines().any(|found| found == line), "{case}");
        }
        let rules = find_rules(&root.path().join("guest/policies/plain-bundle/src")).unwrap();
        assert_eq!(rules.len(), rules_before.len() + 1);
        // The next one finds it.
        let error = create_rule(root.path(), &wanted("plain-bundle", "PBF-91", None)).unwrap_err();
        assert!(error.to_string().contains("PBF-91 is taken by"), "{error}");
    }

    #[test]
    fn a_rule_may_start_in_another_module() {
        let root = copy("registry-bundle");
        let ask = |id, module| {
            let written = create_rule(root.path(), &wanted("registry-bundle", id, Some(module)));
            texts(root.path(), &written.unwrap())
        };
        let found = ask("RBF-91", "layout");
        let [(module, code), _] = &found[..] else { panic!("{found:?}") };
        assert_eq!(module, "registry-bundle/src/layout.rs");
        assert!(code.contains("RBF_91];"), "{code}");
        let (section, tests) = (code.find("RBF_91: Deny {"), code.find("#[cfg(test)]"));
        assert!(section.is_some() && section < tests, "{code}");

        // One without rules: its list is one of the policy's.
        let found = ask("NEW-01", "versions");
        let [(module, code), (library, list), (cases, _)] = &found[..] else { panic!("{found:?}") };
        assert_eq!(module, "registry-bundle/src/versions.rs");
        assert!(code.contains("\nopgate_sdk::rules![NEW_01];\n"), "{code}");
        assert!(code.contains("\nopgate_sdk::rule! {\n"), "{code}");
        assert!(code.contains("on: [crate::directory::BUNDLE: Create | Update],"), "{code}");
        assert_eq!(library, "registry-bundle/src/lib.rs");
        assert!(list.contains("        versions::RULES,\n"), "{list}");
        assert_eq!(cases, "registry-bundle/cases/NEW-01.yaml");

        // The policy itself.
        let found = ask("RBF-92", "lib");
        let [(library, code), _] = &found[..] else { panic!("{found:?}") };
        assert_eq!(library, "registry-bundle/src/lib.rs");
        assert!(
            code.contains("    rules: [\n        RULES,\n        annotations::RULES,"),
            "{code}"
        );
        assert!(code.contains("on: [directory::BUNDLE: Create | Update],"), "{code}");
    }

    #[test]
    fn invalid_arguments_change_nothing() {
        let root = copy("plain-bundle");
        let directory = root.path().join("guest/policies/plain-bundle");
        let before = fs::read_to_string(directory.join("src/objects.rs")).unwrap();
        let cases = list_entries(&directory.join("cases")).unwrap();
        for (policy, id, module, error) in [
            ("other", "PBF-91", None, "no policy other; the policies are plain-bundle"),
            ("../policies", "PBF-91", None, "no policy"),
            ("plain-bundle", "PBF-5", None, "PBF-5 is taken by"),
            ("plain-bundle", "pbf-91", None, "no id of a rule"),
            ("plain-bundle", "PBF", None, "no id of a rule"),
            ("plain-bundle", "PBF-", None, "no id of a rule"),
            ("plain-bundle", "XYZ-01", None, "has no rule XYZ-…"),
            ("plain-bundle", "PBF-91", Some("other"), "no module other"),
            ("plain-bundle", "PBF-91", Some("../lib"), "no module ../lib"),
        ] {
            let found = create_rule(root.path(), &wanted(policy, id, module)).unwrap_err();
            assert!(found.to_string().contains(error), "{policy} {id} {module:?}: {found}");
        }
        assert_eq!(fs::read_to_string(directory.join("src/objects.rs")).unwrap(), before);
        assert_eq!(list_entries(&directory.join("cases")).unwrap(), cases);
    }

    #[test]
    fn cases_are_of_the_kind_of_the_others() {
        let root = tempfile::tempdir().unwrap();
        let file = |on: &str| render_cases("A-1", on, root.path()).unwrap();
        assert!(file("X: Create | Update").contains("\n  create: {"));
        assert!(file("X: Update | Delete").contains("\n  update:\n  - {"));
        assert!(file("X: Delete").contains("\n  delete: {"));
        fs::create_dir(root.path().join("cases")).unwrap();
        fs::write(root.path().join("cases/A-2.yaml"), "accept:\n- name: a\n  catalog: {}\n")
            .unwrap();
        assert!(file("X: Create").contains("\n  catalog: {blobs: []}\n"));
    }
}
