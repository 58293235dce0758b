//! The system-wide columns of a tick: meminfo, vmstat, pressure, the cgroups above the target, ourselves.

use std::path::Path;

use nilometer_kernel::parse::fields::{FieldTable, tells_of_pressure};
use nilometer_kernel::parse::pressure::Pressure;
use nilometer_kernel::read::cgroup::{Binding, Chain, Level, binding};
use nilometer_kernel::read::device::{DeviceMemory, Devices};
use nilometer_kernel::read::kept::KeptFile;
use nilometer_kernel::read::proc::Proc;
use nilometer_kernel::read::system::{Left, SystemFiles, read_left};
use nilometer_kernel::sys::limits::page_bytes;
use nilometer_trace::manifest::Limit;
use nilometer_trace::record::{Column, Columns, Unit};

use crate::Error;

/// Marks a value that was not to be had at this tick.
pub const ABSENT: u64 = u64::MAX;
/// How often the slower files are read,
const SLOW_PACE_NS: u64 = 2_000_000_000;
/// and while nothing moves.
const CALM_PACE_NS: u64 = 5_000_000_000;
/// How often a control group without a limit is read: it binds nobody. Its limit is looked at as above.
const UNLIMITED_PACE_NS: u64 = 10_000_000_000;
/// The same while memory moves.
const MOVING_PACE_NS: u64 = 1_000_000_000;
/// Memory has moved when it did so by this share of the machine's, and this much at most.
const MOVED_SHARE: u64 = 1024;
const MOVED_BYTES: u64 = 16 << 20;
/// Memory is short when less than this part of what binds is left.
const SHORT_SHARE: u64 = 8;
/// How often all processes are asked what they have in swap, while the target does not run.
const SWAP_PACE_NS: u64 = 100_000_000;
/// How often devices are asked; a driver call is no proc file.
const DEVICE_PACE_NS: u64 = 1_000_000_000;

/// What a look at the system brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// The last values hold, about.
    Same,
    New,
    /// New, and so is the set of columns: [`System::columns`] must be logged.
    NewColumns,
}

#[derive(Debug)]
pub struct System {
    files: SystemFiles,
    chain: Option<Chain>,
    own_statm: Option<KeptFile>,
    meminfo: FieldTable,
    vmstat: FieldTable,
    levels: Vec<Level>,
    values: Vec<u64>,
    buffer: Vec<u8>,
    pressure: Option<Pressure>,
    own_rss: u64,
    slow_ns: u64,
    /// How old that may be while nothing moves.
    calm_pace_ns: u64,
    unlimited_ns: u64,
    /// What was left, and what the tree held, when meminfo was last read.
    left: Left,
    tree_kib: u64,
    /// Free swap at the last look, whether or not anything else was read.
    swap: u64,
    /// Where the machine has swap: how much of it processes have, in KiB; only known while the target does not run.
    owned: Option<u64>,
    owned_ns: u64,
    is_short: bool,
    devices: Devices,
    device_memory: Vec<DeviceMemory>,
    /// Of each device: what processes of the tree hold.
    device_tree: Vec<u64>,
    devices_ns: u64,
}

impl System {
    /// `chain`: the cgroups of the target.
    pub fn open(chain: Option<Chain>) -> Result<Self, Error> {
        let mut system = Self {
            files: SystemFiles::open(Path::new("/proc"))?,
            chain,
            own_statm: KeptFile::open("/proc/self/statm".into()).ok(),
            meminfo: FieldTable::all(),
            vmstat: FieldTable::only(tells_of_pressure),
            levels: Vec::new(),
            values: Vec::new(),
            buffer: Vec::with_capacity(16 << 10),
            pressure: None,
            own_rss: ABSENT,
            slow_ns: 0,
            calm_pace_ns: CALM_PACE_NS,
            unlimited_ns: 0,
            left: Left::default(),
            tree_kib: 0,
            swap: 0,
            owned: None,
            owned_ns: 0,
            is_short: false,
            devices: Devices::here(),
            device_memory: Vec::new(),
            device_tree: Vec::new(),
            devices_ns: 0,
        };
        system.read_devices(&[]);
        system.read(UNLIMITED_PACE_NS, None, 0, true);
        system.owned = (system.meminfo_kib("SwapTotal") > 0).then_some(ABSENT);
        system.forget();
        Ok(system)
    }

    /// Reads what can have changed; `left`, if it was asked just now, and `tree_kib`, what the tree holds, tell of that.
    /// `closely` leaves nothing out.
    ///
    /// What only adds up or moves slowly (vmstat, pressure averages, which the kernel renews every 2 s, groups
    /// without a limit, our own size) is read at a slower pace; so is meminfo, and all but the usage of groups with a
    /// limit, while nothing moves: a proc file that has left the caches costs 20 µs.
    pub fn read(&mut self, now_ns: u64, left: Option<Left>, tree_kib: u64, closely: bool) -> Reading {
        let left = left.or_else(read_left).unwrap_or_default();
        let swapped = left.swap != std::mem::replace(&mut self.swap, left.swap);
        let moved = closely
            || self.is_short
            || self.machine_has_moved(left, tree_kib)
            || self.limited_group_has_moved();
        let slow_pace_ns = if moved { SLOW_PACE_NS } else { self.calm_pace_ns };
        let slow = now_ns.saturating_sub(self.slow_ns) >= slow_pace_ns;
        if !moved && !slow {
            return Reading::Same;
        }
        (self.left, self.tree_kib) = (left, tree_kib);
        let mut new_columns = self.files.read_meminfo(&mut self.meminfo, &mut self.buffer).unwrap_or(false);
        if slow {
            self.slow_ns = now_ns;
            new_columns |= self.read_slow_files();
        }
        self.read_levels(now_ns, slow, moved);
        self.gather();
        let Binding { limit, headroom, .. } = self.binding();
        self.is_short = swapped || headroom < limit / SHORT_SHARE;
        if new_columns { Reading::NewColumns } else { Reading::New }
    }

    /// Before [`Self::read`], while the target does not run: swap that no process has is what the target left there.
    pub fn ask_owners_of_swap(&mut self, now_ns: u64) {
        let due = self.owned == Some(ABSENT) || now_ns.saturating_sub(self.owned_ns) >= SWAP_PACE_NS;
        if self.owned.is_some() && due {
            let used = self.meminfo_kib("SwapTotal") > self.meminfo_kib("SwapFree");
            self.owned = Some(if used { Proc::default().read_swap_kib(&mut self.buffer) } else { 0 });
            self.owned_ns = now_ns;
        }
    }

    /// The target runs: what it swaps is its own.
    pub fn forget_owners_of_swap(&mut self) {
        self.owned = self.owned.map(|_| ABSENT);
    }

    /// Pages are taken from processes that wait, or may soon be.
    pub fn is_short(&self) -> bool {
        self.is_short
    }

    /// Limits are kept by what is read (pressure too, which rises while nothing moves): it is never older than else.
    pub fn stay_alert(&mut self) {
        self.calm_pace_ns = SLOW_PACE_NS;
    }

    /// Would a reading find nothing to be read? Not where a group with a limit has to be asked for that.
    pub fn is_calm(&self, now_ns: u64, left: Left, tree_kib: u64) -> bool {
        let is_slow_due = now_ns.saturating_sub(self.slow_ns) >= self.calm_pace_ns;
        let has_limit = self.levels.iter().any(|level| level.limit != ABSENT);
        !is_slow_due
            && !has_limit
            && !self.is_short
            && !self.devices_due(now_ns)
            && left.swap == self.swap
            && !self.machine_has_moved(left, tree_kib)
    }

    /// By so many bytes memory has to move to be read anew.
    fn much_bytes(&self) -> u64 {
        (self.left.total / MOVED_SHARE).min(MOVED_BYTES)
    }

    /// Where free memory stays low because the page cache has the rest, the tree's growth tells.
    fn machine_has_moved(&self, left: Left, tree_kib: u64) -> bool {
        let much = self.much_bytes();
        left.free.abs_diff(self.left.free) > much
            || left.swap != self.left.swap
            || tree_kib.abs_diff(self.tree_kib) > much / 1024
    }

    fn limited_group_has_moved(&mut self) -> bool {
        let much = self.much_bytes();
        let Some(chain) = &mut self.chain else { return false };
        let mut limited = self.levels.iter().enumerate().filter(|(_, level)| level.limit != ABSENT);
        limited.any(|(position, level)| {
            chain.read_usage(position, &mut self.buffer).abs_diff(level.usage)
                > much.min(level.limit / MOVED_SHARE)
        })
    }

    fn read_slow_files(&mut self) -> bool {
        let mut changed = self.files.read_vmstat(&mut self.vmstat, &mut self.buffer);
        let had_pressure = self.pressure.is_some();
        self.pressure = self.files.read_pressure(&mut self.buffer).or(self.pressure);
        changed |= self.pressure.is_some() != had_pressure;
        self.own_rss = self.own_rss_bytes();
        changed
    }

    fn read_levels(&mut self, now_ns: u64, slow: bool, moved: bool) {
        let Some(chain) = &mut self.chain else { return };
        let pace_ns = if moved { MOVING_PACE_NS } else { UNLIMITED_PACE_NS };
        let all = now_ns.saturating_sub(self.unlimited_ns) >= pace_ns;
        if all {
            self.unlimited_ns = now_ns;
        }
        self.levels.resize(chain.levels(), Level::default());
        for (position, level) in self.levels.iter_mut().enumerate() {
            let limited =
                level.limit != ABSENT || (slow && chain.read_limit(position, &mut self.buffer) != ABSENT);
            if all || limited {
                *level = chain.read(position, &mut self.buffer);
            }
        }
    }

    /// The next reading leaves nothing out.
    pub fn forget(&mut self) {
        self.slow_ns = 0;
        self.unlimited_ns = 0;
    }

    fn own_rss_bytes(&mut self) -> u64 {
        let text = self.own_statm.as_ref().and_then(|file| file.read(&mut self.buffer).ok());
        let pages = text.and_then(|t| nilometer_kernel::parse::scan::words(t).nth(1));
        pages.and_then(nilometer_kernel::parse::scan::number).map_or(ABSENT, |pages| pages * page_bytes())
    }

    /// In the order of [`Self::columns`].
    fn gather(&mut self) {
        self.values.clear();
        self.values.extend_from_slice(self.meminfo.values());
        self.values.extend_from_slice(self.vmstat.values());
        if let Some(p) = self.pressure {
            self.values.extend([p.some.avg10, p.some.avg60, p.some.total_us, p.full.avg10, p.full.total_us]);
        }
        for l in &self.levels {
            self.values.extend([
                l.usage,
                l.limit,
                l.reclaimable,
                l.shmem,
                l.swap,
                l.oom_kills,
                l.oom_events,
                l.max_events,
            ]);
        }
        self.values.push(self.own_rss);
        self.values.extend(self.owned);
        for (device, tree) in self.device_memory.iter().zip(&self.device_tree) {
            self.values.extend([device.used_bytes, device.total_bytes, *tree]);
        }
    }

    /// Is it time to ask the graphics devices (if there are any)?
    pub fn devices_due(&self, now_ns: u64) -> bool {
        !self.devices.is_empty() && now_ns.saturating_sub(self.devices_ns) >= DEVICE_PACE_NS
    }

    /// Asks the devices what they and the processes `pids` hold.
    pub fn read_devices(&mut self, pids: &[i32]) {
        if self.devices.is_empty() {
            return;
        }
        self.devices.watch(pids);
        self.device_memory = self.devices.read();
        let of_tree = |device: &DeviceMemory| {
            let held = device.processes.iter().filter(|(pid, _)| pids.contains(pid));
            held.map(|(_, bytes)| bytes).sum()
        };
        self.device_tree = self.device_memory.iter().map(of_tree).collect();
        self.devices_ns = nilometer_kernel::sys::clock::monotonic_ns();
    }

    /// Device memory of one process, over all devices.
    pub fn device_kib_of(&self, pid: i32) -> u64 {
        let held = self.device_memory.iter().flat_map(|device| &device.processes);
        held.filter(|(holder, _)| *holder == pid).map(|(_, bytes)| bytes / 1024).sum()
    }

    pub fn device_names(&self) -> Vec<String> {
        self.device_memory.iter().map(|device| device.name.clone()).collect()
    }

    pub fn values(&self) -> &[u64] {
        &self.values
    }

    pub fn columns(&self) -> Columns {
        let mut columns = Vec::new();
        let mut add = |name: String, unit| columns.push(Column { name, unit });
        for (prefix, table) in [("meminfo", &self.meminfo), ("vmstat", &self.vmstat)] {
            for (name, _, is_kib) in table.iter() {
                let unit = if is_kib { Unit::Kib } else { Unit::Count };
                add(format!("{prefix}.{}", String::from_utf8_lossy(name)), unit);
            }
        }
        if self.pressure.is_some() {
            for (name, unit) in PRESSURE {
                add(format!("psi.memory.{name}"), unit);
            }
        }
        for level in 0..self.levels.len() {
            for (name, unit) in CGROUP {
                add(format!("cgroup.{level}.{name}"), unit);
            }
        }
        add("nilo.rss".to_owned(), Unit::Bytes);
        if self.owned.is_some() {
            add("swap.processes".to_owned(), Unit::Kib);
        }
        for device in 0..self.device_memory.len() {
            for name in DEVICE {
                add(format!("device.{device}.{name}"), Unit::Bytes);
            }
        }
        Columns { columns }
    }

    /// One field of meminfo, in kB.
    pub fn meminfo_kib(&self, name: &str) -> u64 {
        self.meminfo.get(name).unwrap_or(0)
    }

    /// What binds right now.
    pub fn binding(&self) -> Binding {
        let bytes = |name| self.meminfo_kib(name) * 1024;
        binding(&self.levels, bytes("MemTotal"), bytes("MemAvailable"))
    }

    /// The binding limit with its name.
    pub fn limit(&self) -> Limit {
        let binding = self.binding();
        let source = match (binding.level, &self.chain) {
            (Some(level), Some(chain)) => format!("cgroup {}", chain.path(level)),
            _ => "machine RAM".to_owned(),
        };
        Limit { bytes: binding.limit, source }
    }

    /// Limit and use without reclaimable cache of the cgroup with the least headroom, if one has a limit.
    pub fn tightest_cgroup_kib(&self) -> Option<(u64, u64)> {
        let used = |l: &Level| l.usage.saturating_sub(l.reclaimable);
        let limited = self.levels.iter().filter(|l| l.limit != ABSENT);
        let tightest = limited.min_by_key(|l| l.limit.saturating_sub(used(l)))?;
        Some((tightest.limit / 1024, used(tightest) / 1024))
    }

    pub fn has_pressure(&self) -> bool {
        self.pressure.is_some()
    }

    /// Memory pressure, "some" over 10 s, in 1/100 %.
    pub fn pressure_centi(&self) -> u64 {
        self.pressure.map_or(0, |p| p.some.avg10)
    }
}

const PRESSURE: [(&str, Unit); 5] = [
    ("some_avg10", Unit::CentiPercent),
    ("some_avg60", Unit::CentiPercent),
    ("some_total", Unit::Us),
    ("full_avg10", Unit::CentiPercent),
    ("full_total", Unit::Us),
];

const DEVICE: [&str; 3] = ["used", "total", "tree"];

const CGROUP: [(&str, Unit); 8] = [
    ("usage", Unit::Bytes),
    ("limit", Unit::Bytes),
    ("reclaimable", Unit::Bytes),
    ("shmem", Unit::Bytes),
    ("swap", Unit::Bytes),
    ("oom_kills", Unit::Count),
    ("oom_events", Unit::Count),
    ("max_events", Unit::Count),
];

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_NS: u64 = 100_000_000_000;

    /// Of a machine whose memory was read just now, without limits.
    fn system() -> System {
        let left = Left { total: 64 << 30, free: 32 << 30, swap: 1 << 30, threads: 100 };
        let system = System::open(None).unwrap();
        System { slow_ns: NOW_NS, devices_ns: NOW_NS, left, swap: left.swap, tree_kib: 1 << 20, ..system }
    }

    #[test]
    fn a_machine_is_calm_until_something_moves_or_is_due() {
        let system = system();
        let is_calm = |left, tree_kib| system.is_calm(NOW_NS + 1, left, tree_kib);
        let left = system.left;
        assert!(is_calm(left, 1 << 20));
        assert!(is_calm(Left { free: left.free + MOVED_BYTES, threads: 7, ..left }, 1 << 20));
        assert!(!is_calm(Left { free: left.free + MOVED_BYTES + 1, ..left }, 1 << 20));
        assert!(!is_calm(Left { swap: left.swap - 1, ..left }, 1 << 20));
        assert!(!is_calm(left, (1 << 20) + MOVED_BYTES / 1024 + 1));
        assert!(!system.is_calm(NOW_NS + CALM_PACE_NS, left, 1 << 20));
        let mut alert = self::system();
        assert!(alert.is_calm(NOW_NS + SLOW_PACE_NS, left, 1 << 20));
        alert.stay_alert();
        assert!(!alert.is_calm(NOW_NS + SLOW_PACE_NS, left, 1 << 20));
    }

    #[test]
    fn where_memory_is_short_or_limited_no_machine_is_calm() {
        let is_calm = |system: &System| system.is_calm(NOW_NS + 1, system.left, system.tree_kib);
        assert!(!is_calm(&System { is_short: true, ..system() }));
        let limited = |limit| System { levels: vec![Level { limit, ..Level::default() }], ..system() };
        assert!(is_calm(&limited(ABSENT)) && !is_calm(&limited(1 << 30)));
    }
}
