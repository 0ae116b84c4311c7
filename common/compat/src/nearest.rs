//! The most similar name: distances of Damerau and Levenshtein, bounded.

/// Longest name that is compared, in bytes. The distance costs a few steps for each.
const MAX_NAME_BYTES: usize = 64;
/// Most candidates that are compared: among more, a name is a guess.
const MAX_CANDIDATES: usize = 256;

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
    if candidates.clone().nth(MAX_CANDIDATES).is_some() {
        return None;
    }
    let same = candidates.clone().find(|candidate| candidate.eq_ignore_ascii_case(name));
    let limit = (name.len() / 3).min(2);
    same.or_else(|| {
        let near =
            candidates.filter_map(|candidate| Some((distance(name, candidate, limit)?, candidate)));
        near.min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
    })
}

/// Insertions, deletions, replacements and exchanges of neighbouring bytes, if there are at most `limit`. It uses no
/// heap: a policy never gets memory back.
fn distance(from: &str, to: &str, limit: usize) -> Option<usize> {
    let [from, to] = [from.as_bytes(), to.as_bytes()];
    if from.len().abs_diff(to.len()) > limit || from.len().max(to.len()) > MAX_NAME_BYTES {
        return None;
    }
    let get = |row: &Row, at: usize| row.get(at).copied().map_or(usize::MAX / 2, usize::from);
    let (mut before, mut last): (Row, Row) = ([u8::MAX; ROW_LENGTH], [u8::MAX; ROW_LENGTH]);
    for (cell, cost) in last.iter_mut().take(to.len().saturating_add(1)).zip(0..) {
        *cell = cost;
    }
    for (i, a) in from.iter().enumerate() {
        let mut row: Row = [u8::MAX; ROW_LENGTH];
        // Prefixes whose lengths differ by more than the limit have a larger distance.
        let start = i.saturating_sub(limit);
        let mut left = if start == 0 { i + 1 } else { usize::MAX / 2 };
        let mut lowest = left;
        if start == 0 {
            set(&mut row, 0, left);
        }
        for (j, b) in to.iter().enumerate().take(i + limit + 1).skip(start) {
            let replaced = get(&last, j) + usize::from(a != b);
            let mut cost = replaced.min(get(&last, j + 1) + 1).min(left + 1);
            let is_swap = i > 0 && j > 0 && from.get(i - 1) == Some(b) && to.get(j - 1) == Some(a);
            if is_swap {
                cost = cost.min(get(&before, j - 1) + 1);
            }
            set(&mut row, j + 1, cost);
            left = cost;
            lowest = lowest.min(cost);
        }
        if lowest > limit {
            return None;
        }
        (before, last) = (last, row);
    }
    Some(get(&last, to.len())).filter(|distance| *distance <= limit)
}

/// Costs for the prefixes of a name. None is more than twice [`MAX_NAME_BYTES`].
type Row = [u8; ROW_LENGTH];
const ROW_LENGTH: usize = MAX_NAME_BYTES + 1;

fn set(row: &mut Row, at: usize, cost: usize) {
    if let Some(cell) = row.get_mut(at) {
        *cell = u8::try_from(cost).unwrap_or(u8::MAX);
    }
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
        let long = "abcdefgh".repeat(7);
        for (name, is_near) in [
            (format!("x{long}y"), true),
            (format!("{long}xy"), true),
            (format!("xy{long}"), true),
            (long.replacen("ab", "", 1), true),
            (long.replacen("ab", "ba", 2), true),
            (format!("x{}", long.replacen("abc", "", 1)), false),
            (format!("xy{long}z"), false),
            (long.replacen('h', "x", 3), false),
        ] {
            assert_eq!(nearest(&name, [&*long].into_iter()).is_some(), is_near, "{name}");
        }
        assert_eq!(nearest(&"r".repeat(65), [&*"r".repeat(64)].into_iter()), None);
    }
}
