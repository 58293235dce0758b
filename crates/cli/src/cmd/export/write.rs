//! One function a format: what it needs is read, and its writer called.

use std::io::Write;

use anyhow::anyhow;
use nilometer_analysis::Run;
use nilometer_analysis::allocs::model::Allocs;
use nilometer_analysis::allocs::profile::Profile;
use nilometer_analysis::allocs::{Options, build, categorise, each_stack};
use nilometer_analysis::timeline::{Item, Origin, Timeline};
use nilometer_report::allocs::folded as folded_line;
use nilometer_report::export::{self, Subject};
use nilometer_tables::{Ending, write_allocs_csv, write_csv, write_json};
use nilometer_trace::Reader;
use nilometer_trace::allocs::ALLOCS_FILE;

use super::{Done, Job, failure};
use crate::cmd::{allocs, exit, load};
use crate::path::AtPath as _;
use crate::talk::Failure;

fn done(ending: Ending) -> Done {
    Done { ending, left_out: Vec::new() }
}

pub fn csv(job: &Job<'_>, out: &mut dyn Write) -> Result<Done, Failure> {
    if !job.args.allocs {
        return write_csv(job.run, out).map(done).map_err(failure);
    }
    let read = allocs::read(job.run)?;
    write_allocs_csv(&read.recording, read.names.symbols(), &options(job), out).map_err(failure)?;
    Ok(done(Ending::Clean))
}

pub fn json(job: &Job<'_>, out: &mut dyn Write) -> Result<Done, Failure> {
    write_json(job.run, out).map(done).map_err(failure)
}

/// Stacks of allocations, one line each.
pub fn folded(job: &Job<'_>, out: &mut dyn Write) -> Result<Done, Failure> {
    let read = allocs::read(job.run)?;
    let mut written = Ok(());
    each_stack(&read.recording, read.names.symbols(), &options(job), |site, value, _| {
        if let (Ok(()), Some(line)) = (&written, folded_line::line(site, value)) {
            written = out.write_all(line.as_bytes());
        }
    });
    written.and_then(|()| out.flush())?;
    Ok(done(Ending::Clean))
}

fn options(job: &Job<'_>) -> Options {
    Options { what: job.args.what.into(), internals: job.args.internals, ..Options::default() }
}

pub fn speedscope(job: &Job<'_>, out: &mut dyn Write) -> Result<Done, Failure> {
    let read = allocs::read(job.run)?;
    let profile = Profile::new(&read.recording, read.names.symbols(), job.args.internals);
    let left_out = export::speedscope::write(&profile, &job.name, job.args.what.into(), out)?;
    out.flush()?;
    Ok(Done { ending: Ending::Clean, left_out })
}

pub fn pprof(job: &Job<'_>, out: &mut dyn Write) -> Result<Done, Failure> {
    let read = allocs::read(job.run)?;
    let profile = Profile::new(&read.recording, read.names.symbols(), job.args.internals);
    let (run, origin) = model(job)?;
    let subject = Subject { run: &run, origin: &origin, name: &job.name };
    let left_out = export::pprof::write(&profile, &subject, job.args.what.into(), out)?;
    Ok(Done { ending: Ending::Clean, left_out })
}

pub fn heaptrack(job: &Job<'_>, out: &mut dyn Write) -> Result<Done, Failure> {
    let read = allocs::read(job.run)?;
    let profile = Profile::new(&read.recording, read.names.symbols(), job.args.internals);
    let (run, origin) = model(job)?;
    let subject = Subject { run: &run, origin: &origin, name: &job.name };
    let left_out = export::heaptrack::write(&profile, &subject, out)?;
    Ok(Done { ending: Ending::Clean, left_out })
}

pub fn perfetto(job: &Job<'_>, out: &mut dyn Write) -> Result<Done, Failure> {
    let (run, origin) = model(job)?;
    let subject = Subject { run: &run, origin: &origin, name: &job.name };
    let mut writer = export::perfetto::Writer::new(subject, out);
    let ending = each_item(job, |item| writer.see(&item))?;
    let (read, mut notes) = allocations(job)?;
    let profile = read.as_ref().map(|read| profile(job, read));
    notes.extend(writer.finish(profile.as_ref())?);
    Ok(Done { ending, left_out: notes })
}

pub fn tensorboard(job: &Job<'_>, out: &mut dyn Write) -> Result<Done, Failure> {
    let (run, origin) = model(job)?;
    if run.steps.is_empty() && run.curve.tree_high.points.is_empty() {
        return Err(no_samples(job));
    }
    let subject = Subject { run: &run, origin: &origin, name: &job.name };
    let mut writer = export::tensorboard::Writer::new(subject, out);
    let ending = each_item(job, |item| writer.see(&item))?;
    let (read, mut notes) = allocations(job)?;
    let sorted = read.as_ref().map(categories).transpose()?;
    let profile = read.as_ref().map(|read| profile(job, read));
    notes.extend(writer.finish(profile.as_ref(), sorted.as_ref())?);
    Ok(Done { ending, left_out: notes })
}

pub fn firefox(job: &Job<'_>, out: &mut dyn Write) -> Result<Done, Failure> {
    let (run, origin) = model(job)?;
    let subject = Subject { run: &run, origin: &origin, name: &job.name };
    let (read, mut notes) = allocations(job)?;
    let profile = read.as_ref().map(|read| profile(job, read));
    notes.extend(export::firefox::write(&subject, profile.as_ref(), out)?);
    Ok(Done { ending: Ending::Clean, left_out: notes })
}

/// The model, and where its times begin.
fn model(job: &Job<'_>) -> Result<(Run, Origin), Failure> {
    let mut origin = Origin::default();
    let run = load::model_with(job.run, |record| origin.see(record))?;
    Ok((run, origin))
}

/// The log once more, as items.
fn each_item(job: &Job<'_>, mut see: impl FnMut(Item<'_>)) -> Result<Ending, Failure> {
    let mut reader = Reader::open(job.run).reading(job.run)?;
    let mut timeline = Timeline::default();
    Ok(reader.visit(|record| timeline.see(record, &mut see))?)
}

/// The allocations where there are any; where not, it is said how to get them.
fn allocations(job: &Job<'_>) -> Result<(Option<allocs::Read>, Vec<String>), Failure> {
    if job.run.join(ALLOCS_FILE).exists() {
        return Ok((Some(allocs::read(job.run)?), Vec::new()));
    }
    let note = "the run has no allocations, so there are no stacks: nilo run --allocs -- python train.py";
    Ok((None, vec![note.to_owned()]))
}

fn profile<'a>(job: &Job<'_>, read: &'a allocs::Read) -> Profile<'a> {
    Profile::new(&read.recording, read.names.symbols(), job.args.internals)
}

/// What the memory was for, at steps.
fn categories(read: &allocs::Read) -> Result<Allocs, Failure> {
    let options = Options { top: Some(0), ..Options::default() };
    let mut model = build(&read.recording, read.names.symbols(), &options);
    categorise(&mut model, &read.recording, read.names.symbols(), &allocs::rules(None)?);
    Ok(model)
}

fn no_samples(job: &Job<'_>) -> Failure {
    let run = load::short_path(job.run);
    Failure::from(anyhow!("{run} has no steps, and no sample fell into the run"))
        .exiting(exit::NOT_AVAILABLE)
        .hint("sample more often:  nilo run --interval 10ms -- python train.py")
}
