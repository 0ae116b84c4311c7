//! The memory limit of the process, and the defaults that follow from it.
//!
//! In a container this is the limit of its control group, or of one above it; otherwise it is the
//! memory of the machine. By default, a server uses these parts of it for its clients:
//!
//! | of the limit | for | at most |
//! |---|---|---|
//! | a quarter | memory of requests ([`super::request_memory`]) | 256 MiB |
//! | a quarter | connections, of 64 KiB each | 4,096 connections |
//! | a quarter | objects of the cluster that policies read (`opgate_admission::cluster`) | |
//! | three eighths, or all but 128 MiB up to three quarters if that is more | subprocesses that compile, before clients connect | 1 GiB each |
//!
//! The rest is for the program, and for the policies' code and instances.
//!
//! While the server serves, other work, such as loading another configuration, gets the rest of
//! the limit after the current memory of the process and the memory that requests may still use
//! ([`DefaultLimits::remaining_bytes`]).

use std::fs;
use std::path::{Component, Path};

/// Memory of requests if there is enough.
const MAX_REQUEST_BYTES: usize = 256 << 20;

/// Connections if there is enough memory.
const MAX_CONNECTIONS: usize = 4_096;

/// The useful minimum.
const MIN_CONNECTIONS: usize = 64;

/// Maximum bytes of a connection between requests: its share of the buffers for TLS and HTTP.
const CONNECTION_BYTES: usize = 64 << 10;

/// Enough for a server that loads its policies: a component, its image, and those of others.
const PROCESS_RESERVE_BYTES: usize = 128 << 20;

/// The part of the limit that stays free.
const RESERVE_DIVISOR: usize = 16;

/// A limit of this size or above means no limit. Control groups v1 cannot express it otherwise.
const UNLIMITED_BYTES: u64 = 1 << 60;

/// The default limits for clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DefaultLimits {
    /// The lowest of all limits, if there is one.
    pub limit: Option<usize>,
    /// Bytes that requests may hold.
    pub request_bytes: usize,
    /// Connections of the webhook port.
    pub connections: usize,
    /// Bytes of the cluster objects that are kept.
    pub cluster_cache_bytes: usize,
    /// Bytes that child processes may use together, before there are requests and connections.
    pub subprocess_bytes: usize,
}

/// The values for a machine with enough memory.
impl Default for DefaultLimits {
    fn default() -> Self {
        Self::within(None)
    }
}

impl DefaultLimits {
    /// Reads the limits of the system whose directories `proc` and `sys` are in `root`.
    #[must_use]
    pub fn of(root: &Path) -> Self {
        Self::within(lowest_limit(root))
    }

    /// Bytes that are left for other work in the process, if requests use `requests` more; none if
    /// there is no limit. `root` contains the directory `proc` of the system. A sixteenth of the
    /// limit stays free, for memory that is not counted here.
    #[must_use]
    pub fn remaining_bytes(&self, root: &Path, requests: usize) -> Option<usize> {
        let limit = self.limit?;
        let status = fs::read_to_string(root.join("proc/self/status")).unwrap_or_default();
        // Pages of files can be dropped and read again.
        let own = ["RssAnon:", "RssShmem:"].iter().filter_map(|name| parse_kib(&status, name));
        let own = own.fold(0_u64, u64::saturating_add);
        let own = usize::try_from(own).unwrap_or(usize::MAX);
        Some(
            [own, requests, limit / RESERVE_DIVISOR].into_iter().fold(limit, usize::saturating_sub),
        )
    }

    fn within(limit: Option<usize>) -> Self {
        let part = |most: usize, divisor: usize| limit.map_or(most, |all| most.min(all / divisor));
        let connections = part(MAX_CONNECTIONS * CONNECTION_BYTES, 4) / CONNECTION_BYTES;
        Self {
            limit,
            request_bytes: part(MAX_REQUEST_BYTES, 4),
            connections: connections.max(MIN_CONNECTIONS),
            cluster_cache_bytes: part(usize::MAX, 4),
            subprocess_bytes: limit.map_or(usize::MAX, |all| {
                (all / 8 * 3).max(all.saturating_sub(PROCESS_RESERVE_BYTES).min(all / 4 * 3))
            }),
        }
    }
}

/// The lowest of the limits of the process and of the machine's memory.
fn lowest_limit(root: &Path) -> Option<usize> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let groups = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        Some((controllers, path))
    });
    let mut limits: Vec<u64> = machine_memory(root).into_iter().collect();
    for (controllers, path) in groups {
        if controllers.is_empty() {
            for mount in ["sys/fs/cgroup", "sys/fs/cgroup/unified"] {
                limits.extend(lowest_cgroup_limit(&root.join(mount), path, "memory.max"));
            }
        } else if controllers.split(',').any(|controller| controller == "memory") {
            let mount = root.join("sys/fs/cgroup/memory");
            limits.extend(lowest_cgroup_limit(&mount, path, "memory.limit_in_bytes"));
        }
    }
    let least = limits.into_iter().min()?;
    usize::try_from(least).ok()
}

/// The lowest limit of a group and those above it. In a container, the path can be that of the
/// host, and the group itself the mounted one: a missing group has no limit.
fn lowest_cgroup_limit(mount: &Path, path: &str, file: &str) -> Option<u64> {
    let names = Path::new(path).components().filter_map(|component| match component {
        Component::Normal(name) => Some(name),
        _ => None,
    });
    let mut directory = mount.to_path_buf();
    let mut limits: Vec<_> = read_number(&directory.join(file)).into_iter().collect();
    for name in names {
        directory.push(name);
        limits.extend(read_number(&directory.join(file)));
    }
    limits.into_iter().min()
}

fn read_number(file: &Path) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    text.trim().parse().ok().filter(|limit| (1..UNLIMITED_BYTES).contains(limit))
}

/// `MemTotal:       16384256 kB`
fn machine_memory(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    parse_kib(&text, "MemTotal:")
}

/// Bytes in a line such as `RssAnon:     1024 kB`.
fn parse_kib(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1 << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limit in these files.
    fn limit_from_files(files: &[(&str, &str)]) -> Option<usize> {
        let directory = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        lowest_limit(directory.path())
    }

    /// Files and the resulting limit.
    type Case<'c> = (&'c [(&'c str, &'c str)], Option<usize>);

    #[test]
    fn lowest_memory_limit_of_the_cgroup_tree_counts() {
        let meminfo = ("proc/meminfo", "MemTotal:        4194304 kB\nMemFree: 1 kB\n");
        let v2 = ("proc/self/cgroup", "0::/kubepods/pod1/container\n");
        let v1 = ("proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/docker/c1\n0::/\n");
        let none = "9223372036854771712\n";
        let cases: [Case<'_>; 8] = [
            (&[], None),
            (&[meminfo], Some(4 << 30)),
            (&[meminfo, v2, ("sys/fs/cgroup/memory.max", "max\n")], Some(4 << 30)),
            // The limit of the group, of one above it, and of a container that sees only itself.
            (
                &[meminfo, v2, ("sys/fs/cgroup/kubepods/pod1/container/memory.max", "134217728\n")],
                Some(128 << 20),
            ),
            (
                &[
                    v2,
                    ("sys/fs/cgroup/kubepods/pod1/container/memory.max", "134217728\n"),
                    ("sys/fs/cgroup/kubepods/pod1/memory.max", "67108864\n"),
                    ("sys/fs/cgroup/kubepods/memory.max", "max\n"),
                ],
                Some(64 << 20),
            ),
            (&[v2, ("sys/fs/cgroup/memory.max", "134217728\n")], Some(128 << 20)),
            (&[v1, ("sys/fs/cgroup/memory/memory.limit_in_bytes", none)], None),
            (
                &[
                    v1,
                    ("sys/fs/cgroup/memory/memory.limit_in_bytes", none),
                    ("sys/fs/cgroup/memory/docker/c1/memory.limit_in_bytes", "134217728\n"),
                ],
                Some(128 << 20),
            ),
        ];
        for (files, expected) in cases {
            assert_eq!(limit_from_files(files), expected, "{files:?}");
        }
        let odd = [("proc/self/cgroup", "0::/../../x\nodd\n"), ("proc/meminfo", "MemTotal: x\n")];
        assert_eq!(limit_from_files(&odd), None);
    }

    #[test]
    fn remaining_memory_excludes_process_and_requests() {
        let directory = tempfile::tempdir().unwrap();
        let status = "Name: x\nVmRSS: 90000 kB\nRssAnon:\t   40960 kB\nRssShmem:\t 1024 kB\n";
        fs::create_dir_all(directory.path().join("proc/self")).unwrap();
        fs::write(directory.path().join("proc/self/status"), status).unwrap();
        let left = |limit: usize, requests: usize| {
            let room = DefaultLimits::within(Some(limit << 20));
            room.remaining_bytes(directory.path(), requests << 20).map(|left| left >> 20)
        };
        assert_eq!(left(128, 32), Some(128 - 41 - 32 - 8));
        assert_eq!(left(64, 32), Some(0));
        assert_eq!(DefaultLimits::within(None).remaining_bytes(directory.path(), 0), None);
    }

    #[test]
    fn default_limits_are_fractions_of_container_memory() {
        let within = |mib: usize| {
            let DefaultLimits {
                request_bytes: requests,
                connections,
                cluster_cache_bytes: cluster,
                subprocess_bytes: children,
                ..
            } = DefaultLimits::within(Some(mib << 20));
            (requests >> 20, connections, cluster >> 20, children >> 20)
        };
        assert_eq!(within(16), (4, 64, 4, 6));
        assert_eq!(within(128), (32, 512, 32, 48));
        assert_eq!(within(256), (64, 1_024, 64, 128));
        assert_eq!(within(512), (128, 2_048, 128, 384));
        assert_eq!(within(64 << 10), (256, 4_096, 16 << 10, 48 << 10));
        let DefaultLimits {
            request_bytes: requests,
            connections,
            cluster_cache_bytes: cluster,
            subprocess_bytes: children,
            limit,
        } = DefaultLimits::within(None);
        assert_eq!((requests >> 20, connections, limit), (256, 4_096, None));
        assert_eq!(cluster, usize::MAX);
        assert_eq!(children, usize::MAX);
    }
}
