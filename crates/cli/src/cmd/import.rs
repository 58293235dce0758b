//! `nilo import`: a recording of another tool becomes a run directory.
//!
//! The run gets its name when it is complete: a file that turns out to be malformed leaves nothing behind and
//! replaces nothing.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use jiff::{Timestamp, Zoned};
use nilometer_capture::describe::directory_name;
use nilometer_capture::rundir::{self, Places, RunDirectory};
use nilometer_import::{Format, HEAD_BYTES, Outline, convert, detect};
use nilometer_kernel::sys::process::own_pid;
use nilometer_trace::manifest::{Host, MANIFEST_FILE, ManifestEnd, Options};
use nilometer_trace::record::{Cost, Record};
use nilometer_trace::{FORMAT_VERSION, LogWriter, Manifest};

use super::{run, tell};
use crate::args::import::{ForeignFormat, ImportArgs};
use crate::talk::{self, Failure};

const BUFFER_BYTES: usize = 64 << 10;

pub fn import(args: &ImportArgs) -> Result<ExitCode, Failure> {
    let mut input = open(&args.file)?;
    if is_damon(args, &input) {
        return damon(args, &mut input);
    }
    let format = format(args, &mut input)?;
    let name = run_name(&args.file);
    let place = Place::new(args, &name)?;
    let written = write(&place.directory.path, args, &name, format, &mut input);
    let outline = match written {
        Ok(outline) => outline,
        Err(failure) => {
            drop(fs::remove_dir_all(&place.directory.path));
            return Err(failure);
        }
    };
    let path = place.finish()?;
    if !args.telling.quiet {
        talk::say(&format!("{} readings over {:.1} s", outline.ticks, outline.duration_s()));
    }
    tell::tell(&args.telling, &path, place.directory.fallback.as_deref());
    Ok(ExitCode::SUCCESS)
}

type Input = io::Chain<Cursor<Vec<u8>>, Box<dyn BufRead>>;

/// The file with its beginning read already.
fn open(file: &Path) -> Result<Input, Failure> {
    let cannot = || format!("cannot read {}", file.display());
    if file.is_dir() {
        let failure = Failure::from(anyhow!("{} is a directory", file.display()));
        let is_run = file.join(MANIFEST_FILE).exists();
        let hint = format!("it is a run already:  nilo report {}", file.display());
        return Err(if is_run { failure.hint(hint) } else { failure });
    }
    let mut rest: Box<dyn BufRead> = if file == Path::new("-") {
        Box::new(BufReader::with_capacity(BUFFER_BYTES, io::stdin()))
    } else {
        Box::new(BufReader::with_capacity(BUFFER_BYTES, File::open(file).with_context(cannot)?))
    };
    let mut head = Vec::new();
    rest.by_ref().take(HEAD_BYTES as u64).read_to_end(&mut head).with_context(cannot)?;
    Ok(Cursor::new(head).chain(rest))
}

/// As told, or as found; either is said.
fn format(args: &ImportArgs, input: &mut Input) -> Result<Format, Failure> {
    let file = args.file.display();
    let (format, why) = match args.format {
        Some(ForeignFormat::MeminfoLog) => (Format::MeminfoLog, "as you said".to_owned()),
        Some(ForeignFormat::FreeLog) => (Format::FreeLog, "as you said".to_owned()),
        Some(ForeignFormat::Damon) | None => {
            let found = detect(input.get_ref().0.get_ref()).map_err(|error| failure(&args.file, error))?;
            (found.format, found.why)
        }
    };
    if !args.telling.quiet {
        talk::say(&format!("{file} is a {format}: {why}"));
    }
    Ok(format)
}

fn is_damon(args: &ImportArgs, input: &Input) -> bool {
    match args.format {
        Some(format) => format == ForeignFormat::Damon,
        None => nilometer_import::damon::recognises(input.get_ref().0.get_ref()),
    }
}

/// Looks at touched memory are no run: `nilo pages` reads them.
fn damon(args: &ImportArgs, input: &mut Input) -> Result<ExitCode, Failure> {
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes).with_context(|| format!("cannot read {}", args.file.display()))?;
    let name = run_name(&args.file);
    let lines =
        nilometer_import::damon::convert(&bytes, &name).map_err(|error| failure(&args.file, error))?;
    let place = args.output.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.pages")));
    super::pages::keep_imported(lines, &place, args)?;
    Ok(ExitCode::SUCCESS)
}

fn run_name(file: &Path) -> String {
    let name = file.file_name().map_or_else(|| "import".into(), |name| name.to_string_lossy().into_owned());
    rundir::command_name(&[if name == "-" { "import".into() } else { name }])
}

/// Where the run is written, and where it goes when it is complete.
#[derive(Debug)]
struct Place {
    directory: RunDirectory,
    replaced: Option<PathBuf>,
}

impl Place {
    fn new(args: &ImportArgs, name: &str) -> Result<Self, Failure> {
        let (directory, replaced) = match &args.output {
            None => {
                let name = directory_name(name, &Zoned::now());
                (rundir::create_default(&Places::from_environment(), &name), None)
            }
            Some(path) if args.force && path.exists() => {
                let mut beside = path.components().as_path().as_os_str().to_owned();
                beside.push(format!(".{}.new", own_pid()));
                (rundir::create_named(Path::new(&beside), false), Some(path.clone()))
            }
            Some(path) => (rundir::create_named(path, false), None),
        };
        Ok(Self { directory: directory.map_err(run::failure)?, replaced })
    }

    /// Replaces runs only, never anything else that has the name.
    fn finish(&self) -> Result<PathBuf, Failure> {
        let written = &self.directory.path;
        let Some(replaced) = &self.replaced else { return Ok(written.clone()) };
        let made = rundir::create_named(replaced, true).map_err(run::failure);
        let moved = made.and_then(|made| {
            fs::remove_dir_all(&made.path)?;
            fs::rename(written, &made.path)?;
            Ok(made.path)
        });
        if moved.is_err() {
            drop(fs::remove_dir_all(written));
        }
        moved
    }
}

fn write(
    directory: &Path,
    args: &ImportArgs,
    name: &str,
    format: Format,
    input: &mut Input,
) -> Result<Outline, Failure> {
    let mut log = LogWriter::create(directory)?;
    let mut put = |record: &Record| match record {
        Record::Tick(tick) => log.tick(tick.into()),
        other => log.append(other),
    };
    let outline = convert(format, input, &mut put).map_err(|error| failure(&args.file, error))?;
    let end = outline.end(log.written_bytes());
    let cost = end.cost;
    log.finish(end)?;
    manifest(args, name, format, &outline, cost)?.write(directory)?;
    Ok(outline)
}

fn manifest(
    args: &ImportArgs,
    name: &str,
    format: Format,
    outline: &Outline,
    cost: Cost,
) -> Result<Manifest, Failure> {
    let started = Timestamp::from_nanosecond(outline.realtime_ns.into())?;
    let file = std::path::absolute(&args.file).unwrap_or_else(|_| args.file.clone());
    let mut notes = vec![format!("{format} {}, read by nilo import", args.file.display())];
    notes.extend(outline.notes.iter().cloned());
    Ok(Manifest {
        format_version: FORMAT_VERSION,
        nilo_version: env!("CARGO_PKG_VERSION").to_owned(),
        verb: "import".to_owned(),
        command: vec![args.file.display().to_string()],
        name: name.to_owned(),
        directory: file.parent().unwrap_or(&file).display().to_string(),
        started: started.strftime("%Y-%m-%dT%H:%M:%S+00:00").to_string(),
        pid: own_pid(),
        target_pid: 0,
        environment: Vec::new(),
        host: Host {
            memory_bytes: outline.memory_kib.saturating_mul(1024),
            swap_bytes: outline.swap_kib.saturating_mul(1024),
            ..Host::default()
        },
        limit: None,
        options: options(),
        notes,
        marks_file: None,
        control_socket: None,
        repeat: None,
        allocs: None,
        end: Some(end(outline, cost)),
    })
}

/// What was asked of the other tool is not known.
fn options() -> Options {
    Options {
        interval_ms: 0.0,
        budget_percent: 0.0,
        single: false,
        exact_step_peaks: false,
        cgroup: false,
        before_s: 0.0,
        settle_s: 0.0,
        max_log_bytes: 0,
    }
}

fn end(outline: &Outline, cost: Cost) -> ManifestEnd {
    let distances = outline.ticks.saturating_sub(1).max(1) as f64;
    ManifestEnd {
        duration_s: outline.duration_s(),
        exit: None,
        cost,
        interval_achieved_ms: outline.duration_s() * 1e3 / distances,
        ticks: outline.ticks,
        missed_ticks: 0,
    }
}

fn failure(file: &Path, error: nilometer_import::Error) -> Failure {
    let hint = error.hint();
    let failure =
        Failure::from(anyhow::Error::from(error).context(format!("cannot import {}", file.display())));
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
