//! One process of the tree, and how much of it is read at a tick.
//!
//! A reading in full (`stat`, then `status`) costs ten times as much as asking how long a process has run, and most
//! processes of most trees wait. So each tick reads what can have changed, and not more:
//!
//! - A process that has not run since the last look is as it was. Others can only take pages from it (reclaim, swap),
//!   and where memory is short every tick reads in full.
//! - One that ran for a moment only since the last look ([`Care::news_ns`]) is read by `statm`: its anonymous memory and the
//!   sum of the rest. That is all there is to know when only the former grew, but for a mark set and left between two
//!   looks, which a moment keeps small, and for faults and CPU time.
//! - Everything else, each process whose CPU time moved by a step of the kernel's figure for it (`COUNTED_NS`), and each
//!   every ten seconds, is read in full.
//!
//! So at any instant what no reading has seen of a process's memory is what it did in less than such a moment between two
//! looks, where a busy one may always do a whole interval's work. Its high-water mark waits for the next reading in
//! full; it is lost only with a process that ends before that, and of our own child not even then (`wait4`).

use nilometer_kernel::Error;
use nilometer_kernel::parse::stat::{Comm, Stat};
use nilometer_kernel::parse::status::Status;
use nilometer_kernel::read::proc::{Proc, ProcessFiles, StatmLine};
use nilometer_kernel::sys::clock::process_cpu_ns;
use nilometer_kernel::sys::limits::page_bytes;
use nilometer_trace::record::{ProcessSample, Role};

use crate::bounds::Walk;

/// Every process is read in full at least this often, changed or not.
const REFRESH_NS: u64 = 10_000_000_000;

/// The longest moment: a process could touch and give back some megabytes in it (a page takes 0.25 µs and more; cleared
/// in large ones 10 GB/s).
const LONGEST_NEWS_NS: u64 = 2_000_000;
/// Of an interval, a moment is this part.
const NEWS_SHARE: u64 = 50;
/// The CPU times of `stat` have steps of this size (`USER_HZ`, include/asm-generic/param.h): so far behind may they, and the
/// faults beside them, be.
const COUNTED_NS: u64 = 10_000_000;

/// So many looks after it was found, or seen to `exec`, its command line is read again: between `fork` and the end of an
/// `exec` it is its parent's, or empty, and the short name may stay the same (Python that spawns Python).
const YOUNG_LOOKS: u8 = 3;

/// To make a process takes this, on top of what its maker does else in an interval. `posix_spawn` takes 20 µs where it is
/// done again and again and the caches have all of it, `fork` 30 (AMD EPYC, Linux 6.18); who has just slept needs several
/// times that.
const FORK_NS: u64 = 100_000;
const MUCH_WORK_NS: u64 = 1_000_000;

/// What we know of a process and keep open of it.
#[derive(Debug)]
pub struct Member {
    pub index: u32,
    pub pid: i32,
    pub parent_pid: i32,
    pub start_ticks: u64,
    pub seen_ns: u64,
    pub comm: Comm,
    /// Where its stack began: an `exec` moves it, whatever the new program's name.
    start_stack: u64,
    pub arguments: Vec<String>,
    pub role: Role,
    pub sample: ProcessSample,
    /// All of its address space, touched or not; not in the log.
    pub address_space_bytes: u64,
    /// Highest VmHWM read so far; the kernel's own starts anew at `exec`.
    pub hwm_kib: u64,
    pub walk: Option<Walk>,
    pub walked_ns: u64,
    pub walk_cost_ns: u64,
    pub mappings: u64,
    pub kinds: Option<KindsRead>,
    /// Memory that it holds on graphics devices.
    pub device_kib: u64,
    /// It ended but its parent has not waited for it yet.
    pub zombie_since_ns: Option<u64>,
    files: ProcessFiles,
    /// The last line of `statm` that `sample` was found to agree with.
    statm: StatmLine,
    page_kib: u64,
    rss_pages: u64,
    status_ns: u64,
    full_ns: u64,
    /// CPU time at the last look and at the last reading in full; `None` where it is not known.
    cpu_ns: Option<u64>,
    full_cpu_ns: Option<u64>,
    /// Between the last two looks at its clock, and between the two before.
    used_ns: Option<u64>,
    usual_ns: Option<u64>,
    /// Its CPU time moved since the look before.
    moved: bool,
    has_run: bool,
    young_looks: u8,
}

/// When its mappings were last summed by kind, and its counters then.
#[derive(Debug, Clone, Copy)]
pub struct KindsRead {
    pub at_ns: u64,
    pub then: ProcessSample,
    pub pss_kib: u64,
}

/// How closely every process is looked at.
#[derive(Debug, Clone, Copy)]
pub struct Care {
    /// A process that used this much CPU time between two looks is read in full; see `lately_ns`.
    pub news_ns: u64,
    /// Nothing is left out.
    pub closely: bool,
    /// Another one is read in full at this tick: a second reading costs a fraction of the first, for which code and data
    /// had to come into the caches. So who is half-way to one is read as well.
    pub together: bool,
}

impl Care {
    pub fn at_interval(interval_ns: u64) -> Self {
        let news_ns = (interval_ns / NEWS_SHARE).min(LONGEST_NEWS_NS);
        Self { news_ns, closely: false, together: false }
    }
}

/// How much of a process is read at a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    Nothing,
    /// `statm` alone.
    Pages,
    Full,
}

/// What a look at a member found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Its sample is what it was at the last look.
    Same,
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
            start_stack: stat.start_stack,
            arguments: proc.read_arguments(pid).unwrap_or_default(),
            role: Role { name: String::new(), evidence: String::new() },
            sample: ProcessSample { index, ..ProcessSample::default() },
            address_space_bytes: stat.vsize,
            hwm_kib: 0,
            walk: None,
            walked_ns: 0,
            walk_cost_ns: 0,
            mappings: 0,
            kinds: None,
            device_kib: 0,
            zombie_since_ns: None,
            files,
            statm: StatmLine::default(),
            page_kib: page_bytes() / 1024,
            rss_pages: 0,
            status_ns: 0,
            full_ns: 0,
            cpu_ns: None,
            full_cpu_ns: None,
            used_ns: None,
            usual_ns: None,
            moved: true,
            has_run: true,
            young_looks: YOUNG_LOOKS,
        })
    }

    /// Has it run since this was last asked? True when that cannot be told, and once more after it ran: the clock of one
    /// that goes on running stands until the next scheduler tick.
    pub fn note_cpu(&mut self) -> bool {
        let cpu_ns = process_cpu_ns(self.pid);
        let moved = cpu_ns.is_none() || cpu_ns != self.cpu_ns;
        let used_ns = cpu_ns.zip(self.cpu_ns).map(|(now, then)| now.saturating_sub(then));
        self.usual_ns = std::mem::replace(&mut self.used_ns, used_ns);
        self.has_run = moved || self.moved;
        self.moved = moved;
        self.cpu_ns = cpu_ns;
        self.has_run
    }

    /// As far as its clock tells.
    pub fn has_ended(&self) -> bool {
        self.cpu_ns.is_none()
    }

    /// Can it have made a process between the last two looks at its clock? One that wakes up as ever has not; what one that
    /// works much has done besides does not show.
    pub fn may_have_forked(&self) -> bool {
        let usual_ns = self.usual_ns.unwrap_or(0);
        self.used_ns.is_none_or(|used_ns| used_ns >= (usual_ns + FORK_NS).min(MUCH_WORK_NS))
    }

    /// Brings `sample` up to date.
    pub fn look(&mut self, proc: &Proc, now_ns: u64, care: Care, buffer: &mut Vec<u8>) -> Look {
        let seen = match self.depth(now_ns, care) {
            Depth::Nothing => Some(Look::Same),
            Depth::Pages => self.read_pages(),
            Depth::Full => None,
        };
        seen.unwrap_or_else(|| self.read_in_full(proc, now_ns, buffer))
    }

    /// Must it be read in full, whatever is done with others?
    pub fn is_full_due(&self, now_ns: u64, care: Care) -> bool {
        self.depth(now_ns, care) == Depth::Full
    }

    fn depth(&self, now_ns: u64, care: Care) -> Depth {
        let part = if care.together { 2 } else { 1 };
        let is_old = now_ns.saturating_sub(self.full_ns) >= REFRESH_NS / part;
        match self.lately_ns().zip(self.uncounted_ns()) {
            _ if care.closely || is_old || self.young_looks > 0 => Depth::Full,
            _ if !self.has_run => Depth::Nothing,
            Some((lately_ns, uncounted_ns))
                if lately_ns < care.news_ns / part
                    && uncounted_ns < COUNTED_NS / part
                    && !self.hides_changes() =>
            {
                Depth::Pages
            }
            _ => Depth::Full,
        }
    }

    /// What it did since the last look, and before that since the one before: the clock of one that runs may be a scheduler
    /// tick late, so a part of what was done before a look shows after it.
    fn lately_ns(&self) -> Option<u64> {
        self.used_ns.map(|used_ns| used_ns + self.usual_ns.unwrap_or(0))
    }

    /// What it did since its counters were read.
    fn uncounted_ns(&self) -> Option<u64> {
        self.cpu_ns.zip(self.full_cpu_ns).map(|(now, then)| now.saturating_sub(then))
    }

    /// Can its memory change without a change of its pages? After a fork each of its faults may end the sharing of one,
    /// which nothing but their number tells.
    fn hides_changes(&self) -> bool {
        self.sample.swap_kib > 0 || self.walk.is_some_and(|walk| walk.hides_much())
    }

    /// Reads the pages alone. None when more has changed than growth of anonymous memory: what went to swap or
    /// came from a file is told by `status` only, as is the end.
    fn read_pages(&mut self) -> Option<Look> {
        let line = self.files.read_statm().ok()?;
        if line == self.statm {
            return Some(Look::Same);
        }
        let pages = line.parse().ok()?;
        let sample = &mut self.sample;
        let (anon_kib, before_kib) = (pages.anon() * self.page_kib, sample.anon_kib);
        if pages.size == 0 {
            return None; // it ended, or its first thread did
        }
        if pages.shared * self.page_kib != sample.file_kib + sample.shmem_kib || anon_kib < before_kib {
            return None;
        }
        self.statm = line;
        self.address_space_bytes = pages.size * self.page_kib * 1024;
        let is_same = anon_kib == before_kib && sample.hwm_kib >= sample.rss_kib();
        sample.anon_kib = anon_kib;
        sample.hwm_kib = sample.hwm_kib.max(sample.rss_kib());
        self.hwm_kib = self.hwm_kib.max(sample.hwm_kib);
        Some(if is_same { Look::Same } else { Look::Alive })
    }

    fn read_in_full(&mut self, proc: &Proc, now_ns: u64, buffer: &mut Vec<u8>) -> Look {
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
        self.statm = StatmLine::default();
        self.full_ns = now_ns;
        self.full_cpu_ns = self.cpu_ns;
        self.rss_pages = stat.rss_pages;
        self.address_space_bytes = stat.vsize;
        self.parent_pid = stat.ppid;
        if stat.start_stack != self.start_stack {
            self.start_stack = stat.start_stack;
            self.young_looks = YOUNG_LOOKS;
        }
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

    /// It has not ended; one that only waits to be waited for has no memory.
    pub fn is_alive(&self) -> bool {
        self.zombie_since_ns.is_none()
    }

    /// Was it found just now, or did it `exec`? True for some looks.
    pub fn grows_up(&mut self) -> bool {
        let young = self.young_looks > 0;
        self.young_looks = self.young_looks.saturating_sub(1);
        young
    }

    /// What the last page-table walk said is no longer true.
    pub fn forget_walk(&mut self) {
        self.walk = None;
        self.walked_ns = 0;
        self.kinds = None;
    }

    /// The next look reads everything anew (its high-water mark was reset).
    pub fn forget(&mut self) {
        self.status_ns = 0;
        self.full_ns = 0;
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

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

    use nilometer_trace::record::Shares;

    use super::*;

    const NOW_NS: u64 = 5_000_000_000;
    const CARE: Care = Care { news_ns: LONGEST_NEWS_NS, closely: false, together: false };
    const CLOSELY: Care = Care { closely: true, ..CARE };

    /// A process that was read in full just now, when it had used 7 ms.
    fn member() -> Member {
        let mut buffer = Vec::new();
        let pid = std::process::id() as i32;
        let member = Member::open(&Proc::default(), 0, pid, 0, &mut buffer).unwrap();
        let (cpu_ns, used_ns) = (Some(7_000_000), Some(0));
        Member {
            full_ns: NOW_NS,
            young_looks: 0,
            cpu_ns,
            full_cpu_ns: cpu_ns,
            used_ns,
            has_run: false,
            ..member
        }
    }

    /// The same, a moment later, after it ran for `used_ns`.
    fn ran(used_ns: u64) -> Member {
        Member { has_run: true, cpu_ns: Some(7_000_000 + used_ns), used_ns: Some(used_ns), ..member() }
    }

    /// A moment ago it ran for a moment; in all it has run for `uncounted_ns` since it was read in full.
    fn woke_often(uncounted_ns: u64) -> Member {
        Member { used_ns: Some(LONGEST_NEWS_NS / 4), ..ran(uncounted_ns) }
    }

    #[test]
    fn what_has_not_run_is_not_read_and_what_ran_little_is_read_cheaply() {
        assert_eq!(member().depth(NOW_NS, CARE), Depth::Nothing);
        assert_eq!(ran(LONGEST_NEWS_NS - 1).depth(NOW_NS, CARE), Depth::Pages);
        assert_eq!(ran(LONGEST_NEWS_NS).depth(NOW_NS, CARE), Depth::Full);
    }

    /// Its memory was seen each time; only its counters are behind.
    #[test]
    fn who_runs_a_moment_at_a_time_is_read_in_full_when_its_counters_have_moved() {
        assert_eq!(woke_often(COUNTED_NS - 1).depth(NOW_NS, CARE), Depth::Pages);
        assert_eq!(woke_often(COUNTED_NS).depth(NOW_NS, CARE), Depth::Full);
        let together = Care { together: true, ..CARE };
        assert_eq!(woke_often(COUNTED_NS / 2 - 1).depth(NOW_NS, together), Depth::Pages);
        assert_eq!(woke_often(COUNTED_NS / 2).depth(NOW_NS, together), Depth::Full);
    }

    #[test]
    fn work_that_the_clock_told_in_two_parts_is_one() {
        let worked = |usual_ns| Member { usual_ns: Some(usual_ns), ..ran(LONGEST_NEWS_NS / 2) };
        assert_eq!(worked(LONGEST_NEWS_NS / 2 - 1).depth(NOW_NS, CARE), Depth::Pages);
        assert_eq!(worked(LONGEST_NEWS_NS / 2).depth(NOW_NS, CARE), Depth::Full);
    }

    #[test]
    fn who_works_more_than_it_uses_to_may_have_made_a_process() {
        let may_have = |usual_ns, used_ns| Member { used_ns, usual_ns, ..member() }.may_have_forked();
        assert!(may_have(None, None) && may_have(Some(0), None), "nobody knows");
        assert!(may_have(None, Some(FORK_NS)) && !may_have(None, Some(FORK_NS - 1)));
        assert!(!may_have(Some(2 * FORK_NS), Some(2 * FORK_NS)), "as ever");
        assert!(may_have(Some(2 * FORK_NS), Some(3 * FORK_NS)));
        assert!(may_have(Some(MUCH_WORK_NS), Some(MUCH_WORK_NS)), "a little more would not show");
    }

    #[test]
    fn who_is_half_way_to_a_reading_in_full_is_read_with_others() {
        let together = Care { together: true, ..CARE };
        assert_eq!(member().depth(NOW_NS, together), Depth::Nothing);
        assert_eq!(ran(LONGEST_NEWS_NS / 2 - 1).depth(NOW_NS, together), Depth::Pages);
        assert_eq!(ran(LONGEST_NEWS_NS / 2).depth(NOW_NS, together), Depth::Full);
        assert_eq!(member().depth(NOW_NS + REFRESH_NS / 2, together), Depth::Full);
        assert!(
            !ran(LONGEST_NEWS_NS / 2).is_full_due(NOW_NS, CARE)
                && ran(LONGEST_NEWS_NS).is_full_due(NOW_NS, CARE)
        );
    }

    #[test]
    fn at_short_intervals_less_is_news() {
        let care = Care::at_interval(10_000_000);
        assert_eq!(ran(199_999).depth(NOW_NS, care), Depth::Pages);
        assert_eq!(ran(200_000).depth(NOW_NS, care), Depth::Full);
        assert_eq!(Care::at_interval(60_000_000_000).news_ns, LONGEST_NEWS_NS);
        assert_eq!(member().depth(NOW_NS, Care { closely: true, ..care }), Depth::Full);
    }

    #[test]
    fn old_young_and_unknown_ones_are_read_in_full() {
        assert_eq!(member().depth(NOW_NS + REFRESH_NS, CARE), Depth::Full);
        assert_eq!(Member { young_looks: 1, ..member() }.depth(NOW_NS, CARE), Depth::Full);
        assert_eq!(Member { cpu_ns: None, has_run: true, ..member() }.depth(NOW_NS, CARE), Depth::Full);
        let swapped = ProcessSample { swap_kib: 4, ..ProcessSample::default() };
        assert_eq!(Member { sample: swapped, ..ran(1) }.depth(NOW_NS, CARE), Depth::Full);
    }

    #[test]
    fn faults_are_counted_while_pages_are_shared_after_a_fork() {
        let then = ProcessSample { anon_kib: 1000, ..ProcessSample::default() };
        let walk = |pss_anon_kib| Some(Walk::new(&Shares { pss_anon_kib, ..Shares::default() }, &then));
        assert_eq!(Member { walk: walk(500), ..ran(1) }.depth(NOW_NS, CARE), Depth::Full);
        assert_eq!(Member { walk: walk(950), ..ran(1) }.depth(NOW_NS, CARE), Depth::Pages, "little");
    }

    /// Python that does a line of ours at a time.
    struct Puppet {
        child: Child,
        orders: ChildStdin,
        answers: BufReader<ChildStdout>,
    }

    impl Puppet {
        fn start() -> Self {
            let script = "import mmap, sys\nfor line in sys.stdin: exec(line); print(flush=True)";
            let mut python = Command::new("python3");
            let mut child =
                python.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let orders = child.stdin.take().unwrap();
            let answers = BufReader::new(child.stdout.take().unwrap());
            let mut puppet = Self { child, orders, answers };
            puppet.order("pass");
            puppet
        }

        /// Until it waits for the next order: of what runs at this moment the clock is late.
        fn order(&mut self, line: &str) {
            writeln!(self.orders, "{line}").unwrap();
            self.answers.read_line(&mut String::new()).unwrap();
            let (proc, mut buffer) = (Proc::default(), Vec::new());
            while proc.read_stat(self.child.id() as i32, &mut buffer).unwrap().state != b'S' {}
        }
    }

    impl Drop for Puppet {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    /// However the sample came about, it is what a reading in full would have given, but for faults and CPU time.
    #[test]
    fn a_cheap_look_finds_the_same_memory() {
        let mut puppet = Puppet::start();
        let (proc, mut buffer) = (Proc::default(), Vec::new());
        let pid = puppet.child.id() as i32;
        let mut member = Member::open(&proc, 0, pid, 0, &mut buffer).unwrap();
        let mut closely = Member::open(&proc, 0, pid, 0, &mut buffer).unwrap();
        for order in ["a = bytearray(3 << 20)", "del a", "m = mmap.mmap(-1, 1 << 20); m.write(b'x' * 9999)"] {
            puppet.order(order);
            for _ in 0..=YOUNG_LOOKS {
                member.note_cpu();
                let before = member.sample;
                let look = member.look(&proc, NOW_NS, CARE, &mut buffer);
                assert!(look == Look::Alive || (look == Look::Same && member.sample == before), "{look:?}");
                member.grows_up();
            }
            assert_eq!(member.look(&proc, NOW_NS, CARE, &mut buffer), Look::Same, "nothing happened since");
            assert_eq!(closely.look(&proc, NOW_NS, CLOSELY, &mut buffer), Look::Alive);
            let memory = |s: &ProcessSample| [s.anon_kib, s.file_kib, s.shmem_kib, s.swap_kib];
            assert_eq!(memory(&member.sample), memory(&closely.sample), "after {order}");
        }
    }

    #[test]
    fn a_mark_left_between_two_looks_is_found() {
        let mut puppet = Puppet::start();
        let (proc, mut buffer) = (Proc::default(), Vec::new());
        let mut member = Member::open(&proc, 0, puppet.child.id() as i32, 0, &mut buffer).unwrap();
        for order in ["pass", "pass", "pass", "pass", "a = bytearray(b'x') * (64 << 20); del a"] {
            puppet.order(order);
            member.note_cpu();
            assert!(matches!(member.look(&proc, NOW_NS, CARE, &mut buffer), Look::Same | Look::Alive));
            member.grows_up();
        }
        assert!(member.sample.hwm_kib > member.sample.rss_kib() + (60 << 10), "{:?}", member.sample);
    }

    #[test]
    fn an_end_is_noticed_though_nothing_else_is_read() {
        let mut puppet = Puppet::start();
        let (proc, mut buffer) = (Proc::default(), Vec::new());
        let mut member = Member::open(&proc, 0, puppet.child.id() as i32, 0, &mut buffer).unwrap();
        let mut look = |member: &mut Member| {
            member.note_cpu();
            member.young_looks = 0;
            member.look(&proc, NOW_NS, CARE, &mut buffer)
        };
        assert_eq!(look(&mut member), Look::Alive);
        puppet.child.kill().unwrap();
        while matches!(look(&mut member), Look::Same | Look::Alive) {}
        puppet.child.wait().unwrap();
        while look(&mut member) != Look::Gone {}
    }
}
