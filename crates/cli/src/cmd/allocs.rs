//! The allocations of a run: reading them, naming native code that has no name yet, showing them.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::anyhow;
use nilometer_analysis::allocs::model::Allocs;
use nilometer_analysis::allocs::{self, Options};
use nilometer_native::symbol::{self, Store};
use nilometer_report::allocs::{Page, json};
use nilometer_rules::FrameRules;
use nilometer_trace::Manifest;
use nilometer_trace::allocs::{ALLOCS_FILE, Recording};

use super::{exit, load};
use crate::args::report::ReportArgs;
use crate::path::AtPath as _;
use crate::talk::{self, Failure};

/// Stacks and rows that are shown unless asked otherwise.
const TOP: usize = 15;
/// Smaller stacks are summed up in the tree.
const LEAST_SHARE: f64 = 0.005;

/// What a run says of its allocations, with the names of native code.
pub struct Read {
    pub recording: Recording,
    pub names: Store,
}

/// `nilo report --allocs`.
pub fn report(args: &ReportArgs, path: &Path) -> Result<ExitCode, Failure> {
    let read = read(path)?;
    let mut model = allocs::build(&read.recording, read.names.symbols(), &options(args));
    allocs::categorise(
        &mut model,
        &read.recording,
        read.names.symbols(),
        &rules(args.allocations.rules.as_deref())?,
    );
    model.saved = Some(load::short_path(path));
    model.command =
        Manifest::read(path).map_or_else(|_| String::new(), |manifest| manifest.command.join(" "));
    if args.json {
        write_json(&model)?;
    } else {
        let style = talk::stdout_style_of(args.width);
        let run = args.run.clone().unwrap_or_else(|| load::short_path(path));
        let page = Page { style: &style, run: &run, full: args.allocations.full };
        talk::data(&nilometer_report::allocs::render(&model, &page));
    }
    Ok(ExitCode::SUCCESS)
}

/// The built-in rules, with a user's own on top.
pub fn rules(own: Option<&Path>) -> Result<FrameRules, Failure> {
    let Some(file) = own else { return Ok(FrameRules::built_in()?) };
    let text = std::fs::read_to_string(file).reading(file)?;
    let name = file.display().to_string();
    let hint =
        "a rule is  [[frame]]  role = \"forward\"  python = [\"mine/model.py:predict\"]; see docs/allocs.md";
    FrameRules::with(&[(&name, &text)]).map_err(|error| Failure::from(error).hint(hint))
}

fn options(args: &ReportArgs) -> Options {
    let asked = &args.allocations;
    Options {
        what: asked.what.map(Into::into).unwrap_or_default(),
        by: asked.by.map(Into::into).unwrap_or_default(),
        top: asked.top.map_or(Some(TOP), |top| top.0),
        internals: asked.internals,
        tree: Some(if asked.top.is_some() { 0.0 } else { LEAST_SHARE }),
        moments_since_ns: None,
    }
}

fn write_json(model: &Allocs) -> Result<(), Failure> {
    let mut out = BufWriter::with_capacity(64 << 10, io::stdout().lock());
    match json::write(model, &mut out).and_then(|()| out.flush()) {
        // A reader that went away (`| head`) is no error.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// What a run says of its allocations and what they are for; none where they were not recorded.
pub fn categorised(path: &Path, options: &Options) -> Result<Option<Allocs>, Failure> {
    if !path.join(ALLOCS_FILE).exists() {
        return Ok(None);
    }
    let read = read(path)?;
    let (recording, names) = (&read.recording, read.names.symbols());
    let mut model = allocs::build(recording, names, options);
    allocs::categorise(&mut model, recording, names, &rules(None)?);
    Ok(Some(model))
}

/// Reads the recording and names what has no name; names are kept where that is possible.
pub fn read(path: &Path) -> Result<Read, Failure> {
    let Some((recording, _)) = nilometer_tables::read_allocs(path)? else { return Err(nothing(path)) };
    let mut names = Store::open(path);
    names.read(symbol::wanted(&recording), None);
    if let Err(error) = names.write() {
        talk::say(&format!("the names of functions cannot be kept in {}: {error}", load::short_path(path)));
    }
    Ok(Read { recording, names })
}

fn nothing(path: &Path) -> Failure {
    let run = load::short_path(path);
    Failure::from(anyhow!("{run} has no allocations: it was recorded without --allocs"))
        .exiting(exit::NOT_AVAILABLE)
        .hint("record them:  nilo run --allocs -- python train.py")
}
