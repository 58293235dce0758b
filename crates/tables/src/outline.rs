//! The first pass: what the whole of a log must tell before its first line can be written.

use std::path::Path;

use nilometer_trace::{
    Ending, Reader,
    record::{EventKind, Header, Mark, MarkKind, Phase, Record, Tick},
};

use crate::{Error, layout::Union};

/// `USER_HZ` of every x86-64 kernel (`include/asm-generic/param.h`), for logs that do not tell.
const USUAL_TICKS_PER_S: u64 = 100;

#[derive(Debug, Default)]
pub(crate) struct Outline {
    pub(crate) union: Union,
    pub(crate) clock: Clock,
    pub(crate) steps: Steps,
    pub(crate) header: Option<Header>,
    pub(crate) started_ns: Option<u64>,
    pub(crate) exited_ns: Option<u64>,
}

impl Outline {
    pub(crate) fn read(run: &Path) -> Result<(Self, Ending), Error> {
        let mut outline = Self::default();
        let ending = Reader::open(run)?.visit(|record| outline.see(record))?;
        outline.steps.marks.sort_by_key(|(at_ns, _)| *at_ns);
        Ok((outline, ending))
    }

    fn see(&mut self, record: &Record) {
        match record {
            Record::Header(header) => {
                self.clock.anchor = Some((header.mono_ns, header.realtime_ns));
                self.header = Some(header.clone());
            }
            Record::Columns(columns) => self.union.add(columns),
            Record::Tick(tick) => self.clock.see(tick),
            Record::Mark(mark) => self.steps.see(mark),
            Record::Event(event) if event.what == EventKind::Started => {
                self.started_ns.get_or_insert(event.at_ns);
            }
            Record::Event(event) if event.what == EventKind::Exited => self.exited_ns = Some(event.at_ns),
            _ => {}
        }
    }

    /// CPU times of process samples.
    pub(crate) fn cpu_s(&self, ticks: u64) -> f64 {
        let per_s = self.header.as_ref().map(|header| header.ticks_per_s).filter(|per_s| *per_s > 0);
        ticks as f64 / per_s.unwrap_or(USUAL_TICKS_PER_S) as f64
    }

    /// The step in which a tick falls; there is none before the start and after the end.
    pub(crate) fn step(&self, tick: &Tick) -> Option<u64> {
        if tick.phase == Phase::During { self.steps.at(tick.at_ns) } else { None }
    }
}

/// Two times for a time of the log.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    /// Monotonic and realtime clock, read together.
    anchor: Option<(u64, u64)>,
    first_system: Option<u64>,
    first_tick: Option<u64>,
}

impl Clock {
    fn see(&mut self, tick: &Tick) {
        self.first_tick.get_or_insert(tick.at_ns);
        if !tick.system.is_empty() {
            self.first_system.get_or_insert(tick.at_ns);
        }
    }

    fn origin_ns(&self) -> u64 {
        let header = self.anchor.map(|(mono_ns, _)| mono_ns);
        self.first_system.or(self.first_tick).or(header).unwrap_or(0)
    }

    /// Since the first sample of the system, as in the Caffe choke test's CSV; what came before it is negative.
    pub(crate) fn seconds(&self, at_ns: u64) -> f64 {
        let origin = self.origin_ns();
        let distance_s = at_ns.abs_diff(origin) as f64 / 1e9;
        if at_ns < origin { -distance_s } else { distance_s }
    }

    /// Nanoseconds since 1970, by the machine's clock at the start of the run: comparable between nodes as far
    /// as their clocks agree, and free of steps that the clock made later.
    pub(crate) fn unix_ns(&self, at_ns: u64) -> i64 {
        let (mono_ns, realtime_ns) = self.anchor.unwrap_or((0, 0));
        let unix_ns = i128::from(realtime_ns) + i128::from(at_ns) - i128::from(mono_ns);
        unix_ns.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }
}

/// Steps by time, not by place: a mark that was told late stands after ticks that belong to it.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    marks: Vec<(u64, u64)>,
    leader: Option<i32>,
}

impl Steps {
    /// Steps are those of the first process that marks any (as in `analysis`); others run beside it.
    fn see(&mut self, mark: &Mark) {
        let MarkKind::Step(number) = mark.what else { return };
        let foreign = mark.pid.is_some_and(|pid| *self.leader.get_or_insert(pid) != pid);
        if !foreign {
            self.marks.push((mark.at_ns, number));
        }
    }

    pub(crate) fn at(&self, at_ns: u64) -> Option<u64> {
        let after = self.marks.partition_point(|(began_ns, _)| *began_ns <= at_ns);
        after.checked_sub(1).map(|index| self.marks[index].1)
    }
}
