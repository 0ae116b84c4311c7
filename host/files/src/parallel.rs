//! The same work on many items, on all CPUs.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The nesting of documents has the limit of the parsers, which recurse. A debug build exceeded the
/// 2 MiB of an ordinary thread before [`opgate_yaml::DEPTH`].
const STACK: usize = 32 << 20;

/// The number of threads.
pub fn workers() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// The results of `work` for each item, in the order of the items. It runs on threads with enough
/// stack for deep documents, even for a single item.
pub fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let run = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return done };
            done.push((index, work(item)));
        }
    };
    let mut done = thread::scope(|scope| {
        let spawn = |_| thread::Builder::new().stack_size(STACK).spawn_scoped(scope, run).ok();
        let threads: Vec<_> = (0..workers().min(items.len())).filter_map(spawn).collect();
        let mut all = if threads.is_empty() { run() } else { Vec::new() };
        for thread in threads {
            match thread.join() {
                Ok(done) => all.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_keep_the_order() {
        let items: Vec<u32> = (0..1_000).collect();
        assert_eq!(super::map(&items, |i| i * 2), items.iter().map(|i| i * 2).collect::<Vec<_>>());
        assert!(super::map(&Vec::<u32>::new(), |i| *i).is_empty());
    }
}
