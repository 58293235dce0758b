//! What is known of one process of the tree, updated sample by sample.

use nilometer_trace::record::{self, ProcessSample, Role, Shares, Waited};

use crate::bounded::Thinned;
use crate::clock::Clock;
use crate::curve::{PROCESS_BUCKETS, Series};
use crate::model;
use crate::stats;
use crate::unit::kib;

/// The direct child's figure where the mark of the process itself was lower.
pub(crate) const MAXRSS_METHOD: &str = "wait4 ru_maxrss (largest of the process and its waited-for children)";
/// Levels at step ends that are kept per process for its growth.
const LEVELS: usize = 64;
const WINDOW_NS: u64 = 1_000_000_000;

#[derive(Debug)]
pub(crate) struct Tracked {
    pub(crate) index: u32,
    pub(crate) pid: i32,
    pub(crate) parent_pid: i32,
    pub(crate) parent: Option<u32>,
    pub(crate) role: Role,
    command: String,
    pub(crate) seen_ns: u64,
    pub(crate) end_ns: Option<u64>,
    pub(crate) last: ProcessSample,
    pub(crate) last_ns: u64,
    pub(crate) samples: u64,
    pub(crate) hwm_bytes: u64,
    pub(crate) hwm_at_ns: u64,
    pub(crate) waited: Option<Waited>,
    /// Another process of the tree names it as its parent.
    pub(crate) has_child: bool,
    /// Counters of waited-for children at the first sample, where the process is older than the run.
    pub(crate) child_base: ChildWork,
    shares: Option<Shares>,
    swap_max_bytes: u64,
    threads_max: u32,
    levels: Thinned<stats::XY>,
    pub(crate) rss: Series,
    window: Window,
}

/// CPU clock ticks and page faults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ChildWork {
    pub(crate) ticks: u64,
    pub(crate) faults: u64,
}

/// How a new sample compares with the one before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Rise {
    pub(crate) rss_bytes: u64,
    pub(crate) hwm_bytes: u64,
    /// The mark moved since the sample before: its height was reached in between.
    pub(crate) rose: bool,
}

impl Rise {
    /// How much higher it was than the sample shows.
    pub(crate) fn above(&self) -> u64 {
        self.hwm_bytes.saturating_sub(self.rss_bytes)
    }
}

/// What the end of a process told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended {
    pub(crate) seen_ns: u64,
    /// How far its mark lies above the last sample, if the end (or `wait4`) told a higher one.
    pub(crate) rise: Option<Rise>,
    /// Where `wait4` told more than the mark: of itself or of a child that it waited for.
    pub(crate) maxrss_bytes: Option<u64>,
}

/// RSS one to two seconds ago, to say who grew last.
#[derive(Debug, Clone, Copy, Default)]
struct Window {
    begin_ns: u64,
    older_bytes: u64,
    newer_bytes: u64,
}

impl Window {
    fn push(&mut self, at_ns: u64, rss_bytes: u64) {
        if at_ns.saturating_sub(self.begin_ns) >= WINDOW_NS {
            *self = Self { begin_ns: at_ns, older_bytes: self.newer_bytes, newer_bytes: rss_bytes };
        }
    }
}

pub(crate) fn rss_bytes(sample: &ProcessSample) -> u64 {
    kib(sample.anon_kib.saturating_add(sample.file_kib).saturating_add(sample.shmem_kib))
}

impl Tracked {
    pub(crate) fn new(process: &record::Process) -> Self {
        Self {
            index: process.index,
            pid: process.pid,
            parent_pid: process.parent_pid,
            parent: process.parent,
            role: process.role.clone(),
            command: process.command.clone(),
            seen_ns: process.seen_ns,
            end_ns: None,
            last: ProcessSample::default(),
            last_ns: process.seen_ns,
            samples: 0,
            hwm_bytes: 0,
            hwm_at_ns: process.seen_ns,
            waited: None,
            has_child: false,
            child_base: ChildWork::default(),
            shares: None,
            swap_max_bytes: 0,
            threads_max: 0,
            levels: Thinned::new(LEVELS),
            rss: Series::new(PROCESS_BUCKETS),
            window: Window::default(),
        }
    }

    /// A process whose record is missing: only its samples are known.
    pub(crate) fn unknown(index: u32, at_ns: u64) -> Self {
        Self::new(&record::Process {
            index,
            pid: 0,
            parent_pid: 0,
            parent: None,
            start_ticks: 0,
            seen_ns: at_ns,
            comm: String::new(),
            command: String::new(),
            role: Role { name: "unknown".into(), evidence: "its record is missing".into() },
        })
    }

    pub(crate) fn update(&mut self, update: &record::ProcessUpdate) {
        self.command.clone_from(&update.command);
        self.role.clone_from(&update.role);
    }

    /// `fresh`: the first sample's mark was reached while we looked (not before we attached).
    pub(crate) fn sample(&mut self, at_ns: u64, sample: &ProcessSample, fresh: bool) -> Rise {
        let hwm_bytes = kib(sample.hwm_kib);
        let rss_bytes = rss_bytes(sample);
        let rose = if self.samples == 0 { fresh } else { sample.hwm_kib != self.last.hwm_kib };
        if self.samples == 0 && !fresh {
            self.child_base = child_work(sample);
        }
        self.mark(at_ns, hwm_bytes.max(rss_bytes));
        self.swap_max_bytes = self.swap_max_bytes.max(kib(sample.swap_kib));
        self.threads_max = self.threads_max.max(sample.threads);
        self.rss.push(at_ns, rss_bytes);
        self.window.push(at_ns, rss_bytes);
        self.last = *sample;
        self.last_ns = at_ns;
        self.samples += 1;
        Rise { rss_bytes, hwm_bytes, rose }
    }

    fn mark(&mut self, at_ns: u64, bytes: u64) {
        if bytes > self.hwm_bytes {
            self.hwm_bytes = bytes;
            self.hwm_at_ns = at_ns;
        }
    }

    pub(crate) fn end(&mut self, end: &record::ProcessEnd) -> Ended {
        let known = self.hwm_bytes;
        self.end_ns = Some(end.at_ns);
        self.waited = end.waited;
        self.mark(end.at_ns, kib(end.hwm_kib));
        let (hwm_bytes, _) = self.hwm();
        let rise = Rise { rss_bytes: rss_bytes(&self.last), hwm_bytes, rose: true };
        Ended {
            seen_ns: self.seen_ns,
            rise: (hwm_bytes > known).then_some(rise),
            maxrss_bytes: self.maxrss(),
        }
    }

    pub(crate) fn shares(&mut self, shares: &Shares) {
        self.shares = Some(shares.clone());
    }

    /// The level at a step's end.
    pub(crate) fn level(&mut self, x: f64) {
        if self.samples > 0 {
            self.levels.push((x, rss_bytes(&self.last) as f64));
        }
    }

    pub(crate) fn grew_lately(&self) -> u64 {
        rss_bytes(&self.last).saturating_sub(self.window.older_bytes)
    }

    pub(crate) fn alive_at(&self, at_ns: u64) -> bool {
        self.seen_ns <= at_ns && self.end_ns.is_none_or(|end_ns| at_ns <= end_ns)
    }

    /// CPU and faults of the process and its waited-for children, by the last sample.
    pub(crate) fn work(&self) -> ChildWork {
        let children = child_work(&self.last);
        let ticks = self.last.user_ticks.saturating_add(self.last.system_ticks);
        let faults = self.last.minor_faults.saturating_add(self.last.major_faults);
        ChildWork {
            ticks: ticks.saturating_add(children.ticks),
            faults: faults.saturating_add(children.faults),
        }
    }

    /// The high-water mark, with `ru_maxrss` where that is higher, not the launcher's own, and not perhaps a
    /// child's (`wait4` gives the largest of the process and the children that it waited for).
    pub(crate) fn hwm(&self) -> (u64, &'static str) {
        match self.maxrss().filter(|_| !self.had_children()) {
            Some(bytes) => (bytes, MAXRSS_METHOD),
            None => (self.hwm_bytes, "VmHWM"),
        }
    }

    fn had_children(&self) -> bool {
        self.has_child || child_work(&self.last) != ChildWork::default()
    }

    pub(crate) fn maxrss(&self) -> Option<u64> {
        let waited = self.waited?;
        let bytes = kib(waited.maxrss_kib);
        (bytes > self.hwm_bytes && bytes > kib(waited.launcher_kib)).then_some(bytes)
    }

    pub(crate) fn growth_per_step(&self) -> Option<f64> {
        let enough = self.levels.items().len() >= crate::growth::LEAST_POINTS;
        enough.then(|| stats::theil_sen(self.levels.items())).flatten()
    }

    pub(crate) fn uss_bytes(&self) -> Option<u64> {
        self.shares.as_ref().map(|shares| kib(shares.uss_kib))
    }

    fn cpu_s(&self, ticks_per_s: u64) -> f64 {
        let ticks = self.last.user_ticks.saturating_add(self.last.system_ticks);
        match self.waited.filter(|_| self.samples == 0) {
            Some(waited) => waited.user_us.saturating_add(waited.system_us) as f64 / 1e6,
            None => ticks as f64 / ticks_per_s.max(1) as f64,
        }
    }

    pub(crate) fn model(&self, clock: &Clock, ticks_per_s: u64) -> model::Process {
        let (hwm_bytes, method) = self.hwm();
        model::Process {
            pid: self.pid,
            parent: self.parent_pid,
            role: self.role.name.clone(),
            evidence: self.role.evidence.clone(),
            command: self.command.clone(),
            start_s: clock.seconds(self.seen_ns),
            end_s: self.end_ns.map(|end_ns| clock.seconds(end_ns)),
            hwm_bytes: (hwm_bytes > 0).then_some(hwm_bytes),
            hwm_exact_method: method.into(),
            rss_end_bytes: rss_bytes(&self.last),
            pss_bytes: self.shares.as_ref().map(|shares| kib(shares.pss_kib)),
            uss_bytes: self.uss_bytes(),
            shares_at_s: self.shares.as_ref().map(|shares| clock.seconds(shares.at_ns)),
            device_bytes: self.shares.as_ref().map_or(0, |shares| kib(shares.device_kib)),
            swap_max_bytes: self.swap_max_bytes,
            cpu_s: self.cpu_s(ticks_per_s),
            minor_faults: self.last.minor_faults,
            major_faults: self.last.major_faults,
            threads_max: self.threads_max,
            growth_per_step_bytes: self.growth_per_step(),
        }
    }
}

pub(crate) fn child_work(sample: &ProcessSample) -> ChildWork {
    ChildWork {
        ticks: sample.child_user_ticks.saturating_add(sample.child_system_ticks),
        faults: sample.child_minor_faults.saturating_add(sample.child_major_faults),
    }
}
