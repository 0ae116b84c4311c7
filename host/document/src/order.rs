//! A stable sort that can be stopped: names of a million members take longer than many a call may.

use crate::counted::Counted;
use crate::meter::Cost;

/// As many are sorted at a time without a look at the meter.
const RUN: usize = 1 << 10;

/// Sorts items by a key, which may stand in `text`, those of one key in the order that they had; of those only the last stays.
/// `None` where that was too much.
pub(crate) fn sort_and_dedup<T: Default>(
    items: &mut Counted<'_, T>,
    text: &str,
    key: impl for<'k> Fn(&'k T, &'k str) -> &'k str,
    cost: Cost<'_>,
) -> Option<()> {
    items.replace(|items| {
        let mut order: Vec<u32> =
            (0..items.len()).map(u32::try_from).collect::<Result<_, _>>().ok()?;
        let at = |index: u32| {
            usize::try_from(index)
                .ok()
                .and_then(|i| items.get(i))
                .map_or("", |item| key(item, text))
        };
        for run in order.chunks_mut(RUN) {
            run.sort_by(|one, other| at(*one).cmp(at(*other)));
            let bytes: usize = run.iter().map(|index| at(*index).len()).sum();
            cost.spend(bytes.saturating_add(run.len().saturating_mul(64)))?;
        }
        let mut width = RUN;
        let mut merged = Vec::with_capacity(order.len());
        while width < order.len() {
            merged.clear();
            for pair in order.chunks(width.saturating_mul(2)) {
                let (left, right) = pair.split_at(width.min(pair.len()));
                merge(left, right, &at, &mut merged, cost)?;
            }
            std::mem::swap(&mut order, &mut merged);
            width = width.saturating_mul(2);
        }
        drop(merged);
        let next = order.iter().skip(1).map(Some).chain([None]);
        let pairs = order.iter().zip(next);
        let last = pairs.filter(|(one, next)| next.is_none_or(|next| at(*next) != at(**one)));
        let kept: Vec<u32> = last.map(|(one, _)| *one).collect();
        cost.spend(order.len().saturating_mul(8))?;
        let mut take = |index: u32| {
            let item = usize::try_from(index).ok().and_then(|i| items.get_mut(i));
            item.map(std::mem::take).unwrap_or_default()
        };
        Some(kept.into_iter().map(&mut take).collect())
    })
}

fn merge<'t>(
    mut left: &[u32],
    mut right: &[u32],
    at: &impl Fn(u32) -> &'t str,
    merged: &mut Vec<u32>,
    cost: Cost<'_>,
) -> Option<()> {
    while let ([one, lefts @ ..], [other, rights @ ..]) = (left, right) {
        let (a, b) = (at(*one), at(*other));
        cost.spend(8 + a.len().min(b.len()) / 8)?;
        // Of two that are equal the left one was there before.
        if a <= b {
            merged.push(*one);
            left = lefts;
        } else {
            merged.push(*other);
            right = rights;
        }
    }
    merged.extend_from_slice(left);
    merged.extend_from_slice(right);
    cost.spend(left.len().saturating_add(right.len()) / 4)
}
