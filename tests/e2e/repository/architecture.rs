//! The picture of docs/architecture.md, drawn from the manifests and the sources: which crate may use which,
//! and that the modules of a crate do not go in a circle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Which crates each crate may use, by directory. A directory that ends in `/` stands for all
/// crates in it.
const ALLOWED_DEPENDENCIES: &[(&str, &[&str])] = &[
    ("common/", &["common/"]),
    ("certs", &["common/", "host/platform"]),
    ("guest/sdk", &["common/"]),
    ("guest/policies/", &["common/", "guest/sdk"]),
    ("examples/", &["guest/sdk"]),
    ("host/text", &[]),
    ("host/platform", &[]),
    ("host/system", &[]),
    ("host/telemetry", &["host/text"]),
    ("host/supervise", &["host/text"]),
    ("host/ledger", &[]),
    ("host/lsp", &["host/platform"]),
    ("host/fix", &["common/"]),
    ("host/input", &["common/", "host/platform", "host/text"]),
    ("host/files", &["common/", "host/input", "host/platform", "host/text"]),
    ("host/engine", &["common/", "host/platform", "host/system", "host/text"]),
    (
        "host/admission",
        &[
            "common/",
            "certs",
            "host/engine",
            "host/input",
            "host/ledger",
            "host/supervise",
            "host/system",
            "host/text",
        ],
    ),
    (
        "host/server",
        &[
            "common/",
            "certs",
            "host/admission",
            "host/engine",
            "host/platform",
            "host/recording",
            "host/supervise",
            "host/system",
            "host/telemetry",
            "host/text",
            "host/ui",
        ],
    ),
    ("host/recording", &["host/admission", "host/platform", "host/text"]),
    ("host/ui", &["host/admission", "host/text"]),
    ("host/controller", &["common/", "certs", "host/admission", "host/supervise", "host/text"]),
    (
        "host/manifests",
        &["common/", "certs", "host/admission", "host/controller", "host/files", "host/input"],
    ),
    ("host/registry", &["common/", "host/platform", "host/text"]),
    ("host/pack", &[]),
    ("host/builtin-components", &["host/pack"]),
    (
        "host/builtin-policies",
        &["common/", "host/admission", "host/builtin-components", "host/system"],
    ),
    (
        "host/doctor",
        &[
            "common/",
            "certs",
            "host/admission",
            "host/builtin-policies",
            "host/controller",
            "host/files",
            "host/input",
            "host/manifests",
            "host/server",
            "host/text",
        ],
    ),
    ("host/opgate", &["common/", "certs", "host/"]),
    ("tests", &["common/", "certs", "examples/", "guest/", "host/", "tests/"]),
    ("guest/sdk-testing", &["common/", "guest/sdk"]),
    ("tests/hostile", &["guest/sdk"]),
    ("host/browser", &["common/", "host/input", "host/text"]),
    ("xtask", &["host/pack"]),
];

/// What tests of any crate may use besides.
const TEST_DEPENDENCIES: &[&str] = &["guest/sdk-testing"];

/// Where crates that run or read WebAssembly may be used, by kind of the dependency.
const WASM_USERS: &[(&str, &str, &[&str])] = &[
    ("wasmtime", "normal", &["host/engine", "host/system"]),
    ("wasmtime", "build", &["host/builtin-policies"]),
    ("wasmtime", "dev", &["tests"]),
    ("wasmparser", "normal", &["host/engine", "host/opgate"]),
];

/// What both sides stand on does no I/O.
const IO_MODULES: &[&str] = &["std::fs", "std::net", "std::process", "std::thread"];

/// Where operating systems differ: modules that can name one, by directory and path.
const SYSTEM_USERS: &[(&str, &str)] =
    &[("host/platform", ""), ("host/system", ""), ("host/engine", "confine")];

/// Names of an operating system, and of its calls.
const SYSTEM_NAMES: &[&str] =
    &["std::os::", "rustix::", "libc::", "windows_sys::", "target_os", "(unix)", "(windows)"];

struct Package {
    name: String,
    /// From the root of the workspace.
    directory: String,
    root: PathBuf,
    dependencies: Vec<Dependency>,
}

struct Dependency {
    name: String,
    kind: String,
}

fn workspace() -> Vec<Package> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let asked = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(top)
        .output()
        .unwrap();
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    let metadata: Value = serde_json::from_slice(&asked.stdout).unwrap();
    let top = Path::new(metadata["workspace_root"].as_str().unwrap());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let dependency = |value: &Value| Dependency {
        name: text(&value["name"]),
        kind: value["kind"].as_str().unwrap_or("normal").to_owned(),
    };
    let package = |value: &Value| {
        let root = Path::new(value["manifest_path"].as_str().unwrap()).parent().unwrap();
        Package {
            name: text(&value["name"]),
            directory: root.strip_prefix(top).unwrap().display().to_string(),
            root: root.to_owned(),
            dependencies: value["dependencies"]
                .as_array()
                .unwrap()
                .iter()
                .map(dependency)
                .collect(),
        }
    };
    metadata["packages"].as_array().unwrap().iter().map(package).collect()
}

/// Whether a directory is the named one, or inside of a named one that ends in `/`.
fn is_named(directory: &str, name: &str) -> bool {
    directory == name || name.ends_with('/') && directory.starts_with(name)
}

/// The longest name fits best.
fn allowed_dependencies(directory: &str) -> &'static [&'static str] {
    let named = ALLOWED_DEPENDENCIES.iter().filter(|(name, _)| is_named(directory, name));
    let best = named.max_by_key(|(name, _)| name.len());
    best.unwrap_or_else(|| {
        panic!("{directory} is new: say in ALLOWED_DEPENDENCIES what it may use")
    })
    .1
}

#[test]
fn crates_use_those_below_them() {
    let packages = workspace();
    let directories: BTreeMap<_, _> =
        packages.iter().map(|p| (p.name.as_str(), &*p.directory)).collect();
    let mut wrong = Vec::new();
    for Package { directory, dependencies, .. } in &packages {
        for Dependency { name, kind } in dependencies {
            if let Some(used) = directories.get(name.as_str())
                && used != directory
                && !allowed_dependencies(directory).iter().any(|name| is_named(used, name))
                && !(kind == "dev" && TEST_DEPENDENCIES.contains(used))
            {
                wrong.push(format!("{directory} ─▶ {used} ({kind})"));
            }
            let named: Vec<_> = WASM_USERS.iter().filter(|(wasm, ..)| wasm == name).collect();
            let is_at = |of: &str, at: &[&str]| of == kind && at.contains(&directory.as_str());
            if !named.is_empty() && !named.iter().any(|(_, of, at)| is_at(of, at)) {
                wrong.push(format!("{directory} ─▶ {name} ({kind})"));
            }
        }
    }
    assert!(wrong.is_empty(), "these arrows are not in the picture:\n{}", wrong.join("\n"));
}

#[test]
fn common_crates_perform_no_io() {
    let mut wrong = Vec::new();
    for package in workspace() {
        if !package.directory.starts_with("common/") {
            continue;
        }
        for (path, text) in sources(&package.root) {
            for name in IO_MODULES.iter().filter(|name| text.contains(**name)) {
                wrong.push(format!("{}: {}: {name}", package.directory, path.join("::")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn operating_systems_differ_in_one_place() {
    let mut wrong = Vec::new();
    for package in workspace() {
        let is_product = ["certs", "common/", "host/"];
        if !is_product.iter().any(|name| is_named(&package.directory, name)) {
            continue;
        }
        for (path, text) in sources(&package.root) {
            let path = path.join("::");
            let is_user = |(directory, module): &(&str, &str)| {
                package.directory == *directory && path.starts_with(module)
            };
            for name in SYSTEM_NAMES.iter().filter(|name| text.contains(**name)) {
                if !SYSTEM_USERS.iter().any(is_user) {
                    wrong.push(format!("{}: {path}: {name}", package.directory));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "move this to host/platform:\n{}", wrong.join("\n"));
}

#[test]
fn modules_have_no_cyclic_imports() {
    let mut wrong = Vec::new();
    for package in workspace() {
        for (parent, modules) in module_graphs(&package.root) {
            let cycle = modules.find_cycle();
            let place = [std::slice::from_ref(&package.directory), &parent].concat().join("::");
            wrong.extend(cycle.map(|cycle| format!("{place}: {cycle}")));
        }
    }
    assert!(wrong.is_empty(), "these modules use each other:\n{}", wrong.join("\n"));
}

/// The modules of one parent, and which of them uses which, where first.
#[derive(Default)]
struct Modules(BTreeMap<String, BTreeMap<String, String>>);

/// The graphs of a crate, by the path of the parent. A name that the parent re-exports belongs to the module
/// that defines it; a name that the parent defines belongs to no module.
fn module_graphs(crate_root: &Path) -> BTreeMap<Vec<String>, Modules> {
    let sources = sources(crate_root);
    let mut children: BTreeMap<&[String], BTreeSet<&String>> = BTreeMap::new();
    for (path, _) in &sources {
        for depth in 0..path.len() {
            children.entry(&path[..depth]).or_default().insert(&path[depth]);
        }
    }
    let exported: BTreeMap<&[String], _> =
        sources.iter().map(|(path, text)| (path.as_slice(), re_exports(text))).collect();
    let mut graphs: BTreeMap<Vec<String>, Modules> = BTreeMap::new();
    for (path, text) in &sources {
        for target in references(text, path) {
            let shared = path.iter().zip(&target).take_while(|(from, to)| from == to).count();
            let (Some(from), Some(name)) = (path.get(shared), target.get(shared)) else { continue };
            let parent = &path[..shared];
            let is_child = children.get(parent).is_some_and(|names| names.contains(name));
            let re_export = exported.get(parent).and_then(|names| names.get(name));
            let module = if is_child { Some(name) } else { re_export };
            if let Some(module) = module.filter(|module| *module != from) {
                let place = format!("{}: {}", path.join("::"), target.join("::"));
                let graph = graphs.entry(parent.to_vec()).or_default();
                let known = graph.0.entry(from.clone()).or_default();
                known.entry(module.clone()).or_insert(place);
            }
        }
    }
    graphs
}

impl Modules {
    /// A shortest circle, with what each of its modules uses of the next one.
    fn find_cycle(&self) -> Option<String> {
        let circles = self.0.keys().filter_map(|start| self.path_back_to(start));
        let shortest = circles.min_by_key(Vec::len)?;
        let step =
            |pair: &[&str]| format!("{} ─▶ {} ({})", pair[0], pair[1], self.0[pair[0]][pair[1]]);
        Some(shortest.windows(2).map(step).collect::<Vec<_>>().join(", "))
    }

    fn path_back_to<'m>(&'m self, start: &'m str) -> Option<Vec<&'m str>> {
        let mut ways = std::collections::VecDeque::from([vec![start]]);
        let mut seen = BTreeSet::new();
        while let Some(way) = ways.pop_front() {
            for next in self.0.get(*way.last()?).into_iter().flat_map(BTreeMap::keys) {
                let longer = || way.iter().copied().chain([next.as_str()]).collect();
                if next == start {
                    return Some(longer());
                }
                if seen.insert(next) {
                    ways.push_back(longer());
                }
            }
        }
        None
    }
}

/// The sources of a crate by their modules: without comments, texts and tests.
fn sources(crate_root: &Path) -> Vec<(Vec<String>, String)> {
    let mut found = Vec::new();
    let mut directories = vec![crate_root.join("src")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let inside = path.strip_prefix(crate_root.join("src")).unwrap().with_extension("");
                let names = inside.iter().map(|name| name.to_str().unwrap().to_owned());
                let mut names: Vec<_> = names.collect();
                if names.last().is_some_and(|name| name == "mod" || name == "lib") {
                    names.pop();
                }
                // The binary of a library uses it like any other crate.
                if names != ["main"] {
                    found.push((
                        names,
                        without_comments_and_strings(&fs::read_to_string(&path).unwrap()),
                    ));
                }
            }
        }
    }
    let tests: Vec<Vec<String>> =
        found.iter().flat_map(|(path, text)| test_files(path, text)).collect();
    found.retain(|(path, _)| !tests.iter().any(|test| path.starts_with(test)));
    for (_, text) in &mut found {
        *text = without_tests(text);
    }
    found.sort();
    found
}

/// Files that are there for tests only: `#[cfg(test)] mod tests;`.
fn test_files(path: &[String], text: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("#[cfg(test)]") {
        let after = &text[at + "#[cfg(test)]".len()..];
        let item = &after[..after.find([';', '{']).unwrap_or(after.len())];
        if after[item.len()..].starts_with(';')
            && let Some((_, name)) = item.rsplit_once("mod ")
        {
            found.push([path, &[name.trim().to_owned()]].concat());
        }
    }
    found
}

/// Without the items under `#[cfg(test)]`.
fn without_tests(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, item)) = rest.split_once("#[cfg(test)]") {
        kept.push_str(before);
        let end = item.find([';', '{']).unwrap_or(item.len());
        let mut depth = 0_usize;
        let mut after = item.len();
        for (at, c) in item.char_indices().skip_while(|(at, _)| *at < end) {
            depth = match c {
                '{' => depth + 1,
                '}' => depth - 1,
                _ => depth,
            };
            if depth == 0 {
                after = at + c.len_utf8();
                break;
            }
        }
        rest = &item[after..];
    }
    kept.push_str(rest);
    kept
}

/// Without comments, and without what stands in texts.
fn without_comments_and_strings(text: &str) -> String {
    let mut bare = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let raw = rest.strip_prefix('r').map(|after| after.trim_start_matches('#'));
        let raw = raw.filter(|after| after.starts_with('"') && !bare.ends_with(is_name_character));
        let end = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(after) = raw {
            let hashes = rest.len() - after.len() - 1;
            let close = format!("\"{}", "#".repeat(hashes));
            let start = rest.len() - after.len() + 1;
            after[1..].find(&close).map_or(rest.len(), |end| start + end + close.len())
        } else if let Some(after) = rest.strip_prefix('"') {
            1 + end_of_text(after)
        } else if let Some(after) = rest.strip_prefix("'\\") {
            // The character behind the backslash may be a quote itself.
            3 + after.get(1..).and_then(|after| after.find('\'')).map_or(0, |end| end + 1)
        } else if rest.starts_with('\'') && rest.chars().nth(2) == Some('\'') {
            2 + rest.chars().nth(1).map_or(0, char::len_utf8)
        } else {
            bare.push(c);
            c.len_utf8()
        };
        rest = &rest[end..];
    }
    bare
}

fn end_of_text(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            '"' if !is_escaped => return at + 1,
            _ => is_escaped = c == '\\' && !is_escaped,
        }
    }
    text.len()
}

fn is_name_character(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The references of a source to its own crate: paths from its root, for `crate::…` and `super::…`.
fn references(text: &str, module: &[String]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (at, word) in words(text) {
        let before = text[..at].trim_end();
        // What a macro says with `$crate` is said where it is used.
        let is_start = !before.ends_with("::") && !before.ends_with('$');
        match word {
            "crate" if is_start => {
                let rest = text[at + word.len()..].strip_prefix("::");
                found.extend(rest.into_iter().flat_map(|rest| use_paths(rest).1));
            }
            // `pub(super)` uses nothing.
            "super" if is_start && text[at + word.len()..].starts_with("::") => {
                let (mut around, mut rest) = (module, &text[at..]);
                while let Some(after) = rest.trim_start().strip_prefix("super") {
                    around = around.split_last().map_or(&[][..], |(_, around)| around);
                    let Some(after) = after.trim_start().strip_prefix("::") else { break };
                    rest = after;
                }
                for path in use_paths(rest).1 {
                    found.push([around, &path].concat());
                }
            }
            _ => {}
        }
    }
    found
}

/// From which modules the root of a crate has names: `pub use x::{Y}`.
fn re_exports(root: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (at, word) in words(root).filter(|(_, word)| *word == "use") {
        let rest = root[at + word.len()..].trim_start();
        for path in use_paths(rest).1 {
            if let [module, .., name] = path.as_slice() {
                found.insert(name.clone(), module.clone());
            }
        }
    }
    found
}

/// The words of a text and where they are.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + text[at..].find(is_name_character)?;
        let rest = &text[start..];
        let word = &rest[..rest.find(|c| !is_name_character(c)).unwrap_or(rest.len())];
        at = start + word.len();
        Some((start, word))
    })
}

/// The paths of `a::{b, c::d as e}`, and what is behind them. Where there is another name at the end, that
/// is the last one.
fn use_paths(text: &str) -> (&str, Vec<Vec<String>>) {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        let mut all = Vec::new();
        loop {
            rest = rest.trim_start_matches([',', ' ', '\n']);
            if rest.is_empty() || rest.starts_with('}') {
                return (rest.strip_prefix('}').unwrap_or(rest), all);
            }
            let (after, paths) = use_paths(rest);
            all.extend(paths);
            rest = &after[after.find([',', '}']).unwrap_or(after.len())..];
        }
    }
    let name = &text[..text.find(|c| !is_name_character(c)).unwrap_or(text.len())];
    let rest = &text[name.len()..];
    if let Some(inner) = rest.strip_prefix("::") {
        let (rest, paths) = use_paths(inner);
        let behind = |path: Vec<String>| [vec![name.to_owned()], path].concat();
        return (rest, paths.into_iter().map(behind).collect());
    }
    let other = rest.strip_prefix(" as ").and_then(|rest| words(rest).next());
    let name = other.map_or(name, |(_, other)| other);
    (rest, vec![if name.is_empty() { Vec::new() } else { vec![name.to_owned()] }])
}

/// A test that finds nothing proves nothing. For a crate with a cycle, the search reports the
/// cycle.
#[test]
fn module_cycle_is_reported_with_its_imports() {
    let crate_root = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = crate_root.path().join("src").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("lib.rs", "mod a;\nmod b;\nmod c;\npub use c::Handed as Other;\n");
    write("a.rs", "use super::b::{self, Thing};\n");
    write(
        "b/mod.rs",
        "//! [`crate::a`]\nmod inner;\npub(super) const TEXT: &str = \"crate::a\";\n",
    );
    write("b/inner.rs", "use crate::{Other, c};\n#[cfg(test)]\nmod tests { use crate::a; }\n");
    write("c.rs", "use std::fmt;\n");
    let cycles = || -> Vec<String> {
        let graphs = module_graphs(crate_root.path());
        graphs.values().filter_map(Modules::find_cycle).collect()
    };
    assert_eq!(cycles(), [""; 0]);
    write("c.rs", "fn f() { h(crate::a::g) }\n");
    let told = "a ─▶ b (a: b::self), b ─▶ c (b::inner: Other), c ─▶ a (c: a::g)";
    assert_eq!(cycles(), [told]);
    // Modules of a module.
    write("c.rs", "use std::fmt;\n");
    write("b/mod.rs", "mod inner;\nmod other;\nuse inner::Found;\n");
    write("b/inner.rs", "use super::other::f;\n");
    write("b/other.rs", "use super::Found;\n");
    assert_eq!(
        cycles(),
        ["inner ─▶ other (b::inner: b::other::f), other ─▶ inner (b::other: b::Found)"]
    );
}
