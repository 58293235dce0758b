//! An address trace of valgrind's lackey: its reuse distances are kept for `nilo pages`, its accesses are not.

use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;

use nilometer_analysis::pages::Touches;
use nilometer_capture::privacy::mask_arguments;
use nilometer_import::lackey::{self, Told};
use nilometer_trace::pages::{About, Accesses, Distances, End, Line, Sees, Unit, VERSION};

use super::{Input, failure, looks_place, run_name};
use crate::args::import::{ForeignFormat, ImportArgs};
use crate::cmd::pages::keep_imported;
use crate::talk::{self, Failure};

/// Why the file is one.
pub(super) fn why(args: &ImportArgs, input: &Input) -> Option<String> {
    match args.format {
        Some(format) => (format == ForeignFormat::Lackey).then(|| "as you said".to_owned()),
        None => lackey::recognises(input.get_ref().0.get_ref()),
    }
}

pub(super) fn import(
    args: &ImportArgs,
    file: &Path,
    why: &str,
    input: &mut Input,
) -> Result<ExitCode, Failure> {
    if !args.telling.quiet {
        talk::say(&format!("{} is an address trace of valgrind's lackey: {why}", file.display()));
    }
    let mut touches = Touches::new(args.trace.unit, args.trace.exact_up_to);
    let told = lackey::read(&mut input.by_ref(), &mut |access| touches.access(access.start, access.bytes))
        .map_err(|error| failure(file, error))?;
    keep_imported(lines(told, touches.finish(), &run_name(file)), &looks_place(args, file), args)?;
    Ok(ExitCode::SUCCESS)
}

fn lines(told: Told, distances: Distances, name: &str) -> Vec<Line> {
    let accesses = Accesses { crossing: distances.accesses.crossing, ..told.accesses };
    let words: Vec<String> = told.command.split_whitespace().map(str::to_owned).collect();
    let command = if words.is_empty() { name.to_owned() } else { mask_arguments(&words).join(" ") };
    let about = About {
        version: VERSION,
        pid: told.pid,
        command,
        backend: "lackey".into(),
        why: "imported".into(),
        sees: Sees::RW,
        unit: Unit::Page,
        unit_bytes: distances.unit_bytes,
        page_bytes: distances.unit_bytes,
        exact: distances.error.is_none(),
        written_why_not: Some("a trace has no windows".into()),
        notes: told.notes,
        ..About::default()
    };
    let distances = Line::Distances(Box::new(Distances { accesses, ..distances }));
    vec![Line::About(Box::new(about)), distances, Line::End(End { why: "imported".into(), ..End::default() })]
}
