//! Contents of the binary, as CycloneDX: the crates of the host, those of the embedded policies, the standard
//! library, the C library and the CA certificates of the image.
//!
//! ```text
//! cargo tree of opgate for the platform ───┐
//! cargo tree of the policies for wasm32 ───┼─▶ components and who depends on whom
//! Cargo.lock: sums ────────────────────────┘
//! ```
//!
//! Macros and build scripts are omitted: they run during the build, and are not part of the binary.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::platform::Arch;
use super::{ImageMetadata, cargo, command_output, digest};
use crate::policies;

/// Target of the policies.
pub(crate) const GUEST_TARGET: &str = "wasm32-unknown-unknown";
/// The crate with the CA certificates, which `files` takes.
pub(super) const CA_CERTIFICATES_CRATE: &str = "webpki-root-certs";

/// A crate, as `cargo tree` names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Crate {
    pub(crate) name: String,
    pub(crate) version: String,
    /// As an SPDX expression.
    pub(crate) licence: String,
}

impl Crate {
    pub(crate) fn reference(&self) -> String {
        format!("pkg:cargo/{}@{}", self.name, self.version)
    }
}

/// Crates, and on which ones each depends.
#[derive(Debug, Default)]
struct Graph {
    crates: BTreeSet<Crate>,
    edges: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    /// Reads lines of `cargo tree --prefix depth`: `2<tab>name v1.0.0 (path)<tab>MIT<tab> (*)`. A repeated
    /// crate has no dependencies.
    fn read(&mut self, tree: &str) -> Result<()> {
        let mut above: Vec<String> = Vec::new();
        for line in tree.lines().filter(|line| !line.is_empty()) {
            let mut cells = line.split('\t');
            let mut cell = || cells.next().with_context(|| format!("cargo tree: {line:?}"));
            let depth: usize = cell()?.parse().with_context(|| format!("cargo tree: {line:?}"))?;
            let (name, version) = cell()?.split_once(" v").context("cargo tree: no version")?;
            let version = version.split(' ').next().unwrap_or(version).to_owned();
            // As crates wrote it before there were expressions.
            let licence = cell()?.replace('/', " OR ");
            let found = Crate { name: name.to_owned(), version, licence };
            above.truncate(depth);
            let reference = found.reference();
            if let Some(parent) = above.last() {
                self.edges.entry(parent.clone()).or_default().insert(reference.clone());
            }
            above.push(reference);
            self.crates.insert(found);
        }
        Ok(())
    }
}

/// Returns the SBOM of the image for a platform.
pub(super) fn of(root: &Path, metadata: &ImageMetadata, arch: Arch) -> Result<Vec<u8>> {
    sbom(root, metadata, arch.triple(), &[CA_CERTIFICATES_CRATE], &[libc_component(arch)?])
}

/// Returns the crates in a program, and `data`.
pub(crate) fn crates(root: &Path, triple: &str, data: &[&str]) -> Result<BTreeSet<Crate>> {
    let lock = fs::read_to_string(root.join("Cargo.lock")).context("Cargo.lock")?;
    Ok(graph(root, triple, data, &lock)?.crates)
}

/// Returns the SBOM of a program, with libraries that are no crates.
pub(crate) fn of_program(
    root: &Path,
    metadata: &ImageMetadata,
    triple: &str,
    libraries: &[Value],
) -> Result<Vec<u8>> {
    sbom(root, metadata, triple, &[], libraries)
}

/// `data` are crates whose content is in files next to the program.
fn sbom(
    root: &Path,
    metadata: &ImageMetadata,
    triple: &str,
    data: &[&str],
    libraries: &[Value],
) -> Result<Vec<u8>> {
    let lock = fs::read_to_string(root.join("Cargo.lock")).context("Cargo.lock")?;
    let mut graph = graph(root, triple, data, &lock)?;
    let guests = guest_crates();
    let opgate = graph.crates.iter().find(|found| found.name == "opgate");
    let opgate = opgate.context("cargo tree does not show opgate")?.reference();
    let carried =
        graph.crates.iter().filter(|c| guests.contains(&c.name) || data.contains(&&*c.name));
    let mut carried: BTreeSet<String> = carried.map(Crate::reference).collect();
    let others = [&[rust_std_component()?], libraries].concat();
    let reference = |other: &Value| other.get("bom-ref")?.as_str().map(str::to_owned);
    carried.extend(others.iter().filter_map(reference));
    graph.edges.entry(opgate).or_default().append(&mut carried);
    let bytes = serde_json::to_vec_pretty(&document(metadata, &graph, &lock, &others)?)?;
    Ok(bytes)
}

/// Names of the crates of the embedded policies.
fn guest_crates() -> Vec<String> {
    policies::POLICIES.iter().map(|policy| format!("opgate-{policy}")).collect()
}

/// The crates of the program and of the embedded policies; `data` depend on nothing.
fn graph(root: &Path, triple: &str, data: &[&str], lock: &str) -> Result<Graph> {
    let mut graph = Graph::default();
    graph.read(&tree(root, triple, &["opgate".to_owned()])?)?;
    graph.read(&tree(root, GUEST_TARGET, &guest_crates())?)?;
    for name in data {
        let found = locked_packages(lock).find(|package| package.name == *name);
        let found = found.with_context(|| format!("Cargo.lock has no {name}"))?;
        graph.crates.insert(Crate {
            name: (*name).to_owned(),
            version: found.version.to_owned(),
            licence: "CDLA-Permissive-2.0".to_owned(),
        });
    }
    Ok(graph)
}

fn tree(root: &Path, target: &str, packages: &[String]) -> Result<String> {
    let mut cargo = cargo(root);
    cargo.args(["tree", "--locked", "--edges", "normal,no-proc-macro", "--prefix", "depth"]);
    cargo.args(["--format", "\t{p}\t{l}\t", "--target", target]);
    for package in packages {
        cargo.args(["--package", package]);
    }
    command_output(&mut cargo)
}

fn document(
    metadata: &ImageMetadata,
    graph: &Graph,
    lock: &str,
    others: &[Value],
) -> Result<Value> {
    let sums: BTreeMap<_, _> =
        locked_packages(lock).map(|p| ((p.name, p.version), p.checksum)).collect();
    let component = |found: &Crate| {
        let sum = sums.get(&(found.name.as_str(), found.version.as_str())).copied().flatten();
        let mut component = json!({
            "type": if found.name == "opgate" { "application" } else { "library" },
            "bom-ref": found.reference(),
            "name": found.name,
            "version": found.version,
            "licenses": [{"expression": found.licence}],
        });
        if let (Some(sum), Value::Object(members)) = (sum, &mut component) {
            // Others come from no registry.
            members.insert("purl".to_owned(), found.reference().into());
            members.insert("hashes".to_owned(), json!([{"alg": "SHA-256", "content": sum}]));
        }
        component
    };
    let (main, libraries): (Vec<_>, Vec<_>) =
        graph.crates.iter().partition(|found| found.name == "opgate");
    let main = main.first().map(|found| component(found)).context("there is no opgate")?;
    let mut components: Vec<Value> = libraries.into_iter().map(component).collect();
    components.extend_from_slice(others);
    let dependencies: Vec<Value> =
        graph.edges.iter().map(|(of, on)| json!({"ref": of, "dependsOn": on})).collect();
    let mut document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": metadata.created()?,
            "tools": {"components": [{"type": "application", "name": "cargo xtask"}]},
            "component": main,
        },
        "components": components,
        "dependencies": dependencies,
    });
    // Equal content has an equal number, as in all other files.
    let number: String = digest(&serde_json::to_vec(&document)?).chars().skip(7).collect();
    let part = |from: usize, to: usize| number.get(from..to).unwrap_or_default();
    let uuid = format!(
        "urn:uuid:{}-{}-8{}-a{}-{}",
        part(0, 8),
        part(8, 12),
        part(12, 15),
        part(15, 18),
        part(18, 30)
    );
    if let Value::Object(members) = &mut document {
        members.insert("serialNumber".to_owned(), uuid.into());
    }
    Ok(document)
}

struct LockedPackage<'t> {
    name: &'t str,
    version: &'t str,
    checksum: Option<&'t str>,
}

/// Packages of `Cargo.lock`, which cargo writes one value a line.
fn locked_packages(lock: &str) -> impl Iterator<Item = LockedPackage<'_>> {
    lock.split("[[package]]").filter_map(|package| {
        let value = |name: &str| {
            package
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \"")?.strip_suffix('"'))
        };
        let (name, version) = (value("name")?, value("version")?);
        Some(LockedPackage { name, version, checksum: value("checksum") })
    })
}

/// Returns the standard library.
fn rust_std_component() -> Result<Value> {
    let told = command_output(Command::new("rustc").args(["--version", "--verbose"]))?;
    let release = told.lines().find_map(|line| line.strip_prefix("release: "));
    let version = release.context("rustc does not say its version")?;
    Ok(json!({
        "type": "library",
        "bom-ref": format!("rust-std@{version}"),
        "name": "rust-std",
        "version": version,
        "licenses": [{"expression": "MIT OR Apache-2.0"}],
        "cpe": format!("cpe:2.3:a:rust-lang:rust:{version}:*:*:*:*:*:*:*"),
    }))
}

/// Describes the C library, which contains its version: `GNU C Library (Debian GLIBC 2.36-9+deb12u14) stable
/// release version 2.36.`
pub(super) fn libc_component(arch: Arch) -> Result<Value> {
    let path = arch.libc()?;
    let library = fs::read(&path).with_context(|| path.display().to_string())?;
    let text = String::from_utf8_lossy(&library);
    let unknown = || format!("{} does not say its version", path.display());
    let (_, banner) = text.split_once("GNU C Library (").with_context(unknown)?;
    let (packaged, rest) = banner.split_once(')').with_context(unknown)?;
    let (_, rest) = rest.split_once(" version ").with_context(unknown)?;
    let version = rest.split(['\n', '\0']).next().unwrap_or_default().trim_end_matches('.');
    let mut component = json!({
        "type": "library",
        "bom-ref": format!("glibc@{version}"),
        "name": "glibc",
        "version": version,
        "licenses": [{"expression": "LGPL-2.1-or-later"}],
        "cpe": format!("cpe:2.3:a:gnu:glibc:{version}:*:*:*:*:*:*:*"),
    });
    if let (Some(packaged), Value::Object(members)) =
        (packaged.strip_prefix("Debian GLIBC "), &mut component)
    {
        let purl = format!("pkg:deb/debian/glibc@{}?arch=source", packaged.replace('+', "%2B"));
        members.insert("purl".to_owned(), purl.into());
        members.insert("version".to_owned(), packaged.into());
    }
    Ok(component)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program for one system contains no crate of another one.
    #[test]
    fn crates_are_those_of_the_platform() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for triple in ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-musl"] {
            let crates = crates(root, triple, &[]).unwrap();
            let has = |name: &str| crates.iter().any(|found| found.name == name);
            assert!(has("landlock") && has("seccompiler") && has("wit-bindgen"), "{triple}");
            for foreign in ["windows-sys", "windows-link", "schannel", "core-foundation", "js-sys"]
            {
                assert!(!has(foreign), "{triple}: {foreign}");
            }
        }
    }

    #[test]
    fn dependencies_are_read_from_the_cargo_tree() {
        let mut graph = Graph::default();
        let tree = "0\ta v0.1.0 (/x/a b)\tApache-2.0\t\n1\tb v1.0.0+1\tMIT/Apache-2.0\t\n2\tc v2.0.0\tMIT\t\n1\tc v2.0.0\tMIT\t (*)\n\n0\td v0.1.0 (/x/d)\t\t\n1\tc v2.0.0\tMIT\t\n";
        graph.read(tree).unwrap();
        let names: Vec<_> = graph.crates.iter().map(Crate::reference).collect();
        assert_eq!(
            names,
            ["pkg:cargo/a@0.1.0", "pkg:cargo/b@1.0.0+1", "pkg:cargo/c@2.0.0", "pkg:cargo/d@0.1.0"]
        );
        let licence = |name| &graph.crates.iter().find(|c| c.name == name).unwrap().licence;
        assert_eq!(licence("b"), "MIT OR Apache-2.0");
        let on = |of: &str| graph.edges[of].iter().map(String::as_str).collect::<Vec<_>>();
        assert_eq!(on("pkg:cargo/a@0.1.0"), ["pkg:cargo/b@1.0.0+1", "pkg:cargo/c@2.0.0"]);
        assert_eq!(on("pkg:cargo/d@0.1.0"), ["pkg:cargo/c@2.0.0"]);
        for broken in ["x\ta v1\tMIT\t", "1\ta\tMIT\t", "1"] {
            assert!(Graph::default().read(broken).is_err(), "{broken}");
        }
    }
}
