//! The parts of a body in the format `multipart`, in which browsers send files. The whole body is in memory.

use memchr::memmem;
use thiserror::Error;

/// Maximum number of parts, and bytes of the headers of one.
const MAX_PARTS: usize = 2_100;
const MAX_HEADER_BYTES: usize = 4 << 10;

/// Maximum bytes of a boundary, as RFC 2046 has it.
const MAX_BOUNDARY_BYTES: usize = 70;

/// A part: a field or a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part<'b> {
    pub(super) name: String,
    /// The name of the file, for a file.
    pub(super) file_name: Option<String>,
    pub(super) content: &'b [u8],
}

/// Why a body has no parts.
#[derive(Debug, PartialEq, Eq, Error)]
pub(super) enum MultipartError {
    #[error("the body is not multipart/form-data with a boundary: send the form of the page")]
    NoForm,
    #[error("the form ends before its last boundary: send it again")]
    Incomplete,
    #[error("the form has more than {MAX_PARTS} parts: use `opgate check` for more files")]
    TooMany,
    #[error("part {0} of the form has no valid headers: send the form of the page")]
    Headers(usize),
}

/// Splits a body into its parts.
///
/// # Errors
/// If it is not complete, or has another format.
pub(super) fn parse<'b>(
    content_type: &str,
    body: &'b [u8],
) -> Result<Vec<Part<'b>>, MultipartError> {
    let boundary = boundary(content_type).ok_or(MultipartError::NoForm)?;
    let delimiter = format!("\r\n--{boundary}");
    // The first delimiter has no line break before it.
    let first = delimiter.as_bytes().get(2..).unwrap_or_default();
    let mut rest = body.strip_prefix(first).ok_or(MultipartError::NoForm)?;
    let finder = memmem::Finder::new(delimiter.as_bytes());
    let mut parts = Vec::new();
    while !rest.starts_with(b"--") {
        if parts.len() == MAX_PARTS {
            return Err(MultipartError::TooMany);
        }
        let number = parts.len() + 1;
        let part = rest.strip_prefix(b"\r\n").ok_or(MultipartError::Incomplete)?;
        let (headers, content) = split_once(part, b"\r\n\r\n").ok_or(MultipartError::Incomplete)?;
        let end = finder.find(content).ok_or(MultipartError::Incomplete)?;
        let (content, after) = content.split_at_checked(end).ok_or(MultipartError::Incomplete)?;
        let (name, file_name) = disposition(headers).ok_or(MultipartError::Headers(number))?;
        parts.push(Part { name, file_name, content });
        rest = after.get(delimiter.len()..).unwrap_or_default();
    }
    Ok(parts)
}

fn boundary(content_type: &str) -> Option<&str> {
    let (kind, parameters) = content_type.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let mut parameters = parameters.split(';').filter_map(|one| one.trim().split_once('='));
    let (_, boundary) = parameters.find(|(key, _)| key.eq_ignore_ascii_case("boundary"))?;
    let boundary = boundary.trim_matches('"');
    (1..=MAX_BOUNDARY_BYTES).contains(&boundary.len()).then_some(boundary)
}

/// Returns the name of a part and of its file. Browsers encode quotes in them.
fn disposition(headers: &[u8]) -> Option<(String, Option<String>)> {
    if headers.len() > MAX_HEADER_BYTES {
        return None;
    }
    let text = std::str::from_utf8(headers).ok()?;
    let mut lines = text.split("\r\n").filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(key, _)| key.eq_ignore_ascii_case("content-disposition"))?;
    let quoted = |key: &str| {
        let (_, rest) = value.split_once(&format!("; {key}=\""))?;
        let (text, _) = rest.split_once('"')?;
        Some(text.replace("%22", "\"").replace("%0D", "\r").replace("%0A", "\n"))
    };
    Some((quoted("name")?, quoted("filename")))
}

fn split_once<'b>(bytes: &'b [u8], separator: &[u8]) -> Option<(&'b [u8], &'b [u8])> {
    let (before, rest) = bytes.split_at_checked(memmem::find(bytes, separator)?)?;
    Some((before, rest.get(separator.len()..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: &str = "multipart/form-data; boundary=XX";

    fn part(header: &str, content: &str) -> String {
        format!("--XX\r\nContent-Disposition: form-data; {header}\r\n\r\n{content}\r\n")
    }

    #[test]
    fn parts_have_names_files_and_content() {
        let file = "name=\"files\"; filename=\"bundle/a%22b.yaml\"\r\nContent-Type: text/yaml";
        let body = [part("name=\"text\"", "a: 1\r\n--X\r\n"), part(file, ""), "--XX--\r\n".into()];
        let body = body.concat();
        let text = Part { name: "text".into(), file_name: None, content: b"a: 1\r\n--X\r\n" };
        let file_name = Some("bundle/a\"b.yaml".into());
        let file = Part { name: "files".into(), file_name, content: b"" };
        assert_eq!(parse(TYPE, body.as_bytes()), Ok(vec![text, file]));
        assert_eq!(parse("Multipart/Form-Data; boundary=\"XX\"", b"--XX--"), Ok(vec![]));
    }

    #[test]
    fn bodies_that_are_no_forms_are_errors() {
        let good = part("name=\"a\"", "x");
        let long = part(&format!("name=\"{}\"", "a".repeat(5_000)), "x");
        for (content_type, body, expected) in [
            ("text/plain", &*good, MultipartError::NoForm),
            ("multipart/form-data", &*good, MultipartError::NoForm),
            ("multipart/form-data; boundary=", &*good, MultipartError::NoForm),
            (TYPE, "", MultipartError::NoForm),
            (TYPE, "x", MultipartError::NoForm),
            (TYPE, &*good, MultipartError::Incomplete),
            (TYPE, "--XX\r\n", MultipartError::Incomplete),
            (TYPE, "--XXx", MultipartError::Incomplete),
            (TYPE, &*format!("{}--XX--", part("filename=\"a\"", "x")), MultipartError::Headers(1)),
            (TYPE, &*format!("{good}{long}--XX--"), MultipartError::Headers(2)),
            (TYPE, &*good.repeat(MAX_PARTS + 1), MultipartError::TooMany),
        ] {
            assert_eq!(parse(content_type, body.as_bytes()), Err(expected), "{content_type}");
        }
    }
}
