//! Checks a component before the compiler gets it. The checks read its bytes and run nothing.

use wasmparser::{ComponentTypeRef, Encoding, Instance, Parser, Payload, TypeRef};

use super::limits::MAX_INSTANCES;
use opgate_text::units::bytes;

/// Maximum size of a component, 32 MiB. A policy with a JavaScript engine has 12, one with Python 18.
pub const MAX_COMPONENT_BYTES: usize = 32 << 20;

/// Limits on the input of the compiler, whose time and memory grow faster than these. A JavaScript
/// engine has 13,000 functions and 10,000 items, Python 14,000 and 13,000.
const MAX_LOCALS: u32 = 4_096;
const MAX_FUNCTIONS: usize = 32_768;
/// Types, imports, exports, globals, segments, aliases and instances, in all modules together.
const MAX_ITEMS: usize = 65_536;

/// Limits that depend on the size of a component: only one that has an interpreter inside, with its
/// library, has many modules and such functions.
struct CompilerLimits {
    /// Bytes of a function.
    max_function_bytes: usize,
    /// Modules and components inside it.
    max_modules: usize,
    /// Modules that it instantiates.
    max_instances: usize,
}

/// Size up to which a component is small, 4 MiB. Policies in compiled languages are below 1 MiB.
const MAX_SMALL_BYTES: usize = 4 << 20;

/// A policy of the SDK has 4 modules, 3 instances, and functions of some ten KiB.
const SMALL_LIMITS: CompilerLimits =
    CompilerLimits { max_function_bytes: 192 << 10, max_modules: 32, max_instances: 8 };

/// Python has 40 modules, as many instances, and a function of 417 KiB, that interprets its code. That
/// of a JavaScript engine has 168 KiB.
const LARGE_LIMITS: CompilerLimits =
    CompilerLimits { max_function_bytes: 512 << 10, max_modules: 64, max_instances: MAX_INSTANCES };

impl CompilerLimits {
    fn of(component: &[u8]) -> Self {
        if is_large(component) { LARGE_LIMITS } else { SMALL_LIMITS }
    }
}

/// Whether a component has higher limits, because of its size.
pub(crate) fn is_large(component: &[u8]) -> bool {
    component.len() > MAX_SMALL_BYTES
}

/// Bytes of a page of memory.
const PAGE_BYTES: usize = 64 << 10;

/// Version of the WIT package that this host supports.
pub const VERSION: &str = "0.7.0";
const PACKAGE: &str = "opgate:policy/";
const INTERFACES: [&str; 5] = ["types", "request", "document", "log", "cluster"];
const EXPORTS: [&str; 3] = ["describe", "validate-settings", "validate"];

/// The reason why a file is not a policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ComponentError {
    /// It is empty.
    #[error("the file is empty")]
    Empty,
    /// It is larger than any policy needs to be.
    #[error("{0} bytes are more than the {MAX_COMPONENT_BYTES} that a policy may have")]
    TooLarge(usize),
    /// It is another kind of file.
    #[error("not WebAssembly: the file does not start with `\\0asm`")]
    NotWasm,
    /// A module that is not a component.
    #[error("a core module, not a component: make one of it with `opgate policy pack`")]
    CoreModule,
    /// It is truncated or damaged.
    #[error("not a valid component: {0}")]
    Malformed(String),
    /// It exceeds the limits of the compiler.
    #[error("{0}")]
    TooComplex(String),
    /// A module with several memories.
    #[error(
        "a module with {0} memories: a module has one; components of several modules may have one each"
    )]
    MultipleMemories(usize),
    /// It starts with more memory than any policy may have here.
    #[error(
        "starts with {} of memory, and may have {}: raise `limits.memory` of the policy", bytes(*.0), bytes(*.1)
    )]
    InitialMemory(usize, usize),
    /// An import that no policy has.
    #[error(
        "imports {0:?}: a policy may import opgate:policy/{{request,document,log,cluster}}@{VERSION} and nothing else"
    )]
    Import(String),
    /// WASI, the most frequent of these imports.
    #[error("imports {0:?}: a policy has no WASI; build it for wasm32-unknown-unknown")]
    Wasi(String),
    /// Another version of the contract.
    #[error(
        "was built for version {0} of opgate:policy, this host speaks {VERSION}: build it with the matching SDK"
    )]
    Version(String),
    /// It reads the cluster, but has no grant.
    #[error(
        "imports {PACKAGE}cluster, but reads nothing that was granted: list the resources under `allowedReads` of the policy in the configuration"
    )]
    ClusterNotGranted,
    /// A component that is not a policy.
    #[error(
        "does not export {0:?}: a policy follows the world `policy` of opgate:policy@{VERSION}"
    )]
    MissingExport(&'static str),
}

/// Checks size, format, imports and exports, and that the initial memory is at most `memory`.
///
/// # Errors
/// The problem and its remediation.
pub(crate) fn check(
    component: &[u8],
    granted_cluster: bool,
    memory: usize,
) -> Result<(), ComponentError> {
    if component.is_empty() {
        return Err(ComponentError::Empty);
    }
    if component.len() > MAX_COMPONENT_BYTES {
        return Err(ComponentError::TooLarge(component.len()));
    }
    if !component.starts_with(b"\0asm") {
        return Err(ComponentError::NotWasm);
    }
    let borders = read_interfaces(component)?;
    for name in &borders.imports {
        check_import(name, granted_cluster)?;
    }
    for name in EXPORTS {
        if !borders.exports.iter().any(|export| export == name) {
            return Err(ComponentError::MissingExport(name));
        }
    }
    if borders.memory > memory {
        return Err(ComponentError::InitialMemory(borders.memory, memory));
    }
    Ok(())
}

struct ComponentInterfaces {
    imports: Vec<String>,
    exports: Vec<String>,
    /// Initial bytes of the memories of all modules.
    memory: usize,
}

/// Counts for all modules together, and for the current one.
struct Counts {
    limits: CompilerLimits,
    modules: usize,
    instances: usize,
    functions: usize,
    items: usize,
    /// Initial bytes of all memories.
    memory: usize,
    /// For this module, and for those around it.
    memories: Vec<usize>,
}

impl Counts {
    fn of(component: &[u8]) -> Self {
        let (modules, instances, functions, items, memory) = (0, 0, 0, 0, 0);
        let bounds = CompilerLimits::of(component);
        Self { limits: bounds, modules, instances, functions, items, memory, memories: Vec::new() }
    }

    /// Counts one part of a component.
    fn add(&mut self, payload: &Payload<'_>) -> Result<(), ComponentError> {
        let many = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
        let mut items = 0;
        match payload {
            Payload::Version { .. } => {
                self.memories.push(0);
                self.modules = self.modules.saturating_add(1);
            }
            Payload::End(_) => drop(self.memories.pop()),
            Payload::FunctionSection(section) => {
                self.functions = self.functions.saturating_add(many(section.count()));
            }
            Payload::MemorySection(section) => {
                self.add_memories(many(section.count()))?;
                for memory in section.clone() {
                    let pages = usize::try_from(memory.map_err(malformed)?.initial);
                    let size = pages.unwrap_or(usize::MAX).saturating_mul(PAGE_BYTES);
                    self.memory = self.memory.saturating_add(size);
                }
            }
            Payload::ImportSection(section) => {
                items = many(section.count());
                for import in section.clone().into_imports() {
                    let import = import.map_err(malformed)?;
                    if matches!(import.ty, TypeRef::Memory(_)) {
                        self.add_memories(1)?;
                    }
                }
            }
            Payload::CodeSectionEntry(body) => {
                let (size, mut locals) = (body.range().len(), 0_u32);
                for group in body.get_locals_reader().map_err(malformed)? {
                    locals = locals.saturating_add(group.map_err(malformed)?.0);
                }
                let most = self.limits.max_function_bytes;
                if size > most || locals > MAX_LOCALS {
                    return Err(ComponentError::TooComplex(format!(
                        "a function of {size} bytes and {locals} locals: at most {most} and {MAX_LOCALS}"
                    )));
                }
            }
            Payload::TypeSection(section) => items = many(section.count()),
            Payload::ExportSection(section) => items = many(section.count()),
            Payload::GlobalSection(section) => items = many(section.count()),
            Payload::ElementSection(section) => items = many(section.count()),
            Payload::DataSection(section) => items = many(section.count()),
            Payload::TableSection(section) => items = many(section.count()),
            Payload::InstanceSection(section) => {
                items = many(section.count());
                for instance in section.clone() {
                    if matches!(instance.map_err(malformed)?, Instance::Instantiate { .. }) {
                        self.instances = self.instances.saturating_add(1);
                    }
                }
            }
            Payload::CoreTypeSection(section) => items = many(section.count()),
            Payload::ComponentInstanceSection(section) => items = many(section.count()),
            Payload::ComponentAliasSection(section) => items = many(section.count()),
            Payload::ComponentTypeSection(section) => items = many(section.count()),
            Payload::ComponentCanonicalSection(section) => items = many(section.count()),
            Payload::ComponentImportSection(section) => items = many(section.count()),
            Payload::ComponentExportSection(section) => items = many(section.count()),
            _ => {}
        }
        self.items = self.items.saturating_add(items);
        for (what, count, most) in [
            ("modules", self.modules, self.limits.max_modules),
            ("instances of modules", self.instances, self.limits.max_instances),
            ("functions", self.functions, MAX_FUNCTIONS),
            ("types, imports, exports and the like", self.items, MAX_ITEMS),
        ] {
            if count > most {
                return Err(ComponentError::TooComplex(format!("{count} {what}: at most {most}")));
            }
        }
        Ok(())
    }

    /// The compiler needs several memories for its own code, which passes texts from one module to
    /// another. No module uses several.
    fn add_memories(&mut self, more: usize) -> Result<(), ComponentError> {
        let Some(memories) = self.memories.last_mut() else { return Ok(()) };
        *memories = memories.saturating_add(more);
        if *memories > 1 { Err(ComponentError::MultipleMemories(*memories)) } else { Ok(()) }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the form of `map_err`")]
fn malformed(error: wasmparser::BinaryReaderError) -> ComponentError {
    ComponentError::Malformed(opgate_text::one_line(&error.to_string(), 256))
}

/// Imports and exports of the outermost component.
fn read_interfaces(component: &[u8]) -> Result<ComponentInterfaces, ComponentError> {
    let mut borders = ComponentInterfaces { imports: Vec::new(), exports: Vec::new(), memory: 0 };
    let mut counts = Counts::of(component);
    let mut depth = 0usize;
    for payload in Parser::new(0).parse_all(component) {
        let payload = payload.map_err(malformed)?;
        counts.add(&payload)?;
        match payload {
            Payload::Version { encoding: Encoding::Module, .. } if depth == 0 => {
                return Err(ComponentError::CoreModule);
            }
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 0 => {
                for import in section {
                    let import = import.map_err(malformed)?;
                    // Types that the WIT package uses from its interfaces. They have no content.
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
    borders.memory = counts.memory;
    Ok(borders)
}

/// The names of the imports and exports of a policy, for registries.
///
/// # Errors
/// If this host could not load it as a policy.
pub fn interfaces(component: &[u8]) -> Result<(Vec<String>, Vec<String>), ComponentError> {
    check(component, true, usize::MAX)?;
    let ComponentInterfaces { imports, exports, .. } = read_interfaces(component)?;
    Ok((imports, exports))
}

fn check_import(name: &str, granted_cluster: bool) -> Result<(), ComponentError> {
    if name.starts_with("wasi:") || name.starts_with("wasi_") {
        return Err(ComponentError::Wasi(name.to_owned()));
    }
    let foreign = || ComponentError::Import(opgate_text::one_line(name, 128));
    let (interface, version) =
        name.strip_prefix(PACKAGE).and_then(|rest| rest.split_once('@')).ok_or_else(foreign)?;
    if version != VERSION {
        return Err(ComponentError::Version(opgate_text::one_line(version, 32)));
    }
    if !INTERFACES.contains(&interface) {
        return Err(foreign());
    }
    if interface == "cluster" && !granted_cluster {
        return Err(ComponentError::ClusterNotGranted);
    }
    Ok(())
}
