//! What is known about this machine and this process.

use std::path::PathBuf;

use crate::parse::kmsg::OomKill;
use crate::read::cgroup::{Room, Version};
use crate::read::host::Host;
use crate::sys::trial::Userfaultfd;

/// Capabilities that decide about something here; numbers of include/uapi/linux/capability.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Cap {
    SysPtrace = 19,
    SysAdmin = 21,
    SysNice = 23,
    SysResource = 24,
    Perfmon = 38,
}

impl Cap {
    pub const ALL: [Self; 5] =
        [Self::SysPtrace, Self::SysAdmin, Self::SysNice, Self::Perfmon, Self::SysResource];

    pub fn name(self) -> &'static str {
        match self {
            Self::SysPtrace => "CAP_SYS_PTRACE",
            Self::SysAdmin => "CAP_SYS_ADMIN",
            Self::SysNice => "CAP_SYS_NICE",
            Self::SysResource => "CAP_SYS_RESOURCE",
            Self::Perfmon => "CAP_PERFMON",
        }
    }
}

/// The effective set, one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities(pub u64);

impl Capabilities {
    pub fn has(self, cap: Cap) -> bool {
        self.0 & 1 << cap as u8 != 0
    }
}

/// A file that decides about something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum File {
    #[default]
    Absent,
    NotPermitted,
    Readable,
    Writable,
}

impl File {
    pub fn is_readable(self) -> bool {
        matches!(self, Self::Readable | Self::Writable)
    }
}

/// The memory control group of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cgroup {
    pub version: Version,
    pub path: String,
    pub room: Room,
}

/// `/sys/kernel/mm/damon/admin`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Damon {
    #[default]
    Absent,
    NotPermitted,
    Free,
    /// Somebody has set up so many kdamonds, and so many of them run: never ours to touch.
    Taken {
        kdamonds: u64,
        on: u64,
    },
}

/// An interpreter on the path, or that of running processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Python {
    pub path: PathBuf,
    /// As precise as names tell: `3.11`, `3.12.1`; empty if they do not.
    pub version: String,
    /// Processes of this user that run it.
    pub pids: Vec<i32>,
}

/// An allocator other than the C library's in a running Python process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocator {
    pub name: &'static str,
    pub library: PathBuf,
    pub pids: Vec<i32>,
}

/// Drivers of graphics devices.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Graphics {
    /// `/proc/driver/nvidia/version` exists.
    pub nvidia_driver: bool,
    /// Devices that the management library tells of, or why it does not.
    pub nvml: Option<Result<usize, String>>,
    /// Drivers of the AMD and Intel cards.
    pub cards: Vec<String>,
}

/// How an attempt ended: the errno of a refusal.
pub type Outcome = Result<(), i32>;

/// What was tried; `None` = not tried, the policies alone decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Trials {
    pub read_child: Option<Outcome>,
    pub read_sibling: Option<Outcome>,
    pub read_other_user: Option<Outcome>,
    pub stop_child: Option<Outcome>,
    pub mount: Option<Outcome>,
    pub namespaces: Option<Outcome>,
    /// The same with a user namespace around them.
    pub user_namespaces: Option<Outcome>,
    pub swapon: Option<Outcome>,
    pub userfaultfd: Option<Result<Userfaultfd, i32>>,
    pub perf: Option<Outcome>,
    pub pagemap_scan: Option<Outcome>,
    /// A page frame number was shown.
    pub pagemap_pfn: Option<bool>,
    pub clear_refs: Option<Outcome>,
    pub soft_dirty: Option<bool>,
    /// With a window of 2 s, and with one of 1 s.
    pub psi_trigger: Option<Outcome>,
    pub psi_trigger_short: Option<Outcome>,
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    pub host: Host,
    pub euid: u32,
    pub capabilities: Capabilities,
    /// What becoming root could give (`CapBnd`).
    pub bounding: Capabilities,
    /// `None` = the kernel has no Yama, which is scope 0.
    pub yama_scope: Option<u8>,
    /// `/proc/sys/fs/suid_dumpable`: 0 = processes that changed their uid cannot be read, even by their user.
    pub suid_dumpable: Option<u64>,
    /// 0 = none, 1 = strict, 2 = filter.
    pub seccomp: u8,
    pub no_new_privileges: bool,
    /// In a user namespace other than the machine's first.
    pub in_user_namespace: bool,
    /// In a pid namespace other than the machine's first.
    pub in_pid_namespace: bool,
    /// Security modules, as `/sys/kernel/security/lsm` lists them; empty if it cannot be read.
    pub security_modules: String,
    /// The value of `hidepid` where it is not 0 or `off`.
    pub hidepid: Option<String>,
    pub cgroup: Option<Cgroup>,
    pub psi: File,
    pub perf_event_paranoid: Option<i64>,
    pub unprivileged_userfaultfd: Option<bool>,
    pub max_map_count: Option<u64>,
    pub idle_bitmap: File,
    pub kpageflags: File,
    pub pagemap: File,
    pub smaps_rollup: File,
    pub children: File,
    pub damon: Damon,
    pub core_pattern: String,
    /// Since the start of the machine.
    pub oom_kills: Option<u64>,
    /// The kernel's log; `None` = not readable.
    pub recent_oom_kills: Option<Vec<OomKill>>,
    pub uptime_s: u64,
    /// Kind of the root file system.
    pub root_fs: String,
    pub glibc: Option<String>,
    pub pythons: Vec<Python>,
    pub allocators: Vec<Allocator>,
    pub graphics: Graphics,
    pub trials: Trials,
}

impl Facts {
    pub fn has(&self, cap: Cap) -> bool {
        self.capabilities.has(cap)
    }

    pub fn is_root(&self) -> bool {
        self.euid == 0
    }

    pub fn in_container(&self) -> bool {
        self.host.container.is_some()
    }

    /// Has the capability also for the machine as a whole, not for a user namespace only.
    pub fn has_for_machine(&self, cap: Cap) -> bool {
        self.has(cap) && !self.in_user_namespace
    }
}
