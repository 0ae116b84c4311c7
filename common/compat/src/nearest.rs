//! The most similar name: distances of Damerau and Levenshtein, bounded.

/// Longest name that is compared, in bytes. The distance costs the product of both lengths.
const MAX_NAME_BYTES: usize = 64;

/// Returns the most similar candidate, if it is similar enough: equal except for case, or with one mistake in
/// a name of three to five letters, or two in longer ones. Of equally similar ones the first.
#[must_use]
pub fn nearest<'c>(
    name: &str,
    candidates: impl Iterator<Item = &'c str> + Clone,
) -> Option<&'c str> {
    if name.len() > MAX_NAME_BYTES {
        return None;
    }
    let same = candidates.clone().find(|candidate| candidate.eq_ignore_ascii_case(name));
    let limit = (name.chars().count() / 3).min(2);
    same.or_else(|| {
        let near =
            candidates.filter_map(|candidate| Some((distance(name, candidate, limit)?, candidate)));
        near.min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
    })
}

/// Insertions, deletions, replacements and exchanges of neighbours, if there are at most `limit`.
fn distance(from: &str, to: &str, limit: usize) -> Option<usize> {
    let [from, to]: [Vec<char>; 2] = [from, to].map(|text| text.chars().collect());
    if from.len().abs_diff(to.len()) > limit || to.len() > MAX_NAME_BYTES {
        return None;
    }
    let get = |row: &[usize], at: usize| row.get(at).copied().unwrap_or(usize::MAX / 2);
    let (mut before, mut last) = (Vec::new(), (0..=to.len()).collect::<Vec<_>>());
    for (i, a) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let replaced = get(&last, j) + usize::from(a != b);
            let mut cost = replaced.min(get(&last, j + 1) + 1).min(get(&row, j) + 1);
            let is_swap = i > 0 && j > 0 && from.get(i - 1) == Some(b) && to.get(j - 1) == Some(a);
            if is_swap {
                cost = cost.min(get(&before, j - 1) + 1);
            }
            row.push(cost);
        }
        if row.iter().all(|cost| *cost > limit) {
            return None;
        }
        (before, last) = (last, row);
    }
    last.last().copied().filter(|distance| *distance <= limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        let names =
            ["args", "channel", "containers", "env", "host", "initContainers", "port", "replicas"];
        for (name, expected) in [
            ("contianers", Some("containers")),
            ("container", Some("containers")),
            ("Replicas", Some("replicas")),
            ("chanel", Some("channel")),
            ("chnl", None),
            ("agrs", Some("args")),
            ("evn", Some("env")),
            ("en", None),
            ("pot", Some("port")),
            ("cost", Some("host")),
            ("", None),
            ("image", None),
        ] {
            assert_eq!(nearest(name, names.into_iter()), expected, "{name}");
        }
        assert_eq!(nearest(&"r".repeat(65), [&*"r".repeat(64)].into_iter()), None);
    }
}
