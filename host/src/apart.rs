//! Work on what strangers have written, in a child process of the same binary: whatever becomes of it,
//! the server goes on.
//!
//! ```text
//! Program::ask ─▶ /proc/self/exe apart ─▶ limits of the process ─▶ job ─▶ answer ─▶ Program::ask
//!      │             (no environment)        (before any input)                        ▲
//!      └── watches the clock, kills ───────────────────────────────────────────────────┘
//! ```
//!
//! The child limits itself before it reads anything: time of the processor, memory, files (none may
//! grow), core dumps. It dies with its parent. Frames have lengths in front, which the reader bounds.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, Signal};

use crate::policy::units;

/// Name of the subcommand; it is in no help.
pub(crate) const COMMAND: &str = "apart";

/// Largest input of a job, larger than any component, and largest output, that of an image.
const MAX_INPUT: u64 = 64 << 20;
const MAX_OUTPUT: u64 = 256 << 20;

/// Longest text of a refusal.
const MAX_TEXT: usize = 1_024;

/// Open files: the pipes, and what the standard library looks up to count processors.
const FILES: u64 = 32;

/// Whoever serves goes first.
const NICE: i32 = 10;

/// What a child can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Job {
    /// Compiles a component.
    Compile,
    /// Checks settings against a schema.
    Settings,
}

/// What a job may use.
struct Limits {
    /// Seconds of the processor, and on the wall.
    processor: u64,
    wall: u64,
    /// Bytes of memory.
    memory: u64,
}

impl Job {
    const fn limits(self) -> Limits {
        match self {
            Self::Compile => Limits { processor: 15, wall: 60, memory: 512 << 20 },
            Self::Settings => Limits { processor: 5, wall: 20, memory: 128 << 20 },
        }
    }

    fn argument(self) -> &'static str {
        match self {
            Self::Compile => "compile",
            Self::Settings => "settings",
        }
    }

    fn of(argument: &str) -> Option<Self> {
        [Self::Compile, Self::Settings].into_iter().find(|job| job.argument() == argument)
    }
}

/// The program that does jobs: this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    path: PathBuf,
    /// Instead of a job's own; for tests.
    wall: Option<Duration>,
}

impl Program {
    /// The binary of this process, also where its file has been replaced since.
    ///
    /// # Errors
    /// Where the system does not say which that is.
    pub fn this() -> io::Result<Self> {
        let running = Path::new("/proc/self/exe");
        let path = if running.exists() { running.to_path_buf() } else { std::env::current_exe()? };
        Ok(Self { path, wall: None })
    }

    /// Another binary of opgate.
    pub(crate) fn at(path: PathBuf) -> Self {
        Self { path, wall: None }
    }

    /// Has a job done.
    ///
    /// # Errors
    /// What the job says against its input, or what became of the child, in one line.
    pub(crate) fn ask(&self, job: Job, parts: &[&[u8]]) -> Result<Vec<u8>, String> {
        let input = frame(parts).ok_or("its input is too large")?;
        let child = Command::new(&self.path)
            .args([COMMAND, job.argument()])
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut child = Kept(child.map_err(|e| format!("no process for it: {e}"))?);
        let (stdin, stdout) = (child.0.stdin.take(), child.0.stdout.take());
        let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
            return Err("no pipes for it".to_owned());
        };
        let (send, answered) = mpsc::channel();
        let spawned = std::thread::Builder::new()
            .name("opgate-apart".into())
            .spawn(move || send.send(exchange(stdin, &input, stdout)));
        spawned.map_err(|e| format!("no thread for it: {e}"))?;
        let limits = job.limits();
        let wall = self.wall.unwrap_or(Duration::from_secs(limits.wall));
        match answered.recv_timeout(wall) {
            Ok(Ok(Answer::Done(bytes))) => Ok(bytes),
            Ok(Ok(Answer::Refused(why))) => Err(why),
            Ok(Err(_)) => Err(child.fate().map_or_else(
                || "the process for it gave no answer".to_owned(),
                |status| became(status, &limits),
            )),
            Err(RecvTimeoutError::Timeout) => {
                Err(format!("it was not done after {}s", wall.as_secs()))
            }
            Err(RecvTimeoutError::Disconnected) => Err("its thread failed".to_owned()),
        }
    }
}

/// A child that is killed and waited for, whatever happens.
struct Kept(Child);

impl Kept {
    /// What became of a child that has closed its end, if it ends now.
    fn fate(&mut self) -> Option<ExitStatus> {
        for _ in 0..100 {
            if let Ok(Some(status)) = self.0.try_wait() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // One that has ended already is no error.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Why there is no answer, for people.
fn became(status: ExitStatus, limits: &Limits) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    let memory = units::bytes(usize::try_from(limits.memory).unwrap_or(usize::MAX));
    let is = |signal: Signal| status.signal() == Some(signal.as_raw());
    if is(Signal::XCPU) {
        format!("it takes more than {}s of processor time", limits.processor)
    } else if is(Signal::ABORT) || is(Signal::SEGV) {
        format!("it takes more than {memory} of memory, or more of the stack than there is")
    } else if is(Signal::KILL) {
        "the system has ended the process for it: too little memory".to_owned()
    } else {
        format!("the process for it failed ({status})")
    }
}

enum Answer {
    Done(Vec<u8>),
    Refused(String),
}

const DONE: u8 = 0;
const REFUSED: u8 = 1;

fn frame(parts: &[&[u8]]) -> Option<Vec<u8>> {
    let mut frame = Vec::new();
    for part in parts {
        frame.extend_from_slice(&u64::try_from(part.len()).ok()?.to_le_bytes());
        frame.extend_from_slice(part);
    }
    (u64::try_from(frame.len()).ok()? <= MAX_INPUT).then_some(frame)
}

fn exchange(mut stdin: impl Write, input: &[u8], mut stdout: impl Read) -> io::Result<Answer> {
    // Who has heard enough may answer before the end of its input: what it says is what counts.
    let _ = stdin.write_all(input);
    drop(stdin);
    let mut kind = [0];
    stdout.read_exact(&mut kind)?;
    let bytes = read_part(&mut stdout, MAX_OUTPUT)?;
    match kind {
        [DONE] => Ok(Answer::Done(bytes)),
        [REFUSED] => {
            let text = String::from_utf8_lossy(&bytes);
            Ok(Answer::Refused(crate::text::one_line(&text, MAX_TEXT)))
        }
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// A part of a frame. Memory is taken as the bytes come, not as the length promises.
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

/// The child: `opgate apart JOB`.
#[must_use]
pub(crate) fn child(argument: &str) -> ExitCode {
    let Some(job) = Job::of(argument) else { return ExitCode::FAILURE };
    if limit(&job.limits()).is_err() {
        return ExitCode::FAILURE;
    }
    // What a panic says is for nobody: the parent says that there was one.
    std::panic::set_hook(Box::new(|_| {}));
    let done = std::panic::catch_unwind(|| {
        let mut stdin = io::stdin().lock();
        match job {
            Job::Compile => {
                let parts = read_parts(&mut stdin)?;
                let [settings, key, purpose, component] = parts;
                crate::engine::compile_job(&settings, &key, &purpose, &component)
            }
            Job::Settings => {
                let [schema, settings] = read_parts(&mut stdin)?;
                crate::policy::settings_job(&schema, &settings)
            }
        }
    });
    let (kind, bytes) = match done {
        Ok(Ok(bytes)) => (DONE, bytes),
        Ok(Err(why)) => (REFUSED, why.into_bytes()),
        Err(_) => (REFUSED, b"it makes the compiler panic".to_vec()),
    };
    let mut stdout = io::stdout().lock();
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_le_bytes();
    let written = stdout
        .write_all(&[kind])
        .and_then(|()| stdout.write_all(&length))
        .and_then(|()| stdout.write_all(&bytes))
        .and_then(|()| stdout.flush());
    if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn read_parts<const N: usize>(from: &mut impl Read) -> Result<[Vec<u8>; N], String> {
    let mut parts = [const { Vec::new() }; N];
    for part in &mut parts {
        *part = read_part(from, MAX_INPUT).map_err(|e| format!("its input: {e}"))?;
    }
    Ok(parts)
}

/// Limits this process, before it has seen anything of a stranger's.
fn limit(limits: &Limits) -> io::Result<()> {
    // Not left over when the server is killed.
    #[cfg(target_os = "linux")]
    {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // Where memory is short in all, this is what can be done without. It is not allowed
        // everywhere.
        let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    }
    let _ = rustix::process::nice(NICE);
    let at = |limit: u64| Rlimit { current: Some(limit), maximum: Some(limit) };
    let cpu = Rlimit { current: Some(limits.processor), maximum: Some(limits.processor + 1) };
    // Address space beside memory: threads and the allocator reserve more than they use.
    let space = limits.memory.saturating_mul(4);
    for (resource, limit) in [
        (Resource::Cpu, cpu),
        (Resource::Data, at(limits.memory)),
        (Resource::As, at(space.saturating_add(1 << 30))),
        (Resource::Fsize, at(0)),
        (Resource::Nofile, at(FILES)),
        (Resource::Core, at(0)),
    ] {
        rustix::process::setrlimit(resource, limit)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A program that is being written while another test forks cannot be started ("text file busy").
    static ONE_AT_A_TIME: parking_lot::Mutex<()> = parking_lot::Mutex::new(());

    /// Whatever a child does, there is one line, and no child is left.
    #[test]
    fn a_child_that_fails_is_an_error_in_one_line() {
        let _alone = ONE_AT_A_TIME.lock();
        let folder = tempfile::tempdir().unwrap();
        let script = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            Program { path, wall: Some(Duration::from_secs(60)) }
        };
        let long = "x".repeat(5_000);
        let cases = [
            ("fails", "exit 7", "the process for it failed (exit status: 7)"),
            ("says-nothing", "cat >/dev/null", "the process for it failed (exit status: 0)"),
            ("burns", "kill -XCPU $$", "it takes more than 15s of processor time"),
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
            let error = script(name, text).ask(Job::Compile, &[b"input"]).unwrap_err();
            assert!(error.contains(says), "{name}: {error}");
            assert!(error.len() <= MAX_TEXT && !error.contains('\n'), "{name}: {error}");
        }
        let missing = Program { path: folder.path().join("missing"), wall: None };
        let error = missing.ask(Job::Settings, &[]).unwrap_err();
        assert!(error.starts_with("no process for it"), "{error}");
    }

    #[test]
    fn a_child_that_hangs_is_killed() {
        let _alone = ONE_AT_A_TIME.lock();
        let hangs = Program { path: PathBuf::from("/bin/cat"), wall: Some(Duration::ZERO) };
        // `cat apart compile` fails; a shell that waits for input that never ends does not.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hangs");
        std::fs::write(&path, "#!/bin/sh\nexec sleep 600\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let hangs = Program { path, ..hangs };
        // More than a pipe holds: not even its input is taken.
        let error = hangs.ask(Job::Compile, &[&vec![0; 1 << 20]]).unwrap_err();
        assert_eq!(error, "it was not done after 0s");
    }
}
