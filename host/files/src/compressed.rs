//! The size of a bundle as OLM unpacks it. Each file of `manifests/` and `metadata/` becomes one
//! value of a ConfigMap, compressed with gzip and encoded in base64. The sum counts.
//!
//! ```text
//! files ─▶ lengths ─┬▶ fit as they are, so that their size does not matter: not compressed
//!                   ├▶ above the limit however well they compress: that is the answer
//!                   ├▶ fit after LZ4 and an entropy code, which is less than deflate does: that is the answer
//!                   └▶ deflate, block by block ─▶ base64 ─▶ sum
//! ```
//!
//! Most published bundles fit as they are, and most others after LZ4, which takes less time than deflate.
//! A bundle that is far too large is not compressed to its end, because the result is known before.
//! The quality of deflate varies: the sizes of other programs differ by some percent.

use std::io::{self, Read as _};
use std::sync::atomic::{AtomicU64, Ordering};

use miniz_oxide::deflate::core::{
    CompressorOxide, TDEFLFlush, TDEFLStatus, compress_to_output, create_comp_flags_from_zip_params,
};

use super::directory::{DirectoryListing, Entry};
use super::parallel;
use opgate_input::read::OpenFile;

/// Maximum size of a ConfigMap.
const MAX_CONFIG_MAP_BYTES: u64 = 1 << 20;
/// The size of a bundle that is too large is of interest up to here.
const MAX_MEASURED_BYTES: u64 = 8 * MAX_CONFIG_MAP_BYTES;
/// Deflate makes at best one byte of this many. So no more than 774 MiB are ever compressed.
const MAX_DEFLATE_RATIO: u64 = 1_032;
/// Bytes of a file that are in memory at a time.
const BLOCK_BYTES: usize = 64 << 10;
/// The addition of gzip: a header of 10 bytes, a checksum and a length of 4 each.
const GZIP_OVERHEAD_BYTES: u64 = 18;
/// Up to this size no rule reports it: 85 percent of the limit.
const MAX_UNREPORTED_BYTES: u64 = MAX_CONFIG_MAP_BYTES * 85 / 100;
/// The default level of gzip.
const GZIP_LEVEL: i32 = 6;
/// Bytes of a file that LZ4 compresses at a time.
const LZ4_BLOCK_BYTES: usize = 1 << 20;
/// Without the header of zlib.
const RAW_WINDOW_BITS: i32 = -15;
const DEFAULT_STRATEGY: i32 = 0;

/// The size of a bundle, compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CompressedSize {
    /// In bytes; up to [`MAX_UNREPORTED_BYTES`] it can be less.
    Exact(u64),
    /// More than this many bytes. The exact size is not worth the time.
    MoreThan(u64),
}

/// Returns the size of a compressed bundle; none if one of its files is unreadable, or if it fits without
/// compression.
pub(super) fn compressed_size(directory: &DirectoryListing) -> Option<CompressedSize> {
    let counts = |entry: &&Entry| {
        let directory = entry.path.rsplit_once('/').map(|(directory, _)| directory);
        matches!(directory, Some("manifests" | "metadata"))
    };
    let files: Vec<_> = directory.files.iter().filter(counts).collect();
    if files.iter().any(|entry| entry.rejection.is_some()) {
        return None;
    }
    let length = |entry: &&Entry| Ok(entry.file_path(directory).open()?.size);
    let lengths = files.iter().map(length);
    let lengths: Vec<u64> = lengths.collect::<io::Result<_>>().ok()?;
    let least = sum(lengths.iter().map(|length| base64_size(length / MAX_DEFLATE_RATIO)));
    if least > MAX_CONFIG_MAP_BYTES {
        return Some(CompressedSize::MoreThan(least));
    }
    if sum(lengths.iter().map(|length| base64_size(*length))) <= MAX_UNREPORTED_BYTES {
        return None;
    }
    let files: Vec<_> = files.into_iter().zip(lengths).collect();
    let bound = lz4_size(directory, &files).ok()?;
    if bound <= MAX_UNREPORTED_BYTES {
        return Some(CompressedSize::Exact(bound));
    }
    let total_bytes = AtomicU64::new(0);
    let sizes = parallel::map(&files, |(entry, length)| {
        entry
            .file_path(directory)
            .open()
            .and_then(|opened| deflated_size(opened, *length, &total_bytes))
    });
    let sizes: Vec<Option<u64>> = sizes.into_iter().collect::<io::Result<_>>().ok()?;
    let all = sizes.into_iter().collect::<Option<Vec<_>>>();
    let all = all.map(|sizes| sum(sizes.into_iter().map(base64_size)));
    // The other files determine whether a file was completed. The answer is the same.
    Some(
        all.filter(|size| *size <= MAX_MEASURED_BYTES)
            .map_or(CompressedSize::MoreThan(MAX_MEASURED_BYTES), CompressedSize::Exact),
    )
}

fn sum(sizes: impl Iterator<Item = u64>) -> u64 {
    sizes.fold(0, u64::saturating_add)
}

/// Returns the size of deflated data as a value of a ConfigMap.
fn base64_size(deflated: u64) -> u64 {
    deflated.saturating_add(GZIP_OVERHEAD_BYTES).div_ceil(3).saturating_mul(4)
}

/// Returns the size of the files after LZ4 and an entropy code of its bytes: deflate finds longer matches,
/// and codes them as well. Above [`MAX_UNREPORTED_BYTES`], the rest is skipped.
fn lz4_size(directory: &DirectoryListing, files: &[(&Entry, u64)]) -> io::Result<u64> {
    let mut all = 0_u64;
    for (entry, length) in files {
        let mut file = entry.file_path(directory).open()?.file.take(*length);
        let mut size = 0_u64;
        loop {
            let mut block = Vec::new();
            file.by_ref()
                .take(u64::try_from(LZ4_BLOCK_BYTES).unwrap_or(u64::MAX))
                .read_to_end(&mut block)?;
            if block.is_empty() {
                break;
            }
            size = size.saturating_add(coded_size(&lz4_flex::block::compress(&block)));
            if all.saturating_add(base64_size(size)) > MAX_UNREPORTED_BYTES {
                return Ok(u64::MAX);
            }
        }
        all = all.saturating_add(base64_size(size));
    }
    Ok(all)
}

/// Bytes of the code tables of a block.
const CODE_TABLE_BYTES: u64 = 256;

/// Returns the size of bytes in a code by their frequency, with its tables: their entropy.
fn coded_size(bytes: &[u8]) -> u64 {
    let mut counts = [0_u32; 256];
    for byte in bytes {
        if let Some(count) = counts.get_mut(usize::from(*byte)) {
            *count = count.saturating_add(1);
        }
    }
    let all: f64 = counts.iter().map(|count| f64::from(*count)).sum();
    let bits = |count: &u32| f64::from(*count) * (all / f64::from(*count)).log2();
    let bits: f64 = counts.iter().filter(|count| **count > 0).map(bits).sum();
    #[expect(
        clippy::as_conversions,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at most eight bits for each byte of a block"
    )]
    let size = (bits / 8.0).ceil() as u64;
    size.saturating_add(CODE_TABLE_BYTES)
}

/// Returns bytes of a deflated file; none once they are enough together with `made`, the bytes of all files
/// so far.
fn deflated_size(
    opened: OpenFile,
    length: u64,
    total_bytes: &AtomicU64,
) -> io::Result<Option<u64>> {
    // If a file grows while it is read, its original size counts.
    let mut file = opened.file.take(length);
    let flags = create_comp_flags_from_zip_params(GZIP_LEVEL, RAW_WINDOW_BITS, DEFAULT_STRATEGY);
    let mut compressor = CompressorOxide::new(flags);
    let mut block = vec![0; BLOCK_BYTES];
    let mut count = 0u64;
    while total_bytes.load(Ordering::Relaxed) <= MAX_MEASURED_BYTES / 4 * 3 {
        let read = match file.read(&mut block) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        let bytes = block.get(..read).unwrap_or_default();
        let flush = if read == 0 { TDEFLFlush::Finish } else { TDEFLFlush::None };
        let (status, _) = compress_to_output(&mut compressor, bytes, flush, |part| {
            let part = u64::try_from(part.len()).unwrap_or(u64::MAX);
            count = count.saturating_add(part);
            total_bytes.fetch_add(part, Ordering::Relaxed);
            true
        });
        match status {
            TDEFLStatus::Done => return Ok(Some(count)),
            TDEFLStatus::Okay if read > 0 => {}
            _ => return Err(io::Error::other("cannot be compressed")),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory;
    use crate::testing::TempDirectory;

    /// Returns random bytes.
    fn random_bytes(count: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let next = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state.to_be_bytes()[0]
        };
        (0..count).map(next).collect()
    }

    fn size(files: &[(&str, &[u8])]) -> Option<CompressedSize> {
        let directory = TempDirectory::empty();
        for (name, content) in files {
            directory.write(name, content);
        }
        compressed_size(&directory::walk(directory.path()).unwrap())
    }

    fn exact_bytes(files: &[(&str, &[u8])]) -> u64 {
        match size(files) {
            Some(CompressedSize::Exact(size)) => size,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_file_olm_unpacks_is_compressed_separately() {
        let blocks = vec![b'a'; 16 * BLOCK_BYTES + 1];
        let one = exact_bytes(&[("manifests/a", &blocks)]);
        assert!(one < 10_000, "{one}");
        assert_eq!(exact_bytes(&[("manifests/a", &blocks), ("metadata/b", &blocks)]), 2 * one);
        // An empty file has 18 bytes around it, and 24 in base64.
        assert_eq!(exact_bytes(&[("manifests/a", &blocks), ("metadata/b", b"")]), one + 24);
        let others: [(&str, &[u8]); 2] = [("Dockerfile", &blocks), ("manifests/x/y", &blocks)];
        assert_eq!(exact_bytes(&[("manifests/a", &blocks), others[0], others[1]]), one);
        // Random content grows by a third.
        let noise = random_bytes(14 * BLOCK_BYTES);
        let compressed = exact_bytes(&[("metadata/n", &noise)]);
        let plain = u64::try_from(noise.len()).unwrap();
        assert!((plain * 4 / 3..plain * 4 / 3 + 1_000).contains(&compressed), "{compressed}");
    }

    #[test]
    fn small_bundle_is_not_compressed() {
        let fits = random_bytes(668_400);
        assert_eq!(size(&[("manifests/a", &fits)]), None);
        assert_eq!(size(&[("manifests/a", &fits), ("manifests/x/y", &fits), ("b", &fits)]), None);
        assert!(
            size(&[("manifests/a", &fits), ("metadata/b", b"0123456789012345678901234567890")])
                .is_some()
        );
    }

    #[test]
    fn oversized_bundle_stops_compression_early() {
        // Seven million bytes are nine in base64, in one file or in several.
        let noise = random_bytes(7_000_000);
        assert_eq!(
            size(&[("manifests/a", &noise)]),
            Some(CompressedSize::MoreThan(MAX_MEASURED_BYTES))
        );
        let names = ["manifests/a", "manifests/b", "metadata/c", "metadata/d", "metadata/e"];
        let parts: Vec<_> = names.into_iter().zip(noise.chunks(noise.len() / 5)).collect();
        assert_eq!(size(&parts), Some(CompressedSize::MoreThan(MAX_MEASURED_BYTES)));
        // A hole of 2 GiB: at best that is 2.8 MB, and no compression is necessary.
        let directory = TempDirectory::new(&[("manifests/a", "")]);
        let path = directory.path().join("manifests/a");
        std::fs::File::options().write(true).open(&path).unwrap().set_len(2 << 30).unwrap();
        let size = compressed_size(&directory::walk(directory.path()).unwrap());
        assert_eq!(size, Some(CompressedSize::MoreThan(2_774_552)));
    }

    #[test]
    fn unreadable_bundle_has_no_size() {
        let directory = TempDirectory::empty();
        directory.write("manifests/a", random_bytes(1 << 20));
        directory.write("manifests/gone", "");
        let walked = directory::walk(directory.path()).unwrap();
        std::fs::remove_file(directory.path().join("manifests/gone")).unwrap();
        assert_eq!(compressed_size(&walked), None);
        std::os::unix::fs::symlink("..", directory.path().join("manifests/link")).unwrap();
        assert_eq!(compressed_size(&directory::walk(directory.path()).unwrap()), None);
    }
}
