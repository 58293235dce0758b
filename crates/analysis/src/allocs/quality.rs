//! What is doubtful about a recording, one sentence each.

use nilometer_trace::allocs::Recording;
use nilometer_trace::symbols::{State, Symbols};

use crate::text;

/// Libraries without names that are told one by one.
const LIBRARIES: usize = 3;

pub fn sentences(recording: &Recording, symbols: &Symbols, unnamed: u64) -> Vec<String> {
    let about = &recording.about;
    let mut told = about.notes.clone();
    if about.was_never_on() {
        told.push("it was never switched on, so nothing is known: nilo mode all, while it runs".into());
    }
    if !about.finished {
        told.push("the recording was cut: what was live then is told as live at the end".into());
    }
    told.extend(lost(recording));
    told.extend(unheard(recording));
    told.extend(folded(recording));
    told.extend(series(recording));
    told.extend(stacks(recording));
    told.extend(recording.processes.iter().flat_map(|process| {
        process.degraded.iter().map(move |why| format!("process {} ({}): {why}", process.pid, process.name))
    }));
    told.extend(untracked(recording));
    told.extend(names(recording, symbols, unnamed));
    told
}

fn lost(recording: &Recording) -> Option<String> {
    let (lost, events) = (recording.about.lost_events, recording.about.events);
    (lost > 0).then(|| {
        let share = lost as f64 / (lost + events) as f64 * 100.0;
        format!(
            "{lost} events were lost ({share:.2} %): sums are too low, and blocks may seem alive that are not"
        )
    })
}

fn unheard(recording: &Recording) -> Option<String> {
    let unheard = recording.about.unheard_processes;
    (unheard > 0).then(|| {
        let noun = if unheard == 1 { "process" } else { "processes" };
        let why = "a limit on open files, or no memory for it";
        format!("{unheard} {noun} could not report ({why}): nothing done there is in these figures")
    })
}

fn folded(recording: &Recording) -> Option<String> {
    let folded = &recording.about.folded;
    (folded.sites > 0).then(|| {
        format!(
            "{} small sites are kept as one sum ({} at the peak) because there were too many",
            folded.sites,
            text::bytes(folded.peak_bytes)
        )
    })
}

fn series(recording: &Recording) -> Option<String> {
    let without = recording.about.folded.series;
    (without > 0).then(|| {
        format!(
            "{without} sites, small ones first, are not among what was live at the steps: there were too many"
        )
    })
}

fn stacks(recording: &Recording) -> Option<String> {
    let sum =
        |of: fn(&nilometer_trace::allocs::Process) -> u64| recording.processes.iter().map(of).sum::<u64>();
    let (cut, dropped) = (sum(|process| process.stacks_cut), sum(|process| process.stacks_dropped));
    match (cut, dropped) {
        (0, 0) => None,
        (cut, 0) => {
            Some(format!("{cut} stacks were deeper than {} frames and are cut", recording.about.depth))
        }
        (_, dropped) => {
            Some(format!("{dropped} stacks were not kept: the tracker's memory for them was full"))
        }
    }
}

fn untracked(recording: &Recording) -> Option<String> {
    let untracked = &recording.about.untracked;
    let first = untracked.first()?;
    let more = match untracked.len() {
        1 => String::new(),
        many => format!(", and {} more", many - 1),
    };
    Some(format!("not tracked: process {} ({}): {}{more}", first.pid, first.name, first.why))
}

fn names(recording: &Recording, symbols: &Symbols, unnamed: u64) -> Vec<String> {
    if symbols.libraries.is_empty() && unnamed > 0 {
        return vec![format!(
            "{unnamed} native addresses have no names: the run's names were not read; do it where it ran"
        )];
    }
    let nameless = symbols.libraries.iter().filter(|library| library.state != State::Read);
    let told = nameless.map(|library| match &library.state {
        State::Changed => {
            format!("{} has been replaced since the run: its functions have no names", library.path)
        }
        State::Missing(why) => format!("{}: its functions have no names: {why}", library.path),
        State::Read => String::new(),
    });
    let used = told.filter(|_| !recording.nodes.is_empty());
    let mut all: Vec<String> = used.collect();
    let more = all.len().saturating_sub(LIBRARIES);
    all.truncate(LIBRARIES);
    if more > 0 {
        all.push(format!("{more} more libraries have no names"));
    }
    all
}
