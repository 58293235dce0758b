//! Facts from files below a root.

use std::ffi::OsStr;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::facts::{Capabilities, Cgroup, Damon, Facts, File, Graphics, Trials};
use super::software;
use crate::parse::kmsg::{self, OomKill};
use crate::parse::scan::{hex, lines, number, words};
use crate::parse::{fields::FieldTable, mountinfo};
use crate::read::cgroup::Chain;
use crate::read::{device, host};
use crate::sys::limits::page_bytes;

/// Inode numbers of the machine's first namespaces (`PROC_USER_INIT_INO`, `PROC_PID_INIT_INO`,
/// `include/linux/proc_ns.h`).
const FIRST_USER_NAMESPACE: &str = "user:[4026531837]";
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";
/// Longest part of the kernel's log that is read.
const LONGEST_LOG: usize = 16 << 20;

impl Facts {
    /// Reads below `root`, `/` except in tests, and looks for interpreters along `search_path`. What cannot be
    /// read is empty; nothing is tried and nothing executed.
    pub fn read(root: &Path, search_path: &OsStr) -> Self {
        let own = Own::read(root);
        let mounts = mountinfo::parse(&std::fs::read(root.join("proc/self/mountinfo")).unwrap_or_default());
        let proc_mount = mounts.iter().rfind(|mount| mount.mount_point == "/proc");
        let root_mount = mounts.iter().rfind(|mount| mount.mount_point == "/");
        let setting = |name: &str| text(root, &format!("proc/sys/{name}"));
        let count = |name: &str| setting(name).and_then(|text| number(text.as_bytes()));
        let software = software::read(root, search_path, own.euid);
        Self {
            host: host::read(root, page_bytes()),
            euid: own.euid,
            capabilities: own.capabilities,
            bounding: own.bounding,
            yama_scope: count("kernel/yama/ptrace_scope").map(|scope| scope as u8),
            suid_dumpable: count("fs/suid_dumpable"),
            seccomp: own.seccomp,
            no_new_privileges: own.no_new_privileges,
            in_user_namespace: in_user_namespace(root),
            in_pid_namespace: link(root, "proc/self/ns/pid").is_some_and(|name| name != FIRST_PID_NAMESPACE),
            security_modules: text(root, "sys/kernel/security/lsm").unwrap_or_default(),
            hidepid: proc_mount.and_then(|mount| hidepid(&mount.super_options)),
            cgroup: cgroup(root, own.pid),
            psi: look(&root.join("proc/pressure/memory")),
            perf_event_paranoid: setting("kernel/perf_event_paranoid").and_then(|text| text.parse().ok()),
            unprivileged_userfaultfd: count("vm/unprivileged_userfaultfd").map(|allowed| allowed != 0),
            max_map_count: count("vm/max_map_count"),
            idle_bitmap: look(&root.join("sys/kernel/mm/page_idle/bitmap")),
            kpageflags: look(&root.join("proc/kpageflags")),
            pagemap: look(&root.join("proc/self/pagemap")),
            smaps_rollup: look(&root.join("proc/self/smaps_rollup")),
            children: look(&root.join(format!("proc/self/task/{}/children", own.pid))),
            damon: damon(&root.join("sys/kernel/mm/damon/admin/kdamonds")),
            core_pattern: setting("kernel/core_pattern").unwrap_or_default(),
            oom_kills: oom_kills(root),
            recent_oom_kills: recent_oom_kills(&root.join("dev/kmsg")),
            uptime_s: text(root, "proc/uptime").and_then(|text| number(text.as_bytes())).unwrap_or(0),
            root_fs: root_mount.map_or(String::new(), |mount| mount.fs_type.clone()),
            glibc: software.glibc,
            pythons: software.pythons,
            allocators: software.allocators,
            graphics: Graphics {
                nvidia_driver: root.join("proc/driver/nvidia/version").exists(),
                nvml: None,
                cards: device::read_drivers(root),
            },
            trials: Trials::default(),
        }
    }
}

/// Trimmed content; `None` if it cannot be read.
fn text(root: &Path, path: &str) -> Option<String> {
    let bytes = std::fs::read(root.join(path)).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim().to_owned())
}

fn link(root: &Path, path: &str) -> Option<String> {
    Some(std::fs::read_link(root.join(path)).ok()?.to_string_lossy().into_owned())
}

/// Opening is not enough: a kernel with PSI switched off lets the file be opened but not read.
fn look(path: &Path) -> File {
    let read = std::fs::File::open(path).and_then(|mut file| file.read(&mut [0; 8]));
    match read {
        Ok(_) if nix::unistd::eaccess(path, nix::unistd::AccessFlags::W_OK).is_ok() => File::Writable,
        Ok(_) => File::Readable,
        Err(e) if e.kind() == ErrorKind::PermissionDenied => File::NotPermitted,
        Err(_) => File::Absent,
    }
}

/// `/proc/self/status`.
#[derive(Debug, Default)]
struct Own {
    pid: i32,
    euid: u32,
    capabilities: Capabilities,
    bounding: Capabilities,
    seccomp: u8,
    no_new_privileges: bool,
}

impl Own {
    fn read(root: &Path) -> Self {
        let status = std::fs::read(root.join("proc/self/status")).unwrap_or_default();
        let value =
            |name: &[u8]| lines(&status).find_map(|line| line.strip_prefix(name)).map(<[u8]>::trim_ascii);
        let count = |name: &[u8]| value(name).and_then(number).unwrap_or(0);
        let set = |name: &[u8]| Capabilities(value(name).and_then(hex).unwrap_or(0));
        Self {
            pid: count(b"Pid:") as i32,
            euid: value(b"Uid:").and_then(|ids| words(ids).nth(1)).and_then(number).unwrap_or(0) as u32,
            capabilities: set(b"CapEff:"),
            bounding: set(b"CapBnd:"),
            seccomp: count(b"Seccomp:") as u8,
            no_new_privileges: count(b"NoNewPrivs:") != 0,
        }
    }
}

/// By the name of the namespace, or, where links are hidden, by a map that leaves users out.
fn in_user_namespace(root: &Path) -> bool {
    match link(root, "proc/self/ns/user") {
        Some(name) => name != FIRST_USER_NAMESPACE,
        None => text(root, "proc/self/uid_map").is_some_and(|map| {
            let numbers: Vec<Option<u64>> = words(map.as_bytes()).map(number).collect();
            !map.is_empty() && numbers != [Some(0), Some(0), Some(u64::from(u32::MAX))]
        }),
    }
}

/// 0 and `off` are the default; Linux 5.8 prints words, older kernels numbers.
fn hidepid(options: &str) -> Option<String> {
    let value = options.split(',').find_map(|option| option.strip_prefix("hidepid="))?;
    (!matches!(value, "0" | "off")).then(|| value.to_owned())
}

fn cgroup(root: &Path, pid: i32) -> Option<Cgroup> {
    let chain = Chain::of(&root.join("proc"), root, pid)?;
    let path = if chain.levels() == 0 { chain.member() } else { chain.path(0) };
    Some(Cgroup { version: chain.version(), path: path.to_owned(), room: chain.room(pid) })
}

/// `nr_kdamonds` > 0: somebody has set it up, whether it runs or not. The files are root's.
fn damon(kdamonds: &Path) -> Damon {
    let count = match std::fs::read(kdamonds.join("nr_kdamonds")) {
        Ok(count) => number(count.trim_ascii()).unwrap_or(0),
        Err(e) if e.kind() == ErrorKind::PermissionDenied => return Damon::NotPermitted,
        Err(_) => return Damon::Absent,
    };
    let is_on = |index: &u64| {
        std::fs::read(kdamonds.join(format!("{index}/state"))).is_ok_and(|state| state.trim_ascii() == b"on")
    };
    match count {
        0 => Damon::Free,
        _ => Damon::Taken { kdamonds: count, on: (0..count.min(1024)).filter(is_on).count() as u64 },
    }
}

fn oom_kills(root: &Path) -> Option<u64> {
    let mut table = FieldTable::all();
    table.parse(&std::fs::read(root.join("proc/vmstat")).ok()?);
    table.get("oom_kill")
}

/// Each read of the device gives one record, and EAGAIN after the last; EPIPE means that records were
/// overwritten meanwhile, and the next read goes on after them.
fn recent_oom_kills(device: &Path) -> Option<Vec<OomKill>> {
    let mut file = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(device).ok()?;
    let mut record = vec![0; 8192];
    let mut records = Vec::new();
    while records.len() < LONGEST_LOG {
        match file.read(&mut record) {
            Ok(0) => break,
            Ok(count) => records.extend_from_slice(&record[..count]),
            Err(e) if matches!(e.raw_os_error(), Some(libc::EPIPE | libc::EINTR)) => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => break,
            Err(_) => return None,
        }
    }
    Some(kmsg::parse_oom_kills(&records))
}

#[cfg(test)]
mod tests;
