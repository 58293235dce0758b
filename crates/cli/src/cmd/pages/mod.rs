//! `nilo pages`: how much memory is really touched.

mod keep;
mod refusal;
mod target;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use nilometer_analysis::pages::{Builder, Pages};
use nilometer_capture::pages::{Choice, Filters, PageOptions, Session, Way, choose};
use nilometer_capture::privacy::mask_arguments;
use nilometer_kernel::read::proc::Proc;
use nilometer_report::pages::{self as screen, json, picture};
use nilometer_trace::pages::{About, Line, PAGES_FILE, write_line};

use super::{exit, load};
use crate::args::heap::Switch;
use crate::args::import::ImportArgs;
use crate::args::pages::{Backend, Often, PagesArgs};
use crate::path::{AtPath as _, closed_to_us};
use crate::talk::{self, Failure};
use keep::Kept;

/// How long a process is looked at if nobody says.
const WATCH: Duration = Duration::from_secs(10);

pub fn run(args: &PagesArgs) -> Result<ExitCode, Failure> {
    nilometer_kernel::sys::signals::restore_sigpipe();
    if !args.command.is_empty() {
        return record(args, None);
    }
    match args.target.as_deref().map(|word| (word, word.parse::<i32>())) {
        Some((_, Ok(pid))) if pid > 0 => record(args, Some(pid)),
        Some((_, Ok(pid))) => {
            Err(Failure::from(anyhow!("{pid} is no process id"))
                .hint("see your Python processes by size:  nilo"))
        }
        Some((word, Err(_))) => again(args, word),
        None => {
            let sentence = anyhow!("whose pages? a process, a command, or a directory that -o has written");
            let failure = Failure::from(sentence).hint("nilo pages 4711,  nilo pages -- python train.py");
            Err(Failure { code: exit::USAGE, ..failure })
        }
    }
}

/// A directory of looks, or a run that was recorded with them (`run --wss`), by any of its names.
pub fn place(word: &str) -> Result<PathBuf, Failure> {
    let path = Path::new(word);
    if word.starts_with('@') || !path.exists() && load::find(path).is_some() {
        return load::resolve(Some(word));
    }
    closed_to_us(path).map_or_else(|| Ok(path.to_owned()), Err)
}

/// A recording of before.
fn again(args: &PagesArgs, word: &str) -> Result<ExitCode, Failure> {
    tell(args, read(&place(word)?)?, None)?;
    Ok(ExitCode::SUCCESS)
}

/// What a run says of its touched pages, where it looked at them.
pub fn of_run(path: &Path) -> Result<Option<Pages>, Failure> {
    path.join(PAGES_FILE).exists().then(|| read(path)).transpose()
}

/// The model of a recording.
pub fn read(path: &Path) -> Result<Pages, Failure> {
    let mut builder = Builder::default();
    let bad = keep::read(path, &mut builder)?;
    let mut pages = builder.finish();
    if pages.backend.is_empty() {
        let sentence = anyhow!("{} is no recording of touched pages", path.display());
        return Err(Failure::from(sentence).hint("record some:  nilo pages PID -o DIR"));
    }
    if bad > 0 {
        pages.notes.push(format!("{bad} lines of the recording could not be read: it was cut, or is newer"));
    }
    Ok(pages)
}

/// Looks of another tool: kept, and told.
pub fn keep_imported(lines: Vec<Line>, place: &Path, args: &ImportArgs) -> Result<(), Failure> {
    let mut kept = Kept::create(place, args.force)?;
    let mut builder = Builder::default();
    for line in lines {
        write_line(&mut kept.lines, &line).writing(place)?;
        builder.push(line);
    }
    let pages = builder.finish();
    let document = format!("{:#}\n", json::document(&pages));
    kept.finish(&pages, &document)?;
    match &args.telling.json {
        Some(Some(file)) => {
            std::fs::write(file, &document).writing(file)?;
        }
        Some(None) => talk::data(&document),
        None if !args.telling.quiet => talk::data(&screen::render(&pages, &talk::stdout_style())),
        None => {}
    }
    if !args.telling.quiet {
        talk::say(&format!("kept:  nilo pages {}", place.display()));
    }
    Ok(())
}

fn record(args: &PagesArgs, pid: Option<i32>) -> Result<ExitCode, Failure> {
    let options = options(args, pid.is_none());
    if pid.is_some() && options.per_steps.is_some() {
        let sentence = anyhow!("steps are told by a command that was started with $NILO_MARKS");
        return Err(Failure::from(sentence).hint("nilo pages --per-step -- python train.py"));
    }
    if pid.is_none() {
        // What this machine refuses is refused before the command is started: nobody would wait for it.
        let own = std::process::id() as i32;
        choose(own, &options).map_err(|error| refusal::of(own, error))?;
    }
    let mut kept = args.output.as_deref().map(|path| Kept::create(path, args.force)).transpose()?;
    let (mut target, mut waiter) = target::prepare(args, pid)?;
    let choice = choose(target.pid, &options).map_err(|error| refusal::of(target.pid, error))?;
    let mut about = about(target.pid, &args.command, &choice, &options);
    if args.how.no_thp {
        about.notes.push("huge pages were off (--no-thp): slower by what they would have saved".into());
    }
    if !args.quiet && args.json.is_none() {
        talk::talk(&screen::render_start(&outline(&about), &talk::stderr_style()));
    }
    let mut builder = Builder::default();
    let mut sink = |line: &Line| {
        if let Some(kept) = &mut kept {
            write_line(&mut kept.lines, line)?;
        }
        builder.push(line.clone());
        Ok(())
    };
    let mut session = Session::new(target.pid, &options, &choice, &mut waiter, &mut sink);
    let looked = session.run(about);
    let exit_code = target.wait(session.waiter());
    let ended = looked.map_err(|error| refusal::of(target.pid, error))?;
    session.close(ended, exit_code).map_err(|error| refusal::of(target.pid, error))?;
    drop(session);
    tell(args, builder.finish(), kept.as_ref())?;
    Ok(ExitCode::from(if exit_code.unwrap_or(0) == 0 { 0 } else { exit::TARGET_FAILED }))
}

fn options(args: &PagesArgs, is_command: bool) -> PageOptions {
    let how = &args.how;
    let mut windows = if args.windows.is_empty() { vec![args.window] } else { args.windows.clone() };
    windows.sort_unstable();
    windows.dedup();
    let wants_split = how.split || how.backend == Some(Backend::Split);
    let way = how.split.then_some(Way::Split).or_else(|| how.backend.map(Way::from));
    PageOptions {
        windows,
        per_steps: args.per_step,
        duration: args.duration.or((!is_command).then_some(WATCH)),
        spread: None,
        way,
        chunk_bytes: how.chunk,
        may_inject: !how.no_inject && (is_command || wants_split),
        written: !how.no_written,
        written_always: how.written == Often::Always,
        births: how.births,
        pause: how.pause == Switch::On,
        single: how.single,
        names: !how.no_names,
        filters: Filters {
            skip: args.filters.skip.iter().map(|kind| (*kind).into()).collect(),
            min_pages: args.filters.min_pages,
            name: args.filters.name.clone(),
        },
    }
}

/// A command that was just started may not have its own arguments yet.
fn about(pid: i32, command: &[OsString], choice: &Choice, options: &PageOptions) -> About {
    let typed: Vec<String> = command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let arguments =
        if typed.is_empty() { Proc::default().read_arguments(pid).unwrap_or_default() } else { typed };
    About {
        command: mask_arguments(&arguments).join(" "),
        kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
        realtime_ns: nilometer_kernel::sys::clock::realtime_ns(),
        ..choice.describe(pid, options)
    }
}

/// What can be told before the first look.
fn outline(about: &About) -> Pages {
    let mut builder = Builder::default();
    builder.push(Line::About(Box::new(about.clone())));
    let reuse_why_not = about.reuse_why_not.clone();
    Pages { reuse_why_not, ..builder.finish() }
}

fn tell(args: &PagesArgs, mut pages: Pages, kept: Option<&Kept>) -> Result<(), Failure> {
    if let Some(only) = &args.only {
        pages.keep_only(only);
    }
    let document = format!("{:#}\n", json::document(&pages));
    if let Some(kept) = kept {
        kept.finish(&pages, &document)?;
    }
    for file in &args.picture {
        draw(&pages, file)?;
    }
    match &args.json {
        Some(Some(file)) => {
            std::fs::write(file, &document).writing(file)?;
        }
        Some(None) => talk::data(&document),
        None => {}
    }
    if !args.quiet && args.json != Some(None) {
        // A command has standard output for itself.
        if args.command.is_empty() {
            talk::data(&screen::render(&pages, &talk::stdout_style()));
        } else {
            talk::talk(&screen::render(&pages, &talk::stderr_style()));
        }
    }
    Ok(())
}

fn draw(pages: &Pages, file: &Path) -> Result<(), Failure> {
    let bytes = match file.extension().and_then(|extension| extension.to_str()) {
        Some("svg") => picture::render_svg(pages).into_bytes(),
        Some("png") => picture::render_png(pages).map_err(|why| anyhow!("no picture: {why}"))?,
        _ => {
            let sentence = anyhow!("{} is neither .png nor .svg", file.display());
            return Err(Failure { code: exit::USAGE, ..Failure::from(sentence) });
        }
    };
    std::fs::write(file, bytes).writing(file)?;
    Ok(())
}
