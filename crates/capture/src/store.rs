//! Where the records of a recording go: to the log of a run directory, or to somebody who looks at them now.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use nilometer_trace::TickRef;
use nilometer_trace::log::LogWriter;
use nilometer_trace::record::{End, Record, Tick};

/// Takes records in their order. What cannot be kept is counted, and told in the report.
pub trait Store: fmt::Debug + Send {
    fn append(&mut self, record: &Record);
    fn tick(&mut self, tick: TickRef<'_>);
    /// What the ceiling of a recording is about.
    fn log_bytes(&self) -> u64;
    fn written_bytes(&self) -> u64;
    fn finish(self: Box<Self>, end: End);
}

impl Store for LogWriter {
    fn append(&mut self, record: &Record) {
        let _ = LogWriter::append(self, record);
    }

    fn tick(&mut self, tick: TickRef<'_>) {
        let _ = LogWriter::tick(self, tick);
    }

    fn log_bytes(&self) -> u64 {
        LogWriter::log_bytes(self)
    }

    fn written_bytes(&self) -> u64 {
        LogWriter::written_bytes(self)
    }

    fn finish(self: Box<Self>, end: End) {
        let _ = LogWriter::finish(*self, end);
    }
}

/// Records that wait to be looked at; nothing is written.
#[derive(Debug, Clone, Default)]
pub(crate) struct Waiting(Arc<Mutex<Vec<Record>>>);

impl Waiting {
    pub fn take(&self) -> Vec<Record> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn push(&self, record: Record) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(record);
    }
}

impl Store for Waiting {
    fn append(&mut self, record: &Record) {
        self.push(record.clone());
    }

    fn tick(&mut self, tick: TickRef<'_>) {
        let TickRef { at_ns, phase, tree, system, processes, .. } = tick;
        let (system, processes) = (system.to_vec(), processes.to_vec());
        self.push(Record::Tick(Tick { at_ns, phase, tree, system, processes }));
    }

    fn log_bytes(&self) -> u64 {
        0
    }

    fn written_bytes(&self) -> u64 {
        0
    }

    fn finish(self: Box<Self>, end: End) {
        self.push(Record::End(end));
    }
}
