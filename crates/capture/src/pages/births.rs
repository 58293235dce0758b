//! The layer of births beside every way of looking: page faults one by one, so which memory is new, and whose code touched it.
//!
//! Rings hold some ten thousand faults, a window may have more: a thread empties them meanwhile. The one invariant: what is
//! told of a window are the faults between its mark and its look, and those that nobody could keep are counted.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nilometer_kernel::read::proc::Proc;
use nilometer_kernel::sys::clock::thread_cpu_ns;
use nilometer_kernel::sys::faults::{Fault, FaultStream};
use nilometer_kernel::sys::limits::{OpenFiles, page_bytes};
use nilometer_kernel::sys::pagemap::Pagemap;
use nilometer_trace::pages::Births as Told;

/// Between two times that the rings are emptied: a processor takes less than a fault in a microsecond.
const PACE: Duration = Duration::from_millis(10);
/// Pages are put in order when there are so many more.
const FEWEST_PAGES: usize = 1 << 16;
/// Different instructions that are told apart, of one process.
const MOST_INSTRUCTIONS: usize = 1 << 16;
/// What one entry of a higher table maps (x86-64).
const HUGE_BYTES: u64 = 2 << 20;
/// Whose code it was: so many are named.
const MOST_NAMED: usize = 8;
const NOT_MAPPED: &str = "code that is not mapped any more";

pub(super) const HOW: &str = "page faults one by one (perf), each a page of 4 KiB at least";

/// Whether it works for this process; why not, in a sentence.
pub(super) fn check(pid: i32) -> Result<(), String> {
    FaultStream::open(pid).map(drop).map_err(|error| why_not(&error))
}

fn why_not(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(1 | 13) => "perf_event_open is not permitted here (nilo doctor: perf-faults)".to_owned(),
        Some(24) => {
            "too many threads and processors for the limit on open files; more:  ulimit -n 65536".to_owned()
        }
        _ => format!("perf_event_open: {error}"),
    }
}

/// The layer of one recording.
#[derive(Debug)]
pub(super) struct Births {
    heard: Arc<Mutex<Heard>>,
    stop: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Heard {
    stream: FaultStream,
    processes: BTreeMap<i32, Faults>,
    lost: u64,
    /// What emptying the rings took of the thread's time.
    cpu_ns: u64,
}

/// Of one process since the mark.
#[derive(Debug, Default)]
struct Faults {
    count: u64,
    /// Numbers of pages; in order and each once up to `sorted`.
    pages: Vec<u64>,
    sorted: usize,
    instructions: HashMap<u64, u64>,
}

impl Births {
    /// Sees all threads that these processes have, and whatever they start from now on.
    pub fn open(pids: &[i32]) -> Result<Self, String> {
        let (proc, first) = (Proc::default(), pids.first().copied().unwrap_or(0));
        // One descriptor for each thread on each processor. A command has been started by now, with the limit that we were given.
        if let Some(limit) = OpenFiles::read() {
            limit.raise();
        }
        let mut stream = FaultStream::open(first).map_err(|error| why_not(&error))?;
        for pid in pids {
            for thread in proc.list_threads(*pid).unwrap_or_default() {
                match stream.add(thread) {
                    Err(error) if error.raw_os_error() != Some(3) => return Err(why_not(&error)),
                    _ => {} // or it ended meanwhile
                }
            }
        }
        let heard = Heard { stream, processes: BTreeMap::new(), lost: 0, cpu_ns: 0 };
        let heard = Arc::new(Mutex::new(heard));
        let (stop, stopped) = channel();
        let theirs = Arc::clone(&heard);
        let work = move || empty(&theirs, &stopped);
        let thread = std::thread::Builder::new().name("nilo-births".into()).spawn(work);
        let thread = thread.map_err(|error| format!("no thread for it: {error}"))?;
        Ok(Self { heard, stop, thread: Some(thread) })
    }

    pub fn sees_system_calls(&self) -> bool {
        lock(&self.heard).stream.sees_system_calls()
    }

    /// Forgets what was heard.
    pub fn mark(&self) {
        let mut heard = lock(&self.heard);
        heard.take();
        heard.processes.clear();
        heard.lost = 0;
    }

    /// Takes in what has come by now, for all that is asked next.
    pub fn look(&self) {
        lock(&self.heard).take();
    }

    /// What one of `members` did since the mark, as of the last look. What the processes that are none of them did, and what
    /// nobody kept, is told with the first.
    pub fn of(&self, pid: i32, members: &[i32]) -> Told {
        let mut heard = lock(&self.heard);
        let is_first = members.first() == Some(&pid);
        let others = heard.processes.iter().filter(|(other, _)| is_first && !members.contains(other));
        let elsewhere = others.map(|(_, faults)| faults.count).sum();
        let lost = if is_first { heard.lost } else { 0 };
        let told = heard.processes.get_mut(&pid).map(|faults| faults.tell(pid)).unwrap_or_default();
        Told { lost, elsewhere, ..told }
    }

    /// Our own time since this was last asked.
    pub fn take_cpu_ns(&self) -> u64 {
        std::mem::take(&mut lock(&self.heard).cpu_ns)
    }
}

impl Drop for Births {
    fn drop(&mut self) {
        let _ = self.stop.send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A thread that panicked left nothing half done.
fn lock(heard: &Mutex<Heard>) -> MutexGuard<'_, Heard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

fn empty(heard: &Mutex<Heard>, stopped: &Receiver<()>) {
    let mut before_ns = thread_cpu_ns();
    while stopped.recv_timeout(PACE) == Err(RecvTimeoutError::Timeout) {
        let mut heard = lock(heard);
        heard.take();
        let now_ns = thread_cpu_ns();
        heard.cpu_ns += now_ns - before_ns;
        before_ns = now_ns;
    }
}

impl Heard {
    fn take(&mut self) {
        let processes = &mut self.processes;
        self.lost += self.stream.take(|fault| processes.entry(fault.pid).or_default().add(fault));
    }
}

impl Faults {
    fn add(&mut self, fault: Fault) {
        self.count += 1;
        self.pages.push(fault.address / page_bytes());
        if self.pages.len() >= 2 * self.sorted.max(FEWEST_PAGES) {
            self.sort();
        }
        let is_full = self.instructions.len() >= MOST_INSTRUCTIONS;
        if !is_full || self.instructions.contains_key(&fault.instruction) {
            *self.instructions.entry(fault.instruction).or_default() += 1;
        }
    }

    fn sort(&mut self) {
        self.pages.sort_unstable();
        self.pages.dedup();
        self.sorted = self.pages.len();
    }

    fn tell(&mut self, pid: i32) -> Told {
        self.sort();
        let mut mappings = Vec::new();
        let _ = Proc::default().read_maps(pid, |mapping| {
            mappings.push((mapping.start..mapping.end, String::from_utf8_lossy(mapping.name).into_owned()));
        });
        let code = by_name(&self.instructions, &mappings);
        let mut pages = runs(&self.pages);
        let huge = huge_around(pid, &pages);
        if !huge.is_empty() {
            pages = runs(&widened(&self.pages, &huge));
        }
        Told { faults: self.count, pages, code, ..Told::default() }
    }
}

/// The huge pages that these are in, where the kernel tells; in pages, in order.
fn huge_around(pid: i32, born: &[(u64, u64)]) -> Vec<Range<u64>> {
    let (page, huge_pages) = (page_bytes(), HUGE_BYTES / page_bytes());
    let Ok(map) = Pagemap::open(pid) else { return Vec::new() };
    let (mut found, mut from) = (Vec::new(), 0);
    for (first, count) in born {
        let start = (first - first % huge_pages).max(from);
        from = (first + count).next_multiple_of(huge_pages);
        if start < from && map.scan_huge(&(start * page..from * page), &mut found).is_err() {
            return Vec::new();
        }
    }
    found.into_iter().map(|range| range.start / page..range.end / page).collect()
}

/// The pages, and with each that is in a huge one all of that one: they were born together.
fn widened(pages: &[u64], huge: &[Range<u64>]) -> Vec<u64> {
    let huge_pages = HUGE_BYTES / page_bytes();
    let is_huge = |page: u64| {
        let after = huge.partition_point(|range| range.start <= page);
        huge[..after].last().is_some_and(|range| range.contains(&page))
    };
    let mut all: Vec<u64> = Vec::new();
    for page in pages {
        let start = page - page % huge_pages;
        match all.last() {
            Some(last) if last >= page => {}
            _ if is_huge(*page) => all.extend(start..start + huge_pages),
            _ => all.push(*page),
        }
    }
    all
}

/// First page and number of each run.
fn runs(pages: &[u64]) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for page in pages {
        match runs.last_mut() {
            Some((first, count)) if *first + *count == *page => *count += 1,
            _ => runs.push((*page, 1)),
        }
    }
    runs
}

/// Instructions by the file that they are in, most first.
fn by_name(instructions: &HashMap<u64, u64>, mappings: &[(Range<u64>, String)]) -> Vec<(String, u64)> {
    let mut names: BTreeMap<&str, u64> = BTreeMap::new();
    for (instruction, count) in instructions {
        let after = mappings.partition_point(|(range, _)| range.start <= *instruction);
        let found = mappings[..after].last().filter(|(range, _)| range.contains(instruction));
        let name = found.map_or(NOT_MAPPED, |(_, path)| file_name(path));
        *names.entry(name).or_default() += count;
    }
    let mut names: Vec<(String, u64)> =
        names.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
    names.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    names.truncate(MOST_NAMED);
    names
}

fn file_name(path: &str) -> &str {
    match path.rsplit('/').next() {
        Some("") | None => "code made at run time",
        Some(name) => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_forgets_what_was_born_before_it() {
        let own = std::process::id() as i32;
        let births = match Births::open(&[own]) {
            Ok(births) => births,
            Err(why) => return nilometer_lab::skip("perf-faults", &why),
        };
        births.mark();
        let memory = vec![1_u8; 8 << 20];
        let page = (memory.as_ptr().addr() + memory.len() / 2) as u64 / page_bytes();
        let is_told = || {
            births.look();
            let told = births.of(own, &[own]).pages;
            told.iter().any(|(first, count)| (*first..first + count).contains(&page))
        };
        assert!(is_told());
        births.mark();
        assert!(!is_told());
    }

    #[test]
    fn pages_of_a_row_are_one_run_and_repeated_ones_count_as_faults_only() {
        let mut faults = Faults::default();
        for page in [7, 5, 6, 9, 6] {
            faults.add(Fault { pid: 1, address: page * page_bytes() + 12, instruction: 1 });
        }
        let told = faults.tell(i32::MAX);
        assert_eq!((told.faults, told.pages), (5, vec![(5, 3), (9, 1)]));
    }

    #[test]
    fn with_a_huge_page_all_of_it_is_born() {
        let huge_pages = HUGE_BYTES / page_bytes();
        let huge = huge_pages..2 * huge_pages;
        let pages = [3, huge_pages + 7, huge_pages + 9, 3 * huge_pages];
        let all = widened(&pages, std::slice::from_ref(&huge));
        assert_eq!(runs(&all), [(3, 1), (huge_pages, huge_pages), (3 * huge_pages, 1)]);
    }

    #[test]
    fn code_is_told_by_its_file() {
        let mappings = [(10..20, "/lib/libc.so.6".to_owned()), (20..30, String::new())];
        let instructions = HashMap::from([(10, 5), (19, 1), (25, 2), (40, 9)]);
        let told = by_name(&instructions, &mappings);
        let told: Vec<(&str, u64)> = told.iter().map(|(name, count)| (&**name, *count)).collect();
        assert_eq!(told, [(NOT_MAPPED, 9), ("libc.so.6", 6), ("code made at run time", 2)]);
    }

    #[test]
    fn memory_stays_small_when_the_same_pages_come_again() {
        let mut faults = Faults::default();
        for number in 0..1_000_000_u64 {
            faults.add(Fault { pid: 1, address: number % 1000 * page_bytes(), instruction: 1 });
        }
        assert!(faults.pages.capacity() <= 4 * FEWEST_PAGES, "{}", faults.pages.capacity());
        assert_eq!((faults.count, faults.tell(i32::MAX).pages), (1_000_000, vec![(0, 1000)]));
    }
}
