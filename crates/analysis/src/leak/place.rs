//! Where it grows, from the outside in: process, line of the ledger, kind of object, holder; the code that allocates it
//! is in `site`. And what is missing to look deeper, with the command that adds it.
//!
//! The one invariant: a place has evidence of its own; nothing is listed because it is large.

use nilometer_trace::ledger::Line;

use super::inside::{self, Census, Nature};
use super::model::{Class, Depth, Leak, Missing, Per, Place};
use super::series::Course;
use super::verdict::Scene;
use crate::heap::model::{By, Order};
use crate::heap::{self, Filter, Grouping, Heap};
use crate::model::Event;

const LINES: usize = 4;
const KINDS: usize = 5;
const HOLDERS: usize = 3;
/// A line or a kind below this share of the growth is not worth a row.
pub(super) const LEAST_SHARE: f64 = 0.05;
/// What is missing without allocations.
pub(super) const CODE: &str = "which code allocates it";

pub(super) fn places(scene: &Scene<'_>, leak: &Leak) -> Vec<Place> {
    let mut places = Vec::new();
    if leak.class == Class::Outlives {
        places.extend(scene.run.system.remains.iter().map(|part| Place {
            path: Some(part.name.clone()),
            ..place(Depth::Machine, crate::text::bytes(part.bytes), None, "found after the end")
        }));
        return places;
    }
    let whole = leak.rate_bytes_per_step.filter(|_| is_rising(leak.class));
    let Some(whole) = whole else { return places };
    places.extend(processes(scene, leak.class, whole));
    places.extend(lines(scene, leak.class, whole));
    places.extend(scene.census.iter().flat_map(|census| kinds(census, whole)));
    places
}

fn is_rising(class: Class) -> bool {
    !matches!(class, Class::Steady | Class::Settled | Class::Sawtooth | Class::CannotTell)
}

pub(super) fn place(depth: Depth, name: String, rate: Option<f64>, evidence: &str) -> Place {
    Place {
        depth,
        name,
        line: None,
        rate_bytes_per_step: rate,
        rate_count_per_step: None,
        share: None,
        path: None,
        category: None,
        evidence: evidence.to_owned(),
    }
}

/// Something on the machine that no process holds.
pub(super) fn machine(name: &str, rate: Option<f64>) -> Place {
    Place { share: Some(1.0), ..place(Depth::Machine, name.to_owned(), rate, "the machine between runs") }
}

fn processes(scene: &Scene<'_>, class: Class, whole: f64) -> Vec<Place> {
    let judged = if class == Class::CopyOnWrite { &scene.children } else { &scene.processes };
    let rows = judged.iter().filter(|(_, judged)| {
        judged.course == Course::Grows || judged.rate.is_some_and(|rate| rate.low > LEAST_SHARE * whole)
    });
    let mut rows: Vec<Place> = rows
        .map(|(process, judged)| {
            let rate = inside::rate(judged);
            let name = format!("{} ({})", process.role, process.pid);
            Place { share: Some(rate / whole), ..place(Depth::Process, name, Some(rate), "its counters") }
        })
        .collect();
    // Of one process alone the counters are those of the tree.
    if let ([(process, _)], true) = (scene.processes.as_slice(), rows.is_empty()) {
        let name = format!("{} ({})", process.role, process.pid);
        rows.push(Place { share: Some(1.0), ..place(Depth::Process, name, Some(whole), "the only process") });
    }
    rows
}

/// Lines of the nature that the class is about.
fn lines(scene: &Scene<'_>, class: Class, whole: f64) -> Vec<Place> {
    let Some(books) = &scene.books else { return Vec::new() };
    let wanted = |line: Line| match class {
        Class::Retention => inside::nature(line) == Nature::Retained,
        Class::PageCache => inside::nature(line) == Nature::File,
        _ => inside::nature(line) != Nature::File,
    };
    let rows = books.lines.iter().filter(|(line, rate)| wanted(*line) && *rate > LEAST_SHARE * whole);
    rows.take(LINES)
        .map(|(line, rate)| {
            let evidence = format!("{} ledgers of process {}", books.looks, books.pid);
            let name = line_name(*line);
            Place {
                line: Some(*line),
                share: Some(rate / whole),
                ..place(Depth::Memory, name, Some(*rate), &evidence)
            }
        })
        .collect()
}

/// As in the JSON of a ledger; screens have better words.
fn line_name(line: Line) -> String {
    format!("{line:?}").chars().enumerate().fold(String::new(), |mut name, (place, c)| {
        if c.is_uppercase() && place > 0 {
            name.push('_');
        }
        name.push(c.to_ascii_lowercase());
        name
    })
}

fn kinds(census: &Census, whole: f64) -> Vec<Place> {
    let rows = census.kinds.iter().filter(|kind| inside::rate(&kind.judged) > LEAST_SHARE * whole);
    rows.take(KINDS)
        .map(|kind| {
            let rate = inside::rate(&kind.judged);
            let evidence = format!("{} censuses of process {}", census.looks, census.pid);
            Place {
                rate_count_per_step: Some(kind.count_rate),
                share: Some(rate / whole),
                ..place(Depth::Kind, kind.name.clone(), Some(rate), &evidence)
            }
        })
        .collect()
}

/// What to do to see deeper.
pub(super) fn missing(scene: &Scene<'_>, leak: &Leak) -> Vec<Missing> {
    let mut missing = Vec::new();
    let remains = &scene.evidence.remains.items;
    let doubtful = remains.iter().filter(|remains| leak.class != Class::Outlives && remains.bytes >= 1 << 20);
    for remains in doubtful {
        let what = format!("{} is left, perhaps by another program", remains.what);
        missing.push(Missing {
            what,
            command: format!("nilo leak --repeat 10 -- {}", scene.run.command.join(" ")),
        });
    }
    let mut add = |what: &str, command: String| missing.push(Missing { what: what.to_owned(), command });
    let command = scene.run.command.join(" ");
    if is_rising(leak.class) && scene.books.is_none() && scene.census.is_none() {
        const DEEPER: &str = "which lines and objects grow";
        match refusal(&scene.run.events) {
            Some(why) => add(&format!("{DEEPER} ({why})"), "nilo doctor".to_owned()),
            None => add(DEEPER, format!("nilo leak -- {command}")),
        }
    }
    if leak.class == Class::Grows && leak.per == Per::Second {
        add("growth per step", format!("nilo leak --steps tqdm -- {command}"));
    }
    if leak.class == Class::Grows && scene.books.is_some() {
        let steps = if leak.per == Per::Second { "--steps tqdm " } else { "" };
        add(CODE, format!("nilo leak --allocs {steps}-- {command}"));
    }
    missing
}

/// Why nobody could look inside: the same command again would not tell more.
fn refusal(events: &[Event]) -> Option<&str> {
    let notes = events.iter().filter(|event| event.kind == "note");
    notes
        .filter_map(|note| {
            note.text.strip_prefix("no ledger: ").or(note.text.strip_prefix("no heap table: "))
        })
        .next_back()
}

/// A census and when it was taken, in units of the verdict's axis.
#[derive(Debug, Clone, Copy)]
pub struct Snapshot<'a, 'g> {
    pub heap: &'a Heap<'g>,
    pub x: f64,
}

/// Adds who holds what grew between two censuses. Censuses that cannot tell add nothing.
pub fn add_holders(leak: &mut Leak, before: Snapshot<'_, '_>, after: Snapshot<'_, '_>) {
    let span = after.x - before.x;
    let whole = leak.rate_bytes_per_step.filter(|rate| *rate > 0.0 && span > 0.0);
    let Some(whole) = whole else { return };
    let kinds: Vec<String> = leak
        .places
        .iter()
        .filter(|place| place.depth == Depth::Kind)
        .map(|place| place.name.clone())
        .collect();
    for name in kinds {
        let path = path_of(&name, before.heap, after.heap);
        if let Some(place) = leak.places.iter_mut().find(|place| place.name == name) {
            place.path = path;
        }
    }
    let grouping = Grouping { by: By::Attribute, order: Order::Total, top: Some(4 * HOLDERS) };
    let Ok(diff) = heap::diff(before.heap, after.heap, grouping) else { return };
    let rows = diff.rows.iter().map(|row| (row, (row.change.bytes + row.change.payload_bytes) as f64 / span));
    let rows = rows.filter(|(_, rate)| *rate > LEAST_SHARE * whole).take(HOLDERS);
    leak.places.extend(rows.map(|(row, rate)| Place {
        rate_count_per_step: Some(row.change.count as f64 / span),
        share: Some(rate / whole),
        ..place(Depth::Holder, row.kind.clone(), Some(rate), "two censuses compared by attribute")
    }));
}

/// How the largest new object of a kind is held.
fn path_of(kind: &str, before: &Heap<'_>, after: &Heap<'_>) -> Option<String> {
    let filter = Filter { kind: Some(escape_glob(kind)), ..Filter::default() };
    let new = after.select(heap::since(before, after), &filter).ok()?;
    let paths = after.paths(&new, 1).ok()?;
    paths.paths.first().map(|path| path.text.clone())
}

/// The name itself: a name with a star would be a pattern.
fn escape_glob(kind: &str) -> String {
    kind.replace(['*', '?'], "")
}
