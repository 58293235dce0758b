//! One process of the tree.

use nilometer_kernel::Error;
use nilometer_kernel::parse::stat::{Comm, Stat};
use nilometer_kernel::parse::status::Status;
use nilometer_kernel::read::proc::{Proc, ProcessFiles};
use nilometer_trace::record::{ProcessSample, Role};

use crate::bounds::Walk;

/// Memory counters are read anew at least this often, changed or not.
const REFRESH_NS: u64 = 1_000_000_000;

/// So many looks after it was found its command line is read again: between `fork` and the end of an `exec`
/// it is its parent's, or empty, and the short name may stay the same (Python that spawns Python).
const YOUNG_LOOKS: u8 = 3;

/// What we know of a process and keep open of it.
#[derive(Debug)]
pub struct Member {
    pub index: u32,
    pub pid: i32,
    pub parent_pid: i32,
    pub start_ticks: u64,
    pub seen_ns: u64,
    pub comm: Comm,
    pub arguments: Vec<String>,
    pub role: Role,
    pub sample: ProcessSample,
    /// Highest VmHWM read so far; the kernel's own starts anew at `exec`.
    pub hwm_kib: u64,
    pub walk: Option<Walk>,
    pub walked_ns: u64,
    pub walk_cost_ns: u64,
    pub mappings: u64,
    /// Memory that it holds on graphics devices.
    pub device_kib: u64,
    /// It ended but its parent has not waited for it yet.
    pub zombie_since_ns: Option<u64>,
    files: ProcessFiles,
    rss_pages: u64,
    status_ns: u64,
    young_looks: u8,
}

/// What a look at a member found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    Alive,
    /// Alive, and it seems to run another program than before.
    NewProgram,
    Zombie,
    Gone,
}

impl Member {
    pub fn open(
        proc: &Proc,
        index: u32,
        pid: i32,
        seen_ns: u64,
        buffer: &mut Vec<u8>,
    ) -> Result<Self, Error> {
        let files = proc.process(pid)?;
        let stat = files.read_stat(buffer)?;
        Ok(Self {
            index,
            pid,
            parent_pid: stat.ppid,
            start_ticks: stat.starttime,
            seen_ns,
            comm: stat.comm,
            arguments: proc.read_arguments(pid).unwrap_or_default(),
            role: Role { name: String::new(), evidence: String::new() },
            sample: ProcessSample { index, ..ProcessSample::default() },
            hwm_kib: 0,
            walk: None,
            walked_ns: 0,
            walk_cost_ns: 0,
            mappings: 0,
            device_kib: 0,
            zombie_since_ns: None,
            files,
            rss_pages: 0,
            status_ns: 0,
            young_looks: YOUNG_LOOKS,
        })
    }

    /// Reads the fast counters into `sample`.
    pub fn look(&mut self, proc: &Proc, now_ns: u64, buffer: &mut Vec<u8>) -> Look {
        let Ok(mut stat) = self.files.read_stat(buffer) else { return Look::Gone };
        if stat.is_zombie() && stat.num_threads > 1 {
            // The first thread left, the process lives on: its memory is seen through another thread.
            self.follow_another_thread(proc, buffer);
            let Ok(again) = self.files.read_stat(buffer) else { return Look::Gone };
            stat = again;
        }
        if stat.is_zombie() {
            return Look::Zombie;
        }
        if self.may_have_changed(&stat, now_ns) {
            let Ok(status) = self.files.read_status(buffer) else { return Look::Gone };
            if status.vm_rss_kib.is_none() {
                return Look::Zombie; // it ended between the two readings
            }
            take_memory(&mut self.sample, &status);
            self.status_ns = now_ns;
            self.hwm_kib = self.hwm_kib.max(self.sample.hwm_kib);
        }
        take_counters(&mut self.sample, &stat);
        self.rss_pages = stat.rss_pages;
        self.parent_pid = stat.ppid;
        if stat.comm == self.comm {
            return Look::Alive;
        }
        self.comm = stat.comm;
        Look::NewProgram
    }

    /// Memory grows only by faults (the kernel counts those of `MAP_POPULATE` and of system calls too), and
    /// shrinking shows in RSS, but for the slack of its per-CPU counter: hence the second reading once in a
    /// while. `status` costs twice as much as `stat`, and most processes of most trees only wait.
    fn may_have_changed(&self, stat: &Stat, now_ns: u64) -> bool {
        let same_faults = stat.minflt == self.sample.minor_faults && stat.majflt == self.sample.major_faults;
        let same = same_faults && stat.rss_pages == self.rss_pages;
        !same || now_ns.saturating_sub(self.status_ns) >= REFRESH_NS
    }

    /// Was it found just now? True for its first looks.
    pub fn grows_up(&mut self) -> bool {
        let young = self.young_looks > 0;
        self.young_looks = self.young_looks.saturating_sub(1);
        young
    }

    /// What the last page-table walk said is no longer true.
    pub fn forget_walk(&mut self) {
        self.walk = None;
        self.walked_ns = 0;
    }

    /// The next look reads everything anew (its high-water mark was reset).
    pub fn forget(&mut self) {
        self.status_ns = 0;
    }

    fn follow_another_thread(&mut self, proc: &Proc, buffer: &mut Vec<u8>) {
        let threads = proc.list_threads(self.pid).unwrap_or_default();
        for thread in threads.into_iter().filter(|t| *t != self.pid) {
            let Ok(files) = proc.process(thread) else { continue };
            if files.read_status(buffer).is_ok_and(|s| !s.is_zombie()) {
                self.files = files;
                return;
            }
        }
    }

    /// The id below `/proc` through which its memory is seen.
    pub fn visible_pid(&self) -> i32 {
        self.files.pid()
    }

    pub fn command(&self) -> String {
        if self.arguments.is_empty() {
            return format!("[{}]", self.comm.to_text());
        }
        crate::privacy::mask_arguments(&self.arguments).join(" ")
    }
}

fn take_memory(sample: &mut ProcessSample, status: &Status) {
    let rss = status.vm_rss_kib.unwrap_or(0);
    // Before Linux 4.5 there is only the sum.
    sample.anon_kib = status.rss_anon_kib.unwrap_or(rss);
    sample.file_kib = status.rss_file_kib.unwrap_or(0);
    sample.shmem_kib = status.rss_shmem_kib.unwrap_or(0);
    sample.swap_kib = status.vm_swap_kib.unwrap_or(0);
    sample.hwm_kib = status.vm_hwm_kib.unwrap_or(rss);
}

fn take_counters(sample: &mut ProcessSample, stat: &Stat) {
    sample.minor_faults = stat.minflt;
    sample.major_faults = stat.majflt;
    sample.child_minor_faults = stat.cminflt;
    sample.child_major_faults = stat.cmajflt;
    sample.user_ticks = stat.utime;
    sample.system_ticks = stat.stime;
    sample.child_user_ticks = stat.cutime;
    sample.child_system_ticks = stat.cstime;
    sample.threads = stat.num_threads;
}
