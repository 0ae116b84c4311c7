//! Files of the image, and the layer with them: a tar file (ustar) and its gzip.

use anyhow::{Context as _, Result, ensure};
use miniz_oxide::deflate::compress_to_vec;

use super::digest;

/// User and group: the ones that images without a distribution usually use for an unprivileged user.
pub(super) const USER: &str = "65532:65532";
/// Path at which scanners find the SBOM by its name.
pub(super) const SBOM_PATH: &str = "usr/share/doc/opgate/opgate.cdx.json";
/// Path at which programs search for CA certificates, on Debian and its derivatives.
const CA_CERTIFICATES_PATH: &str = "etc/ssl/certs/ca-certificates.crt";
/// Compression level. Level 10 triples the time and saves 0.3 %.
const COMPRESSION_LEVEL: u8 = 9;

const PASSWD: &str = "\
root:x:0:0:root:/root:/sbin/nologin
nonroot:x:65532:65532:nonroot:/nonexistent:/sbin/nologin
";
const GROUP: &str = "\
root:x:0:
nonroot:x:65532:
";
/// Both are part of the binary: nothing is loaded for them.
const NSSWITCH: &str = "\
passwd: files
group: files
hosts: files dns
";

/// A file or a directory of the image.
#[derive(Debug)]
pub(super) struct File {
    /// Without a slash at the start; with one at the end for a directory.
    path: &'static str,
    mode: u32,
    content: Vec<u8>,
}

/// Returns all files and directories, sorted by path.
pub(super) fn files(binary: &[u8], sbom: &[u8], licence: &[u8]) -> Vec<File> {
    let directories = [
        ("etc/", 0o755),
        ("etc/ssl/", 0o755),
        ("etc/ssl/certs/", 0o755),
        ("tmp/", 0o1777),
        ("usr/", 0o755),
        ("usr/share/", 0o755),
        ("usr/share/doc/", 0o755),
        ("usr/share/doc/opgate/", 0o755),
    ];
    let mut files: Vec<File> = directories
        .into_iter()
        .map(|(path, mode)| File { path, mode, content: Vec::new() })
        .collect();
    let mut file = |path, mode, content: &[u8]| {
        files.push(File { path, mode, content: content.to_vec() });
    };
    file("etc/group", 0o644, GROUP.as_bytes());
    file("etc/nsswitch.conf", 0o644, NSSWITCH.as_bytes());
    file("etc/passwd", 0o644, PASSWD.as_bytes());
    file(CA_CERTIFICATES_PATH, 0o644, ca_certificates().as_bytes());
    file("opgate", 0o755, binary);
    file("usr/share/doc/opgate/LICENSE", 0o644, licence);
    file(SBOM_PATH, 0o644, sbom);
    files.sort_by_key(|file| file.path);
    files
}

/// Returns the certificates that Mozilla trusts for servers, as `Cargo.lock` pins them. Those of this machine
/// would not be reproducible.
fn ca_certificates() -> String {
    let pem = |certificate: &[u8]| pem::encode(&pem::Pem::new("CERTIFICATE", certificate));
    webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().map(|root| pem(root)).collect()
}

/// A layer.
#[derive(Debug)]
pub(super) struct Layer {
    /// Digest of the tar file.
    pub(super) diff_id: String,
    /// Compressed.
    pub(super) bytes: Vec<u8>,
}

/// Packs files; `time` in seconds is that of all of them.
pub(super) fn layer(files: &[File], time: i64) -> Result<Layer> {
    let time = u64::try_from(time).context("a time before 1970")?;
    let mut tar = Vec::new();
    for file in files {
        tar.extend_from_slice(&header(file, time)?);
        tar.extend_from_slice(&file.content);
        tar.resize(tar.len().next_multiple_of(TAR_BLOCK_BYTES), 0);
    }
    // Two blocks of zeros end it.
    tar.resize(tar.len().saturating_add(2 * TAR_BLOCK_BYTES), 0);
    Ok(Layer { diff_id: digest(&tar), bytes: gzip(&tar)? })
}

const TAR_BLOCK_BYTES: usize = 512;

/// Returns a header of ustar: names and numbers in octal, each in its field.
fn header(file: &File, time: u64) -> Result<Vec<u8>> {
    let kind = if file.path.ends_with('/') { "5" } else { "0" };
    let octal = |number: u64, digits: usize| {
        let text = format!("{number:0digits$o}");
        ensure!(text.len() == digits, "{}: {number} does not fit into a tar file", file.path);
        Ok(text)
    };
    let fields = |sum: &str| -> Result<Vec<u8>> {
        let fields: [(usize, &str); 10] = [
            (100, file.path),
            (8, &octal(u64::from(file.mode), 7)?),
            (8, &octal(0, 7)?),
            (8, &octal(0, 7)?),
            (12, &octal(u64::try_from(file.content.len())?, 11)?),
            (12, &octal(time, 11)?),
            (8, sum),
            (1, kind),
            (100, ""),
            (8, "ustar\u{0}00"),
        ];
        let mut header = Vec::with_capacity(TAR_BLOCK_BYTES);
        for (width, text) in fields {
            ensure!(text.len() <= width, "{}: too long for a tar file", file.path);
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

/// One member, without a name and a time.
fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    // Method: deflate; no flags; no time; slowest; made on Unix.
    let mut zipped = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 3];
    zipped.extend(compress_to_vec(bytes, COMPRESSION_LEVEL));
    zipped.extend(crc32fast::hash(bytes).to_le_bytes());
    zipped.extend(u32::try_from(bytes.len())?.to_le_bytes());
    Ok(zipped)
}
