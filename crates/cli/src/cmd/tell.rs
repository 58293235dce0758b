//! The words at the end of a recording.

use std::path::Path;

use nilometer_analysis::Run;
use nilometer_report::{json, term};

use super::load;
use crate::args::{Summary, TellArgs};
use crate::talk::{self, Failure};

/// Reads the recording back and says what was asked for. Failing here must not change an exit code.
pub fn tell(args: &TellArgs, directory: &Path, fallback: Option<&str>) {
    if let Some(reason) = fallback.filter(|_| !args.quiet) {
        talk::say(&format!("{reason}; the run is in {}", directory.display()));
    }
    let silent = args.quiet && args.json.is_none();
    if !silent && let Err(problem) = summarise(args, directory) {
        problem.tell();
    }
}

fn summarise(args: &TellArgs, directory: &Path) -> Result<(), Failure> {
    let run = load::model(directory)?;
    match &args.json {
        Some(Some(file)) => std::fs::write(file, document(&run))?,
        Some(None) => talk::data(&document(&run)),
        None => {}
    }
    if !args.quiet {
        talk::talk(&match args.summary {
            Summary::Screen => term::verdict(&run, &talk::stderr_style()),
            Summary::Line => term::line(&run),
        });
    }
    Ok(())
}

fn document(run: &Run) -> String {
    format!("{:#}\n", json::report(run))
}
