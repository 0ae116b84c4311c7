//! The same work on many things, on all processors.

use std::cell::Cell;
use std::num::NonZero;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Documents nest up to the bound of the parsers, which recurse. A debug build ran out of the 2 MiB of an
/// ordinary thread before [`crate::yaml::MAX_DEPTH`].
const STACK: usize = 32 << 20;

thread_local! {
    /// Whether this thread has that much.
    static HAS_ROOM: Cell<bool> = const { Cell::new(false) };
}

/// Does something that recurses deeply: right here, if this is a thread with stack enough, or else on
/// one that has it.
///
/// # Errors
/// Where there is no thread, or it panics: why.
pub(crate) fn with_room<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, String> {
    let done = if HAS_ROOM.get() {
        std::panic::catch_unwind(AssertUnwindSafe(work))
    } else {
        thread::scope(|scope| {
            let thread = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
            let thread = thread.map_err(|e| format!("no thread to read it: {e}"))?;
            Ok::<_, String>(thread.join())
        })?
    };
    done.map_err(|_| "the parser failed on it".to_owned())
}

/// How many threads work.
pub(crate) fn workers() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// What `work` makes of each item, in the order of the items. It runs on threads with enough stack for
/// deep documents, also for a single item.
pub(crate) fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
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
        let apart = || {
            HAS_ROOM.set(true);
            run()
        };
        let spawn = |_| thread::Builder::new().stack_size(STACK).spawn_scoped(scope, apart).ok();
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

    #[test]
    fn what_panics_ends_nothing_else() {
        let work = |fails: &bool| super::with_room(|| assert!(!fails, "it does")).is_ok();
        assert_eq!(super::map(&[true, false], work), [false, true]);
        assert!(!work(&true) && work(&false));
    }
}
