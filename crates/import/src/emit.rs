//! Our records, with a header before the first and times from the log's own stamps.

use nilometer_trace::FORMAT_VERSION;
use nilometer_trace::record::{
    Column, Columns, Event, EventKind, Header, HeapTable, Mark, MarkKind, Phase, Process, Record, Shares,
    Tick, Unit,
};

use crate::Sink;
use crate::error::Error;
use crate::outline::Outline;
use crate::time::{FIRST_NS, Timeline};

/// The heap of the sampler that wrote the foreign log.
pub(crate) const SAMPLER_HEAP: &str = "import.sampler_heap";

pub(crate) struct Emitter<'a, 's> {
    sink: &'a mut Sink<'s>,
    timeline: Option<Timeline>,
    outline: Outline,
}

impl<'a, 's> Emitter<'a, 's> {
    pub(crate) fn new(sink: &'a mut Sink<'s>) -> Self {
        Self { sink, timeline: None, outline: Outline::default() }
    }

    /// The log time of a wall-clock stamp.
    pub(crate) fn at(&mut self, realtime_ns: u64) -> Result<u64, Error> {
        if self.timeline.is_none() {
            self.header(realtime_ns)?;
        }
        let timeline = self.timeline.get_or_insert_with(|| Timeline::new(realtime_ns));
        let (at_ns, set_back) = timeline.place(realtime_ns);
        if let Some(by_ns) = set_back {
            self.event(at_ns, EventKind::ClockStep { by_ns })?;
        }
        Ok(at_ns)
    }

    fn header(&mut self, realtime_ns: u64) -> Result<(), Error> {
        (self.outline.realtime_ns, self.outline.first_ns) = (realtime_ns, FIRST_NS);
        self.put(&Record::Header(Header {
            format_version: FORMAT_VERSION,
            mono_ns: FIRST_NS,
            realtime_ns,
            // Nothing in a system-wide log is counted in pages or clock ticks; the usual values of x86.
            page_bytes: 4096,
            ticks_per_s: 100,
            // What was asked of the sampler is not in the log.
            interval_ns: 0,
            nilo_pid: 0,
        }))
    }

    pub(crate) fn columns<'n>(
        &mut self,
        columns: impl Iterator<Item = (&'n str, Unit)>,
    ) -> Result<(), Error> {
        let columns = columns.map(|(name, unit)| Column { name: name.into(), unit }).collect();
        self.put(&Record::Columns(Columns { columns }))
    }

    pub(crate) fn tick(&mut self, at_ns: u64, phase: Phase, system: &[u64]) -> Result<(), Error> {
        self.put_tick(Tick { at_ns, phase, tree: None, system: system.to_vec(), processes: Vec::new() })
    }

    pub(crate) fn put_tick(&mut self, tick: Tick) -> Result<(), Error> {
        self.outline.ticks += 1;
        self.put(&Record::Tick(tick))
    }

    pub(crate) fn process(&mut self, process: Process) -> Result<(), Error> {
        self.put(&Record::Process(process))
    }

    pub(crate) fn shares(&mut self, shares: Shares) -> Result<(), Error> {
        self.put(&Record::Shares(shares))
    }

    pub(crate) fn heap_table(&mut self, table: HeapTable) -> Result<(), Error> {
        self.outline.tables += 1;
        self.put(&Record::HeapTable(table))
    }

    pub(crate) fn event(&mut self, at_ns: u64, what: EventKind) -> Result<(), Error> {
        self.put(&Record::Event(Event { at_ns, what }))
    }

    pub(crate) fn phase(&mut self, at_ns: u64, name: String) -> Result<(), Error> {
        self.put(&Record::Mark(Mark { at_ns, error_ns: 0, pid: None, what: MarkKind::Phase(name) }))
    }

    /// The size of the machine, as the first reading tells it.
    pub(crate) fn machine(&mut self, memory_kib: u64, swap_kib: u64) {
        (self.outline.memory_kib, self.outline.swap_kib) = (memory_kib, swap_kib);
    }

    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.outline.notes.push(note.into());
    }

    pub(crate) fn ticks(&self) -> u64 {
        self.outline.ticks
    }

    fn put(&mut self, record: &Record) -> Result<(), Error> {
        Ok((self.sink)(record)?)
    }

    pub(crate) fn finish(mut self) -> Outline {
        self.outline.last_ns = self.timeline.map_or(0, |timeline| timeline.last_ns());
        self.outline
    }
}
