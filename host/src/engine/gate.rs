//! What a component must be to get as far as the compiler: read from its bytes, nothing is run.

use wasmparser::{ComponentTypeRef, Encoding, Parser, Payload};

/// Largest component, 16 MiB. A policy with a JavaScript engine inside has about 8.
const MAX_SIZE: usize = 16 << 20;

/// Version of the WIT package that this host speaks.
const VERSION: &str = "0.1.0";
const PACKAGE: &str = "opgate:policy/";
const INTERFACES: [&str; 4] = ["types", "document", "log", "cluster"];
const EXPORTS: [&str; 3] = ["describe", "validate-settings", "validate"];

/// Why a file is not a policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Nothing in it.
    #[error("the file is empty")]
    Empty,
    /// Larger than any policy needs to be.
    #[error("{0} bytes are more than the {MAX_SIZE} that a policy may have")]
    TooLarge(usize),
    /// Something else altogether.
    #[error("not WebAssembly: the file does not start with `\\0asm`")]
    NotWasm,
    /// A module that was not made a component.
    #[error("a core module, not a component: make one of it with `opgate policy pack`")]
    CoreModule,
    /// Cut off or damaged.
    #[error("not a valid component: {0}")]
    Malformed(String),
    /// An import that no policy gets.
    #[error(
        "imports {0:?}: a policy may import opgate:policy/{{document,log,cluster}}@{VERSION} and nothing else"
    )]
    Import(String),
    /// WASI, the most frequent of those.
    #[error("imports {0:?}: a policy has no WASI; build it for wasm32-unknown-unknown")]
    Wasi(String),
    /// Another version of the contract.
    #[error(
        "was built for version {0} of opgate:policy, this host speaks {VERSION}: build it with the matching SDK"
    )]
    Version(String),
    /// Reads the cluster, but was not allowed to.
    #[error(
        "imports {PACKAGE}cluster, but reads nothing that was granted: list the resources under `cluster` of the policy in the configuration"
    )]
    ClusterNotGranted,
    /// No policy at all.
    #[error(
        "does not export {0:?}: a policy follows the world `policy` of opgate:policy@{VERSION}"
    )]
    MissingExport(&'static str),
}

/// Checks size, form, imports and exports.
///
/// # Errors
/// What is wrong, and what to do about it.
pub(crate) fn check(component: &[u8], granted_cluster: bool) -> Result<(), Refusal> {
    if component.is_empty() {
        return Err(Refusal::Empty);
    }
    if component.len() > MAX_SIZE {
        return Err(Refusal::TooLarge(component.len()));
    }
    if !component.starts_with(b"\0asm") {
        return Err(Refusal::NotWasm);
    }
    let borders = borders(component)?;
    for name in &borders.imports {
        check_import(name, granted_cluster)?;
    }
    for name in EXPORTS {
        if !borders.exports.iter().any(|export| export == name) {
            return Err(Refusal::MissingExport(name));
        }
    }
    Ok(())
}

struct Borders {
    imports: Vec<String>,
    exports: Vec<String>,
}

/// Imports and exports of the outermost component.
fn borders(component: &[u8]) -> Result<Borders, Refusal> {
    let malformed = |e: wasmparser::BinaryReaderError| Refusal::Malformed(e.to_string());
    let mut borders = Borders { imports: Vec::new(), exports: Vec::new() };
    let mut depth = 0usize;
    for payload in Parser::new(0).parse_all(component) {
        match payload.map_err(malformed)? {
            Payload::Version { encoding: Encoding::Module, .. } if depth == 0 => {
                return Err(Refusal::CoreModule);
            }
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 0 => {
                for import in section {
                    let import = import.map_err(malformed)?;
                    // Types that the world uses from its interfaces; they carry nothing.
                    if !matches!(import.ty, ComponentTypeRef::Type(_)) {
                        borders.imports.push(import.name.name.to_owned());
                    }
                }
            }
            Payload::ComponentExportSection(section) if depth == 0 => {
                for export in section {
                    borders.exports.push(export.map_err(malformed)?.name.name.to_owned());
                }
            }
            _ => {}
        }
    }
    Ok(borders)
}

fn check_import(name: &str, granted_cluster: bool) -> Result<(), Refusal> {
    if name.starts_with("wasi:") || name.starts_with("wasi_") {
        return Err(Refusal::Wasi(name.to_owned()));
    }
    let foreign = || Refusal::Import(crate::text::one_line(name, 128));
    let (interface, version) =
        name.strip_prefix(PACKAGE).and_then(|rest| rest.split_once('@')).ok_or_else(foreign)?;
    if version != VERSION {
        return Err(Refusal::Version(crate::text::one_line(version, 32)));
    }
    if !INTERFACES.contains(&interface) {
        return Err(foreign());
    }
    if interface == "cluster" && !granted_cluster {
        return Err(Refusal::ClusterNotGranted);
    }
    Ok(())
}
