//! `opgate policy push`, `pull` and `verify`: components in registries.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;

use crate::cli::exit::{CommandError, ExitStatus};
use crate::cli::registry::{RegistryArgs, parse_reference, read_keys, run_on_runtime};
use crate::cli::write_file::write_atomically;
use opgate_admission::policy::read_component;
use opgate_engine::interfaces;
use opgate_registry::{Interfaces, PublicKeys, Repository};

/// Arguments of `opgate policy push`.
#[derive(Debug, Args)]
pub(super) struct Push {
    #[command(flatten)]
    registry: RegistryArgs,
    /// Component, as `opgate policy pack` writes it
    component: PathBuf,
    /// Destination: `oci://HOST/REPOSITORY:TAG`
    reference: String,
}

/// Arguments of `opgate policy pull`.
#[derive(Debug, Args)]
pub(super) struct Pull {
    #[command(flatten)]
    registry: RegistryArgs,
    /// Source: `oci://HOST/REPOSITORY@sha256:…`, or `:TAG`
    reference: String,
    /// File for the component [default: the last part of the repository, ending in .component.wasm]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Public keys (PEM), one of which must have signed it as cosign does
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// `HOST/REPOSITORY` that the signature must name [default: any]
    #[arg(long, value_name = "NAME", requires = "key")]
    signed_repository: Option<String>,
}

/// Arguments of `opgate policy verify`.
#[derive(Debug, Args)]
pub(super) struct Verify {
    #[command(flatten)]
    registry: RegistryArgs,
    /// Source: `oci://HOST/REPOSITORY@sha256:…`, or `:TAG`
    reference: String,
    /// Public keys (PEM), one of which must have signed it as cosign does
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// `HOST/REPOSITORY` that the signature must name [default: any]
    #[arg(long, value_name = "NAME")]
    signed_repository: Option<String>,
}

impl Push {
    pub(super) fn run(self) -> Result<ExitStatus, CommandError> {
        let path = &self.component;
        let reference = parse_reference(&self.reference)?;
        let bytes = read_component(path).with_context(|| path.display().to_string())?;
        let borders = interfaces(&bytes).with_context(|| path.display().to_string())?;
        let registry = self.registry.registry()?;
        let push = async || {
            let (imports, exports) = &borders;
            registry.push(&reference, bytes, Interfaces { imports, exports }).await
        };
        let digest = run_on_runtime(push)?.map_err(CommandError::engine)?;
        print_reference(&reference.with_digest(&digest).to_string())
    }
}

impl Pull {
    pub(super) fn run(self) -> Result<ExitStatus, CommandError> {
        let bound = |path| keys_for(path, self.signed_repository.as_deref());
        let keys = self.key.as_deref().map(bound).transpose()?;
        let (reference, pulled) = self.registry.pull(&self.reference, keys.as_ref())?;
        let last = reference.repository().rsplit('/').next().unwrap_or_default();
        let default = || PathBuf::from(format!("{last}.component.wasm"));
        let out = self.out.unwrap_or_else(default);
        write_atomically(&out, &pulled.component)?;
        print_reference(&reference.with_digest(&pulled.digest).to_string())
    }
}

impl Verify {
    pub(super) fn run(self) -> Result<ExitStatus, CommandError> {
        let keys = keys_for(&self.key, self.signed_repository.as_deref())?;
        let reference = parse_reference(&self.reference)?;
        let registry = self.registry.registry()?;
        let digest = run_on_runtime(async || registry.verify(&reference, &keys).await)?;
        let digest = digest.map_err(CommandError::engine)?;
        print_reference(&reference.with_digest(&digest).to_string())
    }
}

/// Returns the keys in a file, for what was signed under a name.
fn keys_for(path: &Path, repository: Option<&str>) -> anyhow::Result<PublicKeys> {
    let (keys, _) = read_keys(path)?;
    let repository = repository.map(Repository::parse).transpose()?;
    Ok(keys.for_repository(repository))
}

/// Prints the value for `module:` in a configuration.
pub(super) fn print_reference(reference: &str) -> Result<ExitStatus, CommandError> {
    writeln!(anstream::stdout(), "{reference}")?;
    Ok(ExitStatus::Ok)
}
