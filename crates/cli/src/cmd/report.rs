//! `nilo report`: a run again, from what it stored.

use std::process::ExitCode;

use super::{allocs, load, page};
use crate::args::report::ReportArgs;
use crate::talk::{self, Failure};

pub fn run(args: &ReportArgs) -> Result<ExitCode, Failure> {
    nilometer_kernel::sys::signals::restore_sigpipe();
    if args.html {
        return page::write(args);
    }
    let path = load::resolve(args.run.as_deref())?;
    if args.wants_allocs() {
        return allocs::report(args, &path);
    }
    let run = load::model(&path)?;
    if args.json {
        talk::data(&format!("{:#}\n", nilometer_report::json::report(&run)));
    } else {
        let mut style = talk::stdout_style();
        style.width = args.width.map_or(style.width, usize::from);
        talk::data(&nilometer_report::term::report(&run, &style));
    }
    Ok(ExitCode::SUCCESS)
}
