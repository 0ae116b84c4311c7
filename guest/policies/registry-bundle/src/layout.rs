//! The whole bundle: its directories and its size.
//!
//! Only the host knows the compressed size (`spec.compressedSize`): the size of every file of
//! `manifests/` and `metadata/` after gzip and base64. It is missing if a file is unreadable.

use opgate_sdk::{Report, rule, rules};

use crate::directory::{BUNDLE, BundleDirectory, Content, MANIFESTS, METADATA};

rules![RBF_01, RBF_14, RBF_15];

/// The maximum size of a ConfigMap, into which OLM unpacks a bundle.
const MAX_BUNDLE_BYTES: u64 = 1 << 20;
/// The size of a warning: 85 percent of [`MAX_BUNDLE_BYTES`].
const WARNING_BYTES: u64 = MAX_BUNDLE_BYTES * 85 / 100;

rule! {
    /// a bundle has the directories manifests/ and metadata/
    ///
    /// The top level of the bundle contains the directories `manifests/` and `metadata/`; other
    /// entries are allowed. A link instead of a directory does not count, nor does an unreadable
    /// directory. The rule does not apply to a directory in the legacy format (RBF-28). An UPDATE
    /// is a comparison with a published bundle. This and every other rule RBF evaluate it like a
    /// CREATE: the whole new bundle.
    ///
    /// # Why
    ///
    /// The registry reads the objects from `manifests/`, and the package and the channels from
    /// `metadata/`. Without one of them the bundle cannot be added to the catalog. See OpenShift
    /// 4.12, Operators, *Bundle format* and *Validating Operator bundles*.
    ///
    /// # Remediation
    ///
    /// Run `make bundle`, which generates both directories, or create the missing one. Replace a
    /// link with the directory itself.
    ///
    /// # Accepted
    ///
    /// ```text
    /// manifests/etcdoperator.clusterserviceversion.yaml
    /// metadata/annotations.yaml
    /// ```
    ///
    /// # Rejected
    ///
    /// ```text
    /// manifests/etcdoperator.clusterserviceversion.yaml
    /// ```
    ///
    /// `message: Unable to locate metadata directory`
    ///
    /// For a link, or for an unreadable directory, the reason follows: `message: Unable to locate
    /// manifests directory: a symbolic link to a directory: put the directory itself there`
    RBF_01: Deny {
        name: "bundle-required-directories",
        on: [BUNDLE: Create | Update],
        source: ["OCP 4.12 L317-331, L12105-12122, L19123-19135, L22634-22645, L23638-23660", "OCP 4.15 L274-325, L17241-17400", "OCP 4.5 L225-237", "OKD L25-35", "operator-registry pkg/lib/bundle/validate.go"],
    }
}

pub(crate) fn check_directories(directory: &BundleDirectory<'_>, report: &mut Report<'_>) {
    for name in [MANIFESTS, METADATA] {
        if directory.has_directory(name) {
            continue;
        }
        let message = format!("Unable to locate {name} directory");
        // A link, or an unreadable directory.
        match directory.file(name).map(|file| (file, &file.content)) {
            Some((file, Content::Invalid(why))) => {
                report.add(&RBF_01, file.error_field(), format!("{message}: {why}"));
            }
            _ => report.add(&RBF_01, "spec.directories", message),
        }
    }
}

rule! {
    /// a compressed bundle is no larger than 1 MiB
    ///
    /// The files directly in `manifests/` and `metadata/`, each compressed with gzip and encoded in
    /// base64, have a total size of at most 1 MiB (1,048,576 bytes). For a bundle that is far too
    /// large, the message has a lower bound, such as `size=~more than 8.4 MB`. If the compressed
    /// size is not known because one of the files is unreadable, and the files have more than
    /// 668,466 bytes uncompressed, the rule is skipped. Smaller bundles fit even without
    /// compression.
    ///
    /// # Why
    ///
    /// OLM unpacks the bundle into a ConfigMap, which has a maximum size of 1 MiB. A larger bundle
    /// cannot be unpacked, and the Operator is not installed. The validators of
    /// operator-framework/api have the same limit.
    ///
    /// # Remediation
    ///
    /// Make the files smaller: shorten descriptions in CRDs, use a smaller icon, or remove versions
    /// of CRDs that are no longer served. Remove files that do not belong to the bundle.
    ///
    /// # Accepted
    ///
    /// A bundle that compresses to 400,000 bytes.
    ///
    /// # Rejected
    ///
    /// A bundle that compresses to 1,200,000 bytes.
    ///
    /// `message: maximum bundle compressed size with gzip size exceeded: size=~1.2 MB , max=1.0 MB.
    /// Bundle uncompressed size is 5.0 MB`
    RBF_14: Deny {
        name: "bundle-size-limit",
        on: [BUNDLE: Create | Update],
        may_skip: true,
        source: ["api pkg/validation/internal/bundle.go"],
    }
}

rule! {
    /// a compressed bundle stays below 85 percent of the limit
    ///
    /// The compressed size of the bundle, calculated as in RBF-14, is at most 85 percent of the
    /// limit: 891,289 bytes. Above the limit only RBF-14 applies. If RBF-14 is skipped, so is this
    /// rule.
    ///
    /// # Why
    ///
    /// The next version of a bundle near the limit can exceed it, and then OLM cannot unpack the
    /// bundle. Other implementations of gzip also produce sizes that differ by some percent. The
    /// validators of operator-framework/api warn at the same size.
    ///
    /// # Remediation
    ///
    /// Reduce the size before the next version, see RBF-14.
    ///
    /// # Accepted
    ///
    /// A bundle that compresses to 400,000 bytes.
    ///
    /// # Rejected
    ///
    /// A bundle that compresses to 950,000 bytes.
    ///
    /// `message: nearing maximum bundle compressed size with gzip: size=~950.0 kB , max=1.0 MB.
    /// Bundle uncompressed size is 5.0 MB`
    RBF_15: Warn {
        name: "bundle-size-near-limit",
        on: [BUNDLE: Create | Update],
        may_skip: true,
        source: ["api pkg/validation/internal/bundle.go"],
    }
}

/// If the compressed size is not known, a bundle still fits if it fits without compression: base64
/// encodes three bytes as four. For a larger bundle the result is unknown.
pub(crate) fn check_size(directory: &BundleDirectory<'_>, report: &mut Report<'_>) {
    let whole = directory.size();
    let Some((compressed, is_more)) = directory.compressed_size() else {
        if whole > WARNING_BYTES / 4 * 3 {
            let why = "the compressed size of the bundle is not known";
            report.skip(&RBF_14, "", why);
            report.skip(&RBF_15, "", why);
        }
        return;
    };
    let sizes = format!(
        "size=~{}{} , max={}. Bundle uncompressed size is {}",
        if is_more { "more than " } else { "" },
        format_bytes(compressed),
        format_bytes(MAX_BUNDLE_BYTES),
        format_bytes(whole)
    );
    if compressed > MAX_BUNDLE_BYTES {
        let message = format!("maximum bundle compressed size with gzip size exceeded: {sizes}");
        report.add(&RBF_14, "spec.compressedSize", message);
    } else if compressed > WARNING_BYTES {
        let message = format!("nearing maximum bundle compressed size with gzip: {sizes}");
        report.add(&RBF_15, "spec.compressedSize", message);
    }
}

/// `formatBytesInUnit` of the api validators: decimal units with one digit, `1.0 MB`.
fn format_bytes(count: u64) -> String {
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
    // Rounded with integers, to a tenth of a unit.
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
            (MAX_BUNDLE_BYTES, "1.0 MB"),
            (1_200_000, "1.2 MB"),
            (u64::MAX, "18.4 EB"),
        ] {
            assert_eq!(format_bytes(count), text);
        }
        assert_eq!(WARNING_BYTES, 891_289);
    }
}
