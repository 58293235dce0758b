//! The tick: read everything once, in one order, and store it.
//!
//! Used by every recording verb; it knows neither how the target was started nor when it ends.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nilometer_kernel::read::proc::Proc;
use nilometer_kernel::read::system::{Left, read_left};
use nilometer_kernel::sys::clock::{monotonic_ns, realtime_ns};
use nilometer_kernel::sys::limits::{own_usage, page_bytes, ticks_per_s};
use nilometer_kernel::sys::lock::Lock;
use nilometer_kernel::sys::process::own_pid;
use nilometer_kernel::sys::slate::Slate;
use nilometer_trace::log::{LogWriter, Slots};
use nilometer_trace::record::{
    Bounds, Cost, End, Event, EventKind, Exit, Header, Phase, ProcessSample, Record,
};
use nilometer_trace::{FORMAT_VERSION, TickRef};

use crate::bounds::{Known, TreeBounds};
use crate::options::Options;
use crate::slow::Slow;
use crate::store::Store;
use crate::system::{Reading, System};
use crate::tree::Tree;
use crate::{
    Error,
    member::{Care, Member},
};

/// System files are not read more often than this, however short the interval.
const SYSTEM_PACE_NS: u64 = 50_000_000;
/// Unless a limit on the machine is watched.
const WATCHED_PACE_NS: u64 = 2_000_000;
/// Where another rank samples the node.
const LEISURE_PACE_NS: u64 = 5_000_000_000;
/// A new maximum of the tree's upper bound by this factor is worth page-table walks.
const NEW_PEAK: f64 = 1.05;
/// The clock was set when it moved by this much against the monotonic one.
const CLOCK_STEP_NS: i64 = 200_000_000;
/// Later than this many intervals (and a second) is a gap worth telling.
const GAP_INTERVALS: u64 = 5;

#[derive(Debug)]
pub struct Recorder {
    pub tree: Tree,
    pub system: System,
    proc: Proc,
    slow: Slow,
    bounds: TreeBounds,
    log: Box<dyn Store>,
    samples: Vec<ProcessSample>,
    out: Vec<Record>,
    interval_ns: u64,
    max_log_bytes: u64,
    system_ns: u64,
    system_pace_ns: u64,
    turn: Option<Turn>,
    page_kib: u64,
    highest_kib: u64,
    clock_offset_ns: i64,
    last_tick_ns: u64,
    stretched: u32,
    ticks: u64,
    missed: u64,
    pub last_tree: Bounds,
    /// The last tick read the system anew.
    pub system_is_new: bool,
    /// At the last tick something of the tree was not as it was.
    pub has_news: bool,
    /// What is known of members, but for their samples, changed since they were last added up.
    is_unsettled: bool,
    /// Every tick reads all processes in full.
    thorough: bool,
    /// The next one does.
    closely_once: bool,
}

impl Recorder {
    /// Records into a run directory.
    pub fn start(directory: &Path, options: &Options, tree: Tree, system: System) -> Result<Self, Error> {
        let log = LogWriter::create_with(directory, slots).map_err(|e| Error::Store(e.to_string()))?;
        Ok(Self::over(Box::new(log), options, tree, system))
    }

    /// The same, with the records going wherever `log` takes them.
    pub fn over(log: Box<dyn Store>, options: &Options, tree: Tree, system: System) -> Self {
        let now_ns = monotonic_ns();
        let mut recorder = Self {
            tree,
            system,
            proc: Proc::default(),
            slow: Slow::new(now_ns, options.walk_percent(), options.slow),
            bounds: TreeBounds::default(),
            log,
            samples: Vec::new(),
            out: Vec::new(),
            interval_ns: nanoseconds(options.interval),
            max_log_bytes: options.max_log_bytes,
            system_ns: 0,
            system_pace_ns: if options.limits.watches_system() { WATCHED_PACE_NS } else { SYSTEM_PACE_NS },
            turn: options.node_lock.clone().filter(|_| !options.limits.any()).map(Turn::new),
            page_kib: page_bytes() / 1024,
            highest_kib: 0,
            clock_offset_ns: clock_offset(),
            last_tick_ns: now_ns,
            stretched: 0,
            ticks: 0,
            missed: 0,
            last_tree: Bounds::default(),
            system_is_new: false,
            has_news: false,
            is_unsettled: true,
            // A mark must be read before it is reset; pages go to swap while their process waits.
            thorough: options.exact_step_peaks || options.limits.max_swap_bytes.is_some(),
            closely_once: false,
        };
        recorder.append(&Record::Header(Header {
            format_version: FORMAT_VERSION,
            mono_ns: now_ns,
            realtime_ns: realtime_ns(),
            page_bytes: page_bytes(),
            ticks_per_s: ticks_per_s(),
            interval_ns: recorder.interval_ns,
            nilo_pid: own_pid(),
        }));
        let columns = recorder.system.columns();
        recorder.append(&Record::Columns(columns));
        recorder.tree.care = Care::at_interval(recorder.interval_ns);
        if options.limits.any() {
            recorder.system.stay_alert();
        }
        recorder
    }

    /// The present interval: as asked, or stretched to keep the log small.
    pub fn interval_ns(&self) -> u64 {
        self.interval_ns << self.stretched
    }

    /// The next tick leaves nothing out: a step ended, and what it did is to be told from what follows.
    pub fn look_closely(&mut self) {
        self.closely_once = true;
    }

    /// Stores a record; a full disk is counted by the log and told in the report, never here.
    pub fn append(&mut self, record: &Record) {
        self.log.append(record);
    }

    pub fn event(&mut self, at_ns: u64, what: EventKind) {
        self.append(&Record::Event(Event { at_ns, what }));
    }

    /// The system alone: before the start, after the end.
    pub fn system_tick(&mut self, phase: Phase) {
        let now_ns = monotonic_ns();
        self.system.ask_owners_of_swap(now_ns);
        self.read_system(now_ns, None, 0, true);
        let system = self.system.values();
        self.log.tick(TickRef { at_ns: now_ns, phase, system, ..TickRef::default() });
    }

    /// One full turn.
    pub fn tick(&mut self) {
        let now_ns = monotonic_ns();
        self.notice_gap(now_ns);
        self.system.forget_owners_of_swap();
        self.tree.care.closely =
            self.thorough || std::mem::take(&mut self.closely_once) || self.system.is_short();
        let ran = self.tree.note_cpu();
        let left = if ran || self.system_is_due(now_ns) { read_left() } else { None };
        let threads = left.map(|left| left.threads);
        self.has_news = self.tree.turn(now_ns, ran, threads) | std::mem::take(&mut self.is_unsettled);
        if self.has_news || self.has_chores(now_ns, left) {
            self.settle(now_ns, left);
        } else {
            self.system_is_new = false;
            self.store(now_ns, false, true);
        }
        self.ticks += 1;
        self.last_tick_ns = now_ns;
    }

    /// Is anything to be done at this tick although the tree is as it was?
    fn has_chores(&self, now_ns: u64, left: Option<Left>) -> bool {
        let is_calm = |left| !self.is_watched() && self.system.is_calm(now_ns, left, self.last_tree.high_kib);
        let system_rests = !self.system_is_due(now_ns) || left.is_some_and(is_calm);
        self.tree.care.closely || !system_rests || self.slow.is_time(now_ns, false)
    }

    /// The rest of a tick, where there is more to do than to say that nothing happened.
    fn settle(&mut self, now_ns: u64, left: Option<Left>) {
        if self.has_news {
            self.take_stock(now_ns);
            self.last_tree = self.measure();
        }
        // The first tick in any case: a short run has no other.
        self.system_is_new = self.read_system(now_ns, left, self.last_tree.high_kib, self.ticks == 0);
        if self.has_news && self.is_new_peak() {
            self.walk_everybody(now_ns);
            self.last_tree = self.measure();
        } else if self.slow.is_time(now_ns, self.has_news) {
            self.slow.turn(&self.proc, self.tree.members_mut(), now_ns, &mut self.out);
        }
        self.highest_kib = self.highest_kib.max(self.last_tree.high_kib);
        self.store(now_ns, self.system_is_new, !self.has_news);
        self.keep_small(now_ns);
    }

    /// `is_same`: samples and tree are those that were stored last.
    fn store(&mut self, at_ns: u64, with_system: bool, is_same: bool) {
        let system = if with_system { self.system.values() } else { &[] };
        let tree = (!self.samples.is_empty()).then_some(self.last_tree);
        let (phase, processes) = (Phase::During, self.samples.as_slice());
        self.log.tick(TickRef { at_ns, phase, tree, system, processes, is_same });
        if !self.out.is_empty() {
            self.is_unsettled = true;
            self.out.drain(..).for_each(|record| self.log.append(&record));
        }
    }

    /// Walks all members as far as the budget goes. Who ended meanwhile is in the others' shares already: its own, of an
    /// earlier walk, would count pages twice, so everybody is looked at once more.
    fn walk_everybody(&mut self, now_ns: u64) {
        if self.slow.force(&self.proc, self.tree.members_mut(), now_ns, &mut self.out) {
            self.bounds.all_walked();
        }
        self.tree.look(now_ns);
        self.take_stock(now_ns);
    }

    /// After a look at all members: who came and went is noted, and who lives is stored with this tick.
    fn take_stock(&mut self, now_ns: u64) {
        self.note_ended(now_ns);
        self.log_changes();
        self.gather();
    }

    fn note_ended(&mut self, now_ns: u64) {
        for member in self.tree.take_ended() {
            self.bounds.ended(member.walk);
            self.slow.somebody_ended(now_ns);
        }
    }

    /// New, changed and ended processes go to the log before the tick that uses them.
    pub fn log_changes(&mut self) {
        for record in self.tree.take_records() {
            self.log.append(&record);
        }
    }

    /// A limit on the machine is to be kept: what is left is read at each tick, and not inferred.
    fn is_watched(&self) -> bool {
        self.system_pace_ns < SYSTEM_PACE_NS
    }

    fn system_is_due(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.system_ns) >= self.pace_ns()
    }

    /// True when there are new values to be stored. `left`: if it was asked at this tick.
    fn read_system(&mut self, now_ns: u64, left: Option<Left>, tree_kib: u64, always: bool) -> bool {
        if !always && !self.system_is_due(now_ns) {
            return false;
        }
        if let Some(turn) = &mut self.turn {
            turn.take();
        }
        self.system_ns = now_ns;
        if self.system.devices_due(now_ns) {
            self.read_devices();
        }
        if always {
            self.system.forget();
        }
        self.notice_clock_step(now_ns);
        let reading = self.system.read(now_ns, left, tree_kib, always || self.is_watched());
        if reading == Reading::NewColumns {
            let columns = self.system.columns();
            self.append(&Record::Columns(columns));
        }
        reading != Reading::Same
    }

    fn pace_ns(&self) -> u64 {
        if self.turn.as_ref().is_some_and(|turn| turn.lock.is_none()) {
            LEISURE_PACE_NS
        } else {
            self.system_pace_ns
        }
    }

    fn read_devices(&mut self) {
        let pids: Vec<i32> = self.tree.members().iter().map(|m| m.pid).collect();
        self.system.read_devices(&pids);
        for member in self.tree.members_mut() {
            let device_kib = self.system.device_kib_of(member.pid);
            self.is_unsettled |= device_kib != std::mem::replace(&mut member.device_kib, device_kib);
        }
    }

    fn gather(&mut self) {
        self.samples.clear();
        let living = self.tree.members().iter().filter(|m| m.is_alive());
        self.samples.extend(living.map(|m| m.sample));
    }

    fn measure(&self) -> Bounds {
        let living = self.tree.members().iter().filter(|m| m.is_alive());
        let known = living.map(|m| Known { now: &m.sample, walk: m.walk, seen_ns: m.seen_ns });
        self.bounds.measure(self.page_kib, known)
    }

    fn is_new_peak(&self) -> bool {
        self.samples.len() > 1 && self.last_tree.high_kib as f64 > self.highest_kib as f64 * NEW_PEAK
    }

    fn notice_gap(&mut self, now_ns: u64) {
        let late = now_ns.saturating_sub(self.last_tick_ns);
        let interval = self.interval_ns();
        if self.ticks > 0 && late > interval * 2 {
            self.missed += late / interval - 1;
        }
        if self.ticks > 0 && late > (interval * GAP_INTERVALS).max(1_000_000_000) {
            self.event(self.last_tick_ns, EventKind::Gap { until_ns: now_ns, stopped: false });
        }
    }

    fn notice_clock_step(&mut self, now_ns: u64) {
        let offset = clock_offset();
        let by_ns = offset - self.clock_offset_ns;
        if by_ns.abs() > CLOCK_STEP_NS {
            self.event(now_ns, EventKind::ClockStep { by_ns });
            self.clock_offset_ns = offset;
        }
    }

    /// At 1/2, 3/4, 7/8 … of the ceiling the interval doubles, so the ceiling is never reached.
    fn keep_small(&mut self, now_ns: u64) {
        let left = self.max_log_bytes >> (self.stretched + 1).min(40);
        if self.log.log_bytes() > self.max_log_bytes.saturating_sub(left) && self.stretched < 30 {
            self.stretched += 1;
            let interval_ns = self.interval_ns();
            let why = "the recording nears its largest size (--max-log)".to_owned();
            self.event(now_ns, EventKind::Interval { interval_ns, why });
        }
    }

    /// Walks every member, within the budget for forced readings, and measures the tree again.
    pub fn walk_now(&mut self) {
        let now_ns = monotonic_ns();
        self.walk_everybody(now_ns);
        self.settle_walks(now_ns);
    }

    /// Walks every member whatever it costs, until the deadline: the tree stands still for this.
    pub fn walk_all(&mut self, deadline_ns: u64) {
        self.slow.walk_all(&self.proc, self.tree.members_mut(), deadline_ns, &mut self.out);
        if monotonic_ns() < deadline_ns {
            self.bounds.all_walked();
        }
        self.settle_walks(monotonic_ns());
    }

    fn settle_walks(&mut self, now_ns: u64) {
        self.last_tree = self.measure();
        self.store(now_ns, false, false);
    }

    /// Job control stopped us (and the target) until now.
    pub fn was_stopped(&mut self, since_ns: u64) {
        let now_ns = monotonic_ns();
        self.event(since_ns, EventKind::Gap { until_ns: now_ns, stopped: true });
        self.last_tick_ns = now_ns;
    }

    pub fn ticks(&self) -> (u64, u64) {
        (self.ticks, self.missed)
    }

    pub fn last_tick_ns(&self) -> u64 {
        self.last_tick_ns
    }

    /// When the last tick was, by the wall clock.
    pub fn last_tick_realtime_ns(&self) -> u64 {
        self.last_tick_ns.saturating_add_signed(self.clock_offset_ns)
    }

    /// Our own cost so far; `helpers` is the memory of our other processes.
    pub fn cost(&self, helpers: Cost) -> Cost {
        let usage = own_usage();
        let own_hwm = self.own_hwm_bytes();
        Cost {
            cpu_s: (usage.user_us + usage.system_us) as f64 / 1e6 + helpers.cpu_s,
            rss_bytes: own_hwm + helpers.rss_bytes,
            written_bytes: self.log.written_bytes(),
            pause_s: 0.0,
        }
    }

    /// VmHWM, not `ru_maxrss`: the latter begins with the high water of whoever started us.
    pub fn own_hwm_bytes(&self) -> u64 {
        let status = self.proc.read_status(own_pid(), &mut Vec::new());
        status.ok().and_then(|s| s.vm_hwm_kib).unwrap_or(0) * 1024
    }

    /// Resets the high-water mark of every member, after it has been stored.
    pub fn reset_peaks(&mut self, step: u64, at_ns: u64) {
        self.tick();
        for member in self.tree.members_mut() {
            let _ = self.proc.reset_high_water(member.pid);
            member.forget();
        }
        self.event(at_ns, EventKind::PeaksReset { step });
    }

    /// Resets the mark of one process, after it has been stored; what it was.
    pub fn reset_peak(&mut self, pid: i32) -> Option<u64> {
        self.tree.members_mut().iter_mut().filter(|member| member.pid == pid).for_each(Member::forget);
        self.tick();
        let status = self.proc.read_status(pid, &mut Vec::new()).ok()?;
        self.proc.reset_high_water(pid).ok()?;
        self.tree.members_mut().iter_mut().filter(|member| member.pid == pid).for_each(Member::forget);
        status.vm_hwm_kib
    }

    /// The last record. What could not be stored is said in it.
    pub fn finish(self, exit: Option<Exit>, cost: Cost, cgroup_peak_bytes: Option<u64>) {
        let end = End {
            at_ns: monotonic_ns(),
            exit,
            cost,
            ticks: self.ticks,
            missed_ticks: self.missed,
            cgroup_peak_bytes,
        };
        self.log.finish(end);
    }
}

/// Of all ranks on a node one samples it; when it has ended, another.
#[derive(Debug)]
struct Turn {
    path: PathBuf,
    lock: Option<Lock>,
}

impl Turn {
    fn new(path: PathBuf) -> Self {
        let mut turn = Self { path, lock: None };
        turn.take();
        turn
    }

    fn take(&mut self) {
        if self.lock.is_none() {
            self.lock = Lock::try_take(&self.path).ok().flatten();
        }
    }
}

/// The open block is stored at each tick, so it is worth a mapping; where there can be none it is written.
fn slots(open: &File) -> Option<Box<dyn Slots>> {
    Slate::over(open).ok().map(|slate| Box::new(Mapped(slate)) as Box<dyn Slots>)
}

#[derive(Debug)]
struct Mapped(Slate);

impl Slots for Mapped {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> std::io::Result<()> {
        self.0.write_at(bytes, offset)
    }
}

/// The realtime clock minus the monotonic one.
pub(crate) fn clock_offset() -> i64 {
    realtime_ns() as i64 - monotonic_ns() as i64
}

pub fn nanoseconds(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::{Command, Stdio};

    use super::*;
    use crate::store::Waiting;
    use crate::watchdog::Amount;

    const SCRIPT: &str = "
import os, sys

def fork():
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    os.close(read)
    return pid, write

def end(pid, write):
    os.close(write)
    os.waitpid(pid, 0)

for line in sys.stdin:
    exec(line)
    print(flush=True)
";

    /// What is left out at a tick at which nothing seems to have happened was not needed.
    #[test]
    fn what_is_stored_is_always_what_the_members_are() {
        let mut python = Command::new("python3");
        python.args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = python.spawn().unwrap();
        let (mut orders, mut answers) =
            (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let tree = Tree::new(Proc::default(), child.id() as i32, vec![own_pid()], false, false);
        let (waiting, system) = (Waiting::default(), System::open(None).unwrap());
        let mut recorder = Recorder::over(Box::new(waiting), &Options::default(), tree, system);
        assert!(recorder.tree.begin(monotonic_ns()));
        let (mut quiet, mut told) = (0, 0);
        for round in 0..40 {
            let order = [
                "pass",
                "a = bytearray(3 << 20)",
                "del a",
                "child = fork()",
                "b = [bytes(9000) for _ in range(99)]",
                "end(*child)",
            ][round % 6];
            writeln!(orders, "{order}").unwrap();
            answers.read_line(&mut String::new()).unwrap();
            // Walks come once a second else, and there would be none.
            recorder.tree.members_mut().iter_mut().for_each(|member| member.walked_ns = 0);
            for _ in 0..4 {
                recorder.tick();
                let living = recorder.tree.members().iter().filter(|member| member.is_alive());
                assert!(recorder.samples.iter().eq(living.map(|member| &member.sample)), "after {order}");
                *(if recorder.has_news { &mut told } else { &mut quiet }) += 1;
                if !recorder.is_unsettled {
                    assert_eq!(recorder.last_tree, recorder.measure(), "after {order}");
                }
            }
        }
        assert!(quiet > 20 && told > 20, "{quiet} quiet ticks, {told} others");
        drop(orders);
        child.wait().unwrap();
    }

    /// Memory that others take from the page cache shows in `MemAvailable` alone.
    #[test]
    fn where_a_limit_on_the_machine_is_to_be_kept_quiet_ticks_read_it() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let tree = Tree::new(Proc::default(), child.id() as i32, vec![own_pid()], false, false);
        let mut options = Options::default();
        options.limits.min_available = Some(Amount::Bytes(1));
        let (waiting, system) = (Waiting::default(), System::open(None).unwrap());
        let mut recorder = Recorder::over(Box::new(waiting), &options, tree, system);
        assert!(recorder.tree.begin(monotonic_ns()));
        let mut quiet = 0;
        for _ in 0..20 {
            recorder.system_ns = 0; // as if the pace had passed
            recorder.tick();
            assert!(recorder.system_is_new);
            quiet += u32::from(!recorder.has_news);
        }
        assert!(quiet > 5, "{quiet}");
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
