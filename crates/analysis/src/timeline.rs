//! A run as a stream, for exports that show every sample: records in, one item after the other out.
//!
//! Holds what is needed to read the next record (names of columns, pids) and nothing of the past, so memory does not grow
//! with the run. The one invariant: items come in the order of the log; a mark that was told late comes after samples
//! that followed it, with its own time.

use nilometer_trace::record::{EventKind, Mark, MarkKind, Phase, ProcessSample, Record, Shares, Tick};
use rustc_hash::FxHashMap;

use crate::clock::Clock;
use crate::column::Layout;
use crate::unit::kib;

/// Where times begin.
#[derive(Debug, Default)]
pub struct Origin {
    clock: Clock,
    /// Monotonic and realtime clock, read together.
    pub mono_ns: u64,
    pub realtime_ns: u64,
}

impl Origin {
    /// All records, before the first time is asked for.
    pub fn see(&mut self, record: &Record) {
        match record {
            Record::Header(header) => {
                self.clock.header(header.mono_ns);
                (self.mono_ns, self.realtime_ns) = (header.mono_ns, header.realtime_ns);
            }
            Record::Event(event) if event.what == EventKind::Started => self.clock.started(event.at_ns),
            Record::Tick(tick) => {
                self.clock.saw(tick.at_ns);
                if tick.phase == Phase::During {
                    self.clock.during(tick.at_ns);
                }
            }
            _ => {}
        }
    }

    /// Seconds of a model to the log's clock.
    pub fn at_ns(&self, at_s: f64) -> u64 {
        let distance_ns = (at_s.abs() * 1e9).round() as u64;
        let origin_ns = self.clock.origin_ns();
        if at_s < 0.0 { origin_ns.saturating_sub(distance_ns) } else { origin_ns.saturating_add(distance_ns) }
    }

    pub fn seconds(&self, at_ns: u64) -> f64 {
        self.clock.seconds(at_ns)
    }

    /// Seconds since 1970, by the machine's clock at the start of the run.
    pub fn unix_s(&self, at_ns: u64) -> f64 {
        let unix_ns = i128::from(self.realtime_ns) + i128::from(at_ns) - i128::from(self.mono_ns);
        unix_ns as f64 / 1e9
    }
}

/// What the log says next. Times are those of its clock.
#[derive(Debug, Clone, PartialEq)]
pub enum Item<'a> {
    /// Told again when it changed its program.
    Process {
        at_ns: u64,
        pid: i32,
        parent: i32,
        name: &'a str,
        command: &'a str,
    },
    Moment(Moment<'a>),
    Shares {
        at_ns: u64,
        shares: Shared,
    },
    Step {
        at_ns: u64,
        number: u64,
    },
    Phase {
        at_ns: u64,
        name: &'a str,
    },
    Note {
        at_ns: u64,
        text: &'a str,
    },
    /// The target ended.
    Exited {
        at_ns: u64,
    },
}

/// One look at the tree and the machine; what was not looked at is absent.
#[derive(Debug, Clone, PartialEq)]
pub struct Moment<'a> {
    pub at_ns: u64,
    /// The tree's memory lies between the two.
    pub tree_bytes: Option<(u64, u64)>,
    pub available_bytes: Option<u64>,
    pub swap_used_bytes: Option<u64>,
    /// Of the target's own cgroup.
    pub cgroup_bytes: Option<u64>,
    pub processes: &'a [Resident],
}

/// The fast counters of a process, as the kernel gives them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Resident {
    pub pid: i32,
    pub anon_kib: u64,
    pub file_kib: u64,
    pub shmem_kib: u64,
    pub swap_kib: u64,
    pub hwm_kib: u64,
}

impl Resident {
    pub fn rss_kib(&self) -> u64 {
        self.anon_kib.saturating_add(self.file_kib).saturating_add(self.shmem_kib)
    }
}

/// What a page-table walk said of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shared {
    pub pid: i32,
    pub rss_kib: u64,
    pub pss_kib: u64,
    pub pss_anon_kib: u64,
    pub pss_file_kib: u64,
    pub pss_shmem_kib: u64,
    pub swap_pss_kib: u64,
}

/// Feed all records in the order of the log.
#[derive(Debug, Default)]
pub struct Timeline {
    layout: Layout,
    /// Pids of processes and of their parents.
    pids: FxHashMap<u32, (i32, i32)>,
    /// Steps are those of the first process that marks any.
    leader: Option<i32>,
    processes: Vec<Resident>,
}

impl Timeline {
    pub fn see(&mut self, record: &Record, sink: &mut dyn FnMut(Item<'_>)) {
        match record {
            Record::Columns(columns) => self.layout = Layout::new(columns),
            Record::Process(it) => {
                self.pids.insert(it.index, (it.pid, it.parent_pid));
                sink(Item::Process {
                    at_ns: it.seen_ns,
                    pid: it.pid,
                    parent: it.parent_pid,
                    name: &it.role.name,
                    command: &it.command,
                });
            }
            Record::ProcessUpdate(it) => {
                if let Some(&(pid, parent)) = self.pids.get(&it.index) {
                    let (name, command) = (it.role.name.as_str(), it.command.as_str());
                    sink(Item::Process { at_ns: it.at_ns, pid, parent, name, command });
                }
            }
            Record::ProcessEnd(it) => drop(self.pids.remove(&it.index)),
            Record::Tick(tick) => self.moment(tick, sink),
            Record::Shares(it) => {
                if let Some(&(pid, _)) = self.pids.get(&it.index) {
                    sink(Item::Shares { at_ns: it.at_ns, shares: shared(pid, it) });
                }
            }
            Record::Mark(mark) => self.mark(mark, sink),
            Record::Event(event) if event.what == EventKind::Exited => {
                sink(Item::Exited { at_ns: event.at_ns });
            }
            _ => {}
        }
    }

    fn moment(&mut self, tick: &Tick, sink: &mut dyn FnMut(Item<'_>)) {
        let Self { layout, pids, processes, .. } = self;
        processes.clear();
        processes.extend(tick.processes.iter().filter_map(|it| Some(resident(pids.get(&it.index)?.0, it))));
        let view = layout.view(tick);
        sink(Item::Moment(Moment {
            at_ns: tick.at_ns,
            tree_bytes: tick.tree.map(|tree| (kib(tree.low_kib), kib(tree.high_kib))),
            available_bytes: view.and_then(|view| view.available()),
            swap_used_bytes: view.and_then(|view| view.swap_used()),
            cgroup_bytes: view.and_then(|view| view.groups().next()).and_then(|group| group.usage),
            processes,
        }));
    }

    fn mark(&mut self, mark: &Mark, sink: &mut dyn FnMut(Item<'_>)) {
        let at_ns = mark.at_ns;
        match &mark.what {
            MarkKind::Step(number) => {
                let foreign = mark.pid.is_some_and(|pid| *self.leader.get_or_insert(pid) != pid);
                if !foreign {
                    sink(Item::Step { at_ns, number: *number });
                }
            }
            MarkKind::Phase(name) => sink(Item::Phase { at_ns, name }),
            MarkKind::Note(text) => sink(Item::Note { at_ns, text }),
        }
    }
}

fn resident(pid: i32, it: &ProcessSample) -> Resident {
    Resident {
        pid,
        anon_kib: it.anon_kib,
        file_kib: it.file_kib,
        shmem_kib: it.shmem_kib,
        swap_kib: it.swap_kib,
        hwm_kib: it.hwm_kib,
    }
}

fn shared(pid: i32, it: &Shares) -> Shared {
    Shared {
        pid,
        rss_kib: it.rss_kib,
        pss_kib: it.pss_kib,
        pss_anon_kib: it.pss_anon_kib,
        pss_file_kib: it.pss_file_kib,
        pss_shmem_kib: it.pss_shmem_kib,
        swap_pss_kib: it.swap_pss_kib,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilometer_trace::record::{Bounds, Event, Header, Process, Role};

    fn process(index: u32, pid: i32) -> Record {
        Record::Process(Process {
            index,
            pid,
            parent_pid: 1,
            parent: None,
            start_ticks: 0,
            seen_ns: 5,
            comm: "x".into(),
            command: "x y".into(),
            role: Role { name: "main".into(), evidence: String::new() },
        })
    }

    fn tick(at_ns: u64) -> Record {
        let sample = |index| ProcessSample { index, anon_kib: 3, file_kib: 2, ..ProcessSample::default() };
        let tree = Some(Bounds { low_kib: 4, high_kib: 5 });
        Record::Tick(Tick { at_ns, tree, processes: vec![sample(0), sample(9)], ..Tick::default() })
    }

    fn step(at_ns: u64, pid: i32, number: u64) -> Record {
        Record::Mark(Mark { at_ns, error_ns: 0, pid: Some(pid), what: MarkKind::Step(number) })
    }

    #[test]
    fn items_follow_the_log_and_name_processes_by_pid() {
        let records = [process(0, 77), tick(10), step(11, 77, 4), step(12, 78, 9), tick(20)];
        let (mut timeline, mut told) = (Timeline::default(), Vec::new());
        for record in &records {
            timeline.see(record, &mut |item| {
                told.push(match item {
                    Item::Process { pid, name, .. } => format!("{pid} is {name}"),
                    Item::Moment(it) => {
                        let rss: Vec<_> = it.processes.iter().map(|it| (it.pid, it.rss_kib())).collect();
                        format!("{} {:?} {rss:?}", it.at_ns, it.tree_bytes)
                    }
                    Item::Step { at_ns, number } => format!("step {number} at {at_ns}"),
                    other => format!("{other:?}"),
                });
            });
        }
        let moment = |at_ns| format!("{at_ns} Some((4096, 5120)) [(77, 5)]");
        assert_eq!(told, ["77 is main", &moment(10), "step 4 at 11", &moment(20)]);
    }

    #[test]
    fn times_of_models_and_of_the_log_are_the_same_moments() {
        let mut origin = Origin::default();
        origin.see(&Record::Header(Header {
            format_version: 1,
            mono_ns: 1_000,
            realtime_ns: 5_000_000_001_000,
            page_bytes: 4096,
            ticks_per_s: 100,
            interval_ns: 1,
            nilo_pid: 1,
        }));
        origin.see(&Record::Event(Event { at_ns: 2_000_000_000, what: EventKind::Started }));
        assert_eq!(origin.at_ns(1.5), 3_500_000_000);
        assert_eq!(origin.at_ns(-0.5), 1_500_000_000);
        assert!((origin.seconds(3_500_000_000) - 1.5).abs() < 1e-12);
        assert!((origin.unix_s(2_000_000_000) - 5_002.0).abs() < 1e-9);
    }
}
