//! Platforms of the image, and the requirements for building for them here.

use std::fmt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use super::command_output;

/// An architecture, as OCI names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Arch {
    Amd64,
    Arm64,
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        })
    }
}

impl Arch {
    const ALL: [Self; 2] = [Self::Amd64, Self::Arm64];

    /// Target of the compiler: glibc, linked statically (docs/adr/0025-static-image.md).
    pub(super) fn triple(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-gnu",
            Self::Arm64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// Returns the name of the processor in Debian and Rust.
    fn processor(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }

    pub(super) fn is_native(self) -> bool {
        self.processor() == std::env::consts::ARCH
    }

    /// Feature of opgate with which its build script, which runs here, compiles policies for this
    /// architecture.
    pub(super) fn feature(self) -> Option<&'static str> {
        match self {
            _ if self.is_native() => None,
            Self::Amd64 => Some("precompile-x86_64"),
            Self::Arm64 => Some("precompile-aarch64"),
        }
    }

    /// Returns the C compiler, which is also the linker.
    pub(super) fn compiler(self) -> String {
        if self.is_native() {
            "cc".to_owned()
        } else {
            format!("{}-linux-gnu-gcc", self.processor())
        }
    }

    /// Returns `e_machine` of ELF.
    pub(super) fn machine(self) -> u16 {
        match self {
            Self::Amd64 => 62,
            Self::Arm64 => 183,
        }
    }

    /// Returns the C library that is linked in.
    ///
    /// # Errors
    /// Fails if the compiler or the library is missing, with the package to install.
    pub(super) fn libc(self) -> Result<PathBuf> {
        let compiler = self.compiler();
        let packages = match self {
            _ if self.is_native() => "gcc libc6-dev",
            Self::Amd64 => "gcc-x86-64-linux-gnu libc6-dev-amd64-cross",
            Self::Arm64 => "gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
        };
        let hint = || {
            format!(
                "the image for {self} needs {compiler} and a static C library: apt-get install {packages}"
            )
        };
        let found = command_output(Command::new(&compiler).arg("-print-file-name=libc.a"))
            .with_context(hint)?;
        // The compiler returns the name unchanged if it finds no file.
        let path = PathBuf::from(found.trim());
        ensure!(path.is_absolute() && path.is_file(), "{}", hint());
        Ok(path)
    }
}

/// Returns the requested platforms, or else all that can be built here.
pub(super) fn select(names: &[&str]) -> Result<Vec<Arch>> {
    if names.is_empty() {
        let can = |arch: &Arch| match arch.libc() {
            Err(error) if !arch.is_native() => {
                eprintln!("leaving {arch} out: {error}");
                false
            }
            _ => true,
        };
        return Ok(Arch::ALL.into_iter().filter(can).collect());
    }
    let mut arches = Vec::new();
    for name in names.iter().flat_map(|names| names.split(',')) {
        match Arch::ALL.into_iter().find(|arch| arch.to_string() == name) {
            Some(arch) => arches.push(arch),
            None => bail!("--arch {name}: there are amd64 and arm64"),
        }
    }
    arches.sort();
    arches.dedup();
    Ok(arches)
}
