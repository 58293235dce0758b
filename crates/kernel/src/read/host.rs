//! The machine: what a trace must tell about it to be understood elsewhere.

use std::path::Path;

use super::kept::read_once;
use crate::parse::scan::{lines, number, padded_number};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Host {
    pub name: String,
    pub kernel: String,
    pub cpus: u64,
    pub memory_bytes: u64,
    pub swap_bytes: u64,
    /// `always`, `madvise` or `never`; empty where the kernel was built without them.
    pub transparent_hugepages: String,
    /// `/proc/sys/vm/overcommit_memory`: `0` heuristic, `1` always, `2` never.
    pub overcommit: String,
    /// The kind of container, if there is evidence of one.
    pub container: Option<String>,
    /// By how much the kernel's RSS counters may be off for one process, at worst.
    pub counter_slack_bytes: u64,
}

/// Reads below `root`, `/` except in tests. What cannot be read is empty or 0.
pub fn read(root: &Path, page_bytes: u64) -> Host {
    let mut buffer = Vec::new();
    let mut text = |path: &str| content(root, path, &mut buffer);
    let name = text("proc/sys/kernel/hostname");
    let kernel = text("proc/sys/kernel/osrelease");
    let meminfo = text("proc/meminfo");
    let cpus = online_cpus(text("sys/devices/system/cpu/online").as_bytes());
    let cpus = if cpus == 0 { 1 } else { cpus };
    Host {
        name,
        kernel,
        cpus,
        memory_bytes: meminfo_bytes(&meminfo, b"MemTotal:"),
        swap_bytes: meminfo_bytes(&meminfo, b"SwapTotal:"),
        transparent_hugepages: bracketed(&text("sys/kernel/mm/transparent_hugepage/enabled")),
        overcommit: text("proc/sys/vm/overcommit_memory"),
        container: container(root, &mut text),
        counter_slack_bytes: counter_slack_bytes(cpus, page_bytes),
    }
}

/// Since Linux 6.2 the counters behind `VmRSS` are per CPU: each CPU keeps up to a batch of pages to itself
/// before it adds them to the sum, `max(32, 2 * cpus)` pages (`compute_batch_value`, `lib/percpu_counter.c`).
/// RSS is the sum of three of them (anonymous, file, shared memory).
fn counter_slack_bytes(cpus: u64, page_bytes: u64) -> u64 {
    let batch = cpus.saturating_mul(2).max(32);
    cpus.saturating_mul(batch).saturating_mul(3).saturating_mul(page_bytes)
}

fn content(root: &Path, path: &str, buffer: &mut Vec<u8>) -> String {
    match read_once(&root.join(path), buffer) {
        Ok(length) => String::from_utf8_lossy(&buffer[..length]).trim().to_owned(),
        Err(_) => String::new(),
    }
}

fn meminfo_bytes(meminfo: &str, name: &[u8]) -> u64 {
    let kib = lines(meminfo.as_bytes()).find_map(|line| padded_number(line.strip_prefix(name)?));
    kib.unwrap_or(0).saturating_mul(1024)
}

/// Counts `0-3,8,10-11`.
fn online_cpus(list: &[u8]) -> u64 {
    let count = |range: &[u8]| {
        let first = number(range)?;
        let last = match range.iter().position(|b| *b == b'-') {
            Some(dash) => number(&range[dash + 1..])?,
            None => first,
        };
        last.checked_sub(first)?.checked_add(1)
    };
    list.split(|b| *b == b',').filter_map(count).fold(0, u64::saturating_add)
}

/// The word in brackets: `always [madvise] never`.
fn bracketed(text: &str) -> String {
    let word = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    word.map_or(String::new(), |(word, _)| word.to_owned())
}

/// From the surest evidence to the weakest. On a host that runs containers, process 1 is in none of their
/// groups; and their mounts are visible there too, so only those at `/` and of control groups count.
fn container(root: &Path, text: &mut impl FnMut(&str) -> String) -> Option<String> {
    let declared = text("run/systemd/container");
    if !declared.is_empty() {
        return Some(declared);
    }
    if root.join(".dockerenv").exists() {
        return Some("docker".to_owned());
    }
    if root.join("run/.containerenv").exists() {
        return Some("podman".to_owned());
    }
    known_runtime(&text("proc/1/cgroup")).or_else(|| {
        let mountinfo = text("proc/self/mountinfo");
        let mut own = mountinfo.lines().filter(|line| {
            let mount_point = line.split(' ').nth(4).unwrap_or("");
            mount_point == "/" || mount_point.starts_with("/sys/fs/cgroup")
        });
        own.find_map(known_runtime)
    })
}

/// Kubernetes first: its groups may name the runtime as well (`/kubepods/…/cri-containerd-…`).
fn known_runtime(text: &str) -> Option<String> {
    const RUNTIMES: [(&str, &str); 5] = [
        ("kubepods", "kubernetes"),
        ("libpod", "podman"),
        ("docker", "docker"),
        ("containerd", "containerd"),
        ("lxc", "lxc"),
    ];
    RUNTIMES.iter().find(|(part, _)| text.contains(part)).map(|(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn a_machine_is_described() {
        let root = machine(&[
            ("proc/sys/kernel/hostname", "node7\n"),
            ("proc/sys/kernel/osrelease", "6.18.44\n"),
            ("proc/sys/vm/overcommit_memory", "1\n"),
            ("proc/meminfo", "MemTotal:       24682416 kB\nMemFree:  1 kB\nSwapTotal:       2048 kB\n"),
            ("sys/devices/system/cpu/online", "0-15,32,40-42\n"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
            ("proc/1/cgroup", "0::/init.scope\n"),
            (
                "proc/self/mountinfo",
                "30 1 8:1 / / rw - ext4 /dev/sda rw\n9 30 0:5 / /var/lib/docker/x rw - overlay o rw\n",
            ),
        ]);
        let expected = Host {
            name: "node7".into(),
            kernel: "6.18.44".into(),
            cpus: 20,
            memory_bytes: 24_682_416 * 1024,
            swap_bytes: 2 << 20,
            transparent_hugepages: "madvise".into(),
            overcommit: "1".into(),
            container: None,
            counter_slack_bytes: 3 * 20 * 40 * 4096,
        };
        assert_eq!(read(root.path(), 4096), expected);
    }

    #[test]
    fn few_cpus_have_batches_of_32_pages() {
        assert_eq!(counter_slack_bytes(2, 4096), 3 * 2 * 32 * 4096);
        assert_eq!(counter_slack_bytes(64, 4096), 3 * 64 * 128 * 4096);
    }

    #[test]
    fn an_empty_root_is_an_empty_host() {
        let host = read(machine(&[]).path(), 4096);
        assert_eq!(host, Host { cpus: 1, counter_slack_bytes: 3 * 32 * 4096, ..Host::default() });
    }

    #[test]
    fn containers_leave_evidence() {
        for (path, text, name) in [
            ("run/systemd/container", "systemd-nspawn\n", "systemd-nspawn"),
            (".dockerenv", "", "docker"),
            ("run/.containerenv", "engine=\"podman-4.9\"\n", "podman"),
            ("proc/1/cgroup", "4:memory:/docker/9f2c\n", "docker"),
            ("proc/1/cgroup", "0::/kubepods.slice/pod1/cri-containerd-5.scope\n", "kubernetes"),
            ("proc/1/cgroup", "0::/machine.slice/libpod-5.scope\n", "podman"),
            ("proc/1/cgroup", "0::/lxc.payload.a\n", "lxc"),
            ("proc/self/mountinfo", include_str!("../../fixtures/v2-container.mountinfo"), "containerd"),
            ("proc/self/mountinfo", include_str!("../../fixtures/v1-docker.mountinfo"), "docker"),
        ] {
            assert_eq!(
                read(machine(&[(path, text)]).path(), 4096).container.as_deref(),
                Some(name),
                "{text}"
            );
        }
        let host = machine(&[("proc/self/mountinfo", include_str!("../../fixtures/hybrid.mountinfo"))]);
        assert_eq!(read(host.path(), 4096).container, None);
    }

    #[test]
    fn this_machine_has_memory_and_cpus() {
        let host = read(Path::new("/"), 4096);
        assert!(host.memory_bytes > 1 << 20 && host.cpus >= 1 && !host.kernel.is_empty(), "{host:?}");
    }
}
