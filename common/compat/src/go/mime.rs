//! Encoded words of RFC 2047 as Go's `mime` reads them.

use super::{base64, folds_to, quote};

/// The reason why an encoded word cannot be decoded, in Go's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct CharsetError(String);

/// Decodes a word: `Jörg` for `=?utf-8?q?J=C3=B6rg?=`. None for a word that is not encoded, or not
/// completely.
///
/// # Errors
/// Fails with Go's text for an unknown character set.
pub(super) fn decode(word: &str) -> Result<Option<String>, CharsetError> {
    let Some((charset, bytes)) = parts(word) else { return Ok(None) };
    let is = |name| folds_to(charset, name);
    if is("utf-8") {
        return Ok(Some(String::from_utf8_lossy(&bytes).into_owned()));
    }
    if is("iso-8859-1") {
        return Ok(Some(bytes.into_iter().map(char::from).collect()));
    }
    if is("us-ascii") {
        let replaced = char::REPLACEMENT_CHARACTER;
        let ascii = |byte: u8| if byte.is_ascii() { byte.into() } else { replaced };
        return Ok(Some(bytes.into_iter().map(ascii).collect()));
    }
    Err(CharsetError(format!("charset not supported: {}", quote(&charset.to_lowercase()))))
}

/// Returns the character set, and the bytes of the text.
fn parts(word: &str) -> Option<(&str, Vec<u8>)> {
    let inner = word.strip_prefix("=?")?.strip_suffix("?=")?;
    if word.len() < 8 || word.matches('?').count() != 4 {
        return None;
    }
    let (charset, rest) = inner.split_once('?').filter(|(charset, _)| !charset.is_empty())?;
    let (encoding, text) = rest.split_once('?')?;
    let mut bytes = Vec::with_capacity(text.len());
    match encoding {
        "B" | "b" => base64::decode(text, &mut bytes).ok()?,
        "Q" | "q" => unquote(text, &mut bytes)?,
        _ => return None,
    }
    Some((charset, bytes))
}

/// Returns the encoding Q.
fn unquote(text: &str, into: &mut Vec<u8>) -> Option<()> {
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        into.push(match byte {
            b'_' => b' ',
            b'=' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                u8::try_from(digit()? << 4 | digit()?).ok()?
            }
            b' '..=b'~' | b'\n' | b'\r' | b'\t' => byte,
            _ => return None,
        });
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_decoded_like_go() {
        for (word, expected) in [
            ("=?utf-8?q?J=C3=B6rg_D?=", Some("Jörg D")),
            ("=?UTF-8?B?SsO2cmc=?=", Some("Jörg")),
            ("=?iso-8859-1?Q?J=f6rg?=", Some("Jörg")),
            ("=?us-ascii?q?a=f6?=", Some("a\u{fffd}")),
            ("=?utf-8?q??=", Some("")),
            ("=?utf-8?b?SsO?=", None),
            ("=?utf-8?q?=3?=", None),
            ("=?utf-8?x?a?=", None),
            ("=??q?abc?=", None),
            ("word", None),
        ] {
            assert_eq!(decode(word), Ok(expected.map(str::to_owned)), "{word}");
        }
        let error = "charset not supported: \"koi8-r\"";
        assert_eq!(decode("=?KOI8-R?q?a?=").unwrap_err().to_string(), error);
    }
}
