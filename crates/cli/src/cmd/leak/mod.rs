//! `nilo leak`: a command, a process or a recorded run; the verdict; an exit code for gates.

mod holder;
mod judge;
mod site;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use nilometer_analysis::Run;
use nilometer_analysis::leak::{Leak, LeakBuilder};
use nilometer_capture::heap_watch::Every;
use nilometer_capture::job::Placed;
use nilometer_capture::launch;
use nilometer_capture::ledger_watch::Ledgers;
use nilometer_capture::options::Target;
use nilometer_capture::{Options, attach};
use nilometer_report::leak::{self as screen, json, junit};
use nilometer_report::rank;

use super::run::{allocs, environment, failure, limits, recording_options};
use super::{exit, job, load, metrics, tell, tracker};
use crate::args::leak::LeakArgs;
use crate::path::AtPath as _;
use crate::talk::{self, Failure};

const INTERVAL: Duration = Duration::from_millis(50);
/// Memory of a process that ended comes back within this.
const SETTLE: Duration = Duration::from_millis(300);
const BEFORE: Duration = Duration::from_millis(100);
/// How long a process is watched if nobody says.
const WATCH: Duration = Duration::from_secs(60);
/// One line a run, beside the log.
const RUN_LOG: &str = "run.log";

/// What was recorded, and how it ended.
struct Recorded {
    directory: PathBuf,
    /// The watchdog ended it.
    guarded: bool,
    own: bool,
    /// It is one rank of a job.
    placed: Option<Placed>,
}

pub fn run(args: &LeakArgs) -> Result<ExitCode, Failure> {
    nilometer_kernel::sys::signals::restore_sigpipe();
    let recorded = record(args)?;
    let (run, leak) = of_run(&recorded.directory)?;
    let own = judge::exit_code(&leak, &run, args, recorded.guarded);
    let code = match &recorded.placed {
        Some(placed) => tell_rank(args, placed, judge::failure(&run, recorded.guarded))?,
        None => tell(args, &leak, &run, own).map(|()| own)?,
    };
    if recorded.own {
        keep_runs(&leak, &recorded.directory);
    }
    Ok(ExitCode::from(code))
}

/// The model of a recorded run, and its verdict.
pub fn of_run(directory: &Path) -> Result<(Run, Leak), Failure> {
    let (run, mut leak, evidence) = judged(directory)?;
    holder::add(&mut leak, &evidence, &run, directory);
    site::add(&mut leak, &evidence, &run, directory);
    Ok((run, leak))
}

/// The same without a look at who holds it, for those who want the rate.
pub fn rate_of_run(directory: &Path) -> Result<(Run, Leak), Failure> {
    judged(directory).map(|(run, leak, _)| (run, leak))
}

fn judged(directory: &Path) -> Result<(Run, Leak, LeakBuilder), Failure> {
    let mut evidence = LeakBuilder::default();
    let run = load::model_with(directory, |record| evidence.push(record))?;
    let leak = nilometer_analysis::leak::verdict(&evidence, &run);
    Ok((run, leak, evidence))
}

fn record(args: &LeakArgs) -> Result<Recorded, Failure> {
    if !args.command.is_empty() {
        return launch(args);
    }
    if args.allocs.allocs.is_some() {
        let told = anyhow!("allocations are recorded from the start of a command on");
        return Err(Failure::from(told).hint("run it:  nilo leak --allocs -- python train.py"));
    }
    match args.target.as_deref().map(|word| (word, word.parse::<i32>())) {
        Some((_, Ok(pid))) => watch(args, pid),
        Some((word, Err(_))) => {
            let directory =
                load::resolve_rank(Some(word), args.rank).map_err(|problem| typed_command(problem, word))?;
            Ok(read_only(directory))
        }
        None => load::resolve_rank(None, args.rank).map(read_only),
    }
}

fn read_only(directory: PathBuf) -> Recorded {
    Recorded { directory, guarded: false, own: false, placed: None }
}

/// Somebody forgot the two dashes.
fn typed_command(problem: Failure, word: &str) -> Failure {
    if word.contains('/') || word.starts_with('@') || Path::new(word).exists() {
        return problem;
    }
    problem.hint(format!("to run a command:  nilo leak -- {word} …      to see the runs here:  nilo list"))
}

fn options(args: &LeakArgs) -> Options {
    Options {
        before: BEFORE,
        settle: SETTLE,
        repeat: args.repeat.unwrap_or(1),
        heap: (!args.no_looks && args.repeat.is_none()).then_some(Every::Looks),
        ledgers: if args.no_looks || args.repeat.is_some() { Ledgers::None } else { Ledgers::Looks },
        steps: args.steps.clone(),
        duration: args.duration,
        limits: limits(&args.limits),
        grace: args.limits.grace,
        ..recording_options(&args.recording, INTERVAL)
    }
}

fn launch(args: &LeakArgs) -> Result<Recorded, Failure> {
    let hook = tracker::unpack_hook(args.steps.as_ref())?;
    // Where no folder may hold the tracker it is in memory, as long as this is there.
    let tracker = args.allocs.allocs.map(|_| tracker::unpack()).transpose()?;
    let allocs = tracker.as_ref().and_then(|tracker| allocs(&args.allocs, &tracker.preload));
    let mut options = Options { hook, allocs, ..options(args) };
    options.repeat_for = options.duration.take();
    if args.repeat == Some(0) && !options.limits.any() && options.repeat_for.is_none() {
        talk::say("runs until memory is short (--guard) or Ctrl-C");
        options.limits = options.limits.guard();
    }
    let target = Target {
        argv: args.command.clone(),
        environment: environment(),
        stdout_to_stderr: args.json == Some(None),
    };
    options.outlets = metrics::outlets(&args.recording.metrics, args.quiet)?;
    let outcome = launch::run(&options, target).map_err(failure)?;
    let guarded = outcome.exit.ended_by.is_some();
    Ok(Recorded { directory: outcome.directory, guarded, own: true, placed: outcome.placed })
}

fn watch(args: &LeakArgs, pid: i32) -> Result<Recorded, Failure> {
    let duration = args.duration.unwrap_or(WATCH);
    let is_there = Path::new("/proc").join(pid.to_string()).exists();
    if is_there && !args.quiet {
        talk::say(&format!("watching {pid} for {:.0} s; Ctrl-C judges earlier", duration.as_secs_f64()));
    }
    let outlets = metrics::outlets(&args.recording.metrics, args.quiet)?;
    let options = Options { duration: Some(duration), outlets, ..options(args) };
    let done = attach::attach(&options, pid).map_err(failure)?;
    Ok(Recorded { directory: done.path, guarded: false, own: true, placed: None })
}

/// One rank of each node speaks for it, and has the exit code: the table, then the verdict on the rank that grows most there. A
/// launcher would end the others, and the one that speaks, as soon as one fails.
fn tell_rank(args: &LeakArgs, placed: &Placed, failed: Option<u8>) -> Result<u8, Failure> {
    if !placed.speaks() {
        return Ok(failed.unwrap_or(0));
    }
    tell::wait_for_others(placed);
    let found = job::read(&placed.job, Some(&placed.node))?;
    if !args.quiet && args.json != Some(None) {
        talk::talk(&rank::render(&found, &talk::stderr_style()));
    }
    let worth = found.worth_a_look().unwrap_or(placed.rank);
    let runs = job::runs(&placed.job).into_iter().filter(|it| it.node == placed.node);
    let directory = runs.into_iter().find(|it| it.rank == worth).map_or(placed.run.clone(), |it| it.path);
    let (run, leak) = of_run(&directory)?;
    let code = judge::exit_code(&leak, &run, args, false);
    if !args.quiet && args.json != Some(None) {
        talk::say(&format!("rank {worth}:"));
    }
    tell(args, &leak, &run, code)?;
    Ok(failed.filter(|_| code != exit::BAD).unwrap_or(code))
}

fn tell(args: &LeakArgs, leak: &Leak, run: &Run, code: u8) -> Result<(), Failure> {
    let document = || format!("{:#}\n", json::document(leak, run, code));
    match &args.json {
        Some(Some(file)) => {
            std::fs::write(file, document()).writing(file)?;
        }
        Some(None) => talk::data(&document()),
        None => {}
    }
    if let Some(file) = &args.junit {
        let text = junit::render(leak, run, outcome(code));
        std::fs::write(file, text).writing(file)?;
    }
    if !args.quiet && args.json != Some(None) {
        // A command has standard output for itself; a verdict on a run is data.
        if args.command.is_empty() {
            talk::data(&screen::render(leak, run, &talk::stdout_style()));
        } else {
            talk::talk(&screen::render(leak, run, &talk::stderr_style()));
        }
    }
    Ok(())
}

fn outcome(code: u8) -> junit::Outcome {
    match code {
        0 => junit::Outcome::Passed,
        exit::BAD => junit::Outcome::Failed,
        exit::NOT_ENOUGH => junit::Outcome::Skipped,
        _ => junit::Outcome::Error,
    }
}

/// The verdict is told by now: a full disk does not change it.
fn keep_runs(leak: &Leak, directory: &Path) {
    if !leak.runs.is_empty() {
        let _ = std::fs::write(directory.join(RUN_LOG), screen::render_csv(&leak.runs));
    }
}
