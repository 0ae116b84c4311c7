//! JSON pointers (RFC 6901) as tokens.

/// A JSON pointer as the names and indexes on its way.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Pointer(Vec<String>);

impl Pointer {
    /// Parses a pointer; none if it is no pointer.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::default());
        }
        let tokens = text.strip_prefix('/')?.split('/');
        tokens.map(unescape).collect::<Option<Vec<_>>>().map(Self)
    }

    /// Reports whether it is the pointer of the whole document.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the names and indexes.
    #[must_use]
    pub fn tokens(&self) -> &[String] {
        &self.0
    }

    /// Returns the pointer of the value around it, and the last token; none for the whole document.
    #[must_use]
    pub fn split_last(&self) -> Option<(&[String], &str)> {
        self.0.split_last().map(|(last, before)| (before, last.as_str()))
    }

    /// Reports whether it is the other pointer, or leads into its value.
    #[must_use]
    pub fn starts_with(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0)
    }
}

/// Returns the text between two slashes; none for an invalid escape.
fn unescape(token: &str) -> Option<String> {
    let mut parts = token.split('~');
    let mut text = parts.next()?.to_owned();
    for part in parts {
        let (c, rest) = match part.as_bytes().first()? {
            b'0' => ('~', part.get(1..)?),
            b'1' => ('/', part.get(1..)?),
            _ => return None,
        };
        text.push(c);
        text.push_str(rest);
    }
    Some(text)
}

/// Returns a name as a token of a pointer.
#[must_use]
pub fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Returns the index that a token is: digits without leading zeros.
pub(crate) fn index(token: &str) -> Option<usize> {
    let is_index = token.bytes().all(|byte| byte.is_ascii_digit())
        && (token == "0" || !token.starts_with('0'));
    token.parse().ok().filter(|_| is_index)
}
