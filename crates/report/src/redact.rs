//! What must not leave the house is taken out of the models before anything is drawn from them.
//!
//! Gone: arguments, directories, the host, notes, texts of events, names of mapped files and of processes. What stays
//! is what the page is for: numbers, roles, names of phases, functions, types, and files without their directories.

use std::path::Path;
use std::sync::Arc;

use nilometer_analysis::Run;
use nilometer_analysis::allocs::model::{Allocs, Frame};
use nilometer_analysis::compare::Comparison;
use nilometer_analysis::leak::Leak;
use nilometer_analysis::leak::model::Depth;
use nilometer_analysis::pages::Pages;
use nilometer_analysis::rank::Job;
use nilometer_analysis::sweep::model::Sweep;

const HIDDEN: &str = "(redacted)";
const RUN: &str = "RUN";

pub fn run(run: &mut Run) {
    run.command = command(&run.command);
    RUN.clone_into(&mut run.name);
    run.saved = run.saved.as_ref().map(|_| RUN.to_owned());
    let about = &mut run.about;
    HIDDEN.clone_into(&mut about.host);
    HIDDEN.clone_into(&mut about.directory);
    about.container = about.container.as_ref().map(|_| HIDDEN.to_owned());
    about.method.iter_mut().for_each(hide_paths);
    run.exit.evidence.iter_mut().for_each(hide_paths);
    run.quality.iter_mut().for_each(hide_paths);
    hide_paths(&mut run.data_end.why);
    run.limit.iter_mut().for_each(|limit| hide_paths(&mut limit.source));
    for process in &mut run.processes {
        process.command = process.role.clone();
        HIDDEN.clone_into(&mut process.evidence);
    }
    run.notes.iter_mut().for_each(|note| HIDDEN.clone_into(&mut note.text));
    run.events.iter_mut().for_each(|event| event.text = event.kind.to_owned());
    run.system.remains.iter_mut().for_each(|part| HIDDEN.clone_into(&mut part.name));
    let mappings = run.made_of.iter_mut().flat_map(|made_of| &mut made_of.largest);
    mappings.for_each(|mapping| mapping.name = file_kind(&mapping.name));
    let accounts = run.ledgers.iter_mut().flat_map(|ledgers| &mut ledgers.accounts);
    accounts.for_each(|account| {
        HIDDEN.clone_into(&mut account.ledger.command);
        account.ledger.notes.iter_mut().for_each(hide_paths);
    });
}

pub fn leak(leak: &mut Leak) {
    hide_paths(&mut leak.reason);
    for place in &mut leak.places {
        if matches!(place.depth, Depth::Process | Depth::Machine) {
            HIDDEN.clone_into(&mut place.name);
            place.path = None;
        } else if place.depth == Depth::Site {
            place.name = without_folders(&place.name);
            place.path = place.path.as_deref().map(without_folders);
        }
    }
    leak.missing.iter_mut().for_each(|missing| missing.command = program(&missing.command));
    leak.runs.iter_mut().for_each(|run| run.remains = run.remains.as_ref().map(|_| HIDDEN.to_owned()));
}

pub fn allocs(allocs: &mut Allocs) {
    allocs.command = program(&allocs.command);
    allocs.saved = None;
    for frame in allocs.sites.iter_mut().flat_map(|site| &mut site.stack) {
        if frame.file.as_deref().is_some_and(|file| file.contains('/')) {
            let file = frame.file.as_deref().map(|file| base(file).to_owned());
            *frame = Arc::new(Frame { file, ..(**frame).clone() });
        }
    }
    allocs.quality.iter_mut().for_each(hide_paths);
}

pub fn sweep(sweep: &mut Sweep) {
    sweep.command = command(&sweep.command);
    RUN.clone_into(&mut sweep.saved);
    sweep.runs.iter_mut().for_each(|run| {
        RUN.clone_into(&mut run.saved);
        run.evidence.iter_mut().for_each(hide_paths);
    });
    sweep.notes.iter_mut().for_each(hide_paths);
}

/// Nodes keep their order, not their names.
pub fn job(job: &mut Job) {
    job.command = command(&job.command);
    job.id.clear();
    job.saved = Some(RUN.to_owned());
    job.problems.clear();
    let names = job.nodes.clone();
    let hidden = |name: &str| {
        let place = names.iter().position(|known| known == name).unwrap_or(names.len());
        format!("node {place}")
    };
    job.nodes = names.iter().map(|name| hidden(name)).collect();
    for row in &mut job.ranks {
        row.node = hidden(&row.node);
        row.saved = None;
    }
}

pub fn comparison(comparison: &mut Comparison) {
    "the base".clone_into(&mut comparison.base);
    for other in &mut comparison.others {
        "this run".clone_into(&mut other.name);
        other.notes.iter_mut().for_each(hide_paths);
        for fact in &mut other.facts {
            (fact.base, fact.other) = (None, None);
        }
    }
}

pub fn pages(pages: &mut Pages) {
    pages.command = program(&pages.command);
    let name = |name: &mut String| {
        if name.contains('/') {
            *name = file_kind(name);
        }
    };
    pages.owners.iter_mut().for_each(|owner| name(&mut owner.name));
    pages.picture.rows.iter_mut().for_each(|row| name(&mut row.name));
    pages.cold.iter_mut().flat_map(|cold| &mut cold.owners).for_each(|owner| name(&mut owner.name));
    pages.notes.iter_mut().for_each(hide_paths);
}

/// `python3 …`: the program is no secret, its arguments may be.
fn command(argv: &[String]) -> Vec<String> {
    let mut kept: Vec<String> = argv.first().map(|program| base(program).to_owned()).into_iter().collect();
    kept.extend((argv.len() > 1).then(|| "…".to_owned()));
    kept
}

/// A command line as one text: what comes before the program's own words stays.
fn program(text: &str) -> String {
    match text.split_once(" -- ") {
        Some((ours, _)) => format!("{ours} -- …"),
        None => text.split_whitespace().next().map(|word| format!("{} …", base(word))).unwrap_or_default(),
    }
}

fn base(path: &str) -> &str {
    Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or(HIDDEN)
}

/// A library by its name; of any other file only that it is one.
fn file_kind(name: &str) -> String {
    let file = base(name);
    if file.contains(".so") { file.to_owned() } else { "(file)".to_owned() }
}

/// Words that are paths lose their directories.
fn hide_paths(text: &mut String) {
    let is_path = |word: &str| {
        let word = word.trim_start_matches(['(', '`', '\'', '"']);
        ["/", "./", "../", "~/"].iter().any(|start| word.starts_with(start))
    };
    let words = text.split(' ').map(|word| if is_path(word) { HIDDEN } else { word });
    *text = words.collect::<Vec<_>>().join(" ");
}

/// Places in files by their names alone: `/home/ada/train.py:9 main` is `train.py:9 main`.
fn without_folders(text: &str) -> String {
    let bare = |word: &str| if word.contains('/') { base(word).to_owned() } else { word.to_owned() };
    text.split(' ').map(bare).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_and_directories_are_gone() {
        let argv = ["/opt/py/python3", "train.py", "--token=s3cret"].map(str::to_owned);
        assert_eq!(command(&argv), ["python3", "…"]);
        assert_eq!(program("nilo run --allocs -- python train.py --token x"), "nilo run --allocs -- …");
        assert_eq!(program("/usr/bin/python3 x.py"), "python3 …");
        let mut text = "killed in /sys/fs/cgroup/ada at +1.0 MiB/step".to_owned();
        hide_paths(&mut text);
        assert_eq!(text, "killed in (redacted) at +1.0 MiB/step");
        assert_eq!(file_kind("/home/ada/customers.npy"), "(file)");
        assert_eq!(file_kind("/usr/lib/libtorch.so.2"), "libtorch.so.2");
        let stack = "/home/ada/train.py:9 main ← lib/x.py:3 f.<locals>.<listcomp>";
        assert_eq!(without_folders(stack), "train.py:9 main ← x.py:3 f.<locals>.<listcomp>");
    }
}
