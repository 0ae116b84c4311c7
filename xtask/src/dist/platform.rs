//! The platforms of a release, with the names that Rust and the package managers have for each.

use anyhow::{Result, bail, ensure};

/// A platform.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Platform {
    /// As Rust names it.
    pub(super) triple: &'static str,
    pub(super) os: Os,
    /// As Rust names the processor.
    pub(super) processor: &'static str,
    /// Appended to the triple for `cargo zigbuild`: the oldest C library that the program runs with.
    pub(super) oldest_libc: &'static str,
    /// The end of the name of the npm package.
    pub(super) npm: &'static str,
    /// Tag of wheels.
    pub(super) wheel: &'static str,
}

/// An operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Os {
    /// With glibc, linked dynamically.
    LinuxGnu,
    /// Linked statically.
    LinuxMusl,
    Mac,
    Windows,
}

pub(super) const PLATFORMS: [Platform; 7] = [
    Platform {
        triple: "x86_64-unknown-linux-gnu",
        os: Os::LinuxGnu,
        processor: "x86_64",
        oldest_libc: ".2.28",
        npm: "linux-x64",
        wheel: "manylinux_2_28_x86_64",
    },
    Platform {
        triple: "aarch64-unknown-linux-gnu",
        os: Os::LinuxGnu,
        processor: "aarch64",
        oldest_libc: ".2.28",
        npm: "linux-arm64",
        wheel: "manylinux_2_28_aarch64",
    },
    Platform {
        triple: "x86_64-unknown-linux-musl",
        os: Os::LinuxMusl,
        processor: "x86_64",
        oldest_libc: "",
        npm: "linux-x64-musl",
        wheel: "musllinux_1_2_x86_64",
    },
    Platform {
        triple: "aarch64-unknown-linux-musl",
        os: Os::LinuxMusl,
        processor: "aarch64",
        oldest_libc: "",
        npm: "linux-arm64-musl",
        wheel: "musllinux_1_2_aarch64",
    },
    Platform {
        triple: "x86_64-apple-darwin",
        os: Os::Mac,
        processor: "x86_64",
        oldest_libc: "",
        npm: "darwin-x64",
        wheel: "macosx_11_0_x86_64",
    },
    Platform {
        triple: "aarch64-apple-darwin",
        os: Os::Mac,
        processor: "aarch64",
        oldest_libc: "",
        npm: "darwin-arm64",
        wheel: "macosx_11_0_arm64",
    },
    Platform {
        triple: "x86_64-pc-windows-gnu",
        os: Os::Windows,
        processor: "x86_64",
        oldest_libc: "",
        npm: "win32-x64",
        wheel: "win_amd64",
    },
];

impl Platform {
    /// Name of the program in archives and packages.
    pub(super) fn program_name(&self) -> &'static str {
        if self.os == Os::Windows { "opgate.exe" } else { "opgate" }
    }

    /// End of the name of the archive.
    pub(super) fn archive_extension(&self) -> &'static str {
        if self.os == Os::Windows { "zip" } else { "tar.gz" }
    }

    /// Reports whether this machine runs the program.
    pub(super) fn is_native(&self) -> bool {
        let is_os = match self.os {
            Os::LinuxGnu | Os::LinuxMusl => cfg!(target_os = "linux"),
            Os::Mac => cfg!(target_os = "macos"),
            Os::Windows => cfg!(windows),
        };
        is_os && self.processor == std::env::consts::ARCH
    }

    /// Feature of opgate with which its build script compiles the policies for another processor.
    pub(super) fn feature(&self) -> Option<String> {
        let is_native = self.processor == std::env::consts::ARCH;
        (!is_native).then(|| format!("precompile-{}", self.processor))
    }

    /// As Debian names the processor.
    pub(super) fn debian_architecture(&self) -> &'static str {
        if self.processor == "aarch64" { "arm64" } else { "amd64" }
    }

    /// As npm names it: `os`, `cpu`, and `libc`.
    pub(super) fn npm_fields(&self) -> (&'static str, &'static str, Option<&'static str>) {
        let processor = if self.processor == "aarch64" { "arm64" } else { "x64" };
        match self.os {
            Os::LinuxGnu => ("linux", processor, Some("glibc")),
            Os::LinuxMusl => ("linux", processor, Some("musl")),
            Os::Mac => ("darwin", processor, None),
            Os::Windows => ("win32", processor, None),
        }
    }

    /// Checks that a program is for this platform.
    ///
    /// # Errors
    /// If it is for another one, or none.
    pub(super) fn check(&self, program: &[u8]) -> Result<()> {
        let number = |at: usize| {
            let bytes = program.get(at..)?.first_chunk().copied();
            bytes.map(u16::from_le_bytes)
        };
        let is_arm = self.processor == "aarch64";
        let is_it = match self.os {
            Os::LinuxGnu | Os::LinuxMusl => {
                let machine = if is_arm { 183 } else { 62 };
                program.starts_with(b"\x7fELF\x02\x01") && number(18) == Some(machine)
            }
            Os::Mac => {
                let processor: &[u8] = if is_arm { b"\x0c\0\0\x01" } else { b"\x07\0\0\x01" };
                program
                    .strip_prefix(b"\xcf\xfa\xed\xfe")
                    .is_some_and(|at| at.starts_with(processor))
            }
            Os::Windows => {
                let header = number(0x3c).map(usize::from).unwrap_or_default();
                let is_program = program.get(header..).is_some_and(|at| at.starts_with(b"PE\0\0"));
                is_program && number(header.saturating_add(4)) == Some(0x8664)
            }
        };
        ensure!(is_it, "the program for {} is for another platform, or no program", self.triple);
        Ok(())
    }
}

/// Returns the platform with this triple.
pub(super) fn find(triple: &str) -> Result<&'static Platform> {
    if let Some(found) = PLATFORMS.iter().find(|platform| platform.triple == triple) {
        return Ok(found);
    }
    let all: Vec<_> = PLATFORMS.iter().map(|platform| platform.triple).collect();
    bail!("{triple} is no platform of a release: there are {}", all.join(", "))
}
