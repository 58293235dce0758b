//! `nilo report`: a run again, from what it stored.

use std::path::Path;
use std::process::ExitCode;

use nilometer_report::rank;

use super::{allocs, job, load, page};
use crate::args::report::ReportArgs;
use crate::talk::{self, Failure};

pub fn run(args: &ReportArgs) -> Result<ExitCode, Failure> {
    nilometer_kernel::sys::signals::restore_sigpipe();
    if args.html {
        return page::write(args);
    }
    let path = load::resolve_any(args.run.as_deref())?;
    if job::is_one(&path) && args.rank.is_none() && !args.wants_allocs() {
        return of_job(args, &path);
    }
    let path = load::resolve_rank(path.to_str(), args.rank)?;
    if args.wants_allocs() {
        return allocs::report(args, &path);
    }
    let run = load::model(&path)?;
    if args.json {
        talk::data(&format!("{:#}\n", nilometer_report::json::report(&run)));
    } else {
        let style = talk::stdout_style_of(args.width);
        talk::data(&nilometer_report::term::report(&run, &style));
    }
    Ok(ExitCode::SUCCESS)
}

/// All ranks side by side.
fn of_job(args: &ReportArgs, path: &Path) -> Result<ExitCode, Failure> {
    let job = job::read(path, None)?;
    if args.json {
        talk::data(&format!("{:#}\n", rank::json(&job)));
    } else {
        let style = talk::stdout_style_of(args.width);
        talk::data(&rank::render(&job, &style));
    }
    Ok(ExitCode::SUCCESS)
}
