//! `nilo import`: a recording of another tool becomes a run directory.
//!
//! The run gets its name when it is complete: a file that turns out to be malformed leaves nothing behind and
//! replaces nothing.

mod lackey;
mod manifest;
mod mxnet;
mod place;
mod sites;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::anyhow;
use nilometer_capture::rundir;
use nilometer_import::{Format, HEAD_BYTES, Known, Outline, convert, detect};
use nilometer_trace::LogWriter;
use nilometer_trace::manifest::MANIFEST_FILE;
use nilometer_trace::record::Record;

use super::tell;
use crate::args::import::{ForeignFormat, ImportArgs};
use crate::path::AtPath as _;
use crate::talk::{self, Failure};
use manifest::Described;
use place::Place;

const BUFFER_BYTES: usize = 64 << 10;
/// Recordings of allocations are read whole.
const MOST_BYTES: u64 = 4 << 30;

pub fn import(args: &ImportArgs) -> Result<ExitCode, Failure> {
    let file = args.files.first().map_or(Path::new("-"), PathBuf::as_path);
    let asked = args.format.and_then(ForeignFormat::format);
    // A directory, or several files, can only be logs of one profiler.
    let is_run = file.join(MANIFEST_FILE).exists();
    if asked == Some(Format::MxnetLog)
        || (args.format.is_none() && file.is_dir() && !is_run)
        || args.files.len() > 1
    {
        return several(args, asked);
    }
    let mut input = open(file)?;
    if is_damon(args, &input) {
        return damon(args, file, &mut input);
    }
    if let Some(why) = lackey::why(args, &input) {
        return lackey::import(args, file, &why, &mut input);
    }
    let format = format(args, file, asked, &mut input)?;
    if format == Format::MxnetLog {
        return mxnet::import(args);
    }
    let name = run_name(file);
    let place = Place::new(args, &name)?;
    let described = Described { file, name: &name, format };
    let (path, outline) = place.fill(|directory| write(directory, args, &described, &mut input))?;
    if !args.telling.quiet {
        talk::say(&told(&outline, format));
    }
    tell::tell(&args.telling, &path, place.directory.fallback.as_deref());
    Ok(ExitCode::SUCCESS)
}

fn several(args: &ImportArgs, asked: Option<Format>) -> Result<ExitCode, Failure> {
    match (asked, args.format) {
        (None, Some(ForeignFormat::Damon | ForeignFormat::Lackey)) => {
            Err(Failure::from(anyhow!("a recording of touched pages is one file"))
                .hint("import them one by one:  nilo import FILE -o FILE.pages"))
        }
        (None | Some(Format::MxnetLog), _) => mxnet::import(args),
        (Some(format), _) => Err(Failure::from(anyhow!("a {format} is one file"))
            .hint("import them one by one, and compare them:  nilo compare A.nilo B.nilo")),
    }
}

fn told(outline: &Outline, format: Format) -> String {
    match format {
        Format::Torch | Format::Jax | Format::Pprof => outline.notes.join("; "),
        _ if outline.tables > 0 => format!("{} tables", outline.tables),
        _ => format!("{} readings over {:.1} s", outline.ticks, outline.duration_s()),
    }
}

type Input = io::Chain<Cursor<Vec<u8>>, Box<dyn BufRead>>;

/// The file with its beginning read already.
fn open(file: &Path) -> Result<Input, Failure> {
    if file.is_dir() {
        let shown = file.display();
        let hint = if file.join(MANIFEST_FILE).exists() {
            format!("it is a run already:  nilo report {shown}")
        } else {
            format!("name a file of it:  ls {shown}")
        };
        return Err(Failure::from(anyhow!("{shown} is a directory")).hint(hint));
    }
    let mut rest: Box<dyn BufRead> = if file == Path::new("-") {
        Box::new(BufReader::with_capacity(BUFFER_BYTES, io::stdin()))
    } else {
        Box::new(BufReader::with_capacity(BUFFER_BYTES, File::open(file).reading(file)?))
    };
    let mut head = Vec::new();
    rest.by_ref().take(HEAD_BYTES as u64).read_to_end(&mut head).reading(file)?;
    Ok(Cursor::new(head).chain(rest))
}

/// As told, or as found; either is said.
fn format(
    args: &ImportArgs,
    file: &Path,
    asked: Option<Format>,
    input: &mut Input,
) -> Result<Format, Failure> {
    let (format, why) = if let Some(format) = asked {
        (format, "as you said".to_owned())
    } else {
        let found = detect(input.get_ref().0.get_ref()).map_err(|error| failure(file, error))?;
        (found.format, found.why)
    };
    if !args.telling.quiet {
        talk::say(&format!("{} is a {format}: {why}", file.display()));
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
fn damon(args: &ImportArgs, file: &Path, input: &mut Input) -> Result<ExitCode, Failure> {
    let bytes = whole(file, input)?;
    let name = run_name(file);
    let lines = nilometer_import::damon::convert(&bytes, &name).map_err(|error| failure(file, error))?;
    super::pages::keep_imported(lines, &looks_place(args, file), args)?;
    Ok(ExitCode::SUCCESS)
}

fn looks_place(args: &ImportArgs, file: &Path) -> PathBuf {
    args.output.clone().unwrap_or_else(|| PathBuf::from(format!("{}.pages", run_name(file))))
}

fn run_name(file: &Path) -> String {
    let name = file.file_name().map_or_else(|| "import".into(), |name| name.to_string_lossy().into_owned());
    rundir::command_name(&[if name == "-" { "import".into() } else { name }])
}

fn write(
    directory: &Path,
    args: &ImportArgs,
    described: &Described<'_>,
    input: &mut Input,
) -> Result<Outline, Failure> {
    let Described { file, name, format } = *described;
    if format.has_sites() {
        let bytes = whole(file, input)?;
        let sites = nilometer_import::sites(format, name, &bytes).map_err(|error| failure(file, error))?;
        return sites::write(directory, described, sites);
    }
    let mut log = LogWriter::create(directory)?;
    let mut put = |record: &Record| match record {
        Record::Tick(tick) => log.tick(tick.into()),
        other => log.append(other),
    };
    let known = Known { array_bytes: args.tables.array_bytes };
    let outline = convert(format, &known, input, &mut put).map_err(|error| failure(file, error))?;
    let end = outline.end(log.written_bytes());
    let cost = end.cost;
    log.finish(end)?;
    described.manifest(&outline, cost)?.write(directory)?;
    Ok(outline)
}

fn read_whole(file: &Path) -> Result<Vec<u8>, Failure> {
    whole(file, &mut open(file)?)
}

fn whole(file: &Path, input: &mut impl Read) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    input.take(MOST_BYTES + 1).read_to_end(&mut bytes).reading(file)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(anyhow!("{} is larger than 4 GiB", file.display()).into());
    }
    Ok(bytes)
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
