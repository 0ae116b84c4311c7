//! The folder as a whole: its directories (RBF-01) and its size (RBF-14, RBF-15).

use crate::findings::Findings;
use crate::folder::{Content, Folder};
use crate::manifests;

pub(crate) const METADATA: &str = "metadata";

/// So much fits into one ConfigMap, into which OLM unpacks a bundle.
const LIMIT: u64 = 1 << 20;
/// 85 percent of it.
const NEAR: u64 = LIMIT * 85 / 100;

/// RBF-01.
pub(crate) fn directories(folder: &Folder<'_>, findings: &mut Findings<'_>) {
    for directory in [manifests::DIRECTORY, METADATA] {
        if folder.has_directory(directory) {
            continue;
        }
        let message = format!("Unable to locate {directory} directory");
        // A link, or a folder that may not be read.
        match folder.file(directory).map(|file| (file, &file.content)) {
            Some((file, Content::Failed(why))) => {
                findings.deny("RBF-01", file.error_field(), format!("{message}: {why}"));
            }
            _ => findings.deny("RBF-01", "spec.directories", message),
        }
    }
}

/// RBF-14 and RBF-15. Where the compressed size is not known, files are small enough that are so even
/// if nothing in them can be compressed: base64 makes four bytes of three. Beyond that only whoever has
/// the files can tell.
pub(crate) fn size(folder: &Folder<'_>, findings: &mut Findings<'_>) {
    let whole = folder.size();
    let Some((compressed, is_more)) = folder.compressed_size() else {
        if whole > NEAR / 4 * 3 {
            let why = "the compressed size of the bundle is not known";
            findings.left_out("RBF-14", why);
            findings.left_out("RBF-15", why);
        }
        return;
    };
    let sizes = format!(
        "size=~{}{} , max={}. Bundle uncompressed size is {}",
        if is_more { "more than " } else { "" },
        bytes(compressed),
        bytes(LIMIT),
        bytes(whole)
    );
    if compressed > LIMIT {
        let message = format!("maximum bundle compressed size with gzip size exceeded: {sizes}");
        findings.deny("RBF-14", "spec.compressedSize", message);
    } else if compressed > NEAR {
        let message = format!("nearing maximum bundle compressed size with gzip: {sizes}");
        findings.warn("RBF-15", "spec.compressedSize", message);
    }
}

/// `formatBytesInUnit` of the api validators: decimal units with one digit, `1.0 MB`.
fn bytes(count: u64) -> String {
    let mut unit: u64 = 1;
    let mut letter = "";
    for next in ["k", "M", "G", "T", "P", "E"] {
        if count / unit < 1000 {
            break;
        }
        unit *= 1000;
        letter = next;
    }
    if letter.is_empty() {
        return format!("{count} B");
    }
    // Rounded in whole numbers: a tenth of a unit is what is printed.
    let tenth = unit / 10;
    let tenths = count / tenth + u64::from(count % tenth >= tenth / 2);
    format!("{}.{} {letter}B", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_as_upstream() {
        for (count, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.0 kB"),
            (1_500, "1.5 kB"),
            (999_999, "1000.0 kB"),
            (LIMIT, "1.0 MB"),
            (1_200_000, "1.2 MB"),
            (u64::MAX, "18.4 EB"),
        ] {
            assert_eq!(bytes(count), text);
        }
        assert_eq!(NEAR, 891_289);
    }
}
