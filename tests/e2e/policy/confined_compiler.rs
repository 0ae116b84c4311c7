//! What the process that compiles a component cannot do, even if an attacker controls it: read the
//! token and the memory of other processes, connect, start programs.
#![cfg(target_os = "linux")]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::BINARY;

/// A user that is not root, which may read everything.
const UNPRIVILEGED_UID: u32 = 65_534;

fn is_root() -> bool {
    rustix::process::getuid().is_root()
}

/// A child as the server starts it, which waits for its input.
fn spawn_subprocess() -> std::io::Result<Child> {
    let mut command = Command::new(BINARY);
    command.args(["apart", "confinement", "134217728"]).env_clear();
    if is_root() {
        command.uid(UNPRIVILEGED_UID).gid(UNPRIVILEGED_UID);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
}

fn send_input(child: &mut Child, parts: [&str; 2]) {
    let mut stdin = child.stdin.take().unwrap();
    for part in parts {
        stdin.write_all(&u64::try_from(part.len()).unwrap().to_le_bytes()).unwrap();
        stdin.write_all(part.as_bytes()).unwrap();
    }
}

/// The first byte of the answer, and its text.
fn read_response(mut child: Child) -> (u8, String) {
    let mut all = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut all).unwrap();
    child.wait().unwrap();
    (all[0], String::from_utf8(all[9..].to_vec()).unwrap())
}

/// Waits until the child has done with itself what it does before it reads.
fn wait_until_confined(child: &Child) -> bool {
    let end = Instant::now() + Duration::from_secs(60);
    while Instant::now() < end {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        if status.lines().any(|line| line == "Seccomp:\t2") {
            return true;
        }
        std::thread::yield_now();
    }
    false
}

#[test]
fn compiler_process_cannot_open_files_or_connect() {
    let directory = tempfile::tempdir().unwrap();
    let token = directory.path().join("token");
    std::fs::write(&token, "secret").unwrap();
    // Whatever it may not, it may not because of itself.
    for path in [directory.path(), &token] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut child = spawn_subprocess().unwrap();
    send_input(&mut child, [token.to_str().unwrap(), &address]);
    let (first, text) = read_response(child);
    let has = |what: &str| text.contains(&format!("{what}: yes"));
    assert_eq!(first & 15, 0, "{text}");
    assert!(has("memory hidden"), "{text}");
    assert_eq!(first >> 4, 1 | (u8::from(has("landlock")) << 1) | (u8::from(has("seccomp")) << 2));
    let refused =
        |what: &str| text.lines().any(|line| line.starts_with(&format!("{what}: refused")));
    if has("landlock") || has("seccomp") {
        assert!(refused("open"), "{text}");
    } else {
        eprintln!("skipped: this kernel has neither Landlock nor seccomp: {text}");
    }
    if has("seccomp") {
        assert!(refused("connect") && refused("execute"), "{text}");
    } else {
        eprintln!("skipped in part: this kernel has no seccomp: {text}");
    }
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err() || !has("seccomp"));
}

#[test]
fn compiler_process_has_no_descriptor_of_its_parent() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    // Like a descriptor that the parent of the server has left open.
    rustix::io::fcntl_setfd(&writer, rustix::io::FdFlags::empty()).unwrap();
    let mut child = spawn_subprocess().unwrap();
    drop(writer);
    // At the end only if the child, which still waits for its input, does not have it.
    reader.read_to_end(&mut Vec::new()).unwrap();
    assert!(child.try_wait().unwrap().is_none());
    send_input(&mut child, ["", ""]);
    assert_eq!(read_response(child).0 & 15, 0);
}

#[test]
fn memory_of_compiler_process_is_hidden_from_its_user() {
    let mut child = spawn_subprocess().unwrap();
    if !wait_until_confined(&child) {
        eprintln!("skipped: this kernel has no seccomp, by which the child is known to be ready");
    }
    let opens = |id: u32| {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &format!("exec 3</proc/{id}/mem")]).stderr(Stdio::null());
        if is_root() {
            command.uid(UNPRIVILEGED_UID).gid(UNPRIVILEGED_UID);
        }
        command.status().unwrap().success()
    };
    let mut plain = Command::new("/bin/sleep");
    plain.arg("600");
    if is_root() {
        plain.uid(UNPRIVILEGED_UID).gid(UNPRIVILEGED_UID);
    }
    let mut plain = plain.spawn().unwrap();
    let (of_plain, of_child) = (opens(plain.id()), opens(child.id()));
    plain.kill().unwrap();
    plain.wait().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!of_child);
    if !of_plain {
        eprintln!("skipped: this kernel hides the memory of every process");
    }
}
