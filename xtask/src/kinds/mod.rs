//! The table of `opgate-schema`: fields of the kinds of Kubernetes and of OLM, with their types.
//!
//! ```text
//! k8s-openapi, one directory per Kubernetes version ─▶ source ─┐
//! kinds.txt: kinds, types of OLM, fields of former versions ───┴▶ Types ─▶ table ─▶ common/schema/src/table.rs
//! ```
//!
//! A type has the fields of all versions that the crate holds: the version of a cluster is unknown, and a field
//! that one of them has is no typing error.

mod source;
mod table;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// Path of the table.
const TABLE_PATH: &str = "common/schema/src/table.rs";
/// Kinds that are not in the crate.
const EXTRA_KINDS: &str = include_str!("kinds.txt");

/// The type of a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Type {
    /// One of [`SCALARS`].
    Scalar(&'static str),
    List(Box<Self>),
    /// An object with any names.
    Map(Box<Self>),
    /// The type, a list of it, or a scalar.
    Either(Box<Self>),
    /// The name of a definition.
    Struct(String),
}

/// The types without parts, as `kinds.txt` names them.
const SCALARS: [&str; 10] = [
    "any",
    "bool",
    "bytes",
    "int-or-string",
    "int32",
    "int64",
    "number",
    "quantity",
    "string",
    "time",
];

/// Fields by definition and name.
type Types = BTreeMap<String, BTreeMap<String, Type>>;

/// A kind, and the definition of its objects.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    api_version: String,
    kind: String,
    definition: String,
}

/// Writes the table.
pub(crate) fn write(root: &Path) -> Result<String> {
    let path = root.join(TABLE_PATH);
    let text = generate(root)?;
    std::fs::write(&path, &text).with_context(|| path.display().to_string())?;
    Ok(format!("wrote {TABLE_PATH}: {} bytes", text.len()))
}

fn generate(root: &Path) -> Result<String> {
    let (kinds, mut types) = parse_extra_kinds(EXTRA_KINDS)?;
    let mut wanted: Vec<String> = kinds.iter().map(|kind| kind.definition.clone()).collect();
    wanted.extend(types.values().flat_map(BTreeMap::values).filter_map(definition));
    let crate_directory = crate_directory(root)?;
    let versions = source::versions(&crate_directory)?;
    for version in &versions {
        source::add(version, &wanted, &mut types)?;
    }
    table::render_table(&kinds, &types)
}

/// Returns the definition that a type leads to.
fn definition(of: &Type) -> Option<String> {
    match of {
        Type::Scalar(_) => None,
        Type::List(inner) | Type::Map(inner) | Type::Either(inner) => definition(inner),
        Type::Struct(name) => Some(name.clone()),
    }
}

/// Returns the directory of k8s-openapi, as cargo has it for this workspace.
fn crate_directory(root: &Path) -> Result<PathBuf> {
    // Without a platform, cargo wants the packages of all others, too.
    let version = Command::new("rustc").arg("-vV").current_dir(root).output()?;
    let version = String::from_utf8(version.stdout)?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform"])
        .arg(host.context("rustc does not name its host")?)
        .current_dir(root)
        .output()?;
    let metadata: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    let packages = metadata.get("packages").and_then(Value::as_array).into_iter().flatten();
    let text = |package: &Value, member| package.get(member)?.as_str().map(str::to_owned);
    let mut manifests = packages
        .filter(|package| text(package, "name").as_deref() == Some("k8s-openapi"))
        .filter_map(|package| text(package, "manifest_path"));
    let manifest = manifests.next().context("the workspace does not use k8s-openapi")?;
    let directory = Path::new(&manifest).parent().context("a manifest is in a directory")?;
    Ok(directory.to_owned())
}

/// Returns the kinds and types that are written down here.
fn parse_extra_kinds(text: &str) -> Result<(Vec<Kind>, Types)> {
    let (mut kinds, mut types) = (Vec::new(), Types::new());
    let mut current: Option<&str> = None;
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match (words[..].as_ref(), line.starts_with(' '), current) {
            (["kind", api_version, kind, definition], false, _) => {
                let [api_version, kind, definition] =
                    [api_version, kind, definition].map(|word| (*word).to_owned());
                kinds.push(Kind { api_version, kind, definition });
            }
            ([name], false, _) => {
                current = Some(name);
                types.entry((*name).to_owned()).or_default();
            }
            ([field, of], true, Some(name)) => {
                let fields = types.entry(name.to_owned()).or_default();
                fields.insert((*field).to_owned(), parse_type(of)?);
            }
            _ => bail!("kinds.txt: {line:?} is neither a kind, nor a definition, nor a field"),
        }
    }
    kinds.sort();
    Ok((kinds, types))
}

/// Returns `[]T` and `map[T]`, the word of a scalar, or the name of a definition.
fn parse_type(text: &str) -> Result<Type> {
    if let Some(item) = text.strip_prefix("[]") {
        return Ok(Type::List(Box::new(parse_type(item)?)));
    }
    if let Some(value) = text.strip_prefix("map[").and_then(|text| text.strip_suffix(']')) {
        return Ok(Type::Map(Box::new(parse_type(value)?)));
    }
    if let Some(scalar) = SCALARS.into_iter().find(|scalar| *scalar == text) {
        return Ok(Type::Scalar(scalar));
    }
    if !text.contains('.') {
        bail!("kinds.txt: {text:?} is no type");
    }
    Ok(Type::Struct(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_of_kinds_is_current() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let found = std::fs::read_to_string(root.join(TABLE_PATH)).unwrap();
        assert!(found == generate(root).unwrap(), "{TABLE_PATH} is stale: run `cargo xtask kinds`");
    }

    #[test]
    fn lines_in_other_formats_are_rejected() {
        for (text, error) in [
            (" a string", "neither a kind"),
            ("kind v1 A", "neither a kind"),
            ("a.A\n b strange", "\"strange\" is no type"),
        ] {
            let found = parse_extra_kinds(text).unwrap_err().to_string();
            assert!(found.contains(error), "{text:?}: {found}");
        }
    }
}
