//! Parallel processing of many items, on all CPUs.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{self, Result as Done};

/// The nesting of documents has the limit of the parsers, which recurse. A debug build exceeded the
/// 2 MiB of an ordinary thread before [`opgate_yaml::MAX_DEPTH`].
const STACK_BYTES: usize = 32 << 20;

/// Returns the number of threads.
pub fn worker_count() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Returns the results of `work` for each item, in the order of the items. It runs on threads with enough
/// stack for deep documents, even for a single item.
pub fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    map_on(worker_count(), items, work)
}

/// [`map`] on this number of threads, or fewer.
pub fn map_on<T: Sync, R: Send>(
    max_threads: usize,
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
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
        let spawn =
            |_| thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, run).ok();
        let threads: Vec<_> = (0..max_threads.min(items.len())).filter_map(spawn).collect();
        let mut all = if threads.is_empty() { run() } else { Vec::new() };
        for thread in threads {
            match thread.join() {
                Ok(done) => all.extend(done),
                Err(panic) => resume_unwind(panic),
            }
        }
        all
    });
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Results that wait for an earlier one at most: a worker that is further ahead waits.
const MAX_AHEAD: usize = 64;

/// Progress of [`for_each_in_order`].
struct Progress<R> {
    started: usize,
    taken: usize,
    is_ended: bool,
    done: BTreeMap<usize, Done<R>>,
}

/// Calls `take` with the result of `work` for each item, in the order of the items, while others are still
/// under way. Results that were taken are not kept, so that memory does not grow with the number of items.
///
/// # Errors
/// The first error of `take`; the remaining items are skipped.
pub fn for_each_in_order<T: Sync, R: Send, E>(
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
    mut take: impl FnMut(&T, R) -> Result<(), E>,
) -> Result<(), E> {
    let state = Progress { started: 0, taken: 0, is_ended: false, done: BTreeMap::new() };
    let (state, changed) = (Mutex::new(state), Condvar::new());
    let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
    let wait = |guard| changed.wait(guard).unwrap_or_else(PoisonError::into_inner);
    let run = || loop {
        let mut guard = lock();
        while !guard.is_ended && guard.started >= guard.taken.saturating_add(MAX_AHEAD) {
            guard = wait(guard);
        }
        let index = guard.started;
        let Some(item) = items.get(index).filter(|_| !guard.is_ended) else { return };
        guard.started += 1;
        drop(guard);
        let done = catch_unwind(AssertUnwindSafe(|| work(item)));
        lock().done.insert(index, done);
        changed.notify_all();
    };
    thread::scope(|scope| {
        let spawn =
            |_| thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, run).ok();
        let threads = (0..worker_count().min(items.len())).filter_map(spawn).count();
        let mut result = Ok(());
        let mut panic = None;
        for (index, item) in items.iter().enumerate() {
            let done = if threads == 0 {
                Ok(work(item))
            } else {
                let mut guard = lock();
                loop {
                    if let Some(done) = guard.done.remove(&index) {
                        guard.taken = index + 1;
                        break done;
                    }
                    guard = wait(guard);
                }
            };
            changed.notify_all();
            match done {
                Ok(done) => result = take(item, done),
                Err(payload) => panic = Some(payload),
            }
            if result.is_err() || panic.is_some() {
                break;
            }
        }
        lock().is_ended = true;
        changed.notify_all();
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
        result
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_the_order() {
        let items: Vec<u32> = (0..1_000).collect();
        assert_eq!(map(&items, |i| i * 2), items.iter().map(|i| i * 2).collect::<Vec<_>>());
        assert!(map(&Vec::<u32>::new(), |i| *i).is_empty());
    }

    #[test]
    fn one_thread_processes_all_items() {
        let items = [(); 100];
        let used: std::collections::HashSet<_> =
            map_on(1, &items, |()| thread::current().id()).into_iter().collect();
        assert_eq!(used.len(), 1);
        assert!(!used.contains(&thread::current().id()));
    }

    #[test]
    fn results_are_taken_in_order_and_workers_wait_for_them() {
        let items: Vec<usize> = (0..1_000).collect();
        let (under_way, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = |item: &usize| {
            let now = under_way.fetch_add(1, Ordering::SeqCst) + 1;
            most.fetch_max(now, Ordering::SeqCst);
            *item * 2
        };
        let mut taken = Vec::new();
        let result: Result<(), ()> = for_each_in_order(&items, work, |item, double| {
            under_way.fetch_sub(1, Ordering::SeqCst);
            taken.push((*item, double));
            Ok(())
        });
        assert_eq!(result, Ok(()));
        assert!(taken.iter().enumerate().all(|(n, pair)| *pair == (n, n * 2)), "{taken:?}");
        let most = most.load(Ordering::SeqCst);
        assert!(most <= MAX_AHEAD + worker_count(), "{most}");
        let mut count = 0;
        let stop = |_: &usize, item| {
            count += 1;
            if item == 10 { Err("enough") } else { Ok(()) }
        };
        assert_eq!(for_each_in_order(&items, |item| *item, stop), Err("enough"));
        assert_eq!(count, 11);
        let panics = catch_unwind(|| {
            for_each_in_order(&items, |item| assert!(*item < 5), |_, ()| Ok::<(), ()>(()))
        });
        assert!(panics.is_err());
        assert_eq!(for_each_in_order(&[0; 0], |item| *item, |_, _| Err(())), Ok(()));
    }
}
