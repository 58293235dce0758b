//! The ledger of a process: which line each resident byte belongs to.
//!
//! Under one stop the memory is copied, and the kernel is asked for the mappings with what each uses and for every
//! page. Then buffers of arrays go before blocks of Python objects, these before what Python's allocator holds, that
//! before malloc's chunks, and what nobody claims is what its mapping is. The one invariant: the ledger closes.

mod allocator;
mod claim;
mod count;
mod describe;
mod ground;
mod holder;
mod library;
mod owner;
mod sight;
mod survey;
mod unshared;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nilometer_cpython::Footprint;
use nilometer_image::live::{self, Capture, CaptureOptions, Peek};
use nilometer_image::{self as image, Image};
use nilometer_kernel::read::proc::Proc;
use nilometer_native::allocator as other;
use nilometer_native::glibc::Malloc;
use nilometer_native::torch::Roles;
use nilometer_trace::heap::{Graph, Pause, PauseMode};
use nilometer_trace::ledger::{Badge, Ledger, Line, Method, Named, Part};

pub use crate::census::{Error, Mode};
pub use owner::{Stretch, owners};
pub use survey::survey;

use crate::census::{Places, Progress, Readers, Stage};
use crate::privacy::mask_arguments;
use claim::Claim;
use count::Counted;
use ground::{Circumstances, Ground};
use sight::{Looker, Sight, Vma};

const PAGE: usize = 4096;

/// How a ledger is taken.
#[derive(Debug, Clone)]
pub struct LedgerOptions {
    /// [`Mode::Off`] never stops the target: the ledger is then estimated.
    pub mode: Mode,
    /// The target runs on after this, whatever is missing by then.
    pub max_pause: Duration,
    /// What each package's modules hold is told too: it needs all references, which takes longer.
    pub holdings: bool,
    /// Told what is being done.
    pub progress: Progress,
}

impl Default for LedgerOptions {
    fn default() -> Self {
        let CaptureOptions { mode, max_pause, .. } = CaptureOptions::default();
        Self { mode, max_pause, holdings: false, progress: Progress::default() }
    }
}

/// A ledger, and why it is not a better one.
#[derive(Debug)]
pub struct Taken {
    pub ledger: Ledger,
    /// The memory could not be read: this is the ledger by kinds of mappings.
    pub refused: Option<Error>,
}

/// The ledger of a process: of its memory where that can be read, else of its mappings, else of its counters.
pub fn take(pid: i32, options: &LedgerOptions) -> Result<Taken, Error> {
    match read_anyhow(pid, options) {
        Ok(ledger) => Ok(Taken { ledger, refused: None }),
        Err(refused) if can_do_without(&refused) => {
            let ledger = by_mappings(pid).or_else(|| by_counters(pid));
            match ledger {
                Some(ledger) => Ok(Taken { ledger, refused: Some(refused) }),
                None => Err(refused),
            }
        }
        Err(error) => Err(error),
    }
}

/// A process that somebody else holds is read while it runs, as far as it does.
fn read_anyhow(pid: i32, options: &LedgerOptions) -> Result<Ledger, Error> {
    match read(pid, options) {
        Err(Error::Image(held @ (image::Error::Traced { .. } | image::Error::NotStopped { .. })))
            if options.mode != Mode::Off =>
        {
            let mut ledger = read(pid, &LedgerOptions { mode: Mode::Off, ..options.clone() })?;
            ledger.notes.insert(0, format!("{held}: it was read without a stop"));
            Ok(ledger)
        }
        outcome => outcome,
    }
}

fn can_do_without(refused: &Error) -> bool {
    use image::Error::{NoMemory, Not64Bit, NotPermitted, Unreadable};
    let Error::Image(refused) = refused else { return false };
    matches!(refused, NotPermitted { .. } | Not64Bit { .. } | NoMemory { .. } | Unreadable { .. })
}

fn read(pid: i32, options: &LedgerOptions) -> Result<Ledger, Error> {
    let peek = Peek::open(pid)?;
    let modules = peek.modules();
    let readers = Readers::find(&peek, &modules);
    let buffers = readers.prescan(&peek);
    let looker = Looker::new(pid);
    let capture =
        CaptureOptions { mode: options.mode, max_pause: options.max_pause, ..CaptureOptions::default() };
    options.progress.tell(Stage::Copy);
    let captured = live::capture_while(&peek, &capture, &buffers, |deadline_ns| looker.look(deadline_ns));
    options.progress.tell(Stage::Decode);
    let captured = captured?;
    let sight = looker.finish();
    let Places { graph, footprint, roles, malloc } = readers.decode_places(&captured.image, options.holdings);
    let allocators = other::names(&modules).into_iter().map(|allocator| allocator.name.to_owned()).collect();
    let found = Found { image: &captured.image, graph, footprint, roles, malloc, allocators };
    let mut ledger = identify(pid);
    ledger.python = readers.python.as_ref().map(|python| python.version.to_string()).unwrap_or_default();
    ledger.notes.extend(captured.partial.iter().cloned());
    describe_pause(&mut ledger, &captured, &sight);
    found.fill(&mut ledger, &sight);
    Ok(ledger)
}

/// Everything that was made of the memory.
struct Found<'a> {
    image: &'a Image,
    graph: Graph,
    footprint: Footprint,
    roles: Roles,
    malloc: Option<Malloc>,
    allocators: Vec<String>,
}

impl Found<'_> {
    fn fill(mut self, ledger: &mut Ledger, sight: &Sight) {
        let circumstances = Circumstances {
            stack_pointers: sight.stack_pointers.clone(),
            has_other_allocator: !self.allocators.is_empty(),
            readable: true,
        };
        let grounds = ground::grounds(&sight.vmas, &circumstances);
        let claims = self.claims();
        let mut counted: Vec<Counted> = if sight.has_pages {
            let zero = |page| is_zero(self.image, page);
            let count = |of| count::count_pages(of, &sight.pages, &claims, zero);
            sight.vmas.iter().zip(&grounds).map(count).collect()
        } else {
            usages(&sight.vmas, &grounds)
        };
        for (of, counted) in sight.vmas.iter().zip(&grounds).zip(&mut counted) {
            count::weigh(of, counted, &sight.sharers, &claims);
        }
        let scene = holder::Scene {
            image: self.image,
            malloc: self.malloc.as_ref(),
            vmas: &sight.vmas,
            grounds: &grounds,
            counted: &counted,
            claims: &claims,
        };
        let holders = holder::find(&scene);
        drop(claims);
        ledger.unshared = sight.fork.as_ref().map(|fork| unshared::judge(fork, &sight.pages, &self.graph));
        if ledger.badge == Badge::Exact {
            let over = count::cap_all(&sight.vmas, &mut counted);
            describe::tell_over(ledger, &sight.vmas, over);
        }
        total(ledger, &sight.vmas);
        ledger.parts = count::parts(&sight.vmas, &counted);
        ledger.libraries = count::libraries(&sight.vmas, &grounds, &counted);
        ledger.malloc = self.malloc.as_ref().map(|malloc| allocator::sums(malloc, &sight.vmas, &sight.pages));
        ledger.python_heap = describe::python_heap(&self.graph, &self.footprint, (&grounds, &counted));
        library::add_holdings(&mut ledger.libraries, &self.footprint.holdings);
        if let Some(heap) = &mut ledger.python_heap {
            heap.weights_bytes = self.roles.weights_bytes;
            heap.gradients_bytes = self.roles.gradients_bytes;
            heap.optimizer_bytes = self.roles.optimizer_bytes;
        }
        ledger.allocators = std::mem::take(&mut self.allocators);
        ledger.notes.append(&mut self.graph.origin.limits);
        describe::name_holders(ledger, &holders, (&sight.vmas, &counted));
        if let Some(malloc) = &self.malloc {
            let resident = |range: &std::ops::Range<u64>| allocator::resident(&sight.pages, range);
            describe::name_chunks(ledger, holder::chunks_by_holder(malloc, &holders, resident));
        }
        describe::finish(ledger, (&sight.vmas, &grounds, &counted));
    }

    fn claims(&mut self) -> Vec<Claim> {
        let buffers = self.graph.payloads.iter();
        let buffers =
            buffers.map(|payload| payload.address..payload.address.saturating_add(payload.bytes)).collect();
        let buffers = claim::claims(buffers, Line::Arrays);
        let mut objects = std::mem::take(&mut self.footprint.used);
        objects.append(&mut self.footprint.large);
        let slack = claim::claims(std::mem::take(&mut self.footprint.slack), Line::PythonSlack);
        let idle = claim::claims(std::mem::take(&mut self.footprint.idle), Line::PythonFree);
        let used = claim::overlay(&idle, claim::claims(objects, Line::PythonObjects));
        let python = claim::overlay(&used, slack);
        let upper = claim::overlay(&buffers, python);
        match &self.malloc {
            Some(malloc) => claim::overlay(&upper, allocator::claims(malloc)),
            None => upper,
        }
    }
}

fn is_zero(image: &Image, page: u64) -> bool {
    image.slice(page, PAGE).is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0))
}

fn usages(vmas: &[Vma], grounds: &[Ground]) -> Vec<Counted> {
    vmas.iter().zip(grounds).map(|(vma, ground)| count::count_usage(vma, ground)).collect()
}

/// The sums of the page walk.
fn total(ledger: &mut Ledger, vmas: &[Vma]) {
    let sum = |field: fn(&Vma) -> u64| vmas.iter().map(field).sum::<u64>() << 10;
    ledger.rss_bytes = sum(|vma| vma.usage.rss);
    ledger.pss_bytes = Some(sum(|vma| vma.usage.pss));
    ledger.uss_bytes = Some(sum(|vma| vma.usage.private_clean + vma.usage.private_dirty));
    ledger.swap_bytes = sum(|vma| vma.usage.swap);
}

/// Who it is, whatever can be read of it.
fn identify(pid: i32) -> Ledger {
    let arguments = Proc::default().read_arguments(pid).unwrap_or_default();
    let status = Proc::default().read_status(pid, &mut Vec::new()).ok();
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    Ledger {
        pid,
        parent: status.map_or(0, |status| status.ppid),
        command: mask_arguments(&arguments).join(" "),
        realtime_ns: now.map_or(0, |since| since.as_nanos() as u64),
        kernel_rss_bytes: status.and_then(|status| status.vm_rss_kib).map(|kib| kib << 10),
        ..Ledger::default()
    }
}

fn describe_pause(ledger: &mut Ledger, captured: &Capture, sight: &Sight) {
    let mode = match captured.pause.mode {
        Mode::Copy => PauseMode::Copy,
        Mode::Fork => PauseMode::Fork,
        Mode::Off => PauseMode::Off,
    };
    ledger.pause = Pause { mode, stopped_ns: captured.pause.stopped_ns, threads: captured.pause.threads };
    ledger.kernel_rss_bytes = sight.kernel_rss_bytes;
    ledger.badge = if mode == PauseMode::Off || !sight.together { Badge::Estimated } else { Badge::Exact };
    if !sight.together {
        ledger.notes.push(
            "its mappings were summed after it ran again: the walk would have been too long a pause \
             (--max-pause)"
                .into(),
        );
    }
    if !sight.has_pages {
        ledger.notes.push("its page map cannot be read: lines by the kernel's sums of each mapping".into());
    }
}

/// By kinds of mappings; none where these may not be seen either.
pub fn by_mappings(pid: i32) -> Option<Ledger> {
    let mut ledger = identify(pid);
    let vmas = sight::read_vmas(pid)?;
    let grounds = ground::grounds(&vmas, &Circumstances::default());
    let counted = usages(&vmas, &grounds);
    ledger.badge = Badge::Mappings;
    ledger.pause.mode = PauseMode::Off;
    total(&mut ledger, &vmas);
    ledger.parts = count::parts(&vmas, &counted);
    ledger.libraries = count::libraries(&vmas, &grounds, &counted);
    describe::finish(&mut ledger, (&vmas, &grounds, &counted));
    Some(ledger)
}

/// What anybody may know: three counters.
fn by_counters(pid: i32) -> Option<Ledger> {
    let mut ledger = identify(pid);
    let status = Proc::default().read_status(pid, &mut Vec::new()).ok()?;
    let part = |name, kib: Option<u64>| Part {
        name,
        bytes: kib.unwrap_or(0) << 10,
        pss_bytes: None,
        uss_bytes: None,
        detail: Vec::new(),
        method: Method::Counter,
    };
    ledger.badge = Badge::Counters;
    ledger.pause.mode = PauseMode::Off;
    ledger.rss_bytes = status.vm_rss_kib? << 10;
    ledger.swap_bytes = status.vm_swap_kib.unwrap_or(0) << 10;
    ledger.parts = vec![
        part(Line::Anonymous, status.rss_anon_kib),
        part(Line::Files, status.rss_file_kib),
        part(Line::SharedMemory, status.rss_shmem_kib),
    ];
    ledger.notes.push("its mappings may not be seen: programs and data files are one line".into());
    ledger.close();
    Some(ledger)
}

fn named(name: impl Into<String>, bytes: u64) -> Named {
    Named { name: name.into(), bytes }
}
