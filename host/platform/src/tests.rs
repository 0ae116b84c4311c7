//! Both implementations, on a system that has both: the same files are opened, and the same are refused.

use std::fs::{self, File};
use std::future::Future as _;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::Path;
use std::process::Command;
use std::task::{Context, Poll, Waker};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::files::{self, OthersAccess};
use crate::process::{self, ExitReason};
use crate::{portable, unix};

type Opened = io::Result<(File, u64)>;

/// A directory with a file, a pipe, and links in it and out of it.
fn directory_with_links(outside: &Path) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    fs::write(outside.join("secret"), "x").unwrap();
    fs::create_dir(path("a")).unwrap();
    fs::write(path("a/b.yaml"), "b").unwrap();
    symlink(outside, path("out")).unwrap();
    symlink("a", path("in")).unwrap();
    symlink("a/b.yaml", path("link")).unwrap();
    symlink("/dev/zero", path("zero")).unwrap();
    mknodat(CWD, path("pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    directory
}

#[test]
fn owners_and_link_counts_are_those_of_the_system() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    for name in ["old", "new"] {
        fs::write(path(name), "x").unwrap();
    }
    fs::hard_link(path("old"), path("second")).unwrap();
    // Only root can give a file away.
    let _ = chown(path("old"), Some(12), Some(34));
    let old = fs::metadata(path("old")).unwrap();
    let new = File::options().write(true).open(path("new")).unwrap();
    files::copy_owner(&new, &old);
    let found = new.metadata().unwrap();
    assert_eq!((found.uid(), found.gid()), (old.uid(), old.gid()));
    assert_eq!((files::link_count(&old), files::link_count(&found)), (2, 1));
    portable::copy_owner(&new, &old);
    assert_eq!(portable::link_count(&old), 1);
}

#[test]
fn only_regular_files_inside_the_directory_are_opened() {
    let outside = tempfile::tempdir().unwrap();
    let directory = directory_with_links(outside.path());
    let (exact, fallback) = (
        unix::Directory::open(directory.path()).unwrap(),
        portable::Directory::open(directory.path()).unwrap(),
    );
    let opens: [&dyn Fn(&Path) -> Opened; 2] =
        [&|path| exact.open_below(path), &|path| fallback.open_below(path)];
    for open in opens {
        assert_eq!(open(Path::new("a/b.yaml")).unwrap().1, 1);
        for (path, why) in [
            ("pipe", "not a regular file, but"),
            ("zero", "not a regular file, but a symbolic link"),
            ("link", "not a regular file, but a symbolic link"),
            ("a", "not a regular file, but a directory"),
            ("", "not a regular file, but a directory"),
            ("../x", "not below the directory"),
            ("/dev/zero", "not below the directory"),
            ("out/secret", "Not a directory"),
            ("in/b.yaml", "Not a directory"),
            ("a/b.yaml/c", "Not a directory"),
            ("missing", "No such file"),
        ] {
            let error = open(Path::new(path)).unwrap_err().to_string();
            assert!(error.contains(why), "{path}: {error}");
        }
    }
    for path in ["a/b.yaml", "missing"] {
        let path = directory.path().join(path);
        assert!(unix::Directory::open(&path).is_err() && portable::Directory::open(&path).is_err());
    }
}

#[test]
fn links_are_followed_only_where_the_user_named_the_file() {
    let outside = tempfile::tempdir().unwrap();
    let directory = directory_with_links(outside.path());
    for (name, is_opened, is_opened_without_link) in [
        ("a/b.yaml", true, true),
        ("link", true, false),
        ("zero", false, false),
        ("pipe", false, false),
        ("a", false, false),
        ("missing", false, false),
    ] {
        let path = directory.path().join(name);
        for open in [unix::open_regular, portable::open_regular] {
            assert_eq!(open(&path).is_ok(), is_opened, "{name}");
        }
        for open in [unix::open_without_link, portable::open_without_link] {
            assert_eq!(open(&path).is_ok(), is_opened_without_link, "{name}");
        }
    }
}

#[test]
fn parts_of_a_file_are_read_by_offset() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("text");
    fs::write(&path, "0123456789").unwrap();
    let file = File::open(path).unwrap();
    for read_at in [unix::read_at, portable::read_at] {
        for (offset, expected) in [(7, "789"), (2, "2345"), (10, "")] {
            let mut bytes = [0; 4];
            let count = read_at(&file, &mut bytes, offset).unwrap();
            assert_eq!(std::str::from_utf8(&bytes[..count]).unwrap(), expected);
        }
    }
}

#[test]
fn private_files_are_for_this_user_only() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("a/b");
    files::create_private_directory(&directory).unwrap();
    portable::create_private_directory(&directory).unwrap();
    let path = directory.join("key");
    drop(files::new_private_file().open(&path).unwrap());
    assert!(files::new_private_file().open(&path).is_err(), "there is one");
    let mut options = fs::OpenOptions::new();
    portable::set_mode(options.write(true).create_new(true), 0o600);
    options.open(directory.join("other")).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&directory), mode(&path)), (0o700, 0o600));
    let owned = |others| files::ensure_owned(&path, &fs::metadata(&path).unwrap(), others);
    assert!(owned(OthersAccess::None).is_ok() && owned(OthersAccess::Read).is_ok());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(owned(OthersAccess::None).is_err() && owned(OthersAccess::Read).is_ok());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    assert!(owned(OthersAccess::Read).is_err());
}

#[test]
fn without_owners_only_the_home_directory_is_trusted() {
    let (home, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let inside = home.path().join("cache");
    portable::create_private_directory(&inside).unwrap();
    symlink(other.path(), home.path().join("link")).unwrap();
    assert!(portable::ensure_below(&inside, Some(home.path())).is_ok());
    let root = Path::new("/");
    let metadata = fs::metadata(root).unwrap();
    assert!(portable::ensure_owned(root, &metadata, OthersAccess::Read).is_err());
    if let Some(found) = unix::home_directory() {
        assert_eq!(portable::home_directory(), Some(found));
    }
    for (path, home) in [
        (other.path(), Some(home.path())),
        (home.path().join("link").as_path(), Some(home.path())),
        (inside.as_path(), None),
    ] {
        let error = portable::ensure_below(path, home).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }
}

#[test]
fn paths_are_shown_with_slashes() {
    let path = Path::new("a").join("b/c.yaml");
    assert_eq!(files::display_path(&path), "a/b/c.yaml");
    assert_eq!(portable::display_path(&path), "a/b/c.yaml");
    assert_eq!(portable::with_slashes("C:\\a\\b/c.yaml"), "C:/a/b/c.yaml");
    assert_eq!(unix::display_path(Path::new("a\\b")), "a\\b", "a name");
}

#[test]
fn temporary_paths_get_other_names_in_messages() {
    let directory = Path::new("t").join("x");
    let (native, shown) = (directory.join("a.yaml"), files::display_path(&directory));
    let message = format!("{}: no; {shown}/b/c.yaml: no; {shown}: empty", native.display());
    assert_eq!(
        files::remove_directory(&message, &directory, "(input)"),
        "a.yaml: no; b/c.yaml: no; (input): empty"
    );
    let message = format!("{}: no; {shown}/a.yaml:1: no", native.display());
    assert_eq!(files::rename_path(&message, &native, "-"), "-: no; -:1: no");
    assert_eq!(files::rename_path("t/a: no", Path::new("t/a"), "t/a/b"), "t/a/b: no");
}

#[test]
fn addresses_of_files_name_drives() {
    for (address, path) in [("/a b/c", "/a b/c"), ("/C:/a/b", "C:/a/b")] {
        assert_eq!(portable::from_address(address), Path::new(path));
        assert_eq!(portable::to_address(Path::new(path)), address);
        assert_eq!(unix::from_address(address), Path::new(address));
        assert_eq!(unix::to_address(Path::new(address)), address);
    }
    assert_eq!(portable::to_address(Path::new("\\\\?\\C:\\a")), "/C:/a");
}

#[test]
fn exit_reasons_are_told_from_the_status() {
    let run = |script: &str| Command::new("sh").args(["-c", script]).status().unwrap();
    for (script, reason) in [
        ("kill -XCPU $$", ExitReason::CpuTime),
        ("kill -ABRT $$", ExitReason::Memory),
        ("kill -SEGV $$", ExitReason::Memory),
        ("kill -KILL $$", ExitReason::Killed),
        ("kill -TERM $$", ExitReason::Other),
        ("exit 3", ExitReason::Other),
    ] {
        let status = run(script);
        assert_eq!(unix::exit_reason(status), reason, "{script}");
        assert_eq!(portable::exit_reason(status), ExitReason::Other, "{script}");
    }
    // Codes of Windows: access violation, stack overflow, abort; and of programs.
    for (code, reason) in [
        (-1_073_741_819, ExitReason::Memory),
        (-1_073_741_571, ExitReason::Memory),
        (-1_073_740_791, ExitReason::Memory),
        (1, ExitReason::Other),
        (-1, ExitReason::Other),
    ] {
        assert_eq!(portable::exit_reason_of_code(code), reason, "{code}");
    }
}

#[test]
fn child_starts_with_the_needed_variables_alone() {
    let mut command = Command::new("/usr/bin/env");
    let output = process::clear_environment(&mut command).output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty());
}

#[test]
fn system_without_limits_says_so_and_goes_on() {
    let limits =
        process::ProcessLimits { cpu_seconds: 1, memory: 1, address_space: 1, open_files: 1 };
    // It would end this process if it had an effect.
    portable::limit(&limits).unwrap();
    portable::lower_priority(10);
    portable::disable_core_dumps().unwrap();
    assert_eq!([unix::CAN_LIMIT, portable::CAN_LIMIT], [true, false]);
    assert!(unix::thread_cpu_time().is_some() && portable::thread_cpu_time().is_none());
    assert_eq!(portable::raise_descriptor_limit(), usize::MAX);
    let full = io::Error::from(rustix::io::Errno::MFILE);
    assert!(unix::is_out_of_descriptors(&full) && !portable::is_out_of_descriptors(&full));
    assert!(!unix::is_out_of_descriptors(&io::ErrorKind::TimedOut.into()));
    for program in [unix::program(), portable::program()] {
        assert!(program.unwrap().exists());
    }
    assert!(process::open_null().is_ok());
    assert_eq!(portable::NULL_DEVICE, unix::NULL_DEVICE);
    assert_eq!(portable::NEEDED_VARIABLES, ["SystemRoot"]);
}

#[tokio::test]
async fn hangup_is_never_received_where_there_is_none() {
    let mut context = Context::from_waker(Waker::noop());
    let mut fallback = portable::Hangup::new().unwrap();
    let mut received = std::pin::pin!(fallback.recv());
    assert_eq!(received.as_mut().poll(&mut context), Poll::Pending);
    let mut ended = portable::termination().unwrap();
    assert_eq!(ended.as_mut().poll(&mut context), Poll::Pending);
}
