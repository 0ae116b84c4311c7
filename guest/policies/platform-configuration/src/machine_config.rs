//! Files that machine configs put on nodes.
//!
//! ```text
//! spec.config.storage.files ─▶ contents.source, a data URL ─▶ percent signs, base64 ─▶ PEM?
//! ```
//!
//! A violation names the path of the file. No content leaves this module.

use std::borrow::Cow;
use std::collections::HashMap;

use opgate_compat::go::base64;
use opgate_sdk::go::shorten;
use opgate_sdk::{Document, Report, Review, rule, rules};

use crate::targets::MACHINE_CONFIG;

rules![MSC_08];

const FILES: &str = "/spec/config/storage/files";
const FIELD: &str = "spec.config.storage.files";
/// Maximum bytes. More do not fit into the memory of a call. An API server stores objects of up to
/// 1.5 MiB.
const MAX_FILES_BYTES: u32 = 3 << 20;
const MAX_FILES: u32 = 32_768;
/// Maximum bytes of a path in a message.
const MAX_SHOWN_BYTES: usize = 1_024;

rule! {
    /// a MachineConfig distributes no private keys and certificates
    ///
    /// No file in `spec.config.storage.files` has the PEM text of a private key or a certificate in
    /// its `contents`. The rule reads data URLs, with base64 and with percent signs. It does not
    /// read compressed contents, or contents stored elsewhere. It accepts certificate signing
    /// requests and public keys. The message contains the path of the file and none of its content.
    /// On UPDATE, the rule evaluates only the files whose contents change.
    ///
    /// # Why
    ///
    /// New machines fetch their configuration from the machine config server before they have
    /// credentials. All clients that reach the server can read it (OpenShift 4.12, Operators,
    /// *Machine Config Operator*).
    ///
    /// # Remediation
    ///
    /// Put keys into Secrets. Configure certificates that nodes must trust in the platform, for
    /// example in `spec.trustedCA` of the Proxy `cluster`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// files: [{path: /etc/chrony.conf, contents: {source: "data:,server%20ntp.example.com"}}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// files: [{path: /etc/x.key, contents: {source: "data:,-----BEGIN%20PRIVATE%20KEY-----"}}]
    /// ```
    ///
    /// `message: machine configs should not be used to distribute sensitive information, such as
    /// secrets and certificates: /etc/x.key`
    MSC_08: Warn {
        name: "no-private-keys-in-machine-config",
        on: [MACHINE_CONFIG: Create | Update],
        may_skip: true,
        source: ["OCP 4.12 L25585"],
    }
}

pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(object) = review.subject().filter(|_| report.is_on(&MSC_08)) else { return };
    if !review.touches_json(object, FILES) {
        return;
    }
    let is_much = |document: &Document| {
        document.length(FILES) > Some(MAX_FILES) || document.size(FILES) > Some(MAX_FILES_BYTES)
    };
    let old = review.ratchet_base();
    if is_much(object) || old.is_some_and(is_much) {
        return report.skip(&MSC_08, FIELD, "the files are too large to be evaluated");
    }
    let before = old.map(|old| (old, file_paths(old))).unzip();
    let rows = object.rows(FILES, &["/path", "/contents/compression", "/contents/source"]);
    let mut buffer = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let (path, source) = (row.text_or_empty(0), row.text_or_empty(2));
        let is_same = || {
            let (Some(old), Some(paths)) = (before.0, &before.1) else { return false };
            let contents = |index: usize| format!("{FILES}/{index}/contents");
            let found = paths.get(path);
            found.is_some_and(|known| object.equal(&contents(index), old, &contents(*known)))
        };
        let field = || format!("{FIELD}[{index}].contents.source");
        if !row.text_or_empty(1).is_empty() {
            if !is_same() {
                report.skip_part(&MSC_08, &field(), "compressed contents are not read");
            }
        } else if is_sensitive(source, &mut buffer) && !is_same() {
            let path = shorten(path, MAX_SHOWN_BYTES);
            let message = format!(
                "machine configs should not be used to distribute sensitive information, such as secrets and certificates: {path}"
            );
            report.add(&MSC_08, field(), message);
        }
    }
}

/// The index of each path in the list.
fn file_paths(object: &Document) -> HashMap<String, usize> {
    let rows = object.rows(FILES, &["/path"]);
    let paths = rows.iter().enumerate();
    paths.map(|(index, row)| (row.text_or_empty(0).to_owned(), index)).collect()
}

/// Whether the content of a data URL is sensitive.
fn is_sensitive(source: &str, buffer: &mut Vec<u8>) -> bool {
    let scheme = source.get(..5).filter(|scheme| scheme.eq_ignore_ascii_case("data:"));
    let Some((kind, data)) = scheme.and_then(|_| source.get(5..)?.split_once(',')) else {
        return false;
    };
    let data = unescape(data);
    let is_base64 = kind.rsplit(';').next().is_some_and(|last| last.eq_ignore_ascii_case("base64"));
    if !is_base64 {
        return has_pem(&data);
    }
    let Ok(text) = std::str::from_utf8(&data) else { return false };
    // URLs may use the other alphabet, and may omit the padding. The rule checks the part that can
    // be decoded.
    let text = if text.contains(['-', '_']) {
        Cow::Owned(text.replace('-', "+").replace('_', "/"))
    } else {
        Cow::Borrowed(text)
    };
    buffer.clear();
    let _ = base64::decode(&text, buffer);
    has_pem(buffer)
}

/// The text with its percent signs decoded.
fn unescape(text: &str) -> Cow<'_, [u8]> {
    if !text.contains('%') {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let hex = |byte: &u8| char::from(*byte).to_digit(16).and_then(|d| u8::try_from(d).ok());
        rest = match (first, after) {
            (b'%', [high, low, after @ ..]) if hex(high).is_some() && hex(low).is_some() => {
                bytes.push(hex(high).unwrap_or_default() << 4 | hex(low).unwrap_or_default());
                after
            }
            _ => {
                bytes.push(*first);
                after
            }
        };
    }
    Cow::Owned(bytes)
}

const BEGIN: &[u8] = b"-----BEGIN ";
/// The longest relevant name has 21 letters.
const MAX_LABEL_BYTES: usize = 64;

/// Whether a text has the first line of a private key or a certificate.
fn has_pem(text: &[u8]) -> bool {
    let mut rest = text;
    // The first byte of the line is rare in most contents.
    while let Some(at) = rest.iter().position(|byte| *byte == b'-') {
        rest = rest.get(at..).unwrap_or_default();
        if let Some(after) = rest.strip_prefix(BEGIN) {
            let label = after.get(..MAX_LABEL_BYTES.min(after.len())).unwrap_or_default();
            let end = label.windows(5).position(|five| five == b"-----");
            let label = end.and_then(|end| label.get(..end)).unwrap_or_default();
            let is_certificate = label.ends_with(b"CERTIFICATE");
            if is_certificate
                || label.ends_with(b"PRIVATE KEY")
                || label.ends_with(b"KEY BLOCK") && label.starts_with(b"PGP PRIVATE")
            {
                return true;
            }
            rest = after;
        } else {
            rest = rest.get(1..).unwrap_or_default();
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_of_data_urls_are_read() {
        for (source, expected) in [
            ("data:,-----BEGIN%20PRIVATE%20KEY-----%0A", true),
            ("data:,-----BEGIN RSA PRIVATE\x20KEY-----", true),
            ("DATA:text/plain;charset=utf-8,-----BEGIN%20CERTIFICATE-----", true),
            ("data:,------BEGIN%20CERTIFICATE-----", true),
            ("data:,-----BEGIN%20CERTIFICATE%20REQUEST-----", false),
            ("data:,-----BEGIN%20PUBLIC%20KEY-----", false),
            ("data:,-----BEGIN%20-----BEGIN%20PRIVATE%20KEY-----", true),
            ("data:,-----BEGIN%20PRIVATE%20KEY", false),
            ("data:,%%2-----BEGIN PRIVATE\x20KEY-----%", true),
            ("data:;base64,LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCg==", true),
            ("data:text/plain;charset=utf-8;base64,LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCg", true),
            ("data:;base64,LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCg%3D%3D", true),
            ("data:;base64,c2VydmVyIG50cC5leGFtcGxlLmNvbQo=", false),
            ("data:;base64,%%%", false),
            ("https://example.com/-----BEGIN PRIVATE\x20KEY-----,", false),
            ("data:", false),
            ("", false),
            ("dat\u{e9}:,", false),
        ] {
            assert_eq!(is_sensitive(source, &mut Vec::new()), expected, "{source}");
        }
    }
}
