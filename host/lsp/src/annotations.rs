//! Annotations that OLM, its tools and consoles read.

/// Where an annotation is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnnotationPlace {
    /// In a ClusterServiceVersion.
    ClusterServiceVersion,
    /// In `metadata/annotations.yaml` of a bundle.
    Bundle,
}

/// An annotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Annotation {
    /// Where it is written.
    pub place: AnnotationPlace,
    /// Its key.
    pub key: &'static str,
    /// Its values, if they are known.
    pub values: Vec<&'static str>,
    /// Its meaning, in one sentence without a full stop.
    pub meaning: &'static str,
}

/// Returns all of them, in the order of their keys.
pub fn annotations() -> impl Iterator<Item = Annotation> {
    include_str!("annotations.tsv").lines().filter_map(|line| {
        let mut cells = line.split('\t');
        let place = match cells.next()? {
            "csv" => AnnotationPlace::ClusterServiceVersion,
            "bundle" => AnnotationPlace::Bundle,
            _ => return None,
        };
        let (key, values, meaning) = (cells.next()?, cells.next()?, cells.next()?);
        let values = values.split('|').filter(|value| !value.is_empty()).collect();
        Some(Annotation { place, key, values, meaning })
    })
}

/// Returns the annotation of a key.
#[must_use]
pub fn find(place: AnnotationPlace, key: &str) -> Option<Annotation> {
    annotations().find(|annotation| annotation.place == place && annotation.key == key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_an_annotation() {
        let lines = include_str!("annotations.tsv").lines().count();
        assert_eq!(annotations().count() + 1, lines);
        let channels = "operators.operatorframework.io.bundle.channels.v1";
        assert!(find(AnnotationPlace::Bundle, channels).is_some());
        assert!(find(AnnotationPlace::ClusterServiceVersion, channels).is_none());
    }
}
