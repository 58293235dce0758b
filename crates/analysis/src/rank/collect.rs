//! Ranks from one recording of the whole tree: a launcher and what it started. A process is of a rank when its variables
//! said so, or when its parent is. Marks count for the rank of the process that wrote them, or for all.

use std::collections::BTreeMap;

use nilometer_trace::record::{EventKind, Mark, MarkKind, Phase, Record, Tick};

use super::{Ranked, strip};
use crate::bounded::Thinned;
use crate::clock::Clock;
use crate::growth::{self, Axis, Trend};
use crate::model::{GrowthClass, GrowthUnit};
use crate::stats::XY;
use crate::unit::kib;

const LEVELS: usize = 2_048;
/// More ranks than this do not run on one machine.
const RANKS: usize = 4_096;
/// Shorter recordings get no verdict over time.
const LEAST_SPAN_S: f64 = 5.0;
const LEAST_LEVELS: usize = 30;
const ROLE: &str = "rank ";

#[derive(Debug)]
struct Seen {
    levels: Thinned<(u64, u64)>,
    steps: Thinned<XY>,
    marked: u64,
    step: Option<u64>,
    level: u64,
    peak: u64,
    /// Its first process: how that ended is how the rank ended.
    first: u32,
    ended: Option<(u64, Option<i32>, Option<i32>)>,
    began_ns: u64,
    last_ns: u64,
}

/// Feed all records in the order of the log.
#[derive(Debug, Default)]
pub struct RankBuilder {
    clock: Clock,
    /// Rank of each process, by its index.
    of: BTreeMap<u32, u64>,
    pids: BTreeMap<i32, u32>,
    ranks: BTreeMap<u64, Seen>,
}

impl RankBuilder {
    pub fn push(&mut self, record: &Record) {
        match record {
            Record::Header(header) => self.clock.header(header.mono_ns),
            Record::Process(it) => {
                self.pids.insert(it.pid, it.index);
                let inherited = it.parent.and_then(|parent| self.of.get(&parent).copied());
                self.belongs(it.index, told(&it.role.name).or(inherited), it.seen_ns);
            }
            Record::ProcessUpdate(it) => self.belongs(it.index, told(&it.role.name), it.at_ns),
            Record::ProcessEnd(it) => {
                let rank = self.of.get(&it.index).and_then(|rank| self.ranks.get_mut(rank));
                if let Some(rank) = rank.filter(|rank| rank.first == it.index) {
                    let waited = it.waited;
                    rank.ended = Some((it.at_ns, waited.and_then(|w| w.code), waited.and_then(|w| w.signal)));
                    rank.peak = rank.peak.max(kib(it.hwm_kib));
                }
            }
            Record::Mark(mark) => self.mark(mark),
            Record::Tick(tick) => self.tick(tick),
            Record::Event(event) if event.what == EventKind::Started => self.clock.started(event.at_ns),
            _ => {}
        }
    }

    fn belongs(&mut self, index: u32, rank: Option<u64>, now_ns: u64) {
        let Some(rank) = rank else { return };
        self.of.insert(index, rank);
        if self.ranks.len() < RANKS || self.ranks.contains_key(&rank) {
            self.ranks.entry(rank).or_insert_with(|| Seen::new(index, now_ns));
        }
    }

    fn mark(&mut self, mark: &Mark) {
        let MarkKind::Step(step) = mark.what else { return };
        let of = mark.pid.and_then(|pid| self.of.get(self.pids.get(&pid)?).copied());
        match of {
            Some(rank) => self.ranks.get_mut(&rank).into_iter().for_each(|seen| seen.mark(step)),
            None => self.ranks.values_mut().for_each(|seen| seen.mark(step)),
        }
    }

    fn tick(&mut self, tick: &Tick) {
        self.clock.saw(tick.at_ns);
        if tick.phase != Phase::During || self.ranks.is_empty() {
            return;
        }
        self.clock.during(tick.at_ns);
        let mut sums: BTreeMap<u64, (u64, u64, usize)> = BTreeMap::new();
        for sample in &tick.processes {
            if let Some(rank) = self.of.get(&sample.index) {
                let sum = sums.entry(*rank).or_default();
                sum.0 = sum.0.saturating_add(kib(sample.rss_kib()));
                sum.1 = sum.1.max(kib(sample.hwm_kib));
                sum.2 += 1;
            }
        }
        for (rank, (rss, hwm, processes)) in sums {
            let Some(seen) = self.ranks.get_mut(&rank) else { continue };
            seen.level = rss;
            seen.last_ns = tick.at_ns;
            // Of one process the kernel knows the peak; of several the sum of an instant is the most that can be told.
            seen.peak = seen.peak.max(rss).max(if processes == 1 { hwm } else { 0 });
            seen.levels.push((tick.at_ns, rss));
        }
    }

    /// One row a rank; nothing where no process had one. `slack` is how far a counter may be off.
    pub fn finish(&self, node: &str, slack: f64) -> Vec<Ranked> {
        self.ranks.iter().map(|(rank, seen)| self.row(*rank, seen, node, slack)).collect()
    }

    fn row(&self, rank: u64, seen: &Seen, node: &str, slack: f64) -> Ranked {
        let end_ns = seen.ended.map_or(seen.last_ns, |ended| ended.0);
        let (end, good) = match seen.ended {
            Some((_, Some(code), _)) => (format!("exit {code}"), code == 0),
            Some((_, None, Some(signal))) => (format!("signal {signal}"), false),
            // Its launcher waited for it, not we.
            Some((_, None, None)) => ("ended".to_owned(), true),
            None => ("no end yet".to_owned(), true),
        };
        Ranked {
            rank,
            node: node.to_owned(),
            restart: 0,
            peak_bytes: (seen.peak > 0).then_some(seen.peak),
            growth: self.growth(seen, slack),
            steps: seen.marked,
            duration_s: end_ns.saturating_sub(seen.began_ns) as f64 / 1e9,
            end,
            good,
            saved: None,
            course: strip::thinned(&seen.course()),
        }
    }

    fn growth(&self, seen: &Seen, slack: f64) -> crate::model::Growth {
        let steps = seen.steps.items();
        if steps.len() >= growth::LEAST_POINTS {
            let last_x = steps.last().map_or(0.0, |point| point.0);
            let axis = Axis { per: GrowthUnit::Step, numbered: true, last_x };
            return growth::model(&growth::trend_of_memory(steps, slack), axis, None);
        }
        let points: Vec<XY> =
            seen.levels.items().iter().map(|(at, bytes)| (self.clock.seconds(*at), *bytes as f64)).collect();
        let span_s = points.last().map_or(0.0, |last| last.0 - points.first().map_or(0.0, |first| first.0));
        let axis = Axis { per: GrowthUnit::Minute, numbered: false, last_x: span_s };
        let trend = if points.len() >= LEAST_LEVELS && span_s >= LEAST_SPAN_S {
            growth::trend_of_memory(&points, slack)
        } else {
            too_short(points.len(), span_s)
        };
        growth::model(&trend, axis, None)
    }
}

fn too_short(points: usize, span_s: f64) -> Trend {
    Trend {
        reason: format!("only {points} samples in {span_s:.1} s and no steps"),
        class: GrowthClass::CannotTell,
        slope: None,
        since_x: 0.0,
        points,
        end_level: 0.0,
    }
}

impl Seen {
    fn new(first: u32, began_ns: u64) -> Self {
        Self {
            levels: Thinned::new(LEVELS),
            steps: Thinned::new(LEVELS),
            marked: 0,
            step: None,
            level: 0,
            peak: 0,
            first,
            ended: None,
            began_ns,
            last_ns: began_ns,
        }
    }

    fn course(&self) -> Vec<(f64, u64)> {
        let since = |at_ns: u64| at_ns.saturating_sub(self.began_ns) as f64 / 1e9;
        self.levels.items().iter().map(|(at_ns, bytes)| (since(*at_ns), *bytes)).collect()
    }

    /// A step ends where the next begins: what the rank has then is its level.
    fn mark(&mut self, step: u64) {
        if let Some(before) = self.step.replace(step)
            && before < step
            && self.level > 0
        {
            self.steps.push((before as f64, self.level as f64));
        }
        self.marked += 1;
    }
}

fn told(role: &str) -> Option<u64> {
    role.strip_prefix(ROLE)?.parse().ok()
}
