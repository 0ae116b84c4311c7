//! The values of one index of an object.

use std::borrow::Cow;

/// Sorted texts, each once, in two pieces of memory however many they are: an object of 1 MiB may have a
/// hundred thousand.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Tokens {
    text: Box<str>,
    /// End of each token.
    ends: Box<[u32]>,
}

impl Tokens {
    /// Creates a set of these tokens, in any order. Each is a part of one text, which has less than 4 GiB.
    pub(crate) fn new(mut texts: Vec<Cow<'_, str>>) -> Self {
        texts.sort_unstable();
        texts.dedup();
        let mut text = String::with_capacity(texts.iter().map(|text| text.len()).sum());
        let mut ends = Vec::with_capacity(texts.len());
        for token in &texts {
            text.push_str(token);
            ends.push(u32::try_from(text.len()).unwrap_or(u32::MAX));
        }
        Self { text: text.into_boxed_str(), ends: ends.into_boxed_slice() }
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    fn get(&self, at: usize) -> &str {
        let offset = |at: Option<&u32>| at.and_then(|at| usize::try_from(*at).ok());
        let start = at.checked_sub(1).map_or(Some(0), |before| offset(self.ends.get(before)));
        let range = start.zip(offset(self.ends.get(at))).map(|(start, end)| start..end);
        range.and_then(|range| self.text.get(range)).unwrap_or_default()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|at| self.get(at))
    }

    pub(crate) fn contains(&self, token: &str) -> bool {
        let (mut from, mut to) = (0, self.len());
        while from < to {
            let middle = from.midpoint(to);
            match self.get(middle).cmp(token) {
                std::cmp::Ordering::Equal => return true,
                std::cmp::Ordering::Less => from = middle.saturating_add(1),
                std::cmp::Ordering::Greater => to = middle,
            }
        }
        false
    }

    /// Returns the bytes in addition to this value itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.text.len().saturating_add(size_of_val(&*self.ends))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_sorted_each_once_and_found() {
        let texts = ["b", "", "a", "b", "ab", "é", "aé"];
        let tokens = Tokens::new(texts.iter().map(|&text| Cow::Borrowed(text)).collect());
        assert_eq!(tokens.iter().collect::<Vec<_>>(), ["", "a", "ab", "aé", "b", "é"]);
        assert!(texts.iter().all(|text| tokens.contains(text)));
        assert!(["c", "aa", "bb", "z"].iter().all(|text| !tokens.contains(text)));
        assert!(Tokens::default().is_empty() && !Tokens::default().contains(""));
    }
}
