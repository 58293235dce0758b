//! The launcher as one node sees it: a process among our ancestors. With its start it is the same for all ranks of a node,
//! through restarts too, and never that of another job.

use std::path::Path;

use nilometer_kernel::parse::environ;
use nilometer_kernel::read::proc::Proc;
use nilometer_kernel::sys::clock::realtime_ns;
use nilometer_kernel::sys::limits::ticks_per_s;
use nilometer_kernel::sys::process::own_pid;
use serde::{Deserialize, Serialize};

/// Ancestors that are looked at.
const MOST_ANCESTORS: usize = 64;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Anchor {
    /// Which start of which machine.
    pub boot: String,
    pub pid: i32,
    pub start_ticks: u64,
    /// By the wall clock, to a second or so: not part of what it is.
    #[serde(default)]
    pub started_ns: u64,
}

impl Anchor {
    /// The nearest ancestor that has not our value of `variable`, or does not show what it has.
    pub(super) fn find(variable: &str) -> Self {
        let proc = Proc::default();
        let mut buffer = Vec::new();
        let own = value_of(&proc, own_pid(), variable);
        let mut pid = own_pid();
        for _ in 0..MOST_ANCESTORS {
            let Some(parent) =
                proc.read_stat(pid, &mut buffer).ok().map(|stat| stat.ppid).filter(|ppid| *ppid > 0)
            else {
                break;
            };
            pid = parent;
            if own.is_none() || value_of(&proc, pid, variable) != own {
                break;
            }
        }
        let start_ticks = proc.read_stat(pid, &mut buffer).map_or(0, |stat| stat.starttime);
        Self { boot: boot(), pid, start_ticks, started_ns: started_ns(start_ticks) }
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        (&self.boot, self.pid, self.start_ticks) == (&other.boot, other.pid, other.start_ticks)
    }

    pub(super) fn text(&self) -> String {
        format!("{} {} {}", self.boot, self.pid, self.start_ticks)
    }
}

fn value_of(proc: &Proc, pid: i32, variable: &str) -> Option<Vec<u8>> {
    let environment = proc.read_environment(pid).ok()?;
    environ::variable(&environment, variable).map(<[u8]>::to_vec)
}

pub(super) fn host_name() -> String {
    let name = text("/proc/sys/kernel/hostname");
    if name.is_empty() { "unknown".to_owned() } else { name }
}

/// A container has its host's boot, but a name of its own.
fn boot() -> String {
    format!("{}@{}", text("/proc/sys/kernel/random/boot_id"), host_name())
}

fn text(path: &str) -> String {
    std::fs::read_to_string(Path::new(path)).map(|text| text.trim().to_owned()).unwrap_or_default()
}

/// Now, less the age of the process.
fn started_ns(start_ticks: u64) -> u64 {
    let uptime: f64 =
        text("/proc/uptime").split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0.0);
    let age = (uptime - start_ticks as f64 / ticks_per_s().max(1) as f64).max(0.0);
    realtime_ns().saturating_sub((age * 1e9) as u64)
}
