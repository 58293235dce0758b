//! Which doubts a finished run deserves.

use crate::builder::LogEnding;
use crate::closing::Closing;
use crate::doubt::Doubt;
use crate::model::{Peak, Run, Unseen};
use crate::unit::share;

/// A peak interval wider than this share of the peak is worth a sentence.
const WIDE: f64 = 0.05;
/// A composition further from the peak than this, in seconds.
const FAR_S: f64 = 5.0;
const SLOW: f64 = 1.5;

pub(crate) fn doubts(closing: &Closing<'_>, run: &Run) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    doubts.extend(cut(closing, run));
    peak(run, &mut doubts);
    sampling(closing, run, &mut doubts);
    listing(closing, run, &mut doubts);
    composition(run, &mut doubts);
    doubts
}

fn cut(closing: &Closing<'_>, run: &Run) -> Option<Doubt> {
    let LogEnding::Cut { why, .. } = &closing.ending else { return None };
    Some(Doubt::Cut { at_s: run.data_end.at_s, why: why.clone() })
}

/// A helper or two of a launcher script is no doubt about the run; the figures are in the model anyway.
fn is_worth_words(unseen: &Unseen) -> bool {
    unseen.children_cpu_s >= 0.1 || unseen.children_faults >= 100_000 || unseen.processes.is_some()
}

fn peak(run: &Run, doubts: &mut Vec<Doubt>) {
    if run.ticks == 0 && run.processes_seen > 0 {
        doubts.push(Doubt::NoSamples);
    }
    if let Some(unseen) = run.unseen.as_ref().filter(|unseen| is_worth_words(unseen)) {
        let (cpu_s, faults) = (unseen.children_cpu_s, unseen.children_faults);
        doubts.push(Doubt::UnseenChildren { processes: unseen.processes, cpu_s, faults });
    }
    let Some(peak) = &run.peak else { return };
    let width = (peak.high_bytes - peak.low_bytes) as f64;
    if run.processes_seen > 1 && share(width, peak.bytes as f64) > WIDE {
        doubts.push(Doubt::WidePeak { low: peak.low_bytes, high: peak.high_bytes });
    }
    if run.processes_seen > 1 {
        doubts.extend(maxrss(run));
    }
    if run.about.verb == "attach" && is_old(peak) {
        doubts.push(Doubt::PeakBeforeAttach);
    }
}

/// The mark of the first sample was never exceeded.
fn is_old(peak: &Peak) -> bool {
    peak.method == "VmHWM" && peak.at_s <= 0.0
}

fn maxrss(run: &Run) -> Option<Doubt> {
    let told = run.processes.iter().filter(|process| process.hwm_exact_method != "VmHWM");
    told.filter_map(|process| process.hwm_bytes).max().map(|bytes| Doubt::MaxrssAboveSamples { bytes })
}

fn sampling(closing: &Closing<'_>, run: &Run, doubts: &mut Vec<Doubt>) {
    let events = &closing.builder.events;
    let asked_ms = run.interval_ms.asked;
    if let Some(achieved_ms) = run.interval_ms.achieved.filter(|ms| *ms > asked_ms * SLOW && asked_ms > 0.0) {
        doubts.push(Doubt::Slow { asked_ms, achieved_ms });
    }
    if let Some(missed) = run.interval_ms.missed.filter(|missed| missed.saturating_mul(100) > run.ticks) {
        doubts.push(Doubt::Missed { missed, ticks: run.ticks });
    }
    if events.gap_ns > 0 {
        doubts.push(Doubt::Gaps { seconds: events.gap_ns as f64 / 1e9 });
    }
    if events.dropped_ticks > 0 {
        doubts.push(Doubt::Dropped { ticks: events.dropped_ticks });
    }
    if closing.builder.system.available_estimated {
        doubts.push(Doubt::NoAvailable);
    }
    if events.stretched {
        doubts.push(Doubt::Stretched);
    }
}

fn listing(closing: &Closing<'_>, run: &Run, doubts: &mut Vec<Doubt>) {
    let steps = &closing.steps;
    if steps.stride > 1 {
        doubts.push(Doubt::StepsThinned { stride: steps.stride, seen: steps.seen });
    }
    if steps.foreign_marks > 0 {
        doubts.push(Doubt::ForeignSteps { marks: steps.foreign_marks });
    }
    if steps.omitted > 0 {
        doubts.push(Doubt::MarksOmitted { omitted: steps.omitted });
    }
    let kept = run.processes.len() as u64;
    if kept < run.processes_seen {
        doubts.push(Doubt::ProcessesOmitted { seen: run.processes_seen, kept });
    }
}

fn composition(run: &Run, doubts: &mut Vec<Doubt>) {
    let Some(made_of) = &run.made_of else { return };
    if made_of.from_peak_s.abs() > FAR_S {
        doubts.push(Doubt::FarComposition { seconds: made_of.from_peak_s });
    }
    if made_of.processes_missing > 0 {
        doubts.push(Doubt::CompositionIncomplete { missing: made_of.processes_missing });
    }
}
