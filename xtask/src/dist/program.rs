//! What a program needs of its system, as its headers have it: the platforms of a release promise that it is no more.

use std::fmt;

use anyhow::{Context as _, Result, bail};
use object::elf::{DT_NEEDED, PT_INTERP};
use object::macho::LC_CODE_SIGNATURE;
use object::pe::ImageNtHeaders64;
use object::read::elf::{ElfFile64, ProgramHeader as _};
use object::read::macho::{LoadCommandVariant, MachOFile64};
use object::read::pe::PeFile;
use object::{Architecture, Endianness, File, LittleEndian, Object as _};

/// A version of glibc or macOS, as far as it decides where a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(pub(super) u16, pub(super) u16);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// Format of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Elf,
    MachO,
    Pe,
}

/// The requirements of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Requirements {
    pub(super) format: Format,
    /// As Rust names it; empty for others than those of a release.
    pub(super) processor: &'static str,
    /// Libraries that the loader must find.
    pub(super) libraries: Vec<String>,
    /// Linux: whether the program names a loader.
    pub(super) has_loader: bool,
    /// Linux: the oldest glibc that has all of its symbols.
    pub(super) glibc: Option<Version>,
    /// macOS: the oldest one that it is built for.
    pub(super) macos: Option<Version>,
    /// macOS: whether it has a code signature.
    pub(super) is_signed: bool,
}

impl Requirements {
    /// Reads the headers.
    ///
    /// # Errors
    /// If they are not those of a program of 64 bits for Linux, macOS or Windows.
    pub(super) fn of(program: &[u8]) -> Result<Self> {
        let file = File::parse(program)?;
        let processor = match file.architecture() {
            Architecture::X86_64 => "x86_64",
            Architecture::Aarch64 => "aarch64",
            _ => "",
        };
        let mut found = Self {
            format: Format::Elf,
            processor,
            libraries: Vec::new(),
            has_loader: false,
            glibc: None,
            macos: None,
            is_signed: false,
        };
        match file {
            File::Elf64(file) => found.read_elf(&file)?,
            File::MachO64(file) => found.read_mach_o(&file)?,
            File::Pe64(file) => found.read_pe(&file)?,
            _ => bail!("no program of 64 bits for Linux, macOS or Windows"),
        }
        Ok(found)
    }

    fn read_elf(&mut self, file: &ElfFile64<'_, Endianness>) -> Result<()> {
        self.format = Format::Elf;
        let (endian, data) = (file.endian(), file.data());
        let mut headers = file.elf_program_headers().iter();
        self.has_loader = headers.any(|header| header.p_type(endian) == PT_INTERP);
        let dynamic = file.elf_dynamic_table()?;
        for entry in dynamic.iter().filter(|entry| entry.tag == DT_NEEDED) {
            self.libraries.push(text(dynamic.string(entry)?)?);
        }
        let sections = file.elf_section_table();
        let Some((needs, link)) = sections.gnu_verneed(endian, data)? else { return Ok(()) };
        let strings = sections.strings(endian, data, link)?;
        for need in needs {
            let (_, versions) = need?;
            for version in versions {
                let name = text(version?.name(endian, strings)?)?;
                if let Some(version) = name.strip_prefix("GLIBC_") {
                    self.glibc = self.glibc.max(Some(glibc_version(version)?));
                }
            }
        }
        Ok(())
    }

    fn read_mach_o(&mut self, file: &MachOFile64<'_, Endianness>) -> Result<()> {
        self.format = Format::MachO;
        let endian = file.endian();
        let mut commands = file.macho_load_commands()?;
        while let Some(command) = commands.next()? {
            self.is_signed |= command.cmd() == LC_CODE_SIGNATURE;
            match command.variant()? {
                LoadCommandVariant::Dylib(library) => {
                    self.libraries.push(text(command.string(endian, library.dylib.name)?)?);
                }
                LoadCommandVariant::BuildVersion(version) => {
                    self.macos = Some(macos_version(version.minos.get(endian))?);
                }
                LoadCommandVariant::VersionMin(version) => {
                    self.macos = Some(macos_version(version.version.get(endian))?);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn read_pe(&mut self, file: &PeFile<'_, ImageNtHeaders64>) -> Result<()> {
        self.format = Format::Pe;
        let Some(table) = file.import_table()? else { return Ok(()) };
        let mut descriptors = table.descriptors()?;
        while let Some(descriptor) = descriptors.next()? {
            self.libraries.push(text(table.name(descriptor.name.get(LittleEndian))?)?);
        }
        Ok(())
    }
}

fn text(bytes: &[u8]) -> Result<String> {
    String::from_utf8(bytes.to_vec()).context("a name in the headers is not UTF-8")
}

/// Reads the end of a symbol version of glibc: `2.34`, `2.2.5`.
fn glibc_version(text: &str) -> Result<Version> {
    // Relative relocations that are packed: no symbol, but a feature of the loader.
    let text = if text == "ABI_DT_RELR" { "2.36" } else { text };
    let mut numbers = text.split('.').map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => Ok(Version(major, minor)),
        _ => bail!("the program needs GLIBC_{text}, which is no version of glibc"),
    }
}

/// Reads a version as Mach-O has it: sixteen bits, and twice eight.
fn macos_version(bits: u32) -> Result<Version> {
    Ok(Version(u16::try_from(bits >> 16)?, u16::try_from(bits >> 8 & 0xff)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The program of this test is one for this machine, made by its own compiler.
    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn headers_of_a_real_program_are_read() {
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let found = Requirements::of(&program).unwrap();
        assert_eq!((found.format, found.processor), (Format::Elf, std::env::consts::ARCH));
        assert!(found.has_loader);
        assert!(found.libraries.iter().any(|name| name == "libc.so.6"), "{found:?}");
        // The standard library needs symbols that came after the first of a processor, and no future ones.
        let glibc = found.glibc.unwrap();
        assert!(glibc > Version(2, 3) && glibc < Version(3, 0), "{glibc}");
    }

    #[test]
    fn versions_of_glibc_are_compared_as_numbers() {
        assert!(glibc_version("2.4").unwrap() < glibc_version("2.28").unwrap());
        assert_eq!(glibc_version("2.2.5").unwrap(), Version(2, 2));
        assert_eq!(glibc_version("ABI_DT_RELR").unwrap().to_string(), "2.36");
        assert!(glibc_version("PRIVATE").unwrap_err().to_string().contains("GLIBC_PRIVATE"));
        assert_eq!(macos_version(0x000b_0300).unwrap(), Version(11, 3));
    }
}
