//! Work on untrusted input, in a subprocess of the same binary. If the subprocess fails, the
//! server continues.
//!
//! ```text
//! Program::ask ─▶ /proc/self/exe JOB ───▶ limits, confinement ─▶ job ─▶ answer ─▶ Program::ask
//!      │             (no environment)       (before any input)                       ▲
//!      └── watches the clock, kills ─────────────────────────────────────────────────┘
//! ```
//!
//! The child limits itself before it reads anything: CPU time, memory, files (none may grow), core
//! dumps. Then it gives up files, network and other processes (`confine.rs`). It ends with its
//! parent. Frames start with their length, which the reader limits.
//!
//! All children together have a share of the container's memory (`opgate_server::DefaultLimits`), so that
//! the system does not kill a process, which could be the server. If the share is large enough,
//! several children run at a time with equal parts. A child whose part is too small runs again
//! alone, with the whole share. A child that compiles a large component starts that way.

use std::io::{self, Read, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Once};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use opgate_platform::process::{self, ExitReason, ProcessLimits};
use opgate_text::units;

use super::component_check::is_large;
use super::confine::{Confinement, IS_SUPPORTED, confine, try_forbidden_operations};

/// Name of the subcommand. No help shows it.
const WORKER_COMMAND: &str = "apart";

/// Maximum input of a job, twice the largest component, and maximum output, that of an image.
const MAX_INPUT_BYTES: u64 = 64 << 20;
const MAX_OUTPUT_BYTES: u64 = 256 << 20;

/// Maximum length of the text of a refusal.
const MAX_TEXT: usize = 1_024;

/// Open files: the pipes, and those that the standard library reads to count CPUs.
const MAX_OPEN_FILES: u64 = 32;

/// Serving threads have priority.
const NICE: i32 = 10;

/// Maximum number of concurrent children, and the minimum memory of each of them if there are
/// several. Policies of the SDK need half of it.
const MAX_CHILDREN: usize = 4;
const MIN_CHILD_BYTES: u64 = 48 << 20;

/// Memory of a child for each thread that compiles, and, for a large component, the memory in
/// addition to that. With one thread JavaScript and Python take 350 MiB.
const THREAD_BYTES: u64 = 64 << 20;
const LARGE_COMPONENT_BYTES: u64 = 300 << 20;

/// The jobs of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// Compiles a component.
    Compile,
    /// Compiles a component that has an interpreter inside.
    CompileLarge,
    /// Checks settings against a schema.
    Settings,
    /// Tries forbidden operations in a child, for tests.
    Confinement,
}

/// The limits of a job.
struct JobLimits {
    /// Seconds of CPU time and of wall-clock time.
    cpu_seconds: u64,
    wall_seconds: u64,
    /// Bytes of memory, and the bytes without a shortage.
    memory: u64,
    full_memory: u64,
}

impl Job {
    const ALL: [Self; 4] = [Self::Compile, Self::CompileLarge, Self::Settings, Self::Confinement];

    /// The job that compiles this component.
    pub(crate) fn compile(component: &[u8]) -> Self {
        if is_large(component) { Self::CompileLarge } else { Self::Compile }
    }

    /// The limits of this job, with at most `memory`.
    fn limits(self, memory: u64) -> JobLimits {
        // On one CPU that does nothing else, a component of the SDK takes 0.6 s at most, JavaScript
        // and Python 10 s. A build without optimisation takes several times as long.
        let (processor, wall, most) = match self {
            Self::Compile => (15, 60, 512 << 20),
            Self::CompileLarge => (120, 300, 1 << 30),
            Self::Settings | Self::Confinement => (5, 20, 128 << 20),
        };
        JobLimits {
            cpu_seconds: processor,
            wall_seconds: wall,
            memory: memory.min(most),
            full_memory: most,
        }
    }

    /// Threads of a child with this much memory. More threads than CPUs would only use memory.
    fn threads(self, memory: u64) -> u64 {
        let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let extra = if self == Self::CompileLarge { LARGE_COMPONENT_BYTES } else { 0 };
        let fit = memory.saturating_sub(extra) / THREAD_BYTES;
        fit.clamp(1, u64::try_from(processors).unwrap_or(u64::MAX))
    }

    fn argument(self) -> &'static str {
        match self {
            Self::Compile => "compile",
            Self::CompileLarge => "compile-large",
            Self::Settings => "settings",
            Self::Confinement => "confinement",
        }
    }

    /// Parts of its input.
    fn input_parts(self) -> usize {
        match self {
            Self::Compile | Self::CompileLarge => 4,
            Self::Settings | Self::Confinement => 2,
        }
    }

    fn of(argument: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|job| job.argument() == argument)
    }
}

/// The memory of all children, in equal parts.
#[derive(Debug)]
struct MemoryPool {
    memory: u64,
    parts: usize,
    free: Mutex<usize>,
    freed: Condvar,
}

impl MemoryPool {
    fn of(memory: usize) -> Self {
        let memory = u64::try_from(memory).unwrap_or(u64::MAX);
        let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let fit = usize::try_from(memory / MIN_CHILD_BYTES).unwrap_or(usize::MAX);
        let parts = fit.min(processors).clamp(1, MAX_CHILDREN);
        Self { memory, parts, free: Mutex::new(parts), freed: Condvar::new() }
    }

    /// Waits until this many parts are free. Every child ends, so this does.
    fn acquire(&self, parts: usize) -> MemoryShare<'_> {
        let mut free = self.free.lock();
        self.freed.wait_while(&mut free, |free| *free < parts);
        *free = free.saturating_sub(parts);
        let memory = self.memory / u64::try_from(self.parts.div_ceil(parts)).unwrap_or(u64::MAX);
        MemoryShare { pool: self, parts, memory }
    }
}

/// Parts of the memory. Dropping them frees them.
struct MemoryShare<'s> {
    pool: &'s MemoryPool,
    parts: usize,
    memory: u64,
}

impl Drop for MemoryShare<'_> {
    fn drop(&mut self) {
        let mut free = self.pool.free.lock();
        *free = free.saturating_add(self.parts);
        self.pool.freed.notify_all();
    }
}

/// The program that runs jobs, which is this one.
#[derive(Debug, Clone)]
pub struct WorkerProgram {
    path: PathBuf,
    pool: Arc<MemoryPool>,
    /// Replaces the limits of a job, for tests.
    wall_timeout: Option<Duration>,
}

/// The reason why a job failed, in one line.
#[derive(Debug)]
enum JobError {
    /// The job could succeed with more memory.
    Memory(String),
    Other(String),
}

impl From<&str> for JobError {
    fn from(why: &str) -> Self {
        Self::Other(why.to_owned())
    }
}

/// The error of a job about its input, or the reason why the child failed, in one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WorkerError(pub(crate) String);

impl WorkerError {
    /// Creates the error of a job.
    #[must_use]
    pub fn of_job(error: &impl std::error::Error) -> Self {
        Self(error.to_string())
    }
}

impl WorkerProgram {
    /// The binary of this process, even if its file has been replaced. Its children share this
    /// many bytes of memory.
    ///
    /// # Errors
    /// If the system does not return the path of the binary.
    pub fn current(memory: usize) -> io::Result<Self> {
        Ok(Self::at(process::program()?, memory))
    }

    /// Another binary of opgate.
    pub(crate) fn at(path: PathBuf, memory: usize) -> Self {
        Self { path, pool: Arc::new(MemoryPool::of(memory)), wall_timeout: None }
    }

    /// Runs a job.
    ///
    /// # Errors
    /// The error of the job about its input, or the reason why the child failed, in one line.
    pub fn run(&self, job: Job, parts: &[&[u8]]) -> Result<Vec<u8>, WorkerError> {
        let all = self.pool.parts;
        let few = if job == Job::CompileLarge { all } else { 1 };
        let first = self.attempt(job, parts, &self.pool.acquire(few));
        // The part is free again.
        let done = match first {
            Err(JobError::Memory(_)) if few < all => {
                self.attempt(job, parts, &self.pool.acquire(all))
            }
            other => other,
        };
        done.map_err(|failed| match failed {
            JobError::Memory(why) | JobError::Other(why) => WorkerError(why),
        })
    }

    fn attempt(
        &self,
        job: Job,
        parts: &[&[u8]],
        taken: &MemoryShare<'_>,
    ) -> Result<Vec<u8>, JobError> {
        let size = parts.iter().map(|part| part.len()).sum::<usize>();
        if u64::try_from(size).is_ok_and(|size| size > MAX_INPUT_BYTES) {
            return Err("its input is too large".into());
        }
        let limits = job.limits(taken.memory);
        let threads = job.threads(limits.memory);
        let mut command = Command::new(&self.path);
        let child = process::clear_environment(&mut command)
            .args([WORKER_COMMAND, job.argument(), &limits.memory.to_string()])
            .env("RAYON_NUM_THREADS", threads.to_string())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let child = child.map_err(|e| JobError::Other(format!("no process for it: {e}")))?;
        let wall = self.wall_timeout.unwrap_or(Duration::from_secs(limits.wall_seconds));
        std::thread::scope(|scope| {
            // In any case the child is gone before the thread is joined, which then has no pipes.
            let mut child = KillOnDrop(child);
            let (stdin, stdout) = (child.0.stdin.take(), child.0.stdout.take());
            let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
                return Err("no pipes for it".into());
            };
            let (send, answered) = mpsc::channel();
            std::thread::Builder::new()
                .name("opgate-apart".into())
                .spawn_scoped(scope, move || send.send(exchange(stdin, parts, stdout)))
                .map_err(|e| JobError::Other(format!("no thread for it: {e}")))?;
            match answered.recv_timeout(wall) {
                Ok(Ok((confinement, answer))) => {
                    log_once(confinement);
                    match answer {
                        JobResult::Completed(bytes) => Ok(bytes),
                        JobResult::Rejected(why) => Err(JobError::Other(why)),
                    }
                }
                Ok(Err(_)) => Err(child.wait_exit().map_or_else(
                    || "the process for it gave no answer".into(),
                    |status| exit_error(status, &limits),
                )),
                Err(RecvTimeoutError::Timeout) => {
                    Err(JobError::Other(format!("it was not done after {}s", wall.as_secs())))
                }
                Err(RecvTimeoutError::Disconnected) => Err("its thread failed".into()),
            }
        })
    }
}

/// Logs once how the subprocesses are confined in which components are compiled.
fn log_once(confinement: Confinement) {
    static LOGGED: Once = Once::new();
    let Confinement { is_undumpable: hides, denies_files: files, filters_syscalls: calls } =
        confinement;
    LOGGED.call_once(|| {
        if confinement.is_file_access_denied() {
            tracing::info!(
                memory_hidden = hides,
                landlock = files,
                seccomp = calls,
                "compiler process confined"
            );
        } else if !IS_SUPPORTED {
            tracing::info!(
                limited = process::CAN_LIMIT,
                "compiler process not confined on this system; load only components that you trust"
            );
        } else {
            tracing::warn!(
                memory_hidden = hides,
                landlock = files,
                seccomp = calls,
                "compiler process not confined: the kernel has neither Landlock nor seccomp; load only components that you trust"
            );
        }
    });
}

/// A child that is killed and waited for in any case.
struct KillOnDrop(Child);

impl KillOnDrop {
    /// The exit of a child that has closed its pipe, if it ends now.
    fn wait_exit(&mut self) -> Option<ExitStatus> {
        for _ in 0..100 {
            if let Ok(Some(status)) = self.0.try_wait() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // It is no error if the child has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The reason why there is no result, for users.
fn exit_error(status: ExitStatus, limits: &JobLimits) -> JobError {
    let memory = units::bytes(usize::try_from(limits.memory).unwrap_or(usize::MAX));
    match process::exit_reason(status) {
        ExitReason::CpuTime => {
            JobError::Other(format!("exceeded the CPU time limit of {}s", limits.cpu_seconds))
        }
        ExitReason::Memory => {
            let why = "of memory, or more of the stack than there is";
            JobError::Memory(format!("it takes more than {memory} {why}{}", memory_hint(limits)))
        }
        ExitReason::Killed => {
            let why = "the system has ended the process for it: too little memory";
            JobError::Memory(format!("{why}{}", memory_hint(limits)))
        }
        ExitReason::Other => JobError::Other(format!("the process for it failed ({status})")),
    }
}

/// The remediation for too little memory, if the container sets the limit.
fn memory_hint(limits: &JobLimits) -> &'static str {
    if limits.memory < limits.full_memory {
        "; the memory limit of the container leaves no more: for a policy in JavaScript or Python 512Mi are enough at start, 768Mi for a server that loads it later"
    } else {
        ""
    }
}

enum JobResult {
    Completed(Vec<u8>),
    Rejected(String),
}

/// The first byte of a result: one of these, combined with the confinement of the child.
const COMPLETED: u8 = 0;
const REJECTED: u8 = 1;
const CONFINEMENT_SHIFT: u32 = 4;

fn send(parts: &[&[u8]], stdin: &mut impl Write) -> io::Result<()> {
    for part in parts {
        let length = u64::try_from(part.len()).unwrap_or(u64::MAX);
        stdin.write_all(&length.to_le_bytes())?;
        stdin.write_all(part)?;
    }
    stdin.flush()
}

fn exchange(
    mut stdin: impl Write,
    parts: &[&[u8]],
    mut stdout: impl Read,
) -> io::Result<(Confinement, JobResult)> {
    // A child can respond before the end of its input. Only its result counts.
    let _ = send(parts, &mut stdin);
    drop(stdin);
    let mut first = [0];
    stdout.read_exact(&mut first)?;
    let bytes = read_part(&mut stdout, MAX_OUTPUT_BYTES)?;
    let [first] = first;
    let answer = match first & ((1 << CONFINEMENT_SHIFT) - 1) {
        COMPLETED => JobResult::Completed(bytes),
        REJECTED => {
            let text = String::from_utf8_lossy(&bytes);
            JobResult::Rejected(opgate_text::one_line(&text, MAX_TEXT))
        }
        _ => return Err(io::ErrorKind::InvalidData.into()),
    };
    Ok((Confinement::from_bits(first >> CONFINEMENT_SHIFT), answer))
}

/// A part of a frame. Memory is allocated for the bytes that arrive, not for the announced length.
fn read_part(from: &mut impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut length = [0; 8];
    from.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    if length > most {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::new();
    from.take(length).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).ok() != Some(length) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}

/// Runs a job with the parts of its input; an error is one line.
pub type JobHandler = fn(Job, &[Vec<u8>]) -> Result<Vec<u8>, WorkerError>;

/// Runs the child: the command with `JOB BYTES`.
#[must_use]
pub fn run_child(argument: &str, memory: u64, handler: JobHandler) -> ExitCode {
    let Some(job) = Job::of(argument) else { return ExitCode::FAILURE };
    if apply_limits(&job.limits(memory)).is_err() {
        return ExitCode::FAILURE;
    }
    let confinement = confine();
    // The text of a panic has no reader. The parent reports the panic.
    std::panic::set_hook(Box::new(|_| {}));
    let done = std::panic::catch_unwind(|| {
        let parts = read_parts(&mut io::stdin().lock(), job.input_parts())?;
        match (job, parts.as_slice()) {
            (Job::Confinement, [file, address]) => {
                Ok(try_forbidden_operations(confinement, file, address).into_bytes())
            }
            _ => handler(job, &parts),
        }
    });
    let (kind, bytes) = match done {
        Ok(Ok(bytes)) => (COMPLETED, bytes),
        Ok(Err(why)) => (REJECTED, why.to_string().into_bytes()),
        Err(_) => (REJECTED, b"it makes the compiler panic".to_vec()),
    };
    let mut stdout = io::stdout().lock();
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_le_bytes();
    let written = stdout
        .write_all(&[kind | (confinement.to_bits() << CONFINEMENT_SHIFT)])
        .and_then(|()| stdout.write_all(&length))
        .and_then(|()| stdout.write_all(&bytes))
        .and_then(|()| stdout.flush());
    if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn read_parts(from: &mut impl Read, count: usize) -> Result<Vec<Vec<u8>>, WorkerError> {
    let part =
        |_| read_part(from, MAX_INPUT_BYTES).map_err(|e| WorkerError(format!("its input: {e}")));
    (0..count).map(part).collect()
}

/// Limits this process, before it reads untrusted input.
fn apply_limits(limits: &JobLimits) -> io::Result<()> {
    process::lower_priority(NICE);
    process::limit(&ProcessLimits {
        cpu_seconds: limits.cpu_seconds,
        memory: limits.memory,
        // In addition to memory, because threads and the allocator reserve more than they use.
        address_space: limits.memory.saturating_mul(4).saturating_add(1 << 30),
        open_files: MAX_OPEN_FILES,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A program that is being written while another test forks cannot be started ("text file
    /// busy").
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    /// If a child fails in any way, the error is one line, and no child remains.
    #[test]
    fn failed_subprocess_is_a_one_line_error() {
        let _alone = ONE_AT_A_TIME.lock();
        let directory = tempfile::tempdir().unwrap();
        let script = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            WorkerProgram {
                wall_timeout: Some(Duration::from_secs(60)),
                ..WorkerProgram::at(path, usize::MAX)
            }
        };
        let long = "x".repeat(5_000);
        let cases = [
            ("fails", "exit 7", "the process for it failed (exit status: 7)"),
            ("says-nothing", "cat >/dev/null", "the process for it failed (exit status: 0)"),
            ("burns", "kill -XCPU $$", "exceeded the CPU time limit of 15s"),
            ("aborts", "kill -ABRT $$", "it takes more than 512Mi of memory, or more of the stack"),
            ("is-killed", "kill -KILL $$", "the system has ended the process for it"),
            (
                "lies",
                "printf '\\0\\377\\377\\377\\377\\377\\377\\377\\377'; cat >/dev/null",
                "failed",
            ),
            ("stops", "printf '\\0\\10\\0\\0\\0\\0\\0\\0\\0abc'", "the process for it failed"),
            ("other", "printf '\\7\\0\\0\\0\\0\\0\\0\\0\\0'", "the process for it failed"),
            ("refuses", "printf '\\1\\3\\0\\0\\0\\0\\0\\0\\0a\\nb'; cat >/dev/null", "a b"),
            ("chatters", &format!("printf '\\1\\210\\23\\0\\0\\0\\0\\0\\0{long}'"), "xxx"),
        ];
        for (name, text, says) in cases {
            let error = script(name, text).run(Job::Compile, &[b"input"]).unwrap_err().to_string();
            assert!(error.contains(says), "{name}: {error}");
            assert!(error.len() <= MAX_TEXT && !error.contains('\n'), "{name}: {error}");
        }
        let missing = WorkerProgram::at(directory.path().join("missing"), usize::MAX);
        let error = missing.run(Job::Settings, &[]).unwrap_err().to_string();
        assert!(error.starts_with("no process for it"), "{error}");
    }

    /// The parts add up to the whole memory. A job that needs more than its part waits for all
    /// parts, even if others arrive meanwhile.
    #[test]
    fn large_compilation_waits_for_all_memory_shares() {
        let _alone = ONE_AT_A_TIME.lock();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("needs");
        // Returns its limit, if it is sufficient.
        let script = "#!/bin/sh\ncat >/dev/null\n[ $3 -ge 192000000 ] || kill -ABRT $$\nprintf '\\0\\11\\0\\0\\0\\0\\0\\0\\0%s' $3\n";
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let of = |memory: usize, parts: usize| WorkerProgram {
            pool: Arc::new(MemoryPool { parts, free: Mutex::new(parts), ..MemoryPool::of(memory) }),
            ..WorkerProgram::at(path.clone(), 0)
        };
        let all = of(192_000_000, 3);
        std::thread::scope(|scope| {
            let ask = || all.run(Job::Compile, &[b"input"]);
            let asked: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
            for asked in asked {
                assert_eq!(asked.join().unwrap().unwrap(), b"192000000");
            }
        });
        assert_eq!(*all.pool.free.lock(), 3);
        let error = of(191_000_000, 3).run(Job::Compile, &[b"input"]).unwrap_err().to_string();
        assert!(error.starts_with("it takes more than "), "{error}");
        let most = of(usize::MAX, 1).run(Job::Compile, &[b"input"]).unwrap();
        assert_eq!(most, (512 << 20).to_string().into_bytes(), "a job has a separate limit");
        for (memory, most) in [(0, 1), (48 << 20, 1), (96 << 20, 2), (usize::MAX, MAX_CHILDREN)] {
            let share = MemoryPool::of(memory);
            assert!((1..=most).contains(&share.parts), "{share:?}");
        }
    }

    #[test]
    fn hanging_subprocess_is_killed() {
        let _alone = ONE_AT_A_TIME.lock();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hangs");
        std::fs::write(&path, "#!/bin/sh\nexec sleep 600\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let hangs = WorkerProgram {
            wall_timeout: Some(Duration::ZERO),
            ..WorkerProgram::at(path, usize::MAX)
        };
        // More than a pipe holds: the child does not even read its input.
        let error = hangs.run(Job::Compile, &[&vec![0; 1 << 20]]).unwrap_err();
        assert_eq!(error.to_string(), "it was not done after 0s");
    }
}
