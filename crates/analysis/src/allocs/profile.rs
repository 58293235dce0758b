//! Every stack of a recording with all its sums, for exports: of the whole tree, or process by process.

use nilometer_trace::allocs::{Recording, Site as Stored};
use nilometer_trace::symbols::Symbols;

use super::model::{Allocs, Site, What};
use super::{Options, collect_where, whole};

/// What exports write of the allocations of a run.
#[derive(Debug)]
pub struct Profile<'a> {
    recording: &'a Recording,
    symbols: &'a Symbols,
    internals: bool,
    steps: Vec<f64>,
    /// The whole, without sites.
    pub whole: Allocs,
    pub times: Times,
}

/// In nanoseconds of the log's clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    pub started_ns: u64,
    pub peak_ns: u64,
    pub ended_ns: u64,
}

/// A process that allocated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// For [`Profile::each`].
    pub number: u32,
    pub pid: i32,
    pub name: String,
    pub started_ns: u64,
}

impl<'a> Profile<'a> {
    pub fn new(recording: &'a Recording, symbols: &'a Symbols, internals: bool) -> Self {
        let about = &recording.about;
        let steps: Vec<f64> = about.steps.iter().map(|step| step.number as f64).collect();
        let (started_ns, ended_ns) = (about.started_ns, about.ended_ns.max(about.started_ns));
        Self {
            recording,
            symbols,
            internals,
            whole: whole(recording, &Options::default(), &steps),
            steps,
            times: Times { started_ns, peak_ns: about.peak_at_ns.clamp(started_ns, ended_ns), ended_ns },
        }
    }

    /// Every stack, of one process or of all of them.
    pub fn each(&self, of: Option<u32>, mut sink: impl FnMut(&Site)) {
        let keep = |site: &Stored| of.is_none_or(|number| site.process == number);
        let stacked = collect_where(self.recording, self.symbols, self.internals, keep);
        for index in 0..stacked.sums.len() {
            sink(&stacked.site(index, What::Peak, &self.steps));
        }
    }

    /// The processes that have stacks, in the order in which they were seen.
    pub fn parts(&self) -> Vec<Part> {
        let mut numbers: Vec<u32> = self.recording.sites.iter().map(|site| site.process).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let part = |number: u32| {
            let process = self.recording.processes.get(number as usize)?;
            let (name, started_ns) = (process.name.clone(), process.started_ns);
            Some(Part { number, pid: process.pid, name, started_ns })
        };
        numbers.into_iter().filter_map(part).collect()
    }

    /// Live bytes of the tree at steps, where they were kept: when, which step, how many.
    pub fn steps(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.recording.about.steps.iter().map(|step| (step.at_ns, step.number, step.live_bytes))
    }
}
