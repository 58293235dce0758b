//! `nilo doctor`: what works on this machine, and what would make more work.

mod document;
mod screen;

use std::path::Path;
use std::process::ExitCode;

use nilometer_kernel::probe::{Facts, judge_all};
use nilometer_kernel::sys::signals;

use crate::args::DoctorArgs;
use crate::talk::{self, Failure};

#[allow(clippy::unnecessary_wraps)] // the shape of every verb
pub fn run(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    signals::restore_sigpipe();
    let search_path = std::env::var_os("PATH").unwrap_or_default();
    let mut facts = Facts::read(Path::new("/"), &search_path);
    facts.try_out();
    let capabilities = judge_all(&facts);
    if args.json {
        talk::data(&format!("{:#}\n", document::render(&facts, &capabilities)));
    } else {
        talk::data(&screen::render(&facts, &capabilities, &talk::stdout_style()));
    }
    Ok(ExitCode::SUCCESS)
}
