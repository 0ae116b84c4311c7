//! Addresses of files: `file:///a%20b` and `/a b`.

use std::path::{Path, PathBuf};

use opgate_platform::files;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Everything except the characters that editors do not escape in paths.
const ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b'.').remove(b'-').remove(b'_').remove(b'~');

/// Returns the path of an address; none if it is not that of a local file.
#[must_use]
pub fn to_path(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("file://")?;
    let path = rest.strip_prefix("localhost").filter(|rest| rest.starts_with('/')).unwrap_or(rest);
    let decoded = percent_decode_str(path).decode_utf8().ok()?;
    let is_path = decoded.starts_with('/') && !decoded.contains('\0');
    is_path.then(|| files::from_address(&decoded))
}

/// Returns the address of a path.
#[must_use]
pub fn of_path(path: &Path) -> String {
    format!("file://{}", utf8_percent_encode(&files::to_address(path), ESCAPED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_paths() {
        for (uri, path) in [
            ("file:///a/b.yaml", Some("/a/b.yaml")),
            ("file:///a%20b/%C3%A4.yaml", Some("/a b/ä.yaml")),
            ("file://localhost/a", Some("/a")),
            ("file://host/a", None),
            ("untitled:Untitled-1", None),
            ("file:///a%00", None),
            ("file:///%ff", None),
        ] {
            assert_eq!(to_path(uri).as_deref(), path.map(Path::new), "{uri}");
        }
        assert_eq!(of_path(Path::new("/a b/ä#.yaml")), "file:///a%20b/%C3%A4%23.yaml");
    }
}
