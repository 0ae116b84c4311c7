//! Removes the access of a subprocess to everything that a compiler does not need, before it reads
//! a component.
//!
//! An attacker who exploits a bug in the compiler runs code in this process, as the user of the
//! server. The limits of the process protect the machine. This module protects the resources of
//! the server: its memory, its files (the token of its service account, keys), its network.
//!
//! ```text
//! descriptors closed ─▶ not dumpable ─▶ Landlock: no file, no port ─▶ seccomp: no such system calls ─▶ input
//! ```
//!
//! Each step is applied as far as the kernel supports it. [`Confinement`] records the result, and
//! the server logs it. The process has no separate namespaces, and the filter of system calls
//! lists denied calls, not allowed ones: compilers start threads and map memory in ways that
//! differ between systems.

use std::fmt;

/// The confinement of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Confinement {
    /// No process of the same user can read its memory.
    pub(crate) is_undumpable: bool,
    /// Landlock: it opens no file, and cannot reach processes outside.
    pub(crate) denies_files: bool,
    /// Seccomp: it opens no file and no socket, and starts no program.
    pub(crate) filters_syscalls: bool,
}

impl Confinement {
    /// As a number below 8.
    pub(crate) fn to_bits(self) -> u8 {
        u8::from(self.is_undumpable)
            | (u8::from(self.denies_files) << 1)
            | (u8::from(self.filters_syscalls) << 2)
    }

    /// From a number below 8.
    pub(crate) fn from_bits(bits: u8) -> Self {
        Self {
            is_undumpable: bits & 1 != 0,
            denies_files: bits & 2 != 0,
            filters_syscalls: bits & 4 != 0,
        }
    }

    /// Whether the process cannot open files, by either of the two.
    pub(crate) fn is_file_access_denied(self) -> bool {
        self.is_undumpable && (self.denies_files || self.filters_syscalls)
    }
}

impl fmt::Display for Confinement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let yes = |is: bool| if is { "yes" } else { "no" };
        let Self { is_undumpable: hides, denies_files: files, filters_syscalls: calls } = *self;
        write!(
            f,
            "memory hidden: {}, landlock: {}, seccomp: {}",
            yes(hides),
            yes(files),
            yes(calls)
        )
    }
}

/// Whether opgate confines processes on this system.
pub(crate) const IS_SUPPORTED: bool = cfg!(target_os = "linux");

/// Confines this process, which has no other thread yet.
#[cfg(target_os = "linux")]
pub(crate) fn confine() -> Confinement {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};

    // The server's own descriptors have the close-on-exec flag. Others are inherited from the
    // process that started the server.
    opgate_system::close_inherited_descriptors();
    Confinement {
        is_undumpable: set_dumpable_behavior(DumpableBehavior::NotDumpable).is_ok(),
        denies_files: linux::restrict_files().unwrap_or(false),
        filters_syscalls: linux::restrict_syscalls().is_ok(),
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn confine() -> Confinement {
    Confinement::default()
}

/// Tries operations in a confined process and returns the results line by line, for tests: whether
/// it opens a file, reaches an address and starts a program.
pub(crate) fn try_forbidden_operations(
    confinement: Confinement,
    file: &[u8],
    address: &[u8],
) -> String {
    let said = |done: std::io::Result<()>| match done {
        Ok(()) => "done".to_owned(),
        Err(error) => format!("refused: {error}"),
    };
    let open = std::str::from_utf8(file)
        .map_err(std::io::Error::other)
        .and_then(|path| std::fs::File::open(path).map(drop));
    let connect = std::str::from_utf8(address)
        .map_err(std::io::Error::other)
        .and_then(|address| std::net::TcpStream::connect(address).map(drop));
    let execute = opgate_platform::process::program()
        .and_then(|program| std::process::Command::new(program).arg("version").output().map(drop));
    format!(
        "{confinement}\nopen: {}\nconnect: {}\nexecute: {}",
        said(open),
        said(connect),
        said(execute)
    )
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeMap;

    use landlock::{
        ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, Ruleset,
        RulesetAttr as _, RulesetError, RulesetStatus, Scope,
    };
    use seccompiler::{
        BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
        SeccompRule, TargetArch,
    };

    /// No rule allows anything. An older kernel denies the operations that it supports.
    const LANDLOCK_ABI: ABI = ABI::V6;

    /// Denies access to files; returns whether the kernel enforces it.
    pub(super) fn restrict_files() -> Result<bool, RulesetError> {
        let restricted = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(LANDLOCK_ABI))?
            .handle_access(AccessNet::from_all(LANDLOCK_ABI))?
            .scope(Scope::from_all(LANDLOCK_ABI))?
            .create()?
            .restrict_self()?;
        Ok(restricted.ruleset != RulesetStatus::NotEnforced)
    }

    /// System calls that a compiler does not make: files, network, programs and other processes,
    /// and calls with an equivalent effect.
    const DENIED_SYSCALLS: &[i64] = &[
        // Files. Landlock does not cover inherited descriptors, nor some changes.
        libc::SYS_openat,
        libc::SYS_openat2,
        libc::SYS_open_by_handle_at,
        libc::SYS_name_to_handle_at,
        libc::SYS_truncate,
        libc::SYS_unlinkat,
        libc::SYS_renameat2,
        libc::SYS_linkat,
        libc::SYS_symlinkat,
        libc::SYS_mkdirat,
        libc::SYS_mknodat,
        libc::SYS_fchmodat,
        libc::SYS_fchownat,
        libc::SYS_utimensat,
        libc::SYS_chroot,
        libc::SYS_pivot_root,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_fsopen,
        libc::SYS_open_tree,
        libc::SYS_move_mount,
        libc::SYS_setns,
        libc::SYS_unshare,
        libc::SYS_memfd_create,
        // Network.
        libc::SYS_socket,
        libc::SYS_socketpair,
        libc::SYS_connect,
        libc::SYS_bind,
        libc::SYS_listen,
        libc::SYS_accept,
        libc::SYS_accept4,
        libc::SYS_sendto,
        libc::SYS_sendmsg,
        libc::SYS_sendmmsg,
        libc::SYS_recvfrom,
        libc::SYS_recvmsg,
        libc::SYS_recvmmsg,
        // It would do all of them without a system call.
        libc::SYS_io_uring_setup,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
        // Programs and other processes.
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_process_madvise,
        libc::SYS_pidfd_open,
        libc::SYS_pidfd_getfd,
        libc::SYS_pidfd_send_signal,
        libc::SYS_kcmp,
        libc::SYS_kill,
        libc::SYS_tkill,
        libc::SYS_rt_sigqueueinfo,
        libc::SYS_rt_tgsigqueueinfo,
        libc::SYS_setpriority,
        libc::SYS_sched_setscheduler,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setattr,
        libc::SYS_ioprio_set,
        libc::SYS_shmget,
        libc::SYS_shmat,
        libc::SYS_msgget,
        libc::SYS_semget,
        libc::SYS_mq_open,
        // The kernel itself.
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_keyctl,
        libc::SYS_add_key,
        libc::SYS_request_key,
    ];

    /// Older names of the same calls, which newer architectures do not have.
    #[cfg(target_arch = "x86_64")]
    const DENIED_LEGACY_SYSCALLS: &[i64] = &[
        libc::SYS_open,
        libc::SYS_creat,
        libc::SYS_unlink,
        libc::SYS_rename,
        libc::SYS_renameat,
        libc::SYS_link,
        libc::SYS_symlink,
        libc::SYS_mkdir,
        libc::SYS_rmdir,
        libc::SYS_mknod,
        libc::SYS_chmod,
        libc::SYS_chown,
        libc::SYS_lchown,
        libc::SYS_fork,
        libc::SYS_vfork,
    ];
    #[cfg(not(target_arch = "x86_64"))]
    const DENIED_LEGACY_SYSCALLS: &[i64] = &[];

    /// The bit of x32, with which these calls have other numbers on the same architecture, and the
    /// numbers that only x32 has.
    const X32: i64 = 0x4000_0000;
    const ONLY_X32: std::ops::RangeInclusive<i64> = 512..=547;

    /// Refuses system calls.
    pub(super) fn restrict_syscalls() -> Result<(), seccompiler::Error> {
        let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
        for call in DENIED_SYSCALLS.iter().chain(DENIED_LEGACY_SYSCALLS) {
            rules.insert(*call, Vec::new());
        }
        // The limits of another process.
        let other = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, 0)?;
        rules.insert(libc::SYS_prlimit64, vec![SeccompRule::new(vec![other])?]);
        if cfg!(target_arch = "x86_64") {
            let same: Vec<i64> = rules.keys().map(|call| call | X32).collect();
            let more = same.into_iter().chain(ONLY_X32.map(|call| call | X32));
            rules.extend(more.map(|call| (call, Vec::new())));
        }
        let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
        let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, architecture)?;
        let program = BpfProgram::try_from(filter)?;
        seccompiler::apply_filter(&program)
    }
}
