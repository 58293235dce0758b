//! Which way of looking there is, which is taken, and why.

use std::path::Path;

use nilometer_kernel::read::damon::Damon;
use nilometer_kernel::read::idle::IdleBitmap;
use nilometer_kernel::read::proc::Proc;
use nilometer_kernel::sys::limits::page_bytes;
use nilometer_kernel::sys::pagemap::Pagemap;
use nilometer_kernel::sys::trial;
use nilometer_trace::pages::{About, Sees, Unit};

use super::backend::Backend;
use super::births;
use super::damon::Regions;
use super::guards::{Guards, Shared};
use super::idle::Idle;
use super::referenced::Referenced;
use super::split::Splitter;
use super::written::How;
use super::{Error, PageOptions};

/// A way of looking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Idle,
    Damon,
    Split,
    Mappings,
}

impl Way {
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Damon => "damon",
            Self::Split => "split",
            Self::Mappings => "mappings",
        }
    }
}

/// The way that is taken, and what else there is.
#[derive(Debug, Clone)]
pub struct Choice {
    pub way: Way,
    pub why: String,
    written: Result<How, String>,
    /// Whether a userfaultfd of the target splits mappings: nothing is left in it then.
    guards: bool,
}

/// The best exact way that works here, unless one was asked for.
pub fn choose(pid: i32, options: &PageOptions) -> Result<Choice, Error> {
    let idle = idle_works();
    let has_bits = has_accessed_bits(pid);
    let (way, why) = match options.way {
        Some(Way::Idle) => match idle {
            Ok(()) => (Way::Idle, "as asked".to_owned()),
            Err(why) => return Err(Error::NotAvailable { way: Way::Idle.name(), why }),
        },
        Some(Way::Damon) => match Damon::check(Path::new("/")) {
            Ok(()) => (Way::Damon, "as asked".to_owned()),
            Err(error) => return Err(unavailable(Way::Damon, &error)),
        },
        Some(Way::Split) if !options.may_inject => {
            let why = "it needs system calls in the target, and --no-inject forbids them".to_owned();
            return Err(Error::NotAvailable { way: Way::Split.name(), why });
        }
        Some(way @ (Way::Split | Way::Mappings)) if !has_bits => {
            return Err(Error::NotAvailable { way: way.name(), why: NO_MONITOR.to_owned() });
        }
        Some(way) => (way, "as asked".to_owned()),
        None => match idle {
            Ok(()) => (Way::Idle, "idle page tracking is exact at a page and disturbs nobody".to_owned()),
            Err(why) if !has_bits => return Err(Error::Nothing(format!("{NO_MONITOR}, and {why}"))),
            Err(why) if options.may_inject => {
                (Way::Split, format!("the finest exact one without idle page tracking ({why})"))
            }
            Err(why) => {
                (Way::Mappings, format!("the only exact one from outside without idle page tracking ({why})"))
            }
        },
    };
    if options.births {
        births::check(pid).map_err(|why| Error::NotAvailable { way: BIRTHS, why })?;
    }
    let guards = options.may_inject && trial::userfaultfd().is_ok_and(|offer| offer.wp_async);
    Ok(Choice { way, why, written: written_way(pid, options), guards })
}

pub(super) const BIRTHS: &str = "the stream of page faults (--births)";
const NO_MONITOR: &str = "the kernel was built without CONFIG_PROC_PAGE_MONITOR";

/// Whether `clear_refs` is there, of a process that is.
fn has_accessed_bits(pid: i32) -> bool {
    let process = format!("/proc/{pid}");
    !Path::new(&process).exists() || Path::new(&process).join("clear_refs").exists()
}

/// By trying; why not, in a sentence.
fn idle_works() -> Result<(), String> {
    IdleBitmap::open(Path::new("/")).map_err(|error| match error.raw_os_error() {
        Some(2) => "the kernel has no CONFIG_IDLE_PAGE_TRACKING".to_owned(),
        _ => format!("its bitmap is root's: {error}"),
    })?;
    let page = trial::Page::touched().map_err(|error| error.to_string())?;
    let map = Pagemap::open(std::process::id() as i32).map_err(|error| error.to_string())?;
    let (start, mut shown) = (page.number() * page_bytes(), false);
    let read = map.read_frames(&(start..start + page_bytes()), |frame| shown |= frame.frame != 0);
    match read {
        Ok(()) if shown => Ok(()),
        Ok(()) => Err("page frame numbers are shown to CAP_SYS_ADMIN only".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn unavailable(way: Way, error: &std::io::Error) -> Error {
    let why = match (way, error.raw_os_error()) {
        (Way::Damon, Some(2)) => "the kernel has no CONFIG_DAMON_SYSFS, or sysfs is hidden".to_owned(),
        (Way::Damon, Some(13)) => "its tree in sysfs is root's".to_owned(),
        (Way::Damon, Some(16)) => "somebody else's kdamond is set up; nilo never touches it".to_owned(),
        _ => error.to_string(),
    };
    Error::NotAvailable { way: way.name(), why }
}

fn written_way(pid: i32, options: &PageOptions) -> Result<How, String> {
    if !options.written {
        return Err("--no-written".to_owned());
    }
    if options.births {
        return Err("with --births, where a page that is watched for writes would be told as new".to_owned());
    }
    if has_soft_dirty() {
        return Ok(How::SoftDirty);
    }
    let kernel = "the kernel has no CONFIG_MEM_SOFT_DIRTY";
    match trial::userfaultfd() {
        Ok(offer) if offer.wp_async && options.may_inject => Ok(How::Protect),
        Ok(offer) if offer.wp_async => {
            Err(format!("{kernel}; with system calls in the target:  nilo pages {pid} --split"))
        }
        Ok(_) => Err(format!("{kernel}, nor asynchronous write protection (Linux 6.7)")),
        Err(error) => Err(format!("{kernel}, and userfaultfd is refused: {error}")),
    }
}

/// On a page of our own.
fn has_soft_dirty() -> bool {
    let own = std::process::id() as i32;
    let (Ok(page), Ok(map)) = (trial::Page::touched(), Pagemap::open(own)) else { return false };
    let range = page.number() * page_bytes()..(page.number() + 1) * page_bytes();
    let is_dirty = || {
        let mut runs = Vec::new();
        map.read_soft_dirty(&range, &mut runs).is_ok() && !runs.is_empty()
    };
    if Proc::default().clear_soft_dirty(own).is_err() || is_dirty() {
        return false;
    }
    page.write();
    is_dirty()
}

impl Choice {
    pub(super) fn how(&self) -> Option<How> {
        self.written.as_ref().ok().copied()
    }

    /// What it and the written layer have in common.
    pub(super) fn guards(&self, pid: i32, options: &PageOptions) -> Shared {
        Guards::shared(pid, (self.way == Way::Split).then_some(options.chunk_bytes))
    }

    pub(super) fn open(
        &self,
        pid: i32,
        options: &PageOptions,
        guards: &Shared,
    ) -> Result<Box<dyn Backend>, Error> {
        let unavailable = |error: std::io::Error| unavailable(self.way, &error);
        let window = options.windows.last().copied().unwrap_or_default();
        Ok(match self.way {
            Way::Idle => Box::new(Idle::open(pid, &options.filters).map_err(unavailable)?),
            Way::Damon => Box::new(Regions::start(pid, window, &options.filters).map_err(unavailable)?),
            Way::Split => {
                let guards = self.guards.then(|| guards.clone());
                let splitter = Splitter::new(pid, options.chunk_bytes, options.filters.clone(), guards);
                Box::new(Referenced::new(pid, options, Some(splitter)))
            }
            Way::Mappings => Box::new(Referenced::new(pid, options, None)),
        })
    }

    /// What it gives, told before anything else.
    pub fn describe(&self, pid: i32, options: &PageOptions) -> About {
        let (unit, unit_bytes) = match self.way {
            Way::Idle => (Unit::Page, page_bytes()),
            Way::Damon => (Unit::Region, 0),
            Way::Split => (Unit::Chunk, options.chunk_bytes),
            Way::Mappings => (Unit::Mapping, 0),
        };
        About {
            version: nilometer_trace::pages::VERSION,
            pid,
            backend: self.way.name().into(),
            why: self.why.clone(),
            sees: Sees::RW,
            unit,
            unit_bytes,
            exact: self.way != Way::Damon,
            page_bytes: page_bytes(),
            written: self.how().map(|how| how.words().to_owned()),
            written_why_not: self.written.as_ref().err().cloned(),
            reuse_why_not: self.reuse_why_not(pid),
            births: options.births.then(|| births::HOW.to_owned()),
            disturbs: self.disturbs(options),
            injects: self.injects(),
            asked_s: options.windows.iter().map(std::time::Duration::as_secs_f64).collect(),
            pause: options.pause,
            filters: options.filters.describe(),
            notes: self.rivals(),
            ..About::default()
        }
    }

    fn reuse_why_not(&self, pid: i32) -> Option<String> {
        match self.way {
            Way::Idle | Way::Split => None,
            Way::Mappings => {
                Some(format!("whole mappings are too coarse; in chunks:  nilo pages {pid} --split"))
            }
            Way::Damon => Some("regions are samples, and change from window to window".into()),
        }
    }

    fn disturbs(&self, options: &PageOptions) -> Vec<String> {
        let mut told = Vec::new();
        if options.births {
            told.push("each page fault of the target takes 0.5 to 4 µs longer".into());
        }
        match self.way {
            Way::Split | Way::Mappings => {
                told.push("clear_refs clears the bits by which reclaim finds old pages: under memory pressure other pages go".into());
            }
            Way::Idle => told.push("a second user of the idle bitmap, or DAMON, at the same time".into()),
            Way::Damon => told.push("the DAMON tree has one owner: nobody else can use it meanwhile".into()),
        }
        if self.way == Way::Split {
            told.push(
                "chunks below 2 MiB keep huge pages from forming; mremap of a split mapping fails".into(),
            );
        }
        if self.way == Way::Split && !self.guards {
            told.push("core dumps lose every other chunk meanwhile (MADV_DONTDUMP)".into());
        }
        told
    }

    /// Others who clear the same bits. Of our own kdamond we are the owner.
    fn rivals(&self) -> Vec<String> {
        let has_rival = self.way != Way::Damon && Proc::default().has_kernel_thread("kdamond");
        let told = "a kdamond is at work on this machine (DAMON): it clears the same bits, so a page may be missed, and may take away \
                    pages that nobody touches";
        has_rival.then(|| told.to_owned()).into_iter().collect()
    }

    fn injects(&self) -> Option<String> {
        let split = self.way == Way::Split;
        let protect = self.how() == Some(How::Protect);
        let what = match (split, protect) {
            (false, false) => return None,
            (true, _) if !self.guards => "madvise calls",
            _ => "two userfaultfd calls at the start",
        };
        Some(format!("{what} in a thread of the target, which stands still for them (--no-inject: none)"))
    }
}
