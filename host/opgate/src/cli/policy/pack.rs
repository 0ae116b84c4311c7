//! `opgate policy pack`: makes a component of a core module.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;

use crate::cli::exit::{CommandError, ExitStatus};
use opgate_engine::FileType;

/// From a module to a policy that serves.
const AFTER_HELP: &str = "\
Examples:
  opgate policy pack target/wasm32-unknown-unknown/release/house_images.wasm

Next (docs/write-a-policy.md):
  opgate policy inspect FILE            Test that the component loads
  opgate policy test .                  Build it and run its cases
  opgate rules --config opgate.yaml     Test it with `module: FILE` in the configuration";

/// Arguments of `opgate policy pack`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Pack {
    /// Module that cargo built for wasm32-unknown-unknown
    module: PathBuf,
    /// File for the component [default: the module's name, ending in .component.wasm]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Pack {
    pub(super) fn run(self) -> Result<ExitStatus, CommandError> {
        let Self { module, out } = self;
        let output = out.unwrap_or_else(|| module.with_extension("component.wasm"));
        pack_to(&module, &output)?;
        writeln!(anstream::stdout(), "{}", output.display())?;
        Ok(ExitStatus::Ok)
    }
}

/// Writes the component of a module.
///
/// # Errors
/// Fails if the module is invalid, with a remedy.
pub(super) fn pack_to(module: &Path, output: &Path) -> anyhow::Result<()> {
    let named = |what: &str| anyhow!("{}: {what}", module.display());
    let bytes = std::fs::read(module).map_err(|e| named(&e.to_string()))?;
    match FileType::of(&bytes) {
        FileType::Module => {}
        FileType::Component => {
            return Err(named(
                "is a component already: test it with `opgate policy inspect`, and name it as `module` in opgate.yaml",
            ));
        }
        form => return Err(named(&form.remediation())),
    }
    let bytes = super::world::with_world(bytes)?;
    let component = wit_component::ComponentEncoder::default()
        .validate(true)
        .module(&bytes)
        .and_then(|mut encoder| encoder.encode())
        .map_err(|e| named(&format!("cannot be made into a component: {e:#}")))?;
    std::fs::write(output, component).map_err(|e| anyhow!("{}: {e}", output.display()))
}
