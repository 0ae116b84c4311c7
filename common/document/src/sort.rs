//! A stable sort of names that can be stopped, and whose cost follows their bytes: those of a million
//! members take longer than many a call may.
//!
//! ```text
//! names of one beginning ─▶ by their next 8 bytes, as numbers ─▶ those that are alike ─▶ the same again
//! ```
//!
//! Each round reads the common prefix of a group's names once, and 8 bytes more. Comparing texts took three
//! to five times as long, because of reads from distant memory.

use std::ops::Range;

use crate::charged_vec::{ChargedVec, SORT_SCRATCH_BYTES};
use crate::meter::Cost;

/// Number of items that are moved between two checks of the meter.
const ITEMS_PER_STEP: usize = 1 << 11;

/// Maximum size of a group that is sorted by comparison.
const MAX_COMPARISON_SORT_ITEMS: usize = 256;

/// A name as far as it counts in one round.
#[derive(Clone, Copy, Default)]
struct SortKey {
    /// Its next bytes; zeros where it ends.
    bytes: u64,
    /// Number of valid bytes, plus one if the name continues.
    length: u8,
    /// Index of the item.
    index: u32,
}

/// Bytes of a round.
const KEY_BYTES: usize = size_of::<u64>();
const CONTINUES: u8 = 9;

const _: () = assert!(2 * size_of::<SortKey>() == SORT_SCRATCH_BYTES);

/// Sorts items by a key, which may be in `text`, stably; of equal keys only the last item stays. `None` if
/// memory or work is exhausted.
pub(crate) fn sort_and_dedup<T: Default>(
    items: &mut ChargedVec<'_, T>,
    text: &str,
    key: impl for<'k> Fn(&'k T, &'k str) -> &'k str,
    cost: Cost<'_>,
) -> Option<()> {
    items.replace(|items| {
        let keyed = |index| SortKey { index, ..SortKey::default() };
        let mut order: Vec<_> = (0..u32::try_from(items.len()).ok()?).map(keyed).collect();
        let name = |index: u32| {
            let item = usize::try_from(index).ok().and_then(|index| items.get(index));
            item.map_or(&[][..], |item| key(item, text).as_bytes())
        };
        let mut sorting = Sorter { name, cost, scratch: Vec::new(), is_last: Vec::new() };
        sorting.sort(&mut order)?;
        let last = std::mem::take(&mut sorting.is_last);
        drop(sorting);
        let mut sorted = Vec::with_capacity(order.len());
        for (chunk, last) in order.chunks(ITEMS_PER_STEP).zip(last.chunks(ITEMS_PER_STEP)) {
            cost.spend(chunk.len().saturating_mul(8))?;
            for (keyed, is_last) in chunk.iter().zip(last) {
                let item = usize::try_from(keyed.index).ok().and_then(|i| items.get_mut(i));
                if *is_last {
                    sorted.extend(item.map(std::mem::take));
                }
            }
        }
        Some(sorted)
    })
}

struct Sorter<'c, N> {
    /// The name of an item.
    name: N,
    cost: Cost<'c>,
    scratch: Vec<SortKey>,
    /// Whether the item at a place is the last one of its name.
    is_last: Vec<bool>,
}

impl<'t, N: Fn(u32) -> &'t [u8]> Sorter<'_, N> {
    fn sort(&mut self, order: &mut [SortKey]) -> Option<()> {
        self.scratch = vec![SortKey::default(); order.len()];
        self.is_last = vec![true; order.len()];
        // Groups of names with a common prefix of this number of bytes.
        let mut todo = vec![(0..order.len(), 0)];
        while let Some((range, same)) = todo.pop() {
            let group = order.get_mut(range.clone())?;
            let same = self.read_keys(group, same)?;
            if group.len() <= MAX_COMPARISON_SORT_ITEMS {
                group.sort_unstable_by_key(|one| (one.bytes, one.length, one.index));
                self.cost.spend(group.len().saturating_mul(16))?;
            } else {
                self.sort_by_digits(group)?;
            }
            self.find_equal_runs(group, range.start, |run: Range<usize>| {
                todo.push((run, same.saturating_add(KEY_BYTES)));
            })?;
        }
        Some(())
    }

    /// Reads the bytes that count for a group: those behind what all its names begin with. Says where
    /// they begin.
    fn read_keys(&self, group: &mut [SortKey], from: usize) -> Option<usize> {
        let rest = |index: u32| (self.name)(index).get(from..).unwrap_or_default();
        let first = rest(group.first()?.index);
        let mut common = first.len();
        for chunk in group.chunks(ITEMS_PER_STEP) {
            let mut read = 0_usize;
            for keyed in chunk {
                let name = rest(keyed.index);
                common = common_prefix_length(first.get(..common)?, name);
                read = read.saturating_add(common);
                if read > ITEMS_PER_STEP * KEY_BYTES {
                    self.cost.spend(read / KEY_BYTES)?;
                    read = 0;
                }
            }
            self.cost.spend(chunk.len().saturating_mul(4).saturating_add(read / KEY_BYTES))?;
        }
        let same = from.saturating_add(common);
        for chunk in group.chunks_mut(ITEMS_PER_STEP) {
            self.cost.spend(chunk.len().saturating_mul(4))?;
            for keyed in chunk {
                let name = (self.name)(keyed.index).get(same..).unwrap_or_default();
                let mut bytes = [0; KEY_BYTES];
                bytes.iter_mut().zip(name).for_each(|(to, from)| *to = *from);
                keyed.bytes = u64::from_be_bytes(bytes);
                keyed.length =
                    u8::try_from(name.len()).map_or(CONTINUES, |length| length.min(CONTINUES));
            }
        }
        Some(same)
    }

    /// Sorts by one byte after the other, the last one first; bytes that are the same in all are left out.
    fn sort_by_digits(&mut self, group: &mut [SortKey]) -> Option<()> {
        let first = *group.first()?;
        let (mut bytes, mut lengths) = (0, 0);
        for chunk in group.chunks(ITEMS_PER_STEP) {
            self.cost.spend(chunk.len())?;
            for one in chunk {
                bytes |= one.bytes ^ first.bytes;
                lengths |= one.length ^ first.length;
            }
        }
        if lengths != 0 {
            self.sort_by_digit(group, |one| usize::from(one.length))?;
        }
        for shift in (0..u64::BITS).step_by(8) {
            if bytes >> shift & 0xff != 0 {
                self.sort_by_digit(group, |one| {
                    usize::try_from(one.bytes >> shift & 0xff).unwrap_or_default()
                })?;
            }
        }
        Some(())
    }

    fn sort_by_digit(
        &mut self,
        group: &mut [SortKey],
        digit: impl Fn(&SortKey) -> usize,
    ) -> Option<()> {
        let mut starts = [0_usize; 256];
        for chunk in group.chunks(ITEMS_PER_STEP) {
            self.cost.spend(chunk.len())?;
            for one in chunk {
                *starts.get_mut(digit(one))? += 1;
            }
        }
        let mut start = 0;
        for count in &mut starts {
            start += std::mem::replace(count, start);
        }
        let other = self.scratch.get_mut(..group.len())?;
        for chunk in group.chunks(ITEMS_PER_STEP) {
            self.cost.spend(chunk.len().saturating_mul(2))?;
            for one in chunk {
                let at = starts.get_mut(digit(one))?;
                *other.get_mut(*at)? = *one;
                *at += 1;
            }
        }
        group.copy_from_slice(other);
        Some(())
    }

    /// Hands on those that are alike so far and go on. Of those that end alike, only the last one is one.
    fn find_equal_runs(
        &mut self,
        group: &[SortKey],
        start: usize,
        mut more: impl FnMut(Range<usize>),
    ) -> Option<()> {
        let mut at = start;
        for run in
            group.chunk_by(|one, other| (one.bytes, one.length) == (other.bytes, other.length))
        {
            self.cost.spend(run.len())?;
            let range = at..at.saturating_add(run.len());
            at = range.end;
            match run {
                [_] => {}
                [SortKey { length: CONTINUES, .. }, ..] => more(range),
                _ => {
                    let before = range.start..range.end.saturating_sub(1);
                    self.is_last.get_mut(before)?.fill(false);
                }
            }
        }
        Some(())
    }
}

/// Returns the length of the common prefix of two texts in bytes.
fn common_prefix_length(one: &[u8], other: &[u8]) -> usize {
    let length = one.len().min(other.len());
    if one.get(..length) == other.get(..length) {
        return length;
    }
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}
