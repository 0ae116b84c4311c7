//! The types of one version of Kubernetes, from the generated code of k8s-openapi.
//!
//! ```text
//! mod.rs: pub use self::container::Container; ─▶ container.rs ─┬─ // Generated from definition …
//!                                                              ├─ pub host_ip: Option<String>   the type
//!                                                              └─ "hostIP" => Field::Key_host_ip  the name
//! ```
//!
//! The code is read as text: one build of the crate holds one version, and its types are nearer to
//! those of Go than the schemas are (`int32`, `[]byte`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::{Type, Types, definition};

/// Returns the directories of the versions, the oldest first.
pub(super) fn versions(crate_directory: &Path) -> Result<Vec<PathBuf>> {
    let mut versions = Vec::new();
    for entry in std::fs::read_dir(crate_directory.join("src"))? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let minor = name.strip_prefix("v1_").and_then(|minor| minor.parse::<u32>().ok());
        versions.extend(minor.map(|minor| (minor, path)));
    }
    versions.sort();
    ensure!(!versions.is_empty(), "{}: no version of Kubernetes", crate_directory.display());
    Ok(versions.into_iter().map(|(_, path)| path).collect())
}

/// Adds the definitions, and all that they lead to. A field that changed its type has the later one.
pub(super) fn add(version: &Path, definitions: &[String], types: &mut Types) -> Result<()> {
    let mut todo: Vec<String> = definitions.to_vec();
    let mut known = std::collections::BTreeSet::new();
    while let Some(name) = todo.pop() {
        if !name.starts_with("io.k8s.") || !known.insert(name.clone()) {
            continue;
        }
        // A version need not have all definitions.
        let Some(path) = definition_file(version, &name) else { continue };
        let text = std::fs::read_to_string(&path)?;
        let fields = fields(version, &text).with_context(|| path.display().to_string())?;
        todo.extend(fields.values().filter_map(definition));
        types.entry(name).or_default().extend(fields);
    }
    Ok(())
}

/// Returns `io.k8s.api.core.v1.Container` as `api/core/v1` and `Container`.
fn module_and_name(definition: &str) -> Option<(String, &str)> {
    let (module, name) = definition.strip_prefix("io.k8s.")?.rsplit_once('.')?;
    Some((module.replace('.', "/").replace('-', "_"), name))
}

/// Returns the file of a definition, according to the module.
fn definition_file(version: &Path, definition: &str) -> Option<PathBuf> {
    let (module, name) = module_and_name(definition)?;
    let directory = version.join(module);
    let text = std::fs::read_to_string(directory.join("mod.rs")).ok()?;
    let end = format!("::{name};");
    let used =
        text.lines().find_map(|line| line.strip_prefix("pub use self::")?.strip_suffix(&end));
    used.map(|module| directory.join(format!("{module}.rs")))
}

/// Returns the fields of the one type in a file.
fn fields(version: &Path, text: &str) -> Result<BTreeMap<String, Type>> {
    let mut lines = text.lines();
    let mut of_rust = BTreeMap::new();
    for line in lines.by_ref().skip_while(|line| !line.starts_with("pub struct ")) {
        if line == "}" {
            break;
        }
        let field = line.strip_prefix("    pub ").and_then(|line| line.strip_suffix(','));
        of_rust.extend(field.and_then(|field| field.split_once(": ")));
    }
    let mut fields = BTreeMap::new();
    for line in lines {
        // The first such block decodes names; there is no other.
        let Some((name, field)) = line.trim().split_once("\" => Field::Key_") else { continue };
        let name = name.trim_start_matches('"').to_owned();
        let field = field.trim_end_matches(',');
        let of = match of_rust.get(field) {
            Some(of) => convert_type(version, of)?,
            // Members that a kind defines as constants.
            None if ["api_version", "kind"].contains(&field) => Type::Scalar("string"),
            None => anyhow::bail!("the field {field} has no type"),
        };
        fields.insert(name, of);
    }
    ensure!(!fields.is_empty(), "no fields");
    Ok(fields)
}

/// Returns a type of Rust.
fn convert_type(version: &Path, rust: &str) -> Result<Type> {
    let inner = |start: &str| rust.strip_prefix(start).and_then(|rest| rest.strip_suffix('>'));
    if let Some(of) = inner("Option<").or_else(|| inner("std::boxed::Box<")) {
        return convert_type(version, of);
    }
    if let Some(of) = inner("std::vec::Vec<") {
        return Ok(Type::List(Box::new(convert_type(version, of)?)));
    }
    if let Some(of) = inner("std::collections::BTreeMap<std::string::String, ") {
        return Ok(Type::Map(Box::new(convert_type(version, of)?)));
    }
    let scalar = match rust {
        "std::string::String" => "string",
        "bool" => "bool",
        "i32" => "int32",
        "i64" => "int64",
        "f64" => "number",
        "crate::ByteString" => "bytes",
        _ => "",
    };
    if !scalar.is_empty() {
        return Ok(Type::Scalar(scalar));
    }
    let path = rust.strip_prefix("crate::").with_context(|| format!("the type {rust}"))?;
    let (module, name) = path.rsplit_once("::").with_context(|| format!("the type {rust}"))?;
    // Hyphens of groups are underscores in Rust.
    let module = module.replace("::", ".").replace('_', "-");
    let definition = format!("io.k8s.{module}.{name}");
    Ok(match name {
        "Quantity" => Type::Scalar("quantity"),
        "IntOrString" => Type::Scalar("int-or-string"),
        "Time" | "MicroTime" => Type::Scalar("time"),
        "JSONSchemaPropsOrArray" | "JSONSchemaPropsOrBool" | "JSONSchemaPropsOrStringArray" => {
            let schema = definition.replace(name, "JSONSchemaProps");
            Type::Either(Box::new(Type::Struct(schema)))
        }
        _ => match definition_file(version, &definition) {
            Some(path)
                if std::fs::read_to_string(&path)?.contains("(pub crate::serde_json::Value)") =>
            {
                Type::Scalar("any")
            }
            Some(_) => Type::Struct(definition),
            None => anyhow::bail!("no file has the type {rust}"),
        },
    })
}
