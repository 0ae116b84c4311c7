//! The threads of the slow path, which serve one call after another.
//!
//! ```text
//! run ─┬▶ a thread that waits ─▶ job ─▶ waits for the next job ─▶ ends after a time without one
//!      └▶ a new thread ───────────▲ └▶ ends, if it has idle priority or enough threads wait
//! ```
//!
//! The permits for long calls limit the number of threads. A process without privileges cannot take `SCHED_IDLE`
//! back: a thread that has it ends with its job, so that no other call inherits it.

use std::collections::VecDeque;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Stack of a thread: that of the guest, and some for the host.
const STACK_BYTES: usize = 2 << 20;

/// Maximum number of threads that wait for a job. More would only help bursts, and each keeps its stack.
const MAX_WAITING_THREADS: usize = 8;

/// A thread that has waited this long ends.
const MAX_WAIT: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

/// See the module.
pub(super) struct WorkerPool {
    state: Mutex<State>,
    wake: Condvar,
}

/// Each job belongs to a waiting thread: there are never more jobs than waiting threads.
struct State {
    waiting: usize,
    jobs: VecDeque<Job>,
}

impl WorkerPool {
    pub(super) const fn new() -> Self {
        let state = State { waiting: 0, jobs: VecDeque::new() };
        Self { state: Mutex::new(state), wake: Condvar::new() }
    }

    /// Runs a job at once, on a separate thread.
    ///
    /// # Errors
    /// If a new thread is needed, and the system has none.
    pub(super) fn run(&'static self, job: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let job: Job = Box::new(job);
        let mut state = self.state.lock();
        if state.waiting > state.jobs.len() {
            state.jobs.push_back(job);
            self.wake.notify_one();
            return Ok(());
        }
        drop(state);
        let thread = thread::Builder::new().name("opgate-slow".to_owned()).stack_size(STACK_BYTES);
        thread.spawn(move || self.run_jobs(job)).map(|_| ())
    }

    fn run_jobs(&self, first: Job) {
        let mut next = Some(first);
        while let Some(job) = next {
            job();
            next = if opgate_system::has_idle_priority() { None } else { self.wait_for_job() };
        }
    }

    fn wait_for_job(&self) -> Option<Job> {
        let mut state = self.state.lock();
        if state.waiting >= MAX_WAITING_THREADS {
            return None;
        }
        state.waiting += 1;
        let end = Instant::now() + MAX_WAIT;
        let mut is_over = false;
        while state.jobs.is_empty() && !is_over {
            is_over = self.wake.wait_until(&mut state, end).timed_out();
        }
        state.waiting -= 1;
        state.jobs.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};
    use std::thread::{ThreadId, current};

    use super::*;

    fn pool() -> &'static WorkerPool {
        Box::leak(Box::new(WorkerPool::new()))
    }

    /// Runs a job; its thread.
    fn thread_of(pool: &'static WorkerPool, job: impl FnOnce() + Send + 'static) -> ThreadId {
        let (answer, answered) = channel();
        let run = move || {
            job();
            answer.send(current().id()).unwrap();
        };
        pool.run(run).unwrap();
        answered.recv().unwrap()
    }

    fn wait_for(pool: &WorkerPool, waiting: usize) {
        while pool.state.lock().waiting != waiting {
            thread::yield_now();
        }
    }

    #[test]
    fn thread_runs_the_next_job_too() {
        let pool = pool();
        let first = thread_of(pool, || ());
        wait_for(pool, 1);
        assert_eq!(thread_of(pool, || ()), first);
    }

    #[test]
    fn jobs_never_wait_for_each_other() {
        let pool = pool();
        let blocked = |wait: Receiver<()>| move || wait.recv().unwrap();
        let mut jobs = Vec::new();
        for _ in 0..MAX_WAITING_THREADS + 3 {
            let (release, wait) = channel();
            let (answer, started) = channel();
            let job = blocked(wait);
            pool.run(move || {
                answer.send(current().id()).unwrap();
                job();
            })
            .unwrap();
            jobs.push((started.recv().unwrap(), release));
        }
        for (_, release) in &jobs {
            release.send(()).unwrap();
        }
        // The other threads end.
        wait_for(pool, MAX_WAITING_THREADS);
        let known = |id| jobs.iter().any(|(thread, _)| *thread == id);
        assert!(known(thread_of(pool, || ())));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn thread_with_idle_priority_runs_no_other_job() {
        let pool = pool();
        let lowered = thread_of(pool, || assert!(opgate_system::set_idle_priority()));
        let (answer, answered) = channel();
        let next = thread_of(pool, move || {
            answer.send(opgate_system::has_idle_priority()).unwrap();
        });
        assert_ne!(next, lowered);
        assert!(!answered.recv().unwrap());
    }

    #[test]
    fn panic_of_a_job_leaves_the_pool_usable() {
        let pool = pool();
        let (answer, answered) = channel::<()>();
        pool.run(move || {
            let _answer = answer;
            panic!("a defect");
        })
        .unwrap();
        answered.recv().unwrap_err();
        thread_of(pool, || ());
    }
}
