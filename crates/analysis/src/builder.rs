//! Records of one run in, its model out.

use nilometer_trace::Manifest;
use nilometer_trace::record::{self, EventKind, Phase, Record, Tick};

use crate::bounded::Thinned;
use crate::cadence::Cadence;
use crate::cause::CauseFinder;
use crate::clock::Clock;
use crate::closing::{Closing, Judged};
use crate::column::Layout;
use crate::curve::Curves;
use crate::event::EventLog;
use crate::heap::growth::HeapWatch;
use crate::ledger::run::LedgerFinder;
use crate::limit::LimitFinder;
use crate::made_of::Composition;
use crate::model::Run;
use crate::peak::{Moment, PeakFinder};
use crate::process::{ProcessTable, Together};
use crate::rank::RankBuilder;
use crate::repeat::RepeatWatch;
use crate::step::StepTracker;
use crate::system::SystemWatch;
use crate::unit::kib;

/// How the log ends, as its reader found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogEnding {
    Clean,
    /// It has not: the run goes on.
    Running,
    Cut {
        at_ns: u64,
        why: String,
    },
}

/// The aggregators of one run. Feed all records in the order of the log, then [`finish`](Self::finish).
#[derive(Debug)]
pub struct RunBuilder {
    pub(crate) manifest: Manifest,
    pub(crate) clock: Clock,
    pub(crate) ticks_per_s: u64,
    pub(crate) layout: Layout,
    pub(crate) cadence: Cadence,
    pub(crate) processes: ProcessTable,
    pub(crate) peak: PeakFinder,
    pub(crate) steps: StepTracker,
    pub(crate) limits: LimitFinder,
    pub(crate) system: SystemWatch,
    pub(crate) repeats: RepeatWatch,
    pub(crate) cause: CauseFinder,
    pub(crate) composition: Composition,
    pub(crate) heap: HeapWatch,
    pub(crate) ledgers: LedgerFinder,
    pub(crate) ranks: RankBuilder,
    pub(crate) curves: Curves,
    pub(crate) events: EventLog,
    /// Levels over time: nanoseconds and bytes.
    pub(crate) levels: Thinned<(u64, u64)>,
    pub(crate) end: Option<record::End>,
    pub(crate) target_exit: Option<record::Exit>,
}

impl RunBuilder {
    pub fn new(manifest: &Manifest) -> Self {
        Self {
            clock: Clock::default(),
            ticks_per_s: 100,
            layout: Layout::default(),
            cadence: Cadence::new(manifest.options.interval_ms),
            processes: ProcessTable::new(manifest.verb == "attach"),
            peak: PeakFinder::default(),
            steps: StepTracker::new(),
            limits: LimitFinder::new(manifest),
            system: SystemWatch::new(),
            repeats: RepeatWatch::default(),
            cause: CauseFinder::default(),
            composition: Composition::default(),
            heap: HeapWatch::default(),
            ledgers: LedgerFinder::default(),
            ranks: RankBuilder::default(),
            curves: Curves::new(),
            events: EventLog::new(),
            levels: Thinned::new(4_096),
            end: None,
            target_exit: None,
            manifest: manifest.clone(),
        }
    }

    pub fn push(&mut self, record: &Record) {
        self.ranks.push(record);
        match record {
            Record::Tick(tick) => self.tick(tick),
            Record::Header(header) => self.header(header),
            Record::Columns(columns) => self.layout = Layout::new(columns),
            Record::Process(process) => self.processes.begin(process),
            Record::ProcessUpdate(update) => self.processes.update(update),
            Record::ProcessEnd(end) => self.process_end(end),
            Record::Shares(shares) => self.processes.shares(shares),
            Record::Kinds(kinds) => self.composition.push(kinds, self.peak.at_ns()),
            Record::Mark(mark) => self.mark(mark),
            Record::Event(event) => self.event(event),
            Record::End(end) => self.end(end),
            Record::HeapTable(table) => self.heap.push(table, self.steps.step()),
            Record::Ledger(taken) => self.ledgers.push(taken),
        }
    }

    fn header(&mut self, header: &record::Header) {
        self.clock.header(header.mono_ns);
        self.ticks_per_s = header.ticks_per_s.max(1);
    }

    /// The frequent record: no allocation here unless a series grows.
    pub fn tick(&mut self, tick: &Tick) {
        self.clock.saw(tick.at_ns);
        if let Some(view) = self.layout.view(tick) {
            self.system.tick(tick.at_ns, tick.phase, &view);
            self.repeats.tick(tick.phase, &view);
            self.cause.tick(tick.phase, &view);
            self.curves.system(tick.at_ns, &view);
            if tick.phase == Phase::During {
                self.limits.tick(tick.at_ns, &view);
            }
        } else {
            self.limits.silent_tick(tick.at_ns);
        }
        if tick.phase == Phase::During {
            self.during(tick);
        }
    }

    fn during(&mut self, tick: &Tick) {
        self.clock.during(tick.at_ns);
        self.cadence.during(tick.at_ns);
        let together = self.processes.tick(tick);
        if tick.processes.is_empty() && tick.tree.is_none() {
            return;
        }
        let moment = self.moment(tick, together);
        self.levels.push((tick.at_ns, moment.mid()));
        self.peak.tick(moment);
        self.steps.tick(&moment);
        self.curves.tree(tick.at_ns, moment.low, moment.high, together.sums);
    }

    /// Without bounds of the recorder: the largest process <= tree <= the sum of all.
    fn moment(&self, tick: &Tick, together: Together) -> Moment {
        let told = tick.tree.map(|tree| (kib(tree.low_kib), kib(tree.high_kib)));
        let (low, high) = told.unwrap_or((together.largest_rss, together.sum_rss));
        Moment { at_ns: tick.at_ns, low, high: high.max(low), step: self.steps.step(), together }
    }

    fn process_end(&mut self, end: &record::ProcessEnd) {
        self.clock.saw(end.at_ns);
        if let Some(ended) = self.processes.end(end) {
            if let Some(rise) = ended.rise {
                self.peak.end(end.at_ns, rise, self.steps.step());
            }
            self.steps.ended(end.at_ns, ended);
        }
        if self.processes.nobody_lives() {
            self.steps.nobody_left();
        }
        self.note_target_exit(end);
        if self.processes.tidy() {
            self.composition.tidy(self.processes.all(), self.peak.at_ns());
        }
    }

    fn note_target_exit(&mut self, end: &record::ProcessEnd) {
        let is_target = self.processes.last_ended_pid() == Some(self.manifest.target_pid);
        if let Some(waited) = end.waited.filter(|_| is_target) {
            let (code, signal) = (waited.code, waited.signal);
            self.target_exit =
                Some(record::Exit { code, signal, core_dumped: false, ended_by: None, enough: None });
        }
    }

    fn mark(&mut self, mark: &record::Mark) {
        if let Some(x) = self.steps.mark(mark) {
            self.processes.level(x);
        }
    }

    fn event(&mut self, event: &record::Event) {
        match &event.what {
            EventKind::Started => self.clock.started(event.at_ns),
            EventKind::Exited => self.clock.exited(event.at_ns),
            EventKind::PeaksReset { step } => self.steps.peaks_reset(*step),
            EventKind::Repeats { runs, span_ns } => self.repeats.told(*runs, *span_ns),
            EventKind::Remains { what, bytes, .. } => self.system.remains(what, *bytes),
            EventKind::Unsampled { processes, user_us, system_us, minor_faults, maxrss_kib } => {
                let cpu_us = user_us.saturating_add(*system_us);
                self.processes.orphans(event.at_ns, *processes, cpu_us, *minor_faults, kib(*maxrss_kib));
            }
            _ => {}
        }
        self.clock.saw(event.at_ns);
        self.events.push(event, &self.processes);
    }

    fn end(&mut self, end: &record::End) {
        self.clock.saw(end.at_ns);
        // A recording of what already ran lasts until it stops looking.
        if matches!(self.manifest.verb.as_str(), "attach" | "record") {
            self.clock.exited(end.at_ns);
        }
        self.end = Some(end.clone());
    }

    /// Closes all aggregators.
    pub fn finish(self, ending: LogEnding) -> Run {
        let closing = Closing::of(&self, ending);
        closing.run(closing.judge())
    }

    /// The trends of what was seen so far.
    pub(crate) fn judge(&self) -> Judged {
        Closing::of(self, LogEnding::Running).judge()
    }

    /// The model of what was seen so far; the records that follow may still be pushed.
    pub(crate) fn model(&self, ending: LogEnding, judged: Judged) -> Run {
        Closing::of(self, ending).run(judged)
    }
}
