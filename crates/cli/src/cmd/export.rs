//! `nilo export`: the records of a run for other tools.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use nilometer_analysis::allocs::{Options, each_stack};
use nilometer_report::allocs::folded;
use nilometer_tables::{Ending, Error, write_allocs_csv, write_csv, write_json, write_parquet};

use super::{allocs, exit, load};
use crate::args::report::{ExportArgs, ExportFormat};
use crate::talk::{self, Failure};

/// Writes a run as one stream.
type StreamWriter<'a> = &'a dyn Fn(&Path, &mut dyn Write) -> Result<Ending, Error>;

const BUFFER_BYTES: usize = 64 << 10;

pub fn run(args: &ExportArgs) -> Result<ExitCode, Failure> {
    nilometer_kernel::sys::signals::restore_sigpipe();
    let path = load::resolve(args.run.as_deref())?;
    let ending = match args.format {
        ExportFormat::Folded => export_folded(args, &path)?,
        ExportFormat::Csv if args.allocs => export_sites(args, &path)?,
        ExportFormat::Json if args.allocs => return Err(no_json()),
        ExportFormat::Csv => export_stream(args, &path, &write_csv)?,
        ExportFormat::Json => export_stream(args, &path, &write_json)?,
        ExportFormat::Parquet => {
            // The table of allocations needs the names of native code.
            if args.allocs || path.join(nilometer_trace::allocs::ALLOCS_FILE).exists() {
                allocs::read(&path)?;
            }
            let written = write_parquet(&path, args.output.as_deref(), args.force).map_err(failure)?;
            talk::say(&format!("wrote {}", written.directory.display()));
            written.ending
        }
    };
    if ending != Ending::Clean {
        talk::say(&format!("the recording is {ending}; what is there was exported"));
    }
    Ok(ExitCode::SUCCESS)
}

fn options(args: &ExportArgs) -> Options {
    Options { what: args.what.into(), internals: args.internals, ..Options::default() }
}

/// Stacks of allocations, one line each.
fn export_folded(args: &ExportArgs, path: &Path) -> Result<Ending, Failure> {
    let read = allocs::read(path)?;
    export_stream(args, path, &|_, out| {
        let mut written = Ok(());
        each_stack(&read.recording, read.names.symbols(), &options(args), |site, value, _| {
            if let (Ok(()), Some(line)) = (&written, folded::line(site, value)) {
                written = out.write_all(line.as_bytes());
            }
        });
        written.and_then(|()| out.flush()).map(|()| Ending::Clean).map_err(Error::Output)
    })
}

fn export_sites(args: &ExportArgs, path: &Path) -> Result<Ending, Failure> {
    let read = allocs::read(path)?;
    export_stream(args, path, &|_, out| {
        write_allocs_csv(&read.recording, read.names.symbols(), &options(args), out).map(|()| Ending::Clean)
    })
}

fn no_json() -> Failure {
    let mut failure = Failure::from(anyhow!("allocations are exported as csv, parquet or folded"));
    failure.code = exit::USAGE;
    failure.hint("as JSON:  nilo report RUN --allocs --json --top all")
}

fn export_stream(args: &ExportArgs, run: &Path, write: StreamWriter<'_>) -> Result<Ending, Failure> {
    let Some(place) = args.output.as_deref().filter(|place| *place != Path::new("-")) else {
        return write(run, &mut buffered(io::stdout().lock())).map_err(failure);
    };
    match fs::metadata(place) {
        Ok(there) if there.is_dir() => Err(Failure::from(anyhow!("{} is a directory", place.display()))),
        Ok(there) if !there.is_file() => to_device(run, place, write),
        Ok(_) if !args.force => Err(failure(Error::Exists { path: place.to_owned() })),
        _ => to_file(run, place, write),
    }
}

fn buffered(out: impl Write) -> impl Write {
    BufWriter::with_capacity(BUFFER_BYTES, out)
}

/// A pipe or device cannot be replaced: it is written to as it is.
fn to_device(run: &Path, place: &Path, write: StreamWriter<'_>) -> Result<Ending, Failure> {
    let file = File::options().write(true).open(place);
    let file = file.with_context(|| format!("cannot open {}", place.display()))?;
    write(run, &mut buffered(file)).map_err(failure)
}

/// The file gets its name when it is complete.
fn to_file(run: &Path, place: &Path, write: StreamWriter<'_>) -> Result<Ending, Failure> {
    let temporary = temporary_name(place);
    let file = File::create(&temporary).with_context(|| format!("cannot write {}", place.display()))?;
    let written = write(run, &mut buffered(file)).map_err(failure).and_then(|ending| {
        fs::rename(&temporary, place).with_context(|| format!("cannot write {}", place.display()))?;
        Ok(ending)
    });
    if written.is_err() {
        drop(fs::remove_file(&temporary));
    }
    written
}

fn temporary_name(place: &Path) -> PathBuf {
    let mut name = place.as_os_str().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    name.into()
}

fn failure(error: Error) -> Failure {
    let hint = error.hint();
    let failure = Failure::from(error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
