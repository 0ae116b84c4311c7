//! Notices of the licences of what a program contains: the texts that its crates come with, each text once.
//!
//! ```text
//! crates of the SBOM ──────────────┐
//! cargo metadata: their packages ──┼─▶ list of components, and the texts by number
//! licence files of the packages ───┘
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{cargo, command_output, sbom};

/// Name of the file.
pub(crate) const FILE_NAME: &str = "THIRD-PARTY-NOTICES.txt";
/// Most bytes of a licence file: the largest one has a tenth of it.
const MAX_TEXT_BYTES: u64 = 400_000;
/// Beginnings of the names of licence files, in lower case.
const NAMES: [&str; 6] = ["license", "licence", "copying", "copyright", "notice", "unlicense"];
/// Directories of packages that have licence files: the top, and that of the REUSE specification.
const DIRECTORIES: [&str; 2] = [".", "LICENSES"];

/// Writes the notices of the program for a platform. `data` are crates whose content is in files next to it, `libraries`
/// are components of the SBOM that are no crates.
pub(crate) fn of(root: &Path, triple: &str, data: &[&str], libraries: &[Value]) -> Result<Vec<u8>> {
    let crates = sbom::crates(root, triple, data)?;
    let mut cargo = cargo(root);
    cargo.args(["metadata", "--locked", "--format-version", "1"]);
    cargo.args(["--filter-platform", triple, "--filter-platform", sbom::GUEST_TARGET]);
    let metadata: Value = serde_json::from_str(&command_output(&mut cargo)?)?;
    let packages = metadata.get("packages").and_then(Value::as_array);
    let packages = packages.context("cargo metadata has no packages")?;
    let text = |package: &Value, name: &str| package.get(name)?.as_str().map(str::to_owned);
    let mut notices = Notices::default();
    for found in &crates {
        let is_it = |package: &&Value| {
            text(package, "name").is_some_and(|name| name == found.name)
                && text(package, "version").is_some_and(|version| version == found.version)
        };
        let package = packages.iter().find(is_it);
        let package =
            package.with_context(|| format!("cargo metadata has no {}", found.reference()))?;
        // Crates of this workspace are under the licence of opgate.
        if package.get("source").is_none_or(Value::is_null) {
            continue;
        }
        let manifest = text(package, "manifest_path").context("a package without a manifest")?;
        let directory = Path::new(&manifest).parent().unwrap_or(Path::new("."));
        let source = text(package, "repository").unwrap_or_default();
        notices.add(found, &source, &licence_texts(directory)?);
    }
    for library in libraries {
        notices.add_library(library);
    }
    Ok(notices.render().into_bytes())
}

/// Reads the licence files of a package, sorted by name.
fn licence_texts(directory: &Path) -> Result<Vec<String>> {
    let mut paths = Vec::new();
    for below in DIRECTORIES {
        let Ok(entries) = fs::read_dir(directory.join(below)) else { continue };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().to_lowercase();
            // All files of the directory of the REUSE specification are licences.
            let is_licence =
                below == "LICENSES" || NAMES.iter().any(|start| name.starts_with(start));
            if is_licence && entry.path().is_file() {
                paths.push(entry.path());
            }
        }
    }
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        let size = fs::metadata(path)?.len();
        ensure!(
            size <= MAX_TEXT_BYTES,
            "{}: too large for a licence: {size} bytes",
            path.display()
        );
        Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
    };
    paths.iter().map(read).collect()
}

/// Components, and the texts that they refer to.
#[derive(Debug, Default)]
struct Notices {
    list: String,
    /// In the order of the numbers, which begin at 1.
    texts: Vec<String>,
    /// Numbers by the words of the text: line breaks and indentation differ among crates.
    numbers: BTreeMap<String, usize>,
}

impl Notices {
    fn add(&mut self, found: &sbom::Crate, source: &str, texts: &[String]) {
        let numbers: Vec<String> = texts.iter().map(|text| self.number(text).to_string()).collect();
        let texts = match &numbers[..] {
            // Few packages are without one.
            [] => format!("no text in the package; source: {source}"),
            [_] => format!("text {}", numbers.join(", ")),
            _ => format!("texts {}", numbers.join(", ")),
        };
        let sbom::Crate { name, version, licence } = found;
        // Writing to a text does not fail.
        let _ = writeln!(self.list, "{name} {version} ({licence}): {texts}");
    }

    fn add_library(&mut self, library: &Value) {
        let text =
            |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let licence = text(library.pointer("/licenses/0/expression"));
        let name = [text(library.get("name")), text(library.get("version"))].join(" ");
        let _ = writeln!(self.list, "{} ({licence}), linked statically", name.trim_end());
    }

    fn number(&mut self, text: &str) -> usize {
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let next = self.texts.len().saturating_add(1);
        let number = *self.numbers.entry(words).or_insert(next);
        if number == next {
            self.texts.push(text.to_owned());
        }
        number
    }

    fn render(self) -> String {
        let mut page = format!(
            "Third-party notices of opgate\n\nopgate contains these components, each under its licence. The texts of their packages follow.\n\n{}",
            self.list
        );
        for (index, text) in self.texts.iter().enumerate() {
            let _ = write!(page, "\n{:=<80}\n", format!("==== text {} ", index.saturating_add(1)));
            for line in text.lines() {
                let _ = write!(page, "\n{}", line.trim_end());
            }
            page.push('\n');
        }
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
    }

    #[test]
    fn equal_texts_are_written_once() {
        let of = |name: &str| sbom::Crate {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            licence: "MIT".to_owned(),
        };
        let mut notices = Notices::default();
        notices.add(&of("a"), "", &["Copyright a\n  all rights".to_owned()]);
        notices.add(
            &of("b"),
            "",
            &["Copyright b".to_owned(), "Copyright a all\nrights\n".to_owned()],
        );
        notices.add(&of("c"), "https://c", &[]);
        let page = notices.render();
        for line in [
            "a 1.0.0 (MIT): text 1",
            "b 1.0.0 (MIT): texts 2, 1",
            "c 1.0.0 (MIT): no text in the package; source: https://c",
        ] {
            assert!(page.lines().any(|found| found == line), "{page}");
        }
        assert_eq!(page.matches("Copyright a").count(), 1, "{page}");
        assert_eq!(page.matches("==== text").count(), 2, "{page}");
    }

    #[test]
    fn each_crate_of_the_program_has_a_notice() {
        let triple = "x86_64-unknown-linux-musl";
        let library = serde_json::json!({"name": "musl", "licenses": [{"expression": "MIT"}]});
        let page = of(root(), triple, &[], &[library]).unwrap();
        let page = String::from_utf8(page).unwrap();
        let (list, texts) = page.split_once("==== text 1 ").unwrap();
        for found in sbom::crates(root(), triple, &[]).unwrap() {
            let start = format!("{} {} (", found.name, found.version);
            let is_listed = list.lines().any(|line| line.starts_with(&start));
            assert_eq!(is_listed, !found.name.starts_with("opgate"), "{start}");
        }
        assert!(list.contains("\nmusl (MIT), linked statically\n"), "{list}");
        // Of C libraries in crates, and of crates.
        for part in ["Copyright (c) Meta Platforms", "AWS-LC", "Apache License"] {
            assert!(texts.contains(part), "{part}");
        }
        assert!(page.len() < 2_000_000, "{}", page.len());
    }
}
