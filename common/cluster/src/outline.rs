//! The stored parts of an object that is too large: its key, and the values by which indexes may find it.

use std::sync::Arc;

use crate::{Key, Object, Query, Sketch};

/// Maximum bytes of the sketch. An object with more index values may match every condition.
const MAX_SKETCH_BYTES: usize = 4 << 10;

/// An object of which only the key and the index values are known. Whether a query returns it can be excluded, but
/// not confirmed.
#[derive(Debug, PartialEq, Eq)]
pub struct Outline {
    key: Arc<Key>,
    sketch: Option<Sketch>,
}

impl Outline {
    /// Creates the outline of an object.
    #[must_use]
    pub fn of(object: &Object) -> Self {
        let sketch = Some(object.sketch()).filter(|sketch| sketch.size() <= MAX_SKETCH_BYTES);
        Self { key: object.shared_key(), sketch }
    }

    /// Creates the outline of an object of which only the key is known: any condition may hold for it.
    #[must_use]
    pub fn unknown(key: Key) -> Self {
        Self { key: Arc::new(key), sketch: None }
    }

    /// Returns the outline of one of two objects with the same key, if it is unknown which one is stored;
    /// `None` if it would have too many values.
    #[must_use]
    pub fn union(&self, other: &Self) -> Option<Self> {
        let sketch = self.sketch.as_ref()?.union(other.sketch.as_ref()?);
        let is_small = sketch.size() <= MAX_SKETCH_BYTES;
        is_small.then(|| Self { key: self.key.clone(), sketch: Some(sketch) })
    }

    /// Returns the namespace and name.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Reports whether the conditions of a query may hold for the object. Its labels are unknown.
    #[must_use]
    pub fn may_match(&self, query: &Query) -> bool {
        query.may_match(&self.key, self.sketch.as_ref(), None)
    }

    /// Returns bytes in use.
    #[must_use]
    pub fn size(&self) -> usize {
        let sketch = self.sketch.as_ref().map_or(0, Sketch::size);
        size_of::<Self>() + self.key.namespace.len() + self.key.name.len() + sketch
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use opgate_document::Document;

    use super::*;
    use crate::{Declaration, Index, IndexMatch};

    fn outline(count: usize) -> Outline {
        let index = |name: &str| Index {
            name: name.to_owned(),
            field: format!("/spec/{name}/*"),
            separator: String::new(),
        };
        let declaration = Declaration::new(&[], &[], &[index("apis"), index("none")]).unwrap();
        let mut apis = String::new();
        for number in 0..count {
            let comma = if number > 0 { "," } else { "" };
            write!(apis, r#"{comma}"api-{number}""#).unwrap();
        }
        let json =
            format!(r#"{{"metadata":{{"name":"x","namespace":"ns"}},"spec":{{"apis":[{apis}]}}}}"#);
        Outline::of(&declaration.project(Document::parse(&json).unwrap().root()).unwrap())
    }

    fn query(namespace: Option<&str>, matches: &[(usize, &str, bool)]) -> Query {
        let condition = |(index, value, absent): &(usize, &str, bool)| IndexMatch {
            index: *index,
            values: Arc::new(std::iter::once((*value).to_owned()).collect()),
            include_missing: *absent,
        };
        Query {
            namespace: namespace.map(str::to_owned),
            matches: matches.iter().map(condition).collect(),
            ..Query::default()
        }
    }

    #[test]
    fn outline_excludes_only_queries_that_cannot_match() {
        for (count, namespace, matches, expected) in [
            (3, None, &[][..], true),
            (3, Some("ns"), &[], true),
            (3, Some("other"), &[], false),
            (3, None, &[(0, "api-2", false)], true),
            (3, None, &[(0, "api-3", false)], false),
            (3, None, &[(0, "api-1", false), (1, "x", false)], false),
            (3, None, &[(0, "api-1", false), (1, "x", true)], true),
            // More values than are kept: any may be among them.
            (3_000, None, &[(0, "other", false)], true),
            (3_000, Some("other"), &[(0, "api-1", false)], false),
        ] {
            let outline = outline(count);
            assert_eq!(outline.may_match(&query(namespace, matches)), expected, "{matches:?}");
            assert!(outline.size() < 5_000);
        }
    }

    #[test]
    fn union_of_outlines_matches_values_of_either() {
        let (few, none) = (outline(3), outline(0));
        let either = few.union(&none).unwrap();
        for (matches, expected) in [
            (&[(0, "api-2", false)][..], true),
            (&[(0, "api-3", false)], false),
            // One of them has no value.
            (&[(0, "api-3", true)], true),
            (&[(1, "x", true)], true),
            (&[(1, "x", false)], false),
        ] {
            assert_eq!(either.may_match(&query(None, matches)), expected, "{matches:?}");
        }
        let same = few.union(&few).unwrap();
        assert_eq!(same, few);
        assert!(outline(900).union(&outline(3)).is_some());
        assert!(outline(3_000).union(&few).is_none(), "it would have too many values");
    }
}
