//! The size of a bundle as OLM unpacks it. Each file of `manifests/` and `metadata/` becomes one value of
//! a ConfigMap, compressed with gzip and written in base64; what counts is the sum.
//!
//! ```text
//! files ─▶ deflate, block by block ─▶ length in base64 ─▶ sum
//! ```
//!
//! Deflate may be done well or badly: other writers come to sizes that differ by some percent.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use miniz_oxide::deflate::core::{
    CompressorOxide, TDEFLFlush, TDEFLStatus, compress_to_output, create_comp_flags_from_zip_params,
};

use super::folder::Entry;
use super::parallel;

/// Largest file that is compressed.
const MAX_FILE: u64 = 1 << 30;
/// Deflate makes at best one byte out of so many. What is larger than [`MAX_FILE`] is above the limit of
/// 1 MiB even so.
const BEST: u64 = 1_032;
/// Bytes of a file that are in memory at a time.
const BLOCK: usize = 64 << 10;
/// What gzip adds: a header of 10 bytes, a checksum and a length of 4 each.
const AROUND: u64 = 18;
/// The level that gzip has unless it is told otherwise.
const LEVEL: i32 = 6;
/// No header of zlib.
const RAW: i32 = -15;
const DEFAULT_STRATEGY: i32 = 0;

/// The size of a bundle, compressed; none where a file of it cannot be read.
pub(super) fn size(files: &[Entry]) -> Option<u64> {
    let counts = |entry: &&Entry| {
        let folder = entry.path.rsplit_once('/').map(|(folder, _)| folder);
        matches!(folder, Some("manifests" | "metadata"))
    };
    let files: Vec<_> = files.iter().filter(counts).collect();
    let sizes = parallel::map(&files, |entry| of_file(&entry.full));
    let sum = |sum: u64, size: io::Result<u64>| size.map(|size| sum.saturating_add(size));
    sizes.into_iter().try_fold(0, sum).ok()
}

fn of_file(path: &Path) -> io::Result<u64> {
    let size = fs::metadata(path)?.len();
    let deflated = if size > MAX_FILE { size / BEST } else { deflated(fs::File::open(path)?)? };
    Ok(deflated.saturating_add(AROUND).div_ceil(3).saturating_mul(4))
}

/// Bytes that deflate makes of a file.
fn deflated(file: fs::File) -> io::Result<u64> {
    // A file that grows meanwhile ends here.
    let mut file = file.take(MAX_FILE);
    let flags = create_comp_flags_from_zip_params(LEVEL, RAW, DEFAULT_STRATEGY);
    let mut compressor = CompressorOxide::new(flags);
    let mut block = vec![0; BLOCK];
    let mut count = 0u64;
    loop {
        let read = match file.read(&mut block) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        let bytes = block.get(..read).unwrap_or_default();
        let flush = if read == 0 { TDEFLFlush::Finish } else { TDEFLFlush::None };
        let (status, _) = compress_to_output(&mut compressor, bytes, flush, |made| {
            count = count.saturating_add(u64::try_from(made.len()).unwrap_or(u64::MAX));
            true
        });
        match status {
            TDEFLStatus::Done => return Ok(count),
            TDEFLStatus::Okay if read > 0 => {}
            _ => return Err(io::Error::other("cannot be compressed")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::folder;
    use super::super::testing::Temporary;
    use super::*;

    /// Bytes without any order in them.
    fn noise(count: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let next = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state.to_be_bytes()[0]
        };
        (0..count).map(next).collect()
    }

    fn size(files: &[(&str, &[u8])]) -> u64 {
        let folder = Temporary::empty();
        for (name, content) in files {
            folder.write(name, content);
        }
        super::size(&folder::walk(folder.path()).unwrap().files).unwrap()
    }

    #[test]
    fn every_file_that_olm_unpacks_is_compressed_by_itself() {
        // What gzip makes of nothing has 20 bytes, and is 28 in base64.
        assert_eq!(size(&[("manifests/a", b"")]), 28);
        assert_eq!(size(&[("manifests/a", b""), ("metadata/b", b"")]), 56);
        assert_eq!(size(&[("Dockerfile", b"FROM scratch"), ("manifests/x/y", b"a: 1")]), 0);
        let blocks = vec![b'a'; 3 * BLOCK + 1];
        assert!(size(&[("manifests/a", &blocks)]) < 1_000);
        // What has no order in it becomes larger by a third.
        let noise = noise(3 * BLOCK);
        let compressed = size(&[("metadata/n", &noise)]);
        let plain = u64::try_from(noise.len()).unwrap();
        assert!((plain * 4 / 3..plain * 4 / 3 + 1_000).contains(&compressed), "{compressed}");
    }

    #[test]
    fn files_that_are_too_large_to_compress_are_above_every_limit() {
        let folder = Temporary::new(&[("manifests/a", "")]);
        let path = folder.path().join("manifests/a");
        fs::File::options().write(true).open(&path).unwrap().set_len(MAX_FILE + 1).unwrap();
        let size = super::size(&folder::walk(folder.path()).unwrap().files);
        assert!(size.is_some_and(|size| size > 1 << 20), "{size:?}");
        let gone = Entry { path: "manifests/b".to_owned(), full: folder.path().join("gone") };
        assert_eq!(super::size(&[gone]), None);
    }
}
