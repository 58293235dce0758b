//! `nilo export`: a run for other tools. A table of formats; the writers are in `tables` and `report`.

mod place;
mod write;

use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::anyhow;
use nilometer_tables::{Ending, Error, TABLES_DIRECTORY, write_parquet};
use nilometer_trace::Error as TraceError;
use nilometer_trace::allocs::ALLOCS_FILE;

use super::{allocs, exit, job, load};
use crate::args::report::{ExportArgs, ExportFormat};
use crate::path::{to_read, to_write};
use crate::talk::{self, Failure};

/// What is exported, and how.
struct Job<'a> {
    args: &'a ExportArgs,
    run: &'a Path,
    /// The run's name, without the end of its directory.
    name: String,
}

/// How an export went.
struct Done {
    ending: Ending,
    /// What the format has no place for, one sentence each.
    left_out: Vec<String>,
}

type Writer = fn(&Job<'_>, &mut dyn Write) -> Result<Done, Failure>;

/// A format that is one file.
struct Format {
    which: ExportFormat,
    /// Begin and end of the default name, around that of the run; without it the default is standard output.
    file: Option<(&'static str, &'static str)>,
    /// A name that ends in `.gz` means a packed file.
    packs: bool,
    write: Writer,
    /// What to do with it; `FILE` stands for its name.
    next: &'static str,
}

/// All formats but Parquet, which is a directory.
const FORMATS: &[Format] = &[
    Format { which: ExportFormat::Csv, file: None, packs: true, write: write::csv, next: "" },
    Format { which: ExportFormat::Json, file: None, packs: true, write: write::json, next: "" },
    Format { which: ExportFormat::Folded, file: None, packs: true, write: write::folded, next: "" },
    Format {
        which: ExportFormat::Speedscope,
        file: Some(("", ".speedscope.json")),
        packs: true,
        write: write::speedscope,
        next: "npx speedscope FILE   (or drop it on https://www.speedscope.app)",
    },
    Format {
        which: ExportFormat::Pprof,
        file: Some(("", ".pb.gz")),
        packs: false,
        write: write::pprof,
        next: "go tool pprof -top FILE",
    },
    Format {
        which: ExportFormat::Perfetto,
        file: Some(("", ".pftrace")),
        packs: true,
        write: write::perfetto,
        next: "open FILE in https://ui.perfetto.dev",
    },
    Format {
        which: ExportFormat::Heaptrack,
        file: Some(("heaptrack.", ".gz")),
        packs: true,
        write: write::heaptrack,
        next: "heaptrack_print FILE   (or heaptrack_gui)",
    },
    Format {
        which: ExportFormat::Tensorboard,
        file: Some(("", ".tfevents")),
        packs: false,
        write: write::tensorboard,
        next: "tensorboard --logdir .",
    },
    Format {
        which: ExportFormat::Firefox,
        file: Some(("", ".firefox.json")),
        packs: true,
        write: write::firefox,
        next: "load FILE in https://profiler.firefox.com",
    },
];

pub fn run(args: &ExportArgs) -> Result<ExitCode, Failure> {
    nilometer_kernel::sys::signals::restore_sigpipe();
    let path = load::resolve_any(args.run.as_deref())?;
    if job::is_one(&path) && args.rank.is_none() && args.format == ExportFormat::Parquet {
        return export_ranks(args, &path);
    }
    let path = load::resolve_rank(path.to_str(), args.rank)?;
    if args.allocs && args.format == ExportFormat::Json {
        return Err(no_json());
    }
    let ending = match FORMATS.iter().find(|format| format.which == args.format) {
        Some(format) => export(format, args, &path)?,
        None => export_parquet(args, &path)?,
    };
    if ending != Ending::Clean {
        talk::say(&format!("the recording is {ending}; what is there was exported"));
    }
    Ok(ExitCode::SUCCESS)
}

fn export(format: &Format, args: &ExportArgs, run: &Path) -> Result<Ending, Failure> {
    let name = run.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = name.strip_suffix(nilometer_capture::rundir::SUFFIX).unwrap_or(&name).to_owned();
    let default = format.file.map(|(begin, end)| format!("{begin}{name}{end}").into());
    let place = args.output.clone().or(default);
    let job = Job { args, run, name };
    let done = place::write(place.as_deref(), args.force, format.packs, |out| (format.write)(&job, out))?;
    for sentence in &done.left_out {
        talk::say(&format!("note: {sentence}"));
    }
    if let Some(place) = place.filter(|place| place::is_named(place) && !format.next.is_empty()) {
        let next = format.next.replace("FILE", &place.display().to_string());
        talk::say(&format!("wrote {}   → {next}", place.display()));
        if format.which == ExportFormat::Tensorboard && !place::has_word(&place, "tfevents") {
            talk::say("TensorBoard reads only files with `tfevents` in their name");
        }
    }
    Ok(done.ending)
}

fn export_parquet(args: &ExportArgs, path: &Path) -> Result<Ending, Failure> {
    // The table of allocations needs the names of native code.
    if args.allocs || path.join(ALLOCS_FILE).exists() {
        allocs::read(path)?;
    }
    let written = write_parquet(path, args.output.as_deref(), args.force).map_err(failure)?;
    talk::say(&format!("wrote {}", written.directory.display()));
    Ok(written.ending)
}

fn no_json() -> Failure {
    Failure::from(anyhow!("allocations are not exported as json"))
        .exiting(exit::USAGE)
        .hint("as JSON:  nilo report RUN --allocs --json --top all")
}

/// All ranks of a job: one partition each.
fn export_ranks(args: &ExportArgs, path: &Path) -> Result<ExitCode, Failure> {
    let base = args.output.clone().unwrap_or_else(|| path.join(TABLES_DIRECTORY));
    let runs = job::runs(path);
    for it in &runs {
        write_parquet(&it.path, Some(&base), args.force).map_err(failure)?;
    }
    talk::say(&format!("wrote the tables of {} ranks below {}", runs.len(), base.display()));
    talk::say(&format!("few large files instead:  nilo merge {}", load::short_path(path)));
    Ok(ExitCode::SUCCESS)
}

pub fn failure(error: Error) -> Failure {
    let hint = error.hint().map(str::to_owned).or_else(|| match &error {
        Error::Trace(TraceError::Io { path, source }) => Some(to_read(source.kind(), path)),
        Error::Trace(TraceError::Manifest { path, .. }) => Some(to_read(ErrorKind::InvalidData, path)),
        Error::Io { path, source } => Some(to_write(source.kind(), path)),
        _ => None,
    });
    Failure { hint, ..Failure::from(error) }
}
