//! `nilo run`: launch, record, tell.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use nilometer_capture::allocs::AllocOptions;
use nilometer_capture::launch::{self, Outcome};
use nilometer_capture::ledger_watch::Ledgers;
use nilometer_capture::options::Target;
use nilometer_capture::watchdog::Limits;
use nilometer_capture::{Error, Options};

use super::{exit, metrics, tell, tracker};
use crate::args::allocs::AllocArgs;
use crate::args::{DepthArgs, LedgerKind, LimitArgs, RecordingArgs, RunArgs};
use crate::talk::Failure;

const INTERVAL: Duration = Duration::from_millis(100);

pub fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    let target = Target {
        argv: args.command.clone(),
        environment: environment(),
        stdout_to_stderr: args.telling.json == Some(None),
    };
    // Where no folder may hold the tracker it is in memory, as long as this is there.
    let tracker = args.allocs.allocs.map(|_| tracker::unpack()).transpose()?;
    let allocs = tracker.as_ref().and_then(|tracker| allocs(&args.allocs, &tracker.preload));
    let hook = tracker::unpack_hook(args.steps.as_ref())?;
    let outlets = metrics::outlets(&args.recording.metrics, args.telling.quiet)?;
    let options = Options { allocs, hook, outlets, ..options(args) };
    let outcome = launch::run(&options, target).map_err(failure)?;
    if let Some(placed) = &outcome.placed {
        tell::tell_rank(&args.telling, placed, &outcome);
    } else {
        let fallback = outcome.fallback.as_deref();
        tell::tell_steps(&args.telling, &outcome.directory, fallback, args.steps.as_ref());
    }
    Ok(exit_code(&outcome))
}

/// What it takes to record allocations.
pub fn allocs(args: &AllocArgs, library: &Path) -> Option<AllocOptions> {
    Some(AllocOptions {
        mode: args.allocs?.into(),
        mean_bytes: args.allocs_interval,
        depth: args.allocs_depth,
        events: args.events,
        library: library.to_owned(),
    })
}

pub fn environment() -> Vec<(OsString, OsString)> {
    std::env::vars_os().collect()
}

fn options(args: &RunArgs) -> Options {
    Options {
        before: args.before,
        settle: args.settle,
        exact_step_peaks: args.exact_step_peaks,
        cgroup: args.cgroup,
        wss: args.wss,
        spool: args.spool.clone(),
        repeat: args.repeat.unwrap_or(1),
        steps: args.steps.clone(),
        stop_after: args.stop_after.clone(),
        limits: limits(&args.limits),
        grace: args.limits.grace,
        ..recording(&args.recording, Some(&args.depth), INTERVAL)
    }
}

/// The options of a recording that looks as deep as it may.
pub fn recording_options(args: &RecordingArgs, interval: Duration) -> Options {
    Options { budget_percent: 1.0, slow: true, ..recording(args, None, interval) }
}

/// The options that every recording verb has.
pub fn recording(args: &RecordingArgs, depth: Option<&DepthArgs>, interval: Duration) -> Options {
    Options {
        output: args.output.clone(),
        force: args.force,
        interval: args.interval.unwrap_or(interval),
        max_log_bytes: args.max_log,
        budget_percent: depth.map_or(0.0, |d| d.budget),
        slow: depth.is_some_and(|d| !d.no_slow),
        heap: depth.and_then(|d| d.heap),
        ledgers: depth.map_or(Ledgers::None, ledgers),
        single: depth.is_some_and(|d| d.single),
        ..Options::default()
    }
}

fn ledgers(depth: &DepthArgs) -> Ledgers {
    match depth.ledger {
        _ if depth.no_ledger => Ledgers::None,
        // It walks page tables too.
        LedgerKind::Estimated if depth.no_slow => Ledgers::None,
        LedgerKind::Estimated => Ledgers::Estimated,
        LedgerKind::Exact => Ledgers::Exact,
    }
}

pub fn limits(args: &LimitArgs) -> Limits {
    let limits = Limits {
        max_rss_bytes: args.max_rss,
        max_pss_bytes: args.max_pss,
        max_swap_bytes: args.max_swap,
        max_system_swap_bytes: args.max_system_swap,
        min_available: args.min_available,
        max_cgroup: args.max_cgroup,
        max_psi_percent: args.max_psi,
    };
    if args.guard { limits.guard() } else { limits }
}

pub fn failure(error: Error) -> Failure {
    let code = match &error {
        Error::Exec { source, .. } if source.kind() == std::io::ErrorKind::NotFound => exit::NOT_FOUND,
        Error::Exec { .. } => exit::CANNOT_EXECUTE,
        _ => exit::OURS,
    };
    let hint = error.hint();
    Failure { code, error: error.into(), hint }
}

fn exit_code(outcome: &Outcome) -> ExitCode {
    let code = match &outcome.exit {
        exit if exit.ended_by.is_some() => exit::WATCHDOG,
        exit if exit.enough.is_some() => 0,
        exit => match (exit.code, exit.signal) {
            (Some(code), _) => code as u8,
            (None, Some(signal)) => exit::SIGNAL_BASE.wrapping_add(signal as u8),
            (None, None) => exit::OURS,
        },
    };
    ExitCode::from(code)
}
