//! `nilo where`: what the resident memory of a process, and of those it started, is made of.

use std::path::Path;
use std::process::ExitCode;

use anyhow::anyhow;
use nilometer_analysis::ledger::{Account, account, tree};
use nilometer_capture::ledger::{self, Error, LedgerOptions, Mode, Taken};
use nilometer_image as image;
use nilometer_report::ledger::{self as screen, json};
use nilometer_trace::ledger::Ledger;
use nilometer_trace::manifest::MANIFEST_FILE;

use super::heap::{kin, refusal};
use crate::args::heap::Switch;
use crate::args::ledger::{By, WhereArgs};
use crate::talk::{self, Failure};

/// More of a tree than this are told by their mappings, so that a crowd is not stopped one by one.
const MOST_READ: usize = 64;

pub fn run(args: &WhereArgs) -> Result<ExitCode, Failure> {
    nilometer_kernel::sys::signals::restore_sigpipe();
    let pid = parse_target(&args.target)?;
    let options = LedgerOptions { mode: mode(args), max_pause: args.max_pause };
    let taken = ledger::take(pid, &options).map_err(|error| refused(pid, error))?;
    let mut accounts = vec![account(with_policy(taken))];
    if !args.single && !args.line && args.by == By::Line {
        accounts.extend(below(pid, &options));
    }
    show(&accounts, args);
    Ok(ExitCode::SUCCESS)
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

fn parse_target(word: &str) -> Result<i32, Failure> {
    match word.parse() {
        Ok(pid @ 1..) => Ok(pid),
        _ if Path::new(word).join(MANIFEST_FILE).exists() => {
            let sentence = anyhow!("{word} is a run directory: runs keep no ledger, only kinds of mappings");
            Err(Failure::from(sentence)
                .hint(format!("nilo report {word}\n      of a process that runs:  nilo where PID")))
        }
        _ => Err(Failure::from(anyhow!("{word} is no process id"))
            .hint("see your Python processes by size:  nilo")),
    }
}

fn refused(pid: i32, error: Error) -> Failure {
    refusal::of_process(pid, error)
}
