//! A census of a process or of a core: locate, look ahead, copy, decode, add what is native. One place, because the
//! command line, a recording and the watchdog all do it.
//!
//! The one invariant: the target is as it was. Nothing is written to it, and whatever fails after the stop began ends it.

use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nilometer_cpython::{self as cpython, Footprint, Python};
use nilometer_image::core::{self, Core, Missing, MissingFile};
use nilometer_image::live::{self, Capture, CaptureOptions, Peek};
use nilometer_image::{self as image, Image, Memory, Modules};
use nilometer_kernel::read::proc::Proc;
use nilometer_native::glibc::Malloc;
use nilometer_native::torch::{self, Classes, Torch};
use nilometer_trace::heap::{Graph, Origin, Pause, PauseMode, Source};

pub use nilometer_cpython::Detail;
pub use nilometer_image::live::Mode;

use crate::privacy::mask_arguments;

/// How a census is taken.
#[derive(Debug, Clone)]
pub struct CensusOptions {
    pub mode: Mode,
    /// The target runs on after this, whatever is missing by then.
    pub max_pause: Duration,
    /// Names on the references, or counts only.
    pub detail: Detail,
    /// Keep keys that are no names.
    pub with_values: bool,
    /// Told what is being done.
    pub progress: Progress,
}

impl Default for CensusOptions {
    fn default() -> Self {
        let CaptureOptions { mode, max_pause, .. } = CaptureOptions::default();
        Self { mode, max_pause, detail: Detail::Graph, with_values: false, progress: Progress::default() }
    }
}

/// Who is told what is being done.
#[derive(Clone)]
pub struct Progress(Arc<dyn Fn(Stage) + Send + Sync>);

impl Progress {
    pub fn new(told: impl Fn(Stage) + Send + Sync + 'static) -> Self {
        Self(Arc::new(told))
    }

    pub(crate) fn tell(&self, stage: Stage) {
        (self.0)(stage);
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new(|_| ())
    }
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Progress")
    }
}

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Locate,
    Prescan,
    Copy,
    Decode,
    Native,
    Done,
}

/// Why there is no census.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Image(#[from] image::Error),
    /// `missing`: files of a core that were not found, which may be why.
    #[error("{target}: {source}")]
    Python { target: String, source: cpython::Error, missing: Vec<String> },
}

/// The census of a running process.
pub fn take(pid: i32, options: &CensusOptions) -> Result<Graph, Error> {
    options.progress.tell(Stage::Locate);
    let peek = Peek::open(pid)?;
    let modules = peek.modules();
    let readers = Readers::find(&peek, &modules);
    let readers = readers.or_refuse(|| (format!("process {pid}"), Vec::new()))?;
    options.progress.tell(Stage::Prescan);
    let buffers = readers.prescan(&peek);
    options.progress.tell(Stage::Copy);
    let capture =
        CaptureOptions { mode: options.mode, max_pause: options.max_pause, ..CaptureOptions::default() };
    let captured = live::capture(&peek, &capture, &buffers)?;
    let origin = describe_process(pid, &captured);
    let mut graph = readers.decode(&captured.image, options);
    graph.origin = with_origin(graph.origin, origin);
    graph.origin.partial.extend(describe_uncovered(&cpython::uncovered(&graph, &buffers)));
    options.progress.tell(Stage::Done);
    Ok(graph)
}

/// What was left out as a buffer and was none any more when the copy was made.
fn describe_uncovered(ranges: &[Range<u64>]) -> Option<String> {
    let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
    (bytes > 0)
        .then(|| format!("{bytes} bytes were left out as buffers that were gone when the copy was made"))
}

/// Who can make something of the memory: found once, before the target is stopped.
pub(crate) struct Readers<'a> {
    modules: &'a Modules,
    pub(crate) python: Result<Python, cpython::Error>,
    torch: Option<Classes>,
}

impl<'a> Readers<'a> {
    pub(crate) fn find(memory: &impl Memory, modules: &'a Modules) -> Self {
        Self { modules, python: cpython::locate(memory, modules), torch: Classes::of(modules) }
    }

    /// An interpreter that is not known does not hide torch's storages; otherwise nothing is left to read.
    /// `about`: the target's name, and the files that it lacks.
    fn or_refuse(self, about: impl Fn() -> (String, Vec<String>)) -> Result<Self, Error> {
        match self.python {
            Err(source) if self.torch.is_none() => {
                let (target, missing) = about();
                Err(Error::Python { target, source, missing })
            }
            _ => Ok(self),
        }
    }

    pub(crate) fn torch(&self) -> Option<&Classes> {
        self.torch.as_ref()
    }

    /// Large buffers of numbers, which need not be copied.
    pub(crate) fn prescan(&self, peek: &Peek) -> Vec<Range<u64>> {
        let mut buffers =
            self.python.as_ref().map_or_else(|_| Vec::new(), |python| cpython::prescan(python, peek));
        buffers.extend(self.torch.iter().flat_map(|torch| torch.prescan(peek)));
        buffers
    }

    fn decode(&self, image: &Image, options: &CensusOptions) -> Graph {
        options.progress.tell(Stage::Decode);
        let wanted = cpython::CensusOptions { detail: options.detail, with_values: options.with_values };
        let mut graph = match &self.python {
            Ok(python) => cpython::census(python, image, &wanted),
            Err(error) => without_python(error),
        };
        if let Some(classes) = &self.torch {
            options.progress.tell(Stage::Native);
            let malloc = Malloc::read(image, self.modules).ok();
            add_storages(&mut graph, classes, image, malloc.as_ref());
        }
        graph
    }

    /// Counts and buffers without names, and where in memory the interpreter and malloc keep what they have.
    pub(crate) fn decode_places(&self, image: &Image, holdings: bool) -> Places {
        let detail = if holdings { Detail::Counts } else { Detail::Places };
        let wanted = cpython::CensusOptions { detail, with_values: false };
        let mut malloc = None;
        let (mut graph, footprint) = thread::scope(|scope| {
            scope.spawn(|| malloc = Malloc::read(image, self.modules).ok());
            match &self.python {
                Ok(python) => cpython::census_with_footprint(python, image, &wanted),
                Err(error) => (without_python(error), Footprint::default()),
            }
        });
        let found =
            self.torch.as_ref().map(|classes| add_storages(&mut graph, classes, image, malloc.as_ref()));
        let state = &footprint.optimizer_tensors;
        let roles = found.map(|found| torch::Roles::of(&found, &graph, state)).unwrap_or_default();
        Places { graph, footprint, roles, malloc }
    }
}

/// Who keeps what where.
pub(crate) struct Places {
    pub graph: Graph,
    pub footprint: Footprint,
    pub roles: torch::Roles,
    pub malloc: Option<Malloc>,
}

fn add_storages(graph: &mut Graph, classes: &Classes, image: &Image, malloc: Option<&Malloc>) -> Torch {
    let found = classes.storages(image, malloc);
    torch::attach(graph, &found, image);
    graph.origin.limits.extend(found.doubts.iter().map(ToString::to_string));
    found
}

/// What is left where the interpreter cannot be read: a graph to which storages are added.
fn without_python(error: &cpython::Error) -> Graph {
    let mut graph = Graph::default();
    graph.edges.start.push(0);
    graph.origin.partial.push(format!("{error}: only torch's storages are told"));
    graph
}

/// Who was copied, when and how.
fn describe_process(pid: i32, captured: &Capture) -> Origin {
    let arguments = Proc::default().read_arguments(pid).unwrap_or_default();
    let mode = match captured.pause.mode {
        Mode::Copy => PauseMode::Copy,
        Mode::Fork => PauseMode::Fork,
        Mode::Off => PauseMode::Off,
    };
    let (stopped_ns, threads) = (captured.pause.stopped_ns, captured.pause.threads);
    Origin {
        source: Source::Live,
        pid: Some(pid),
        command: mask_arguments(&arguments).join(" "),
        realtime_ns: since_epoch(SystemTime::now()),
        pause: Pause { mode, stopped_ns, threads },
        copied_bytes: captured.image.copied_bytes(),
        excluded_bytes: captured.excluded_bytes,
        partial: captured.partial.clone(),
        rss_bytes: Some(captured.rss_bytes).filter(|bytes| *bytes > 0),
        ..Origin::default()
    }
}

/// What the census found out, and what was known before.
fn with_origin(found: Origin, known: Origin) -> Origin {
    Origin {
        python: found.python,
        interpreters: found.interpreters,
        partial: known.partial.into_iter().chain(found.partial).collect(),
        limits: found.limits.into_iter().chain(known.limits).collect(),
        ..known
    }
}

fn since_epoch(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// The census of a core file; the files it had mapped are looked for below `sysroot`, `/` without.
pub fn from_core(path: &Path, sysroot: Option<&Path>, options: &CensusOptions) -> Result<Graph, Error> {
    options.progress.tell(Stage::Locate);
    let core = core::open(path, sysroot)?;
    let readers = Readers::find(&core.image, &core.modules);
    let missing = || core.missing.iter().map(missing).collect();
    let readers = readers.or_refuse(|| (path.display().to_string(), missing()))?;
    let mut graph = readers.decode(&core.image, options);
    graph.origin = with_origin(graph.origin, describe_core(path, &core));
    options.progress.tell(Stage::Done);
    Ok(graph)
}

fn describe_core(path: &Path, core: &Core) -> Origin {
    let arguments: Vec<String> = core.arguments.split_whitespace().map(Into::into).collect();
    Origin {
        source: Source::Core,
        pid: Some(core.pid).filter(|pid| *pid > 0),
        command: mask_arguments(&arguments).join(" "),
        realtime_ns: path.metadata().and_then(|file| file.modified()).map_or(0, since_epoch),
        pause: Pause { mode: PauseMode::Dead, ..Pause::default() },
        copied_bytes: core.image.copied_bytes(),
        partial: core.partial.clone(),
        limits: core.missing.iter().map(missing).collect(),
        ..Origin::default()
    }
}

/// `/usr/lib/libc.so.6 (build id 0a1b…) is not here`.
fn missing(file: &MissingFile) -> String {
    let hex = |id: &Vec<u8>| {
        id.iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    };
    let wanted =
        file.build_id.as_ref().map_or_else(|| "no build id".into(), |id| format!("build id {}", hex(id)));
    let why = match &file.reason {
        Missing::NotFound => "is not here".into(),
        Missing::Other(Some(id)) => format!("is another one here (build id {})", hex(id)),
        Missing::Other(None) => "is another one here".into(),
        Missing::Unverified => "is used, but it cannot be told whether it is the same".into(),
    };
    format!("{} ({wanted}) {why}", file.path.display())
}
