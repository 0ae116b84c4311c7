//! Archives: tar (ustar), gzip, zip and ar, as functions of their content. Times are given, owners are root.

use anyhow::{Context as _, Result, ensure};
use miniz_oxide::deflate::compress_to_vec;

/// Compression level. Level 10 triples the time and saves 0.3 %.
const COMPRESSION_LEVEL: u8 = 9;
const TAR_BLOCK_BYTES: usize = 512;

/// A file or a directory of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Without a slash at the start; with one at the end for a directory.
    pub(crate) path: String,
    pub(crate) mode: u32,
    pub(crate) content: Vec<u8>,
}

impl Entry {
    /// Creates a file.
    pub(crate) fn file(path: impl Into<String>, mode: u32, content: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), mode, content: content.into() }
    }

    /// Creates a directory.
    pub(crate) fn directory(path: impl Into<String>, mode: u32) -> Self {
        Self { path: path.into(), mode, content: Vec::new() }
    }
}

/// Packs files; `time`, as Unix time, is that of all of them.
pub(crate) fn tar<'e>(entries: impl IntoIterator<Item = &'e Entry>, time: i64) -> Result<Vec<u8>> {
    let time = u64::try_from(time).context("a time before 1970")?;
    let mut tar = Vec::new();
    for entry in entries {
        tar.extend_from_slice(&tar_header(entry, time)?);
        tar.extend_from_slice(&entry.content);
        tar.resize(tar.len().next_multiple_of(TAR_BLOCK_BYTES), 0);
    }
    // Two blocks of zeros end it.
    tar.resize(tar.len().saturating_add(2 * TAR_BLOCK_BYTES), 0);
    Ok(tar)
}

/// Returns a header of ustar: names and numbers in octal, each in its field.
fn tar_header(entry: &Entry, time: u64) -> Result<Vec<u8>> {
    let kind = if entry.path.ends_with('/') { "5" } else { "0" };
    let octal = |number: u64, digits: usize| {
        let text = format!("{number:0digits$o}");
        ensure!(text.len() == digits, "{}: {number} does not fit into a tar file", entry.path);
        Ok(text)
    };
    let fields = |sum: &str| -> Result<Vec<u8>> {
        let fields: [(usize, &str); 10] = [
            (100, &entry.path),
            (8, &octal(u64::from(entry.mode), 7)?),
            (8, &octal(0, 7)?),
            (8, &octal(0, 7)?),
            (12, &octal(u64::try_from(entry.content.len())?, 11)?),
            (12, &octal(time, 11)?),
            (8, sum),
            (1, kind),
            (100, ""),
            (8, "ustar\u{0}00"),
        ];
        let mut header = Vec::with_capacity(TAR_BLOCK_BYTES);
        for (width, text) in fields {
            ensure!(text.len() <= width, "{}: too long for a tar file", entry.path);
            let end = header.len().saturating_add(width);
            header.extend_from_slice(text.as_bytes());
            header.resize(end, 0);
        }
        header.resize(TAR_BLOCK_BYTES, 0);
        Ok(header)
    };
    // The sum is that of the header with spaces in its place.
    let sum: u64 = fields("        ")?.iter().map(|&byte| u64::from(byte)).sum();
    fields(&format!("{}\0 ", octal(sum, 6)?))
}

/// Compresses; one member, without a name and a time.
pub(crate) fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    // Method: deflate; no flags; no time; slowest; made on Unix.
    let mut zipped = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 3];
    zipped.extend(compress_to_vec(bytes, COMPRESSION_LEVEL));
    zipped.extend(crc32fast::hash(bytes).to_le_bytes());
    zipped.extend(u32::try_from(bytes.len())?.to_le_bytes());
    Ok(zipped)
}

/// 1980-01-01: the format has times without a zone, and wheels usually have this one.
const ZIP_TIME: u32 = 0x0021_0000;
/// Made on Unix, by version 2.0 of the format: with modes.
const ZIP_MADE_BY: u16 = 0x0314;
const ZIP_NEEDS: u16 = 20;
const ZIP_DEFLATE: u16 = 8;
/// Names are UTF-8.
const ZIP_FLAGS: u16 = 0x0800;

/// Packs files as a zip file.
pub(crate) fn zip(entries: &[Entry]) -> Result<Vec<u8>> {
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for entry in entries {
        let offset = u32::try_from(archive.len()).context("a zip file of more than 4 GiB")?;
        let deflated = compress_to_vec(&entry.content, COMPRESSION_LEVEL);
        let mut common = Vec::new();
        for number in [ZIP_NEEDS, ZIP_FLAGS, ZIP_DEFLATE] {
            common.extend(number.to_le_bytes());
        }
        common.extend(ZIP_TIME.to_le_bytes());
        common.extend(crc32fast::hash(&entry.content).to_le_bytes());
        for size in [deflated.len(), entry.content.len()] {
            common.extend(u32::try_from(size).context("a file of more than 4 GiB")?.to_le_bytes());
        }
        common.extend(u16::try_from(entry.path.len())?.to_le_bytes());
        // No further fields.
        common.extend(0_u16.to_le_bytes());
        archive.extend(b"PK\x03\x04");
        archive.extend_from_slice(&common);
        archive.extend(entry.path.as_bytes());
        archive.extend(deflated);
        let is_directory = entry.path.ends_with('/');
        let kind: u32 = if is_directory { 0o040_000 } else { 0o100_000 };
        directory.extend(b"PK\x01\x02");
        directory.extend(ZIP_MADE_BY.to_le_bytes());
        directory.extend_from_slice(&common);
        // No comment, on the first disk, no text.
        directory.extend([0; 6]);
        directory.extend(((kind | entry.mode) << 16 | u32::from(is_directory) << 4).to_le_bytes());
        directory.extend(offset.to_le_bytes());
        directory.extend(entry.path.as_bytes());
    }
    let count = u16::try_from(entries.len()).context("a zip file of more than 65535 files")?;
    let (start, size) = (u32::try_from(archive.len())?, u32::try_from(directory.len())?);
    archive.extend(directory);
    archive.extend(b"PK\x05\x06\0\0\0\0");
    archive.extend(count.to_le_bytes());
    archive.extend(count.to_le_bytes());
    archive.extend(size.to_le_bytes());
    archive.extend(start.to_le_bytes());
    archive.extend(0_u16.to_le_bytes());
    Ok(archive)
}

/// Packs files as an ar file, which a Debian package is.
pub(crate) fn ar(entries: &[Entry], time: i64) -> Result<Vec<u8>> {
    let mut archive = b"!<arch>\n".to_vec();
    for Entry { path, mode, content } in entries {
        ensure!(path.len() <= 16, "{path}: too long for an ar file");
        let (size, mode) = (content.len(), 0o100_000 | mode);
        archive
            .extend(format!("{path:<16}{time:<12}{:<6}{:<6}{mode:<8o}{size:<10}`\n", 0, 0).bytes());
        archive.extend_from_slice(content);
        if size % 2 == 1 {
            archive.push(b'\n');
        }
    }
    Ok(archive)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn entries() -> Vec<Entry> {
        vec![
            Entry::directory("a/", 0o755),
            Entry::file("a/program", 0o755, "x".repeat(1_001)),
            Entry::file("a/text", 0o644, "é"),
        ]
    }

    /// The programs that people unpack with give back what was packed.
    #[test]
    fn archives_are_unpacked_by_their_programs() {
        let files = [Entry::file("debian-binary", 0o644, "2.0\n"), Entry::file("b", 0o600, "odd")];
        let tar = tar(&entries(), 1_700_000_000).unwrap();
        for (name, bytes, command) in [
            ("a.tar", tar.clone(), &["tar", "-xf"][..]),
            ("a.tar.gz", gzip(&tar).unwrap(), &["tar", "-xzf"]),
            ("a.zip", zip(&entries()).unwrap(), &["python3", "-m", "zipfile", "-e"]),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            let mut unpack = Command::new(command[0]);
            unpack.args(&command[1..]).arg(&path).current_dir(directory.path());
            if name.ends_with("zip") {
                unpack.arg(".");
            }
            let Ok(status) = unpack.status() else { continue };
            assert!(status.success(), "{name}");
            let text = std::fs::read_to_string(directory.path().join("a/text")).unwrap();
            assert_eq!(text, "é", "{name}");
            let program = std::fs::read(directory.path().join("a/program")).unwrap();
            assert_eq!(program.len(), 1_001, "{name}");
        }
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("a.ar"), ar(&files, 1).unwrap()).unwrap();
        let printed = Command::new("ar").args(["p", "a.ar"]).current_dir(directory.path()).output();
        let Ok(printed) = printed else { return };
        assert_eq!(String::from_utf8(printed.stdout).unwrap(), "2.0\nodd");
    }

    #[test]
    fn names_that_do_not_fit_are_refused() {
        let long = [Entry::file("x".repeat(101), 0o644, "")];
        assert!(tar(&long, 0).is_err() && ar(&long, 0).is_err());
        assert!(tar(&[], -1).is_err());
    }
}
