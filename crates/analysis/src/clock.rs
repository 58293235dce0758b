//! Log times to seconds of the run. Zero is the start of the target; the look before it is negative.

/// All in nanoseconds of the log's clock.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clock {
    header: Option<u64>,
    started: Option<u64>,
    exited: Option<u64>,
    first_during: Option<u64>,
    last_during: Option<u64>,
    first: Option<u64>,
    last: u64,
}

impl Clock {
    pub(crate) fn header(&mut self, at_ns: u64) {
        self.header = Some(at_ns);
    }

    pub(crate) fn started(&mut self, at_ns: u64) {
        self.started.get_or_insert(at_ns);
    }

    pub(crate) fn exited(&mut self, at_ns: u64) {
        self.exited = Some(at_ns);
    }

    /// Any time stamp of the log.
    pub(crate) fn saw(&mut self, at_ns: u64) {
        self.first.get_or_insert(at_ns);
        self.last = self.last.max(at_ns);
    }

    pub(crate) fn during(&mut self, at_ns: u64) {
        self.first_during.get_or_insert(at_ns);
        self.last_during = Some(at_ns);
    }

    pub(crate) fn origin_ns(&self) -> u64 {
        self.started.or(self.first_during).or(self.header).or(self.first).unwrap_or(0)
    }

    pub(crate) fn seconds(&self, at_ns: u64) -> f64 {
        let origin = self.origin_ns();
        if at_ns >= origin { (at_ns - origin) as f64 / 1e9 } else { -((origin - at_ns) as f64 / 1e9) }
    }

    /// End of the target: its exit, or the last sign of it.
    pub(crate) fn end_ns(&self) -> u64 {
        self.exited.or(self.last_during).unwrap_or(self.last)
    }

    pub(crate) fn duration_s(&self) -> f64 {
        self.seconds(self.end_ns()).max(0.0)
    }

    pub(crate) fn before_s(&self) -> f64 {
        (-self.seconds(self.first.unwrap_or(self.origin_ns()))).max(0.0)
    }

    pub(crate) fn after_s(&self) -> f64 {
        (self.seconds(self.last) - self.duration_s()).max(0.0)
    }

    pub(crate) fn last_ns(&self) -> u64 {
        self.last
    }
}
