//! What a recording was asked to do; plain data, made by the command line or by a test.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nilometer_metrics::Outlets;

use crate::allocs::AllocOptions;
use crate::heap_watch::Every;
use crate::ledger_watch::Ledgers;
use crate::relay::Steps;
use crate::stop_after::StopAfter;
use crate::watchdog::Limits;

#[derive(Debug, Clone)]
pub struct Options {
    /// Where the run directory goes; `None` = named after the command, in `$NILO_DIR` or here.
    pub output: Option<PathBuf>,
    pub force: bool,
    /// Record below this directory of the node, and copy the run to its place at the end.
    pub spool: Option<PathBuf>,
    /// Who holds a lock on this file samples the node often; the other ranks look at it now and then.
    pub node_lock: Option<PathBuf>,
    pub interval: Duration,
    /// How long to look at the system before the start and after the end.
    pub before: Duration,
    pub settle: Duration,
    /// Share of one core that page-table walks (PSS, mapping kinds) may use, in percent.
    pub budget_percent: f64,
    /// Read PSS and mapping kinds at all.
    pub slow: bool,
    /// Keep tables of the heap of a Python process; it is stopped for each, for at most 1 % of the time.
    pub heap: Option<Every>,
    /// Record allocations: the tracker is injected into the target.
    pub allocs: Option<AllocOptions>,
    /// Ledgers of large processes; exact ones stop them, for at most 1 % of the time.
    pub ledgers: Ledgers,
    /// Look at the touched pages of the tree, with windows of this length.
    pub wss: Option<Duration>,
    /// Follow the direct child only.
    pub single: bool,
    pub exact_step_peaks: bool,
    /// Give the run a cgroup of its own, for the kernel's exact tree peak.
    pub cgroup: bool,
    pub max_log_bytes: u64,
    /// How often the command is run, one after the other, into one recording; 0 = until somebody ends it.
    pub repeat: u32,
    /// No further run begins after this long.
    pub repeat_for: Option<Duration>,
    /// Steps from the target's output, or from a hook in its Pythons.
    pub steps: Option<Steps>,
    /// Where that hook is.
    pub hook: Option<PathBuf>,
    /// End the run when enough has been seen of it.
    pub stop_after: Vec<StopAfter>,
    /// Limits of the watchdog.
    pub limits: Limits,
    /// How long a tree that was asked to end may take before it is killed.
    pub grace: Duration,
    /// End after this long, or after so many samples (attach, record).
    pub duration: Option<Duration>,
    pub samples: Option<u64>,
    /// Who is told the values while they are recorded.
    pub outlets: Option<Arc<Outlets>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            output: None,
            force: false,
            spool: None,
            node_lock: None,
            interval: Duration::from_millis(100),
            before: Duration::from_millis(20),
            settle: Duration::from_millis(150),
            budget_percent: 1.0,
            slow: true,
            heap: None,
            allocs: None,
            ledgers: Ledgers::default(),
            wss: None,
            single: false,
            exact_step_peaks: false,
            cgroup: false,
            max_log_bytes: 256 << 20,
            repeat: 1,
            repeat_for: None,
            steps: None,
            hook: None,
            stop_after: Vec::new(),
            limits: Limits::default(),
            grace: Duration::from_secs(5),
            duration: None,
            samples: None,
            outlets: None,
        }
    }
}

impl Options {
    /// A watchdog is not to be kept waiting for a processor: under one, ledgers are taken only where they were asked for.
    pub fn ledgers_in_force(&self) -> Ledgers {
        match self.ledgers {
            Ledgers::Estimated if self.limits.any() => Ledgers::None,
            ledgers => ledgers,
        }
    }

    /// The budget is shared: half of it for page-table walks, half for ledgers, all of it for walks where there are none.
    pub fn ledger_percent(&self) -> f64 {
        if self.ledgers_in_force() == Ledgers::None { 0.0 } else { self.budget_percent / 2.0 }
    }

    pub fn walk_percent(&self) -> f64 {
        self.budget_percent - self.ledger_percent()
    }
}

/// The command to launch and the environment it gets.
#[derive(Debug, Clone, Default)]
pub struct Target {
    pub argv: Vec<OsString>,
    pub environment: Vec<(OsString, OsString)>,
    /// Its standard output goes to standard error, because ours carries one document.
    pub stdout_to_stderr: bool,
}
