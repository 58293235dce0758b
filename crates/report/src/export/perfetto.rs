//! A Perfetto trace: processes with their memory, the tree and the machine as counters, steps and phases as slices, and
//! allocations as heap profiles.
//!
//! Packets are written one after the other. Times are `CLOCK_MONOTONIC`, said in a clock snapshot. The one invariant: each
//! sequence begins with a packet that clears its state, and a number is interned in the packet that first uses it or before.

mod heap;

use std::io::{self, Write};

use nilometer_analysis::allocs::profile::Profile;
use nilometer_analysis::timeline::{Item, Moment, Resident, Shared};
use nilometer_wire::Message as _;
use nilometer_wire::perfetto::{
    CLOCK_MONOTONIC, CLOCK_MONOTONIC_COARSE, CLOCK_REALTIME, COUNTER, Clock, ClockSnapshot,
    CounterDescriptor, INSTANT, Packet, ProcessStats, ProcessTree, SLICE_BEGIN, SLICE_END, STATE_CLEARED,
    StatsProcess, TRACE_PACKET, TrackDescriptor, TrackEvent, TreeProcess, UNIT_SIZE_BYTES,
};

use super::{LeftOut, Subject};

/// Packets without interned numbers.
const SEQUENCE: u32 = 1;
/// Numbers of tracks must not be small: those are a thread's or a process's.
const TRACKS: u64 = 0x6e69_6c6f_0000_0000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Track {
    Steps,
    Phases,
    Events,
    TreeHigh,
    TreeLow,
    Available,
    Swap,
    Cgroup,
}

impl Track {
    const ALL: [(Self, &'static str, bool); 8] = [
        (Self::Steps, "steps", false),
        (Self::Phases, "phases", false),
        (Self::Events, "events", false),
        (Self::TreeHigh, "memory of the tree, at most", true),
        (Self::TreeLow, "memory of the tree, at least", true),
        (Self::Available, "available on the machine", true),
        (Self::Swap, "swap in use", true),
        (Self::Cgroup, "cgroup usage", true),
    ];

    fn uuid(self) -> u64 {
        TRACKS + 1 + self as u64
    }
}

/// Feed the items of the run, then [`finish`](Self::finish).
#[allow(missing_debug_implementations)] // a writer has none
pub struct Writer<'a> {
    packets: Packets<'a>,
    subject: Subject<'a>,
    open_step_ns: Option<u64>,
    open_phase_ns: Option<u64>,
    last_ns: u64,
}

impl<'a> Writer<'a> {
    pub fn new(subject: Subject<'a>, out: &'a mut dyn Write) -> Self {
        let mut writer = Self {
            packets: Packets { out, described: 0, written: Ok(()) },
            subject,
            open_step_ns: None,
            open_phase_ns: None,
            last_ns: 0,
        };
        writer.packets.put(&clocks(&subject));
        writer.events();
        writer
    }

    /// Those that the model tells, the peak among them.
    fn events(&mut self) {
        let run = self.subject.run;
        let peak = run.peak.iter().map(|peak| (peak.at_s, "peak".to_owned()));
        let events = run.events.iter().map(|event| (event.at_s, format!("{}: {}", event.kind, event.text)));
        for (at_s, text) in peak.chain(events) {
            self.packets.event(self.subject.origin.at_ns(at_s), Track::Events, INSTANT, Some(&text));
        }
    }

    pub fn see(&mut self, item: &Item<'_>) {
        match item {
            Item::Process { at_ns, pid, parent, name, command } => {
                // The first word is what the viewer calls it.
                let cmdline = vec![(*name).to_owned(), (*command).to_owned()];
                let process = TreeProcess { pid: *pid, ppid: *parent, cmdline };
                let process_tree = Some(ProcessTree { processes: vec![process] });
                self.packets.put(&Packet { process_tree, ..at(*at_ns) });
            }
            Item::Moment(moment) => self.moment(moment),
            Item::Shares { at_ns, shares } => self.stats(*at_ns, vec![shared(shares)]),
            Item::Step { at_ns, number } => {
                let open = self.open_step_ns;
                self.open_step_ns = Some(self.slice(*at_ns, Track::Steps, open, &format!("step {number}")));
            }
            Item::Phase { at_ns, name } => {
                let open = self.open_phase_ns;
                self.open_phase_ns = Some(self.slice(*at_ns, Track::Phases, open, name));
            }
            Item::Note { at_ns, text } => self.packets.event(*at_ns, Track::Events, INSTANT, Some(text)),
            Item::Exited { at_ns } => self.end_slices(*at_ns),
        }
    }

    fn moment(&mut self, moment: &Moment<'_>) {
        let at_ns = moment.at_ns;
        self.last_ns = self.last_ns.max(at_ns);
        if !moment.processes.is_empty() {
            self.stats(at_ns, moment.processes.iter().map(resident).collect());
        }
        let values = [
            (Track::TreeHigh, moment.tree_bytes.map(|(_, high)| high)),
            (Track::TreeLow, moment.tree_bytes.map(|(low, _)| low)),
            (Track::Available, moment.available_bytes),
            (Track::Swap, moment.swap_used_bytes),
            (Track::Cgroup, moment.cgroup_bytes),
        ];
        for (track, value) in values {
            if let Some(value) = value {
                self.packets.count(at_ns, track, value);
            }
        }
    }

    fn stats(&mut self, at_ns: u64, processes: Vec<StatsProcess>) {
        let process_stats = Some(ProcessStats { processes });
        self.packets.put(&Packet { process_stats, ..at(at_ns) });
    }

    /// The one before ends; a mark that was told late begins no earlier than it.
    fn slice(&mut self, at_ns: u64, track: Track, open_ns: Option<u64>, name: &str) -> u64 {
        let at_ns = at_ns.max(open_ns.unwrap_or(0));
        if open_ns.is_some() {
            self.packets.event(at_ns, track, SLICE_END, None);
        }
        self.packets.event(at_ns, track, SLICE_BEGIN, Some(name));
        at_ns
    }

    fn end_slices(&mut self, at_ns: u64) {
        let open = [(Track::Steps, self.open_step_ns.take()), (Track::Phases, self.open_phase_ns.take())];
        for (track, open_ns) in open {
            if let Some(open_ns) = open_ns {
                self.packets.event(at_ns.max(open_ns), track, SLICE_END, None);
            }
        }
    }

    pub fn finish(mut self, profile: Option<&Profile<'_>>) -> io::Result<LeftOut> {
        self.end_slices(self.last_ns);
        let mut left_out = Vec::new();
        if let Some(profile) = profile {
            heap::write(profile, &mut self.packets);
            left_out.extend(heap::left_out(profile));
        }
        if self.subject.run.events_omitted > 0 {
            left_out.push(format!("{} events are not in it", self.subject.run.events_omitted));
        }
        self.packets.written?;
        self.packets.out.flush()?;
        Ok(left_out)
    }
}

/// Where packets go; after an error nothing more is written.
struct Packets<'a> {
    out: &'a mut dyn Write,
    /// Bit by track.
    described: u32,
    written: io::Result<()>,
}

impl Packets<'_> {
    fn put(&mut self, packet: &Packet) {
        if self.written.is_ok() {
            let bytes = packet.encode_length_delimited_to_vec();
            self.written = self.out.write_all(&[TRACE_PACKET]).and_then(|()| self.out.write_all(&bytes));
        }
    }

    fn event(&mut self, at_ns: u64, track: Track, kind: i32, name: Option<&str>) {
        self.describe(track);
        let categories = if kind == SLICE_END { Vec::new() } else { vec!["nilo".to_owned()] };
        let name = name.map(str::to_owned);
        let event = TrackEvent { kind, track_uuid: track.uuid(), categories, name, counter_value: None };
        self.put(&Packet { track_event: Some(event), ..at(at_ns) });
    }

    fn count(&mut self, at_ns: u64, track: Track, bytes: u64) {
        self.describe(track);
        let counter_value = Some(i64::try_from(bytes).unwrap_or(i64::MAX));
        let event =
            TrackEvent { kind: COUNTER, track_uuid: track.uuid(), counter_value, ..TrackEvent::default() };
        self.put(&Packet { track_event: Some(event), ..at(at_ns) });
    }

    /// A track is described before its first event; one without events is not there.
    fn describe(&mut self, track: Track) {
        let bit = 1 << track as u32;
        if self.described & bit != 0 {
            return;
        }
        self.described |= bit;
        for (_, name, counts) in Track::ALL.iter().filter(|(which, _, _)| *which == track) {
            let counter = counts.then_some(CounterDescriptor { unit: UNIT_SIZE_BYTES });
            let track_descriptor =
                Some(TrackDescriptor { uuid: track.uuid(), name: Some((*name).to_owned()), counter });
            let sequence = Packet { trusted_packet_sequence_id: SEQUENCE, ..Packet::default() };
            self.put(&Packet { track_descriptor, ..sequence });
        }
    }
}

fn at(at_ns: u64) -> Packet {
    Packet {
        timestamp: Some(at_ns),
        timestamp_clock_id: Some(CLOCK_MONOTONIC),
        trusted_packet_sequence_id: SEQUENCE,
        ..Packet::default()
    }
}

/// Both clocks at one moment; the trace's own is the monotonic one.
fn clocks(subject: &Subject<'_>) -> Packet {
    let clock = |clock_id: u32, timestamp: u64| Clock { clock_id, timestamp };
    let clocks = vec![
        clock(CLOCK_MONOTONIC, subject.origin.mono_ns),
        clock(CLOCK_MONOTONIC_COARSE, subject.origin.mono_ns),
        clock(CLOCK_REALTIME, subject.origin.realtime_ns),
    ];
    let clock_snapshot = Some(ClockSnapshot { clocks, primary_trace_clock: CLOCK_MONOTONIC });
    Packet { clock_snapshot, sequence_flags: STATE_CLEARED, ..at(subject.origin.mono_ns) }
}

fn resident(it: &Resident) -> StatsProcess {
    StatsProcess {
        pid: it.pid,
        vm_rss_kb: Some(it.rss_kib()),
        rss_anon_kb: Some(it.anon_kib),
        rss_file_kb: Some(it.file_kib),
        rss_shmem_kb: Some(it.shmem_kib),
        vm_swap_kb: Some(it.swap_kib),
        vm_hwm_kb: Some(it.hwm_kib),
        ..StatsProcess::default()
    }
}

fn shared(it: &Shared) -> StatsProcess {
    StatsProcess {
        pid: it.pid,
        smr_rss_kb: Some(it.rss_kib),
        smr_pss_kb: Some(it.pss_kib),
        smr_pss_anon_kb: Some(it.pss_anon_kib),
        smr_pss_file_kb: Some(it.pss_file_kib),
        smr_pss_shmem_kb: Some(it.pss_shmem_kib),
        smr_swap_pss_kb: Some(it.swap_pss_kib),
        ..StatsProcess::default()
    }
}
