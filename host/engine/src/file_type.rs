//! Detects the type of a file that a user named as a policy, by its first bytes and its imports.
//! Nothing is run.

use wasmparser::{Encoding, Parser, Payload};

/// The type of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileType {
    /// A component.
    Component,
    /// A core module that imports nothing of WASI.
    Module,
    /// A core module for WASI 0.1, such as cargo builds for `wasm32-wasip1`.
    Wasip1,
    /// A core module that exports nothing of a policy.
    NoPolicyExports,
    /// Compiled code: of wasmtime (`.cwasm`), or a program or library of the system.
    Compiled,
    /// Text: a source, or WebAssembly as text.
    Text,
    /// An archive or a compressed file.
    Archive,
    /// An empty file.
    Empty,
    /// Something else.
    Unknown,
}

impl FileType {
    /// Detects the type of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let starts = |with: &[u8]| bytes.starts_with(with);
        if bytes.is_empty() {
            Self::Empty
        } else if starts(b"\0asm") {
            Self::of_wasm(bytes)
        } else if starts(b"\x7fELF") || starts(b"MZ") || starts(&[0xcf, 0xfa, 0xed, 0xfe]) {
            // wasmtime writes its images as ELF.
            Self::Compiled
        } else if starts(&[0x1f, 0x8b])
            || starts(b"PK\x03\x04")
            || bytes.get(257..262) == Some(b"ustar")
        {
            Self::Archive
        } else if !bytes.contains(&0) && std::str::from_utf8(bytes).is_ok() {
            Self::Text
        } else {
            Self::Unknown
        }
    }

    fn of_wasm(bytes: &[u8]) -> Self {
        let mut is_bare = true;
        for payload in Parser::new(0).parse_all(bytes) {
            match payload {
                Ok(Payload::Version { encoding: Encoding::Component, .. }) => {
                    return Self::Component;
                }
                Ok(Payload::ImportSection(section)) => {
                    let mut imports = section.into_imports();
                    let is_wasi = |module: &str| module.starts_with("wasi_");
                    if imports.any(|import| import.is_ok_and(|import| is_wasi(import.module))) {
                        return Self::Wasip1;
                    }
                }
                Ok(Payload::ExportSection(section)) => {
                    let mut names = section.into_iter().flatten().map(|export| export.name);
                    is_bare &= !names.any(|name| name == "validate");
                }
                // The reader of the whole file reports damage.
                Err(_) => return Self::Module,
                Ok(_) => {}
            }
        }
        if is_bare { Self::NoPolicyExports } else { Self::Module }
    }

    /// The detected type, and the fix, for users who named the file as a policy.
    #[must_use]
    pub fn remediation(self) -> String {
        match self {
            Self::Component => "a component",
            Self::Module => {
                "a core module, not a component: make one of it with `opgate policy pack`"
            }
            Self::Wasip1 => {
                "a module for WASI (wasm32-wasip1), which a policy does not have: build it with `--target wasm32-unknown-unknown`"
            }
            Self::NoPolicyExports => {
                "an empty module: it exports nothing of a policy; does the crate have `policy!`, and the crate-type `cdylib`?"
            }
            Self::Compiled => {
                "compiled code, not WebAssembly: name the component that it was made of, opgate compiles it itself"
            }
            Self::Text => {
                "text, not WebAssembly: build the policy first, `opgate policy test DIR` builds a source directory"
            }
            Self::Archive => "an archive, not WebAssembly: unpack it first",
            Self::Empty => "the file is empty: was the build interrupted?",
            Self::Unknown => "not WebAssembly: the file does not start with `\\0asm`",
        }
        .to_owned()
    }
}
