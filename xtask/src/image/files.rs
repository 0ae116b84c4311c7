//! Files of the image, and the layer with them: a tar file (ustar) and its gzip.

use anyhow::Result;

use super::digest;
use crate::archive::{self, Entry};

/// User and group: the ones that images without a distribution usually use for an unprivileged user.
pub(super) const USER: &str = "65532:65532";
/// Path at which scanners find the SBOM by its name.
pub(super) const SBOM_PATH: &str = "usr/share/doc/opgate/opgate.cdx.json";
/// Next to it.
const NOTICES_PATH: &str = "usr/share/doc/opgate/THIRD-PARTY-NOTICES.txt";
/// Path at which programs search for CA certificates, on Debian and its derivatives.
const CA_CERTIFICATES_PATH: &str = "etc/ssl/certs/ca-certificates.crt";

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
pub(super) fn files(binary: &[u8], sbom: &[u8], licence: &[u8], notices: &[u8]) -> Vec<File> {
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
    file(NOTICES_PATH, 0o644, notices);
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
    let entry = |file: &File| Entry::file(file.path, file.mode, file.content.as_slice());
    let entries: Vec<Entry> = files.iter().map(entry).collect();
    let tar = archive::tar(&entries, time)?;
    Ok(Layer { diff_id: digest(&tar), bytes: archive::gzip(&tar)? })
}
