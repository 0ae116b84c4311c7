//! `opgate policy wit`: the contract between host and policies, for toolchains of other languages.
//!
//! ```text
//! wit/policy.wit, in this binary ─┬─▶ text
//!                                 └─▶ encoded package (wasm) ─┬─▶ file
//!                                                             └─▶ registry, as wkg and others fetch it
//! ```

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use opgate_registry::Interfaces;

use super::published::print_reference;
use crate::cli::exit::{CommandError, ExitStatus};
use crate::cli::registry::{RegistryArgs, parse_reference, run_on_runtime};
use crate::cli::write_file::write_atomically;

/// The contract that this binary speaks.
const CONTRACT_TEXT: &str = include_str!("../../../../../wit/policy.wit");

/// Arguments of `opgate policy wit`.
#[derive(Debug, Args)]
pub(super) struct Wit {
    #[command(flatten)]
    registry: RegistryArgs,
    /// File for the contract: text, or an encoded package if the name ends in .wasm [default: text to
    /// standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Push the encoded package to a registry: `oci://HOST/REPOSITORY:TAG`
    #[arg(long, value_name = "REFERENCE", conflicts_with = "out")]
    push: Option<String>,
}

impl Wit {
    pub(super) fn run(self) -> Result<ExitStatus, CommandError> {
        if let Some(reference) = &self.push {
            let reference = parse_reference(reference)?;
            let (package, interfaces) = encode_package()?;
            let registry = self.registry.registry()?;
            let interfaces = Interfaces { imports: &[], exports: &interfaces };
            let push = async || registry.push(&reference, package, interfaces).await;
            let digest = run_on_runtime(push)?.map_err(CommandError::engine)?;
            return print_reference(&reference.with_digest(&digest).to_string());
        }
        match &self.out {
            None => anstream::stdout().write_all(CONTRACT_TEXT.as_bytes())?,
            Some(path) if is_wasm(path) => write_atomically(path, &encode_package()?.0)?,
            Some(path) => write_atomically(path, CONTRACT_TEXT.as_bytes())?,
        }
        Ok(ExitStatus::Ok)
    }
}

fn is_wasm(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "wasm")
}

/// Returns the package as a component of types, and the names of its interfaces.
fn encode_package() -> anyhow::Result<(Vec<u8>, Vec<String>)> {
    let mut resolve = wit_parser::Resolve::default();
    let package = resolve.push_source("policy.wit", CONTRACT_TEXT).context("wit/policy.wit")?;
    let bytes = wit_component::encode(&resolve, package).context("wit/policy.wit")?;
    let of_package =
        resolve.packages.get(package).into_iter().flat_map(|it| it.interfaces.values());
    let interfaces = of_package.filter_map(|interface| resolve.id_of(*interface)).collect();
    Ok((bytes, interfaces))
}
