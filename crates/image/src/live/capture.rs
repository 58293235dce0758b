//! Copying a process at one instant: all its threads stand still meanwhile, for as short as it takes.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use nilometer_kernel::read::proc::Proc;
use nilometer_kernel::sys::clock::monotonic_ns;
use nilometer_kernel::sys::inject::Frozen;
use nilometer_kernel::sys::mapped::Populated;
use nilometer_kernel::sys::pagemap::Pagemap;
use nilometer_kernel::sys::stop::Stopped;
use nilometer_kernel::sys::urgent::Urgent;

use super::copy::{Missed, copy};
use super::hold::{doubts, farewell, find_footing, fork, stop, threads_of};
use super::peek::Peek;
use super::plan::{Plan, Seen, look_aside, make_plan, subtract, whole_pages};
use super::source::Source;
use super::target::{from_io, read_mappings};
use crate::image::Segment;
use crate::mapping::Mapping;
use crate::residency::merged;
use crate::{Error, Image};

/// Pages that are there for what the target allocates between the two looks.
const SLACK_BYTES: usize = 4 << 20;
/// Address space, pages only when needed.
const RESERVE_BYTES: usize = 256 << 20;

/// How the target is held while it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Stopped, copied, released.
    #[default]
    Copy,
    /// A child is made by an injected system call, and read at leisure.
    Fork,
    /// Read while it runs: what belongs together may be of different instants.
    Off,
}

#[derive(Debug, Clone)]
pub struct CaptureOptions {
    pub mode: Mode,
    /// The target runs on after this, whatever is missing by then.
    pub max_pause: Duration,
    /// Threads that copy.
    pub threads: usize,
}

impl Default for CaptureOptions {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { mode: Mode::Copy, max_pause: Duration::from_millis(500), threads: cores.min(4) }
    }
}

/// A process at one instant.
#[derive(Debug)]
pub struct Capture {
    pub image: Image,
    pub pause: Pause,
    /// Resident bytes that were left out because the caller wanted it so.
    pub excluded_bytes: u64,
    /// Why it is not whole, in sentences.
    pub partial: Vec<String>,
    /// What the kernel counts as resident.
    pub rss_bytes: u64,
    pub threads: Vec<i32>,
}

/// What the target felt of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pause {
    pub mode: Mode,
    /// From the first thread that was asked to stop to the last that was let go.
    pub stopped_ns: u64,
    pub threads: u32,
    /// For how long one thread stood still once more, to take leave of a forked child.
    pub reaped_ns: u64,
}

/// Copies what the process has written, without the pages that lie wholly in `exclude`.
///
/// Waits for the threads of the target with `wait4`: nobody else in this process may wait for children meanwhile.
pub fn capture(peek: &Peek, options: &CaptureOptions, exclude: &[Range<u64>]) -> Result<Capture, Error> {
    capture_while(peek, options, exclude, |_| ())
}

/// The same; `held` is called when the copy is made, while the target still stands (or runs, in [`Mode::Off`]), with
/// the moment by which it should be let go.
pub fn capture_while(
    peek: &Peek,
    options: &CaptureOptions,
    exclude: &[Range<u64>],
    held: impl Fn(u64) + Sync,
) -> Result<Capture, Error> {
    let exclude = whole_pages(exclude, peek.pagemap().page_bytes());
    let job = Job { peek, options, exclude, held: &held };
    let (mappings, plan) = job.look(peek.pid(), peek.pagemap())?;
    let aside = look_aside(&mappings, peek.pagemap(), &job.exclude, job.has_file());
    let aside = aside.map_err(|source| from_io(peek.pid(), Path::new("pagemap"), source))?;
    let mut destination = allocate(plan.bytes, options.threads)?;
    // A thread of its own: whatever it holds is let go by the kernel when it ends.
    let taken = std::thread::scope(|scope| {
        let taken = scope.spawn(|| job.take(&mut destination)).join();
        taken.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    Ok(finish(peek, taken, aside, job.exclude, destination))
}

/// Room for what was seen and a little more, with its pages; and address space for a target that grows fast.
fn allocate(seen_bytes: usize, threads: usize) -> Result<Populated, Error> {
    let bytes = seen_bytes + seen_bytes / 16 + SLACK_BYTES;
    Populated::with_reserve(bytes, 2 * bytes + RESERVE_BYTES, threads)
        .or_else(|_| Populated::new(bytes, threads))
        .map_err(|source| Error::NoMemory { bytes: bytes as u64, source })
}

struct Job<'a> {
    peek: &'a Peek,
    options: &'a CaptureOptions,
    exclude: Vec<Range<u64>>,
    held: &'a (dyn Fn(u64) + Sync),
}

/// What was taken from the target.
#[derive(Default)]
struct Taken {
    mappings: Vec<Mapping>,
    plan: Plan,
    missed: Missed,
    pause: Pause,
    partial: Vec<String>,
    rss_bytes: u64,
    threads: Vec<i32>,
}

impl Job<'_> {
    fn look(&self, pid: i32, pagemap: &Pagemap) -> Result<(Vec<Mapping>, Plan), Error> {
        let mappings = read_mappings(pid)?;
        let plan = make_plan(&mappings, pagemap, &self.exclude, self.has_file());
        let plan = plan.map_err(|source| from_io(pid, Path::new("pagemap"), source))?;
        Ok((mappings, plan))
    }

    fn has_file(&self) -> impl Fn(&Mapping) -> bool {
        |mapping| self.peek.has_file(mapping)
    }

    fn take(&self, into: &mut Populated) -> Result<Taken, Error> {
        match self.options.mode {
            Mode::Copy => self.take_stopped(into),
            Mode::Fork => self.take_forked(into),
            Mode::Off => self.take_running(into),
        }
    }

    fn take_running(&self, into: &mut Populated) -> Result<Taken, Error> {
        let pid = self.peek.pid();
        let mut taken = Taken::of(pid, Mode::Off);
        (taken.mappings, taken.plan) = self.look(pid, self.peek.pagemap())?;
        // It may fork at any moment.
        taken.missed = copy(&Source::gentle(pid), &taken.plan.pieces, into, self.options.threads, u64::MAX);
        (self.held)(u64::MAX);
        taken.threads = threads_of(pid);
        Ok(taken)
    }

    fn take_stopped(&self, into: &mut Populated) -> Result<Taken, Error> {
        let Self { peek, options, .. } = self;
        let stopped = stop(peek.pid(), options.max_pause)?;
        let urgent = Urgent::raise();
        let mut taken = Taken::of(peek.pid(), Mode::Copy);
        (taken.mappings, taken.plan) = self.look(peek.pid(), peek.pagemap())?;
        let deadline_ns = stopped.began_ns().saturating_add(options.max_pause.as_nanos() as u64);
        let missed = copy(peek.source(), &taken.plan.pieces, into, options.threads, deadline_ns);
        (self.held)(deadline_ns);
        taken.release(stopped);
        drop(urgent);
        self.catch_up(missed, &mut taken, into);
        Ok(taken)
    }

    /// What was late is read after the release.
    fn catch_up(&self, missed: Missed, taken: &mut Taken, into: &mut [u8]) {
        taken.missed = missed;
        let late = std::mem::take(&mut taken.missed.late);
        let bytes: usize = late.iter().map(|piece| piece.length).sum();
        if bytes == 0 {
            return;
        }
        let after = copy(&Source::gentle(self.peek.pid()), &late, into, self.options.threads, u64::MAX);
        let without_place: usize = after.late.iter().map(|piece| piece.length).sum();
        let max_ms = self.options.max_pause.as_millis();
        if bytes > without_place {
            let bytes = bytes - without_place;
            taken.partial.push(format!(
                "{bytes} bytes were read while it ran again, after the longest pause of {max_ms} ms"
            ));
        }
        taken.missed.late = after.late;
        taken.missed.unreadable.extend(after.unreadable);
    }

    fn take_forked(&self, into: &mut Populated) -> Result<Taken, Error> {
        let Self { peek, options, .. } = self;
        let footing = find_footing(peek.pid())?;
        let stopped = stop(peek.pid(), options.max_pause)?;
        let mut taken = Taken::of(peek.pid(), Mode::Fork);
        let forked = fork(&stopped, peek.pid(), &footing);
        (self.held)(stopped.began_ns().saturating_add(options.max_pause.as_nanos() as u64));
        taken.release(stopped);
        let frozen = forked?;
        let copied = self.copy_frozen(&frozen, &mut taken, into);
        let (reaped_ns, left) = farewell(frozen);
        taken.pause.reaped_ns = reaped_ns;
        taken.partial.extend(left);
        copied.map(|()| taken)
    }

    fn copy_frozen(&self, frozen: &Frozen, taken: &mut Taken, into: &mut Populated) -> Result<(), Error> {
        let child = frozen.pid();
        let pagemap = Pagemap::open(child).map_err(|source| from_io(child, Path::new("pagemap"), source))?;
        (taken.mappings, taken.plan) = self.look(child, &pagemap)?;
        taken.missed = copy(&Source::gentle(child), &taken.plan.pieces, into, self.options.threads, u64::MAX);
        Ok(())
    }
}

impl Taken {
    fn of(pid: i32, mode: Mode) -> Self {
        let status = Proc::default().read_status(pid, &mut Vec::new()).ok();
        let rss_kib = status.and_then(|status| status.vm_rss_kib).unwrap_or(0);
        Self { rss_bytes: rss_kib << 10, pause: Pause { mode, ..Pause::default() }, ..Self::default() }
    }

    fn release(&mut self, stopped: Stopped) {
        self.threads = stopped.ids().collect();
        self.partial.extend(doubts(&stopped));
        let began_ns = stopped.began_ns();
        drop(stopped);
        self.pause.threads = self.threads.len() as u32;
        self.pause.stopped_ns = monotonic_ns() - began_ns;
    }
}

fn finish(
    peek: &Peek,
    taken: Taken,
    aside: Seen,
    exclude: Vec<Range<u64>>,
    destination: Populated,
) -> Capture {
    let Taken { mappings, plan, missed, pause, mut partial, rss_bytes, threads } = taken;
    let without_place: usize = missed.late.iter().map(|piece| piece.length).sum();
    if without_place > 0 {
        partial.push(format!("{without_place} bytes had no place: it grew while it was looked at"));
    }
    let late = missed.late.iter().map(|piece| piece.address..piece.address + piece.length as u64);
    let unreadable = merged(late.chain(missed.unreadable).collect());
    let Plan { segments, seen, .. } = plan;
    let residency = seen.with(aside);
    let excluded_bytes = exclude.iter().map(|range| residency.known_within(range)).sum();
    let segments = segments.iter().flat_map(|segment| without(segment, &unreadable)).collect();
    let withheld = exclude.into_iter().chain(unreadable).collect();
    let image = Image::new(destination.freeze(), segments, mappings);
    let image = image.with_files(peek.place(), withheld).with_residency(residency);
    Capture { image, pause, excluded_bytes, partial, rss_bytes, threads }
}

/// A segment without what could not be read.
fn without(segment: &Segment, unreadable: &[Range<u64>]) -> Vec<Segment> {
    let left = subtract(std::slice::from_ref(&(segment.start..segment.end)), unreadable);
    left.into_iter().map(|range| segment.part(range)).collect()
}
