//! `nilo where`: what the resident memory of a process, and of those it started, is made of.

use std::process::ExitCode;

use anyhow::anyhow;
use nilometer_analysis::ledger::{Account, account, tree};
use nilometer_capture::ledger::{self, Error, LedgerOptions, Mode, Taken};
use nilometer_image as image;
use nilometer_report::ledger::{self as screen, json};
use nilometer_trace::ledger::Ledger;

use super::heap::{kin, recorder, refusal};
use super::{exit, load};
use crate::args::heap::Switch;
use crate::args::ledger::{By, WhereArgs};
use crate::talk::{self, Failure};

/// More of a tree than this are told by their mappings, so that a crowd is not stopped one by one.
const MOST_READ: usize = 64;

pub fn run(args: &WhereArgs) -> Result<ExitCode, Failure> {
    nilometer_kernel::sys::signals::restore_sigpipe();
    nilometer_kernel::sys::limits::keep_freed_memory();
    match args.target.as_deref().map(str::parse::<i32>) {
        Some(Ok(pid)) => of_process(pid, args),
        _ => of_run(args),
    }
}

fn of_process(pid: i32, args: &WhereArgs) -> Result<ExitCode, Failure> {
    if pid < 1 {
        return Err(
            Failure::from(anyhow!("{pid} is no process id")).hint("see your Python processes by size:  nilo")
        );
    }
    if args.at.is_some() || args.curve {
        let sentence = anyhow!("--at and --curve are about a run, and {pid} is a process");
        return Err(Failure::from(sentence).hint(format!("record it:  nilo attach {pid}")));
    }
    let options = LedgerOptions {
        mode: mode(args),
        max_pause: args.max_pause,
        holdings: args.by == By::Library,
        ..LedgerOptions::default()
    };
    let taken = ledger::take(pid, &options).map_err(|error| refused(pid, error))?;
    let mut accounts = vec![account(with_policy(taken))];
    if !args.single && !args.line && args.by == By::Line {
        accounts.extend(below(pid, &options));
    }
    show(&accounts, args);
    Ok(ExitCode::SUCCESS)
}

/// A ledger that a run has kept.
fn of_run(args: &WhereArgs) -> Result<ExitCode, Failure> {
    let path = load::resolve_rank(args.target.as_deref(), args.rank)?;
    let run = load::model(&path)?;
    let place = run.saved.clone().unwrap_or_default();
    let has_kinds = run.made_of.is_some();
    let Some(ledgers) = run.ledgers else { return Err(no_ledger(&place, has_kinds)) };
    let at = args.at.and_then(|at| ledgers.nearest_to(at.as_secs_f64()));
    let position = at.unwrap_or(ledgers.nearest);
    let Some(account) = ledgers.accounts.get(position) else { return Err(no_ledger(&place, has_kinds)) };
    let style = talk::stdout_style();
    talk::data(&if args.json {
        format!("{:#}\n", screen::run::document(&ledgers, position, &place))
    } else if args.curve {
        screen::run::render_curve(&ledgers, &style)
    } else if args.line {
        screen::render_line(&account.ledger)
    } else if args.by == By::Library {
        screen::render_libraries(account, &style)
    } else {
        screen::run::render_moment(&ledgers, position, &style)
    });
    Ok(ExitCode::SUCCESS)
}

/// The report has kinds of mappings where a process lived long enough for a look at them.
fn no_ledger(place: &str, has_kinds: bool) -> Failure {
    let sentence =
        anyhow!("{place} has no ledger: no process of it reached 64 MiB long enough, or --no-ledger");
    Failure::from(sentence).exiting(exit::NOT_AVAILABLE).hint(if has_kinds {
        format!("by kinds of mappings:  nilo report {place}")
    } else {
        "ask while it runs:  nilo where PID".to_owned()
    })
}

fn mode(args: &WhereArgs) -> Mode {
    match args.pause {
        Switch::On => Mode::Copy,
        Switch::Off => Mode::Off,
    }
}

fn show(accounts: &[Account], args: &WhereArgs) {
    let Some(first) = accounts.first() else { return };
    let style = talk::stdout_style();
    talk::data(&if args.json {
        format!("{:#}\n", json::document(accounts, &tree(accounts)))
    } else if args.line {
        screen::render_line(&first.ledger)
    } else if args.by == By::Library {
        screen::render_libraries(first, &style)
    } else {
        screen::render_tree(accounts, &tree(accounts), &style)
    });
}

/// Those that it started, largest first; one that ends meanwhile is not missed.
fn below(pid: i32, options: &LedgerOptions) -> Vec<Account> {
    let read = |(number, pid): (usize, i32)| {
        if number >= MOST_READ {
            return ledger::by_mappings(pid);
        }
        ledger::take(pid, options).ok().map(|taken| taken.ledger)
    };
    let mut found: Vec<Ledger> = kin::all_below(pid).into_iter().enumerate().filter_map(read).collect();
    found.sort_by_key(|ledger| (std::cmp::Reverse(ledger.rss_bytes), ledger.pid));
    found.into_iter().map(account).collect()
}

/// Says why the memory was not read, and what would allow it.
fn with_policy(taken: Taken) -> Ledger {
    let Taken { mut ledger, refused } = taken;
    let Some(refused) = refused else { return ledger };
    let is_policy = matches!(refused, Error::Image(image::Error::NotPermitted { .. }));
    // A recording of an ancestor may read where we may not.
    if let Some(asked) = is_policy.then(|| recorder::ask_for_ledger(ledger.pid)).flatten() {
        talk::say(&format!("{} was read by the recording it belongs to", asked.pid));
        return asked;
    }
    let note = if is_policy {
        let verdict = refusal::policy(ledger.pid);
        let command = verdict.command.map_or_else(String::new, |command| format!("; to allow it: {command}"));
        format!("the split of private memory is not readable here: {}{command}", verdict.sentence)
    } else {
        format!("the split of private memory is not readable here: {refused}")
    };
    ledger.notes.insert(0, note);
    ledger
}

fn refused(pid: i32, error: Error) -> Failure {
    refusal::of_process(pid, error)
}
