//! Takes the census of a process and prints what it cost and what it does not explain: `census PID [counts]`.
#![allow(
    clippy::trivially_copy_pass_by_ref,
    clippy::format_push_string,
    clippy::unchecked_time_subtraction,
    clippy::print_stderr,
    reason = "an aid that prints"
)]

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use nilometer_cpython::{CensusOptions, Detail, census_timed, locate, mismatches, prescan, uncovered};
use nilometer_image::live::{CaptureOptions, Peek, capture};
use nilometer_trace::heap::{Graph, Part};

#[allow(clippy::print_stdout, clippy::print_stderr)]
fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(pid) = arguments.next().and_then(|pid| pid.parse().ok()) else {
        eprintln!("usage: census PID [counts]");
        return ExitCode::FAILURE;
    };
    let options = match arguments.next().as_deref() {
        Some("counts") => CensusOptions { detail: Detail::Counts, ..CensusOptions::default() },
        _ => CensusOptions::default(),
    };
    match run(pid, &options) {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(pid: i32, options: &CensusOptions) -> Result<String, Box<dyn std::error::Error>> {
    let peek = Peek::open(pid)?;
    let python = locate(&peek, &peek.modules())?;
    let began = cpu();
    let exclude = prescan(&python, &peek);
    let excluded: u64 = exclude.iter().map(|range| range.end - range.start).sum();
    let prescanned = cpu() - began;
    let taken = capture(&peek, &CaptureOptions::default(), &exclude)?;
    let began = cpu();
    let (graph, timings) = census_timed(&python, &taken.image, options);
    let took = cpu() - began;
    let mut text =
        format!("{} {:?} {took:?}\n{timings:?}\n{:?}\n", python.version, taken.pause, graph.quality);
    let ranges = exclude.len();
    text += &format!(
        "prescan {prescanned:?}: {ranges} ranges, {excluded} bytes; uncovered {:x?}\n",
        uncovered(&graph, &exclude)
    );
    let quality = &graph.quality;
    let share = 100.0 * quality.refcount_exact as f64 / quality.refcount_checked.max(1) as f64;
    let bytes: u64 = graph.objects.bytes.iter().sum();
    let payload: u64 = graph.payloads.iter().map(|payload| payload.bytes).sum();
    let (objects, edges) = (graph.len(), graph.edges.to.len());
    text +=
        &format!("{objects} objects, {edges} references, {bytes} bytes, {payload} payload, {share:.3} %\n");
    text += &format!(
        "{} payloads, limits {:?}, roots {}\n",
        graph.payloads.len(),
        graph.origin.limits,
        graph.roots.len()
    );
    text += &format!("unreached {:?}\n", unreached(&graph));
    for found in mismatches(&python, &taken.image).iter().take(25) {
        text += &format!("{:>7} over {:>7} under {}\n", found.over, found.under, found.kind);
        for (address, count, references) in found.samples.iter().take(2) {
            text += &format!(
                "    {address:x}: count {count}, found {references}: {}\n",
                referrers(&graph, *address)
            );
        }
    }
    Ok(text)
}

/// What this thread has spent on a processor so far: others run beside us.
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0))
}

/// Kinds of what no root reaches but those of C code that nobody knows.
fn unreached(graph: &Graph) -> Vec<(usize, &str)> {
    let mut reached = vec![false; graph.len()];
    let known = graph.roots.iter().filter(|root| root.name != "C code").map(|root| root.object);
    let mut queue: Vec<u32> = known.collect();
    while let Some(object) = queue.pop() {
        if !std::mem::replace(&mut reached[object as usize], true) {
            queue.extend(graph.referents(object));
        }
    }
    let mut kinds = BTreeMap::new();
    for object in (0..graph.len() as u32).filter(|object| !reached[*object as usize]) {
        *kinds.entry(graph.kind_of(object).name.as_str()).or_insert(0usize) += 1;
    }
    let mut kinds: Vec<_> = kinds.into_iter().map(|(name, count)| (count, name)).collect();
    kinds.sort_by(|a, b| b.cmp(a));
    kinds.truncate(12);
    kinds
}

/// Who refers to an object, and through what, the most frequent first.
fn referrers(graph: &Graph, address: u64) -> String {
    let Some(target) = graph.at(address) else { return "?".to_owned() };
    let mut ways: BTreeMap<String, u32> = BTreeMap::new();
    for object in 0..graph.len() as u32 {
        for edge in graph.edges.range(object).filter(|edge| graph.edges.to[*edge] == target) {
            let name = match graph.edges.label.get(edge).and_then(|label| label.part()) {
                Some(Part::Attribute(name) | Part::Key(name) | Part::Local(name)) => {
                    graph.names[name as usize].clone()
                }
                Some(Part::Index(_)) => "[]".to_owned(),
                label => format!("{label:?}"),
            };
            *ways.entry(format!("{} {name}", graph.kind_of(object).name)).or_default() += 1;
        }
    }
    let mut ways: Vec<_> = ways.into_iter().collect();
    ways.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    ways.truncate(12);
    let roots: Vec<_> =
        graph.roots.iter().filter(|root| root.object == target).map(|root| &root.name).collect();
    format!("{ways:?} {roots:?}")
}
