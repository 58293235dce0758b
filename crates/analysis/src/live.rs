//! A run while it goes on: the model that its report would show now, and who grows how fast.
//!
//! Sentences come from the same [`Run`] as the verdict at the end, so that they never differ from it. Rates are slopes
//! over the last seconds, or per step where steps are marked.

use std::collections::{BTreeMap, VecDeque};

use nilometer_trace::Manifest;
use nilometer_trace::record::{Record, Tick};

use crate::allocs::model::Allocs;
use crate::builder::{LogEnding, RunBuilder};
use crate::closing::Judged;
use crate::heap::model::{Growths, KindGrowth, Sum};
use crate::model::{Process, Run};
use crate::stats::{self, XY};
use crate::unit::kib;

/// Rates are of so long ago.
const WINDOW_NS: u64 = 10_000_000_000;
/// Points that are nearer to each other say no more.
const APART_NS: u64 = 500_000_000;
/// A shorter time has no rate.
const LEAST_NS: u64 = 1_000_000_000;

/// What the time of a rate is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Per {
    #[default]
    Second,
    Step,
}

/// How far the recording is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Progress {
    #[default]
    Runs,
    Ended,
    /// Nobody records any more, and no end was told.
    Lost(String),
}

/// One line of a table: a process, a kind of object, a place in the code.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Row {
    /// Of the process itself, where it is one.
    pub pid: Option<i32>,
    pub name: String,
    pub bytes: u64,
    pub peak_bytes: Option<u64>,
    pub count: Option<u64>,
    /// Bytes, per what the table says; absent where it is not known yet.
    pub rate: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    pub per: Per,
    pub rows: Vec<Row>,
    /// What to do to have any.
    pub without: &'static str,
}

/// What is shown of a run that goes on.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    pub run: Run,
    pub progress: Progress,
    /// Of the whole tree, at the last tick: at least, at most.
    pub now_bytes: Option<(u64, u64)>,
    /// Of the whole tree, per second.
    pub rate: Option<f64>,
    pub step: Option<u64>,
    pub processes: Table,
    pub kinds: Table,
    pub sites: Table,
}

/// A process that could be looked at.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Candidate {
    pub pid: i32,
    pub mine: bool,
    pub python: bool,
    pub rss_bytes: u64,
    pub rate: Option<f64>,
    pub lived_s: Option<f64>,
    pub command: String,
}

/// Levels of the last seconds.
#[derive(Debug, Clone, Default)]
pub struct Lately {
    points: VecDeque<(u64, u64)>,
}

impl Lately {
    pub fn push(&mut self, at_ns: u64, bytes: u64) {
        let fresh = self.points.back().is_none_or(|last| at_ns.saturating_sub(last.0) >= APART_NS);
        if fresh {
            self.points.push_back((at_ns, bytes));
        }
        while self.points.front().is_some_and(|first| at_ns.saturating_sub(first.0) > WINDOW_NS) {
            self.points.pop_front();
        }
    }

    /// Bytes per second: the median of all slopes, which a single jump does not move.
    pub fn rate(&self) -> Option<f64> {
        let (first, last) = (self.points.front()?.0, self.points.back()?.0);
        let points: Vec<XY> = self
            .points
            .iter()
            .map(|(at, bytes)| (at.saturating_sub(first) as f64 / 1e9, *bytes as f64))
            .collect();
        (last.saturating_sub(first) >= LEAST_NS).then(|| stats::theil_sen(&points)).flatten()
    }
}

/// The aggregators of a run that goes on. Feed records as they come.
#[derive(Debug)]
pub struct Live {
    builder: RunBuilder,
    /// By the index of a process.
    lately: BTreeMap<u32, Lately>,
    tree_lately: Lately,
    now_bytes: Option<(u64, u64)>,
    indexes: BTreeMap<i32, u32>,
    ended: bool,
    sites: Vec<Row>,
    sites_ns: u64,
    sites_per: Per,
    judged: Judged,
}

impl Live {
    pub fn new(manifest: &Manifest) -> Self {
        let builder = RunBuilder::new(manifest);
        Self {
            judged: builder.judge(),
            builder,
            lately: BTreeMap::new(),
            tree_lately: Lately::default(),
            now_bytes: None,
            indexes: BTreeMap::new(),
            ended: false,
            sites: Vec::new(),
            sites_ns: 0,
            sites_per: Per::Step,
        }
    }

    pub fn push(&mut self, record: &Record) {
        match record {
            Record::Tick(tick) => self.tick(tick),
            Record::Process(process) => drop(self.indexes.insert(process.pid, process.index)),
            Record::ProcessEnd(end) => drop(self.lately.remove(&end.index)),
            Record::End(_) => self.ended = true,
            _ => {}
        }
        self.builder.push(record);
    }

    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// The places that allocated, as they were stored at this time. Their rate is per step where steps were counted, or
    /// told by what was stored before.
    pub fn allocated(&mut self, allocs: &Allocs, at_ns: u64) {
        let stepped = allocs.growth_bytes_per_step.is_some();
        let elapsed_s = at_ns.saturating_sub(self.sites_ns) as f64 / 1e9;
        let before: BTreeMap<&str, u64> =
            self.sites.iter().map(|row| (row.name.as_str(), row.bytes)).collect();
        let rate = |row: &Row| {
            let before = before.get(row.name.as_str()).filter(|_| elapsed_s > 0.0)?;
            Some((row.bytes as f64 - *before as f64) / elapsed_s)
        };
        let told = allocs.rows.iter().map(site);
        let rows =
            if stepped { told.collect() } else { told.map(|row| Row { rate: rate(&row), ..row }).collect() };
        self.sites = rows;
        self.sites_ns = at_ns;
        self.sites_per = if stepped { Per::Step } else { Per::Second };
    }

    fn tick(&mut self, tick: &Tick) {
        for sample in &tick.processes {
            self.lately.entry(sample.index).or_default().push(tick.at_ns, kib(sample.rss_kib()));
        }
        if let Some(tree) = tick.tree {
            let (low, high) = (kib(tree.low_kib), kib(tree.high_kib));
            self.now_bytes = Some((low, high));
            self.tree_lately.push(tick.at_ns, low / 2 + high / 2);
        }
    }

    /// Makes up its mind about trends: of growth, of kinds of objects. Takes milliseconds where there is much to look at;
    /// [`Self::view`] shows what was found last.
    pub fn judge(&mut self) {
        self.judged = self.builder.judge();
    }

    /// What is to be shown now. `lost`: why nobody records any more.
    pub fn view(&self, lost: Option<&str>) -> View {
        let (progress, ending) = match lost {
            _ if self.ended => (Progress::Ended, LogEnding::Clean),
            Some(why) => (Progress::Lost(why.to_owned()), LogEnding::Cut { at_ns: 0, why: why.to_owned() }),
            None => (Progress::Runs, LogEnding::Running),
        };
        let run = self.builder.model(ending, self.judged.clone());
        View {
            progress,
            now_bytes: self.now_bytes,
            rate: self.tree_lately.rate(),
            step: self.builder.steps.step(),
            processes: self.processes(&run),
            kinds: kinds(run.heap.as_ref()),
            sites: Table {
                per: self.sites_per, rows: self.sites.clone(), without: "nilo run --allocs -- …"
            },
            run,
        }
    }

    /// Those that are alive; after the end, all.
    fn processes(&self, run: &Run) -> Table {
        let stepped = run.processes.iter().any(|process| process.growth_per_step_bytes.is_some());
        let per = if stepped { Per::Step } else { Per::Second };
        let shown = run.processes.iter().filter(|process| self.ended || process.end_s.is_none());
        let rate = |process: &Process| match per {
            Per::Step => process.growth_per_step_bytes,
            Per::Second => self.lately.get(self.indexes.get(&process.pid)?)?.rate(),
        };
        let row = |process: &Process| Row {
            pid: Some(process.pid),
            name: format!("{}: {}", process.role, process.command),
            bytes: process.rss_end_bytes,
            peak_bytes: process.hwm_bytes,
            count: None,
            rate: rate(process),
        };
        Table { per, rows: shown.map(row).collect(), without: "no process is there" }
    }
}

/// Growth per step is what the recorder of allocations knows of a place.
fn site(row: &crate::allocs::model::Row) -> Row {
    let detail = row.detail.as_deref().map(|detail| format!("  {detail}")).unwrap_or_default();
    Row {
        pid: None,
        name: format!("{}{detail}", row.name),
        bytes: row.amounts.live_end_bytes,
        peak_bytes: Some(row.amounts.peak_bytes),
        count: Some(row.amounts.live_end_count),
        rate: row.amounts.growth_bytes_per_step,
    }
}

/// Kinds of objects by the tables of the heap: the slope over all of them.
fn kinds(growths: Option<&Growths>) -> Table {
    let without = "nilo run --heap -- …";
    let Some(growths) = growths else { return Table { without, ..Table::default() } };
    let stepped = growths.kinds.iter().any(|kind| kind.growth.per == crate::model::GrowthUnit::Step);
    let span_s = growths.last_s - growths.first_s;
    let total = |sum: &Sum| sum.bytes.saturating_add(sum.payload_bytes);
    let rate = |kind: &KindGrowth| match kind.growth.bytes {
        Some(bytes) if stepped => Some(bytes),
        Some(bytes) => Some(bytes / 60.0),
        None if stepped || span_s <= 0.0 => None,
        None => Some((total(&kind.last) as f64 - total(&kind.first) as f64) / span_s),
    };
    let row = |kind: &KindGrowth| Row {
        pid: None,
        name: kind.kind.clone(),
        bytes: total(&kind.last),
        peak_bytes: Some(total(&kind.max)),
        count: Some(kind.last.count),
        rate: rate(kind),
    };
    let per = if stepped { Per::Step } else { Per::Second };
    Table { per, rows: growths.kinds.iter().map(row).collect(), without }
}

#[cfg(test)]
mod tests {
    use nilometer_trace::record::{Bounds, Cost, End, Phase, Process, ProcessEnd, ProcessSample, Role};

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn process(index: u32) -> Record {
        Record::Process(Process {
            index,
            pid: 100 + index as i32,
            parent_pid: 1,
            parent: None,
            start_ticks: 0,
            seen_ns: 0,
            comm: "python3".into(),
            command: "python3 train.py".into(),
            role: Role { name: "main".into(), evidence: String::new() },
        })
    }

    /// The first process grows by a MiB a second, the second one stays as it is.
    fn tick(second: u64) -> Record {
        let sample =
            |index, anon_kib| ProcessSample { index, anon_kib, hwm_kib: anon_kib, ..Default::default() };
        let first_kib = (10 + second) * 1024;
        Record::Tick(Tick {
            at_ns: second * SECOND,
            phase: Phase::During,
            tree: Some(Bounds { low_kib: first_kib, high_kib: first_kib + 5 * 1024 }),
            system: Vec::new(),
            processes: vec![sample(0, first_kib), sample(1, 5 * 1024)],
        })
    }

    #[test]
    fn who_grows_is_told_with_how_fast() {
        let mut live = Live::new(&crate::tests::manifest());
        live.push(&process(0));
        live.push(&process(1));
        for second in 1..=20 {
            live.push(&tick(second));
        }
        live.judge();
        let view = live.view(None);
        assert_eq!((view.progress, view.rate), (Progress::Runs, Some(1_048_576.0)));
        assert_eq!(view.now_bytes, Some((30 << 20, 35 << 20)));
        let rates: Vec<_> = view.processes.rows.iter().map(|row| (row.pid, row.bytes, row.rate)).collect();
        assert_eq!(rates, [(Some(100), 30 << 20, Some(1_048_576.0)), (Some(101), 5 << 20, Some(0.0))]);
        assert!(view.run.exit.evidence.is_empty(), "it has not ended");
        assert!(
            !view.run.quality.iter().any(|doubt| doubt.contains("the data ends")),
            "{:?}",
            view.run.quality
        );
    }

    #[test]
    fn what_has_ended_is_no_longer_listed_until_all_has() {
        let mut live = Live::new(&crate::tests::manifest());
        live.push(&process(0));
        live.push(&process(1));
        for second in 1..=3 {
            live.push(&tick(second));
        }
        live.push(&Record::ProcessEnd(ProcessEnd {
            index: 1,
            at_ns: 4 * SECOND,
            waited: None,
            hwm_kib: 5 * 1024,
        }));
        assert_eq!(live.view(None).processes.rows.len(), 1);
        assert_eq!(live.view(Some("gone")).progress, Progress::Lost("gone".into()));
        let end = End {
            at_ns: 5 * SECOND,
            exit: None,
            cost: Cost::default(),
            ticks: 3,
            missed_ticks: 0,
            cgroup_peak_bytes: None,
        };
        live.push(&Record::End(end));
        let view = live.view(Some("gone"));
        assert_eq!((view.progress, view.processes.rows.len()), (Progress::Ended, 2));
    }

    #[test]
    fn a_rate_needs_a_second_and_forgets_what_is_long_ago() {
        let mut lately = Lately::default();
        lately.push(0, 0);
        lately.push(900_000_000, 900);
        assert_eq!(lately.rate(), None, "too short");
        for second in 1..=30_u64 {
            // A thousand a second, and from the tenth on nothing.
            lately.push(second * 1_000_000_000, second.min(10) * 1_000);
        }
        assert_eq!(lately.rate(), Some(0.0));
        assert!(lately.points.len() <= 11);
        for second in 31..=45_u64 {
            lately.push(second * 1_000_000_000, 10_000 + (second - 30) * 500);
        }
        assert_eq!(lately.rate(), Some(500.0));
    }

    #[test]
    fn a_place_grows_by_what_was_stored_before() {
        let row = |name: &str, bytes| crate::allocs::model::Row {
            name: name.into(),
            amounts: crate::allocs::model::Amounts { live_end_bytes: bytes, ..Default::default() },
            ..Default::default()
        };
        let stored = |bytes| Allocs { rows: vec![row("a.py:3", bytes)], ..Allocs::default() };
        let mut live = Live::new(&crate::tests::manifest());
        live.allocated(&stored(1_000), 5_000_000_000);
        assert_eq!(live.sites[0].rate, None, "once is no rate");
        live.allocated(&stored(5_000), 7_000_000_000);
        assert_eq!((live.sites[0].rate, live.sites_per), (Some(2_000.0), Per::Second));
    }

    #[test]
    fn absurd_times_are_no_rate() {
        let mut lately = Lately::default();
        for at in [u64::MAX, 0, 5, u64::MAX] {
            lately.push(at, at);
        }
        assert!(lately.rate().is_none_or(f64::is_finite));
    }
}
