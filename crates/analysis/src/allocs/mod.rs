//! A run's allocations: sites and names in, the model of a view out. Pure.
//!
//! Stacks are merged from their native and Python halves, sites with the same stack are one, and what is not listed is
//! summed up beside the list: listed sites and `rest` are the whole.

pub mod category;
mod course;
mod doubt;
mod frames;
mod group;
mod merge;
pub mod model;
mod moment;
mod name;
pub mod profile;
mod quality;
mod stack;
mod sum;
mod tree;

#[cfg(test)]
mod tests;

use nilometer_rules::FrameRules;
use nilometer_trace::allocs::{About, Amount, Histogram, Point, Recording, Source};
use nilometer_trace::symbols::Symbols;
use rustc_hash::FxHashMap;

pub use course::{Course, courses};
use frames::Frames;
use model::{Allocs, Bin, By, Node, Peak, PhasePeak, Process, Sampling, Site, Tree, What};
use stack::Stacks;
use sum::Sum;
use tree::{Figure, NodeId, Trie};

/// A sum so many standard deviations below the peak cannot have been mistaken for it.
const SPREADS_NEAR: f64 = 6.0;

/// What is to be shown.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Options {
    pub what: What,
    pub by: By,
    /// So many sites or rows; all if `None`.
    pub top: Option<usize>,
    /// With the interpreter's and the runtime's own frames.
    pub internals: bool,
    /// With the stacks as one tree, without those below this share of the whole; none is made where nobody asks.
    pub tree: Option<f64>,
    /// With what was live at the steps, told in seconds since this time of the log's clock.
    pub moments_since_ns: Option<u64>,
}

/// All stacks of a recording with their sums.
struct Stacked<'a> {
    frames: Frames<'a>,
    trie: Trie,
    sums: Vec<(NodeId, Sum)>,
}

/// The model of one view.
pub fn build(recording: &Recording, symbols: &Symbols, options: &Options) -> Allocs {
    let about = &recording.about;
    let steps: Vec<f64> = about.steps.iter().map(|step| step.number as f64).collect();
    let stacked = collect(recording, symbols, options.internals);
    let mut allocs = whole(recording, options, &steps);
    let mut order: Vec<usize> = (0..stacked.sums.len()).collect();
    let value = |index: usize| stacked.sums[index].1.value(options.what, &steps).0;
    let values: Vec<f64> = order.iter().map(|index| value(*index)).collect();
    order.sort_by(|a, b| values[*b].total_cmp(&values[*a]).then(a.cmp(b)));
    allocs.sites_seen = order.len() as u64;
    let (listed, others) = order.split_at(options.top.unwrap_or(order.len()).min(order.len()));
    allocs.sites = listed.iter().map(|index| stacked.site(*index, options.what, &steps)).collect();
    let mut rest = Sum::default();
    for index in others {
        rest.merge(&stacked.sums[*index].1);
    }
    allocs.rest = rest.amounts(options.what, &steps);
    if let Some(least) = options.tree.filter(|_| options.by == By::Stack) {
        let all: f64 = values.iter().filter(|value| **value > 0.0).sum();
        let shown = listed.iter().take_while(|index| values[**index] > all * least);
        let shown: Vec<usize> = shown.copied().collect();
        allocs.tree = stacked.tree(&shown, options.what, &steps);
    } else if !matches!(options.by, By::Category | By::Stack) {
        (allocs.rows, allocs.rows_seen) =
            group::rows(&stacked.frames, &stacked.trie, &stacked.sums, options, &steps);
    }
    if let Some(zero_ns) = options.moments_since_ns {
        let series = listed.iter().map(|index| stacked.sums[*index].1.series());
        allocs.moments = moment::moments(about, zero_ns, series, rest.series());
    }
    allocs.quality = quality::sentences(recording, symbols, stacked.frames.unnamed);
    allocs
}

/// Adds what the memory is for.
pub fn categorise(allocs: &mut Allocs, recording: &Recording, symbols: &Symbols, rules: &FrameRules) {
    let about = &recording.about;
    allocs.by_category = category::build(recording, symbols, rules);
    allocs.turns = about.turns;
    allocs.step_numbers = about.steps.iter().map(|step| step.number).collect();
    let peak = |it: &nilometer_trace::allocs::PhasePeak| PhasePeak {
        turn: it.turn,
        phase: it.phase.clone(),
        peak_bytes: it.peak_bytes,
    };
    allocs.phase_peaks = about.phase_peaks.iter().map(peak).collect();
}

/// Every stack, innermost first, with the figure that was asked for and its blocks; for exports.
pub fn each_stack(
    recording: &Recording,
    symbols: &Symbols,
    options: &Options,
    mut sink: impl FnMut(&Site, f64, u64),
) {
    let steps: Vec<f64> = recording.about.steps.iter().map(|step| step.number as f64).collect();
    let stacked = collect(recording, symbols, options.internals);
    for (index, (_, sum)) in stacked.sums.iter().enumerate() {
        let (value, count) = sum.value(options.what, &steps);
        sink(&stacked.site(index, options.what, &steps), value, count);
    }
}

fn collect<'a>(recording: &'a Recording, symbols: &'a Symbols, internals: bool) -> Stacked<'a> {
    collect_where(recording, symbols, internals, |_| true)
}

fn collect_where<'a>(
    recording: &'a Recording,
    symbols: &'a Symbols,
    internals: bool,
    keep: impl Fn(&nilometer_trace::allocs::Site) -> bool,
) -> Stacked<'a> {
    let mut frames = Frames::new(recording, symbols);
    let series = moment::at_steps(recording);
    let (mut trie, mut stacks) = (Trie::default(), Stacks::default());
    let mut sums: Vec<(NodeId, Sum)> = Vec::new();
    let mut known: FxHashMap<(NodeId, Source), usize> = FxHashMap::default();
    for (index, site) in recording.sites.iter().enumerate().filter(|(_, site)| keep(site)) {
        let cut = stacks.read(recording, site, &mut frames, internals);
        let node = trie.insert(&stacks.merged);
        let place = *known.entry((node, site.source)).or_insert_with(|| {
            sums.push((node, Sum::of(site.source)));
            sums.len() - 1
        });
        sums[place].1.add(site, series.get(&(index as u32)).map(Vec::as_slice));
        sums[place].1.cut |= cut;
    }
    // Nothing is inserted any more, and of a large recording this is a good part of the memory.
    trie.close();
    sums.shrink_to_fit();
    Stacked { frames, trie, sums }
}

impl Stacked<'_> {
    fn site(&self, index: usize, what: What, steps: &[f64]) -> Site {
        let (node, sum) = &self.sums[index];
        Site {
            stack: self.trie.stack(*node).map(|frame| self.frames.spell(frame)).collect(),
            cut: sum.cut,
            allocator: sum.allocator,
            amounts: sum.amounts(what, steps),
        }
    }

    fn tree(&self, listed: &[usize], what: What, steps: &[f64]) -> Tree {
        let value = |sum: &Sum| {
            let (value, count) = sum.value(what, steps);
            Figure { value, count, variance: sum.variance(what), stacks: 1 }
        };
        let all = self.sums.iter().map(|(node, sum)| (*node, value(sum)));
        let values: Vec<(NodeId, Figure)> = all.filter(|(_, value)| value.value != 0.0).collect();
        let shown: Vec<NodeId> = listed.iter().map(|index| self.sums[*index].0).collect();
        let nodes = self.trie.shown(&values, &shown).into_iter().map(|branch| Node {
            frame: self.frames.spell(branch.frame),
            value: branch.sum.value,
            interval: doubt::interval(branch.sum.value, branch.sum.variance),
            count: branch.sum.count,
            own: branch.own,
            children: branch.children,
            hidden: branch.hidden,
            hidden_value: branch.hidden_value,
        });
        Tree { nodes: nodes.collect() }
    }
}

/// What the recording says by itself.
fn whole(recording: &Recording, options: &Options, steps: &[f64]) -> Allocs {
    let about = &recording.about;
    let live: Vec<f64> = about.steps.iter().map(|step| step.live_bytes as f64).collect();
    Allocs {
        mode: about.mode.clone(),
        sampling: (about.mode == "sampled" || about.peak.variance > 0)
            .then_some(Sampling { mean_bytes: about.mean_bytes, exact_bytes: about.exact_bytes }),
        what: options.what,
        by: options.by,
        peak: peak(about),
        live_end_bytes: about.live.bytes,
        cumulative_bytes: about.total.bytes,
        count: about.total.count,
        temporary_bytes: recording.sites.iter().map(|site| site.temporary_bytes).sum(),
        temporary_count: recording.sites.iter().map(|site| site.temporary_count).sum(),
        growth_bytes_per_step: sum::slope(steps, &live),
        steps: about.steps_seen,
        sizes: bins(&about.sizes),
        lifetimes: bins(&about.lifetimes),
        processes: recording.processes.iter().map(|process| image(recording, process)).collect(),
        events: about.events,
        raw_bytes: about.raw_bytes,
        event_bytes: about.event_bytes,
        lost_events: about.lost_events,
        unheard_processes: about.unheard_processes,
        tracker_bytes: about.tracker_bytes,
        ..Allocs::default()
    }
}

/// The highest sum with its 95 % interval, as every view tells it.
pub fn peak(about: &About) -> Peak {
    let Amount { bytes, variance, .. } = about.peak;
    let interval = doubt::interval_of_highest(bytes as f64, variance as f64, renewals(about));
    Peak {
        bytes,
        at_s: about.peak_at_ns.saturating_sub(about.started_ns) as f64 / 1e9,
        step: step_at(about),
        low_bytes: interval.map_or(bytes, |interval| interval.low_bytes),
        high_bytes: interval.map_or(bytes, |interval| interval.high_bytes),
    }
}

/// How often other samples made up a sum about as high as the peak.
fn renewals(about: &About) -> f64 {
    let spread = (about.peak.variance as f64).sqrt();
    let is_near = |point: &&Point| point.live_bytes as f64 + SPREADS_NEAR * spread >= about.peak.bytes as f64;
    let near = about.curve.iter().filter(is_near).count().max(1) as f64 / about.curve.len().max(1) as f64;
    near * about.total.variance as f64 / (about.peak.variance as f64).max(1.0)
}

/// The last step that began before the peak; only where every step was kept.
fn step_at(about: &About) -> Option<u64> {
    let mut before = about.steps.iter().rev().filter(|step| step.at_ns <= about.peak_at_ns);
    before.next().map(|step| step.number).filter(|_| about.step_stride <= 1)
}

/// From the first bucket with something in it to the last.
fn bins(histogram: &Histogram) -> Vec<Bin> {
    let filled = |index: &usize| histogram.buckets.get(*index).is_some_and(|bucket| bucket.count > 0);
    let all = 0..histogram.buckets.len();
    let (Some(first), Some(last)) = (all.clone().find(filled), all.rev().find(filled)) else {
        return Vec::new();
    };
    let buckets = histogram.buckets.iter().enumerate().take(last + 1).skip(first);
    buckets
        .map(|(index, bucket)| Bin {
            from: Histogram::lower_bound(index),
            to: (index < 64).then(|| Histogram::lower_bound(index + 1)),
            count: bucket.count,
            bytes: bucket.bytes,
        })
        .collect()
}

fn image(recording: &Recording, process: &nilometer_trace::allocs::Process) -> Process {
    let parent = process.forked_from.and_then(|parent| recording.processes.get(parent as usize));
    Process {
        pid: process.pid,
        parent: parent.map(|parent| parent.pid),
        peak_bytes: process.peak_bytes,
        live_end_bytes: process.live.bytes,
        count: process.total.count,
        lost_events: process.lost_events,
        python: name::python(process.python),
    }
}
