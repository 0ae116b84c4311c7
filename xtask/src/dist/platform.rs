//! The platforms of a release, with the names that Rust and the package managers have for each.

use anyhow::{Context as _, Result, bail, ensure};

use super::program::{Format, Requirements, Version};

/// A platform.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Platform {
    /// As Rust names it.
    pub(super) triple: &'static str,
    pub(super) os: Os,
    /// As Rust names the processor.
    pub(super) processor: &'static str,
    /// The end of the name of the npm package.
    pub(super) npm: &'static str,
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

/// That of the oldest distributions in use, and of `manylinux_2_28`.
const GLIBC: Version = Version(2, 28);
/// The first one for arm64.
const MACOS: Version = Version(11, 0);

/// Libraries that each system with glibc has, or its package `libgcc-s1` ([`LIBGCC`]).
const GLIBC_LIBRARIES: [&str; 8] = [
    "libc.so.6",
    "libdl.so.2",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
    "ld-linux-aarch64.so.1",
    "ld-linux-x86-64.so.2",
    LIBGCC,
];
/// What unwinds the stack, if the linker has not taken it into the program.
pub(super) const LIBGCC: &str = "libgcc_s.so.1";

pub(super) const PLATFORMS: [Platform; 7] = [
    Platform {
        triple: "x86_64-unknown-linux-gnu",
        os: Os::LinuxGnu,
        processor: "x86_64",
        npm: "linux-x64",
    },
    Platform {
        triple: "aarch64-unknown-linux-gnu",
        os: Os::LinuxGnu,
        processor: "aarch64",
        npm: "linux-arm64",
    },
    Platform {
        triple: "x86_64-unknown-linux-musl",
        os: Os::LinuxMusl,
        processor: "x86_64",
        npm: "linux-x64-musl",
    },
    Platform {
        triple: "aarch64-unknown-linux-musl",
        os: Os::LinuxMusl,
        processor: "aarch64",
        npm: "linux-arm64-musl",
    },
    Platform { triple: "x86_64-apple-darwin", os: Os::Mac, processor: "x86_64", npm: "darwin-x64" },
    Platform {
        triple: "aarch64-apple-darwin",
        os: Os::Mac,
        processor: "aarch64",
        npm: "darwin-arm64",
    },
    Platform {
        triple: "x86_64-pc-windows-gnu",
        os: Os::Windows,
        processor: "x86_64",
        npm: "win32-x64",
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

    /// The oldest glibc or macOS that the program runs with.
    pub(super) fn oldest(&self) -> Option<Version> {
        match self.os {
            Os::LinuxGnu => Some(GLIBC),
            Os::Mac => Some(MACOS),
            Os::LinuxMusl | Os::Windows => None,
        }
    }

    /// Tag of wheels, for a program with these requirements.
    pub(super) fn wheel_tag(&self, requirements: &Requirements) -> String {
        let processor = self.processor;
        match self.os {
            Os::LinuxGnu => {
                let Version(major, minor) = requirements.glibc.unwrap_or(GLIBC);
                format!("manylinux_{major}_{minor}_{processor}")
            }
            Os::LinuxMusl => format!("musllinux_1_2_{processor}"),
            Os::Mac => {
                let Version(major, minor) = requirements.macos.unwrap_or(MACOS);
                let processor = if processor == "aarch64" { "arm64" } else { processor };
                format!("macosx_{major}_{minor}_{processor}")
            }
            Os::Windows => "win_amd64".to_owned(),
        }
    }

    /// Checks that a program runs on all systems that this platform stands for. `with_any_glibc` leaves the glibc to the
    /// program: packages name the one that it needs. Returns the requirements that packages state.
    ///
    /// # Errors
    /// If the program is for another platform, or needs more.
    pub(super) fn check(&self, program: &[u8], with_any_glibc: bool) -> Result<Requirements> {
        let triple = self.triple;
        let read = Requirements::of(program);
        let found = read.with_context(|| format!("the program for {triple} cannot be read"))?;
        self.check_requirements(found, with_any_glibc)
            .with_context(|| format!("the program for {triple} does not run there"))
    }

    fn check_requirements(
        &self,
        mut found: Requirements,
        with_any_glibc: bool,
    ) -> Result<Requirements> {
        let format = match self.os {
            Os::LinuxGnu | Os::LinuxMusl => Format::Elf,
            Os::Mac => Format::MachO,
            Os::Windows => Format::Pe,
        };
        ensure!(
            found.format == format && found.processor == self.processor,
            "it is for another platform: {:?} {}",
            found.format,
            found.processor
        );
        let foreign = found.libraries.iter().find(|library| !self.has_library(library));
        if let Some(library) = foreign {
            bail!("it needs the library {library}");
        }
        match self.os {
            Os::LinuxGnu => {
                ensure!(found.has_loader, "it is linked statically");
                let needed = found.glibc.context("it names no version of glibc")?;
                ensure!(
                    needed <= GLIBC || with_any_glibc,
                    "it needs glibc {needed}, and releases run with {GLIBC}: build it with zig, \
                     or say --any-glibc for packages that name {needed}"
                );
                found.glibc = Some(needed.max(GLIBC));
            }
            Os::LinuxMusl => ensure!(!found.has_loader, "it is linked dynamically"),
            Os::Mac => {
                let built_for = found.macos.context("it does not say for which macOS it is")?;
                ensure!(
                    built_for <= MACOS,
                    "it needs macOS {built_for}, and releases run with {MACOS}"
                );
                found.macos = Some(MACOS);
                // Processors of x86_64 run programs without one.
                ensure!(
                    found.is_signed || self.processor != "aarch64",
                    "it has no code signature, without which macOS kills it"
                );
            }
            Os::Windows => {}
        }
        Ok(found)
    }

    /// Reports whether each system of the platform has a library.
    fn has_library(&self, name: &str) -> bool {
        match self.os {
            Os::LinuxGnu => GLIBC_LIBRARIES.contains(&name),
            Os::LinuxMusl => false,
            Os::Mac => name.starts_with("/usr/lib/") || name.starts_with("/System/Library/"),
            // Those of compilers are `libgcc_s_seh-1.dll`, `libwinpthread-1.dll`, `libunwind.dll` and the like.
            Os::Windows => !name.starts_with("lib"),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn requirements(platform: &Platform) -> Requirements {
        let (format, library) = match platform.os {
            Os::LinuxGnu => (Format::Elf, Some("libc.so.6")),
            Os::LinuxMusl => (Format::Elf, None),
            Os::Mac => (Format::MachO, Some("/usr/lib/libSystem.B.dylib")),
            Os::Windows => (Format::Pe, Some("KERNEL32.dll")),
        };
        Requirements {
            format,
            processor: platform.processor,
            libraries: library.into_iter().map(str::to_owned).collect(),
            has_loader: platform.os == Os::LinuxGnu,
            glibc: (platform.os == Os::LinuxGnu).then_some(Version(2, 17)),
            macos: (platform.os == Os::Mac).then_some(Version(11, 0)),
            is_signed: platform.os == Os::Mac,
        }
    }

    /// What is wrong with the program for a platform, after a change of its requirements.
    fn problem(triple: &str, change: impl FnOnce(&mut Requirements)) -> String {
        let platform = find(triple).unwrap();
        let mut found = requirements(platform);
        change(&mut found);
        let checked = platform.check_requirements(found, false);
        checked.map_or_else(|error| error.to_string(), |_| "none".to_owned())
    }

    #[test]
    fn programs_that_need_more_than_their_platform_has_are_refused() {
        for platform in &PLATFORMS {
            assert_eq!(problem(platform.triple, |_| ()), "none", "{}", platform.triple);
            let error = problem(platform.triple, |it| it.libraries.push("libssl.so.3".to_owned()));
            assert_eq!(error, "it needs the library libssl.so.3", "{}", platform.triple);
        }
        let gnu = "x86_64-unknown-linux-gnu";
        let musl = "aarch64-unknown-linux-musl";
        let mac = "aarch64-apple-darwin";
        let windows = "x86_64-pc-windows-gnu";
        assert_eq!(problem(gnu, |it| it.libraries.push(LIBGCC.to_owned())), "none");
        assert_eq!(problem(gnu, |it| it.glibc = Some(Version(2, 28))), "none");
        let error = problem(gnu, |it| it.glibc = Some(Version(2, 29)));
        assert!(error.starts_with("it needs glibc 2.29, and releases run with 2.28"), "{error}");
        assert!(error.contains("--any-glibc"), "{error}");
        assert_eq!(problem(gnu, |it| it.has_loader = false), "it is linked statically");
        assert_eq!(problem(gnu, |it| it.processor = ""), "it is for another platform: Elf ");
        assert_eq!(problem(musl, |it| it.has_loader = true), "it is linked dynamically");
        let of_glibc = problem(musl, |it| it.libraries.push("libc.so.6".to_owned()));
        assert_eq!(of_glibc, "it needs the library libc.so.6");
        let error = problem(mac, |it| it.is_signed = false);
        assert!(error.starts_with("it has no code signature"), "{error}");
        assert_eq!(problem("x86_64-apple-darwin", |it| it.is_signed = false), "none");
        let error = problem(mac, |it| it.macos = Some(Version(12, 0)));
        assert_eq!(error, "it needs macOS 12.0, and releases run with 11.0");
        let error = problem(mac, |it| it.libraries.push("@rpath/libz.dylib".to_owned()));
        assert_eq!(error, "it needs the library @rpath/libz.dylib");
        let error = problem(windows, |it| it.libraries.push("libunwind.dll".to_owned()));
        assert_eq!(error, "it needs the library libunwind.dll");
    }

    #[test]
    fn packages_name_a_newer_glibc_only_if_that_is_asked_for() {
        let platform = find("x86_64-unknown-linux-gnu").unwrap();
        for (needed, tag) in [(17, "manylinux_2_28_x86_64"), (36, "manylinux_2_36_x86_64")] {
            let glibc = Some(Version(2, needed));
            let found = Requirements { glibc, ..requirements(platform) };
            let found = platform.check_requirements(found, true).unwrap();
            assert_eq!(platform.wheel_tag(&found), tag);
        }
    }
}
