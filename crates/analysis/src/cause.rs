//! Why the target ended, with the evidence: what `wait4` said, what the OOM counters did, and if the recording
//! was cut together with the target, how full its limit was in the last moment.

use std::collections::BTreeMap;

use nilometer_trace::record::{self, Phase};

use crate::column::View;
use crate::limit::{LimitFinder, Room};
use crate::model::{Cause, Exit};
use crate::process::ProcessTable;
use crate::text;
use crate::unit::share;

const SIGKILL: i32 = 9;
/// A shell reports a child that was killed so.
const KILLED_CODE: i32 = 128 + SIGKILL;
/// A cut log whose limit was filled to this share was most probably an OOM kill.
const NEARLY_FULL: f64 = 0.9;

/// A counter that only grows: its value at the start and now.
#[derive(Debug, Clone, Copy, Default)]
struct Counter {
    first: Option<u64>,
    last: Option<u64>,
}

impl Counter {
    fn push(&mut self, phase: Phase, value: Option<u64>) {
        let Some(value) = value else { return };
        if phase == Phase::Before {
            self.first = Some(value);
        }
        self.first.get_or_insert(value);
        self.last = Some(value);
    }

    fn delta(&self) -> Option<u64> {
        Some(self.last?.saturating_sub(self.first?))
    }

    fn rose(&self) -> bool {
        self.delta().is_some_and(|delta| delta > 0)
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct GroupCounters {
    kills: Counter,
    events: Counter,
    limit: Option<u64>,
    usage: Option<u64>,
}

impl GroupCounters {
    /// Below 0 without a limit.
    fn filled(&self) -> f64 {
        self.limit.map_or(-1.0, |limit| share(self.usage.unwrap_or(0) as f64, limit as f64))
    }
}

#[derive(Debug, Default)]
pub(crate) struct CauseFinder {
    groups: BTreeMap<u32, GroupCounters>,
    machine: Counter,
}

/// What else is known at the end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scene<'a> {
    pub(crate) exit: Option<&'a record::Exit>,
    pub(crate) cut: bool,
    pub(crate) limits: &'a LimitFinder,
    pub(crate) processes: &'a ProcessTable,
    pub(crate) last_s: f64,
}

type Finding = (Cause, bool, Vec<String>);

impl CauseFinder {
    pub(crate) fn tick(&mut self, phase: Phase, view: &View<'_>) {
        self.machine.push(phase, view.oom_kill());
        for group in view.groups() {
            let counters = self.groups.entry(group.number).or_default();
            counters.kills.push(phase, group.oom_kills);
            counters.events.push(phase, group.oom_events);
            if phase != Phase::After {
                counters.limit = group.limit;
                counters.usage = group.usage.or(counters.usage);
            }
        }
    }

    /// OOM kills on the machine (which include those of cgroups), or else in the run's own groups.
    pub(crate) fn oom_kills(&self) -> Option<u64> {
        let groups = self.groups.values().filter_map(|group| group.kills.delta()).max();
        self.machine.delta().max(groups)
    }

    /// The group whose limit was hit. Kills count where the victim lived (v1) and above it (v2), events (v2
    /// only) from the limit upwards: the lowest one with an event, or else the fullest one with a limit.
    fn oom_group(&self) -> Option<(u32, &GroupCounters)> {
        if self.victims_here() == 0 {
            return None;
        }
        let hit = self.groups.iter().find(|(_, group)| group.events.rose());
        let fullest = || self.groups.iter().max_by(|(_, a), (_, b)| a.filled().total_cmp(&b.filled()));
        hit.or_else(|| fullest().filter(|(_, group)| group.limit.is_some()))
            .map(|(number, group)| (*number, group))
    }

    /// OOM kills in the group of the process. The kernel counts each one in the group of its victim, whatever
    /// ran out (`__oom_kill_process` in `mm/oom_kill.c`); one that only a group above or the machine knows of
    /// happened elsewhere.
    fn victims_here(&self) -> u64 {
        self.groups.values().next().and_then(|own| own.kills.delta()).unwrap_or(0)
    }

    pub(crate) fn finish(&self, scene: Scene<'_>) -> Exit {
        let (cause, inferred, evidence) = match scene.exit {
            Some(exit) => self.told(exit, scene),
            None => self.not_told(scene),
        };
        Exit {
            code: scene.exit.and_then(|exit| exit.code),
            signal: scene.exit.and_then(|exit| exit.signal),
            core_dumped: scene.exit.is_some_and(|exit| exit.core_dumped),
            cause,
            inferred,
            evidence,
        }
    }

    fn told(&self, exit: &record::Exit, scene: Scene<'_>) -> Finding {
        if let Some(ended_by) = &exit.ended_by {
            return (Cause::Watchdog, false, vec![format!("ended by nilo: {ended_by}")]);
        }
        if let Some(enough) = &exit.enough {
            return (Cause::Enough, false, vec![format!("ended by nilo as asked: {enough}")]);
        }
        let killed = exit.signal == Some(SIGKILL) || exit.code == Some(KILLED_CODE);
        if let Some(finding) = self.oom(scene).filter(|_| killed) {
            return finding;
        }
        match (exit.signal, exit.code) {
            (Some(SIGKILL), _) => (Cause::UnknownKiller, false, vec![self.no_killer()]),
            (Some(signal), _) => (Cause::Signal, false, vec![format!("wait4: signal {signal}")]),
            (None, Some(code)) => (Cause::Exited, false, self.exited(code)),
            (None, None) => (Cause::NotSeen, false, Vec::new()),
        }
    }

    fn exited(&self, code: i32) -> Vec<String> {
        let mut evidence = vec![format!("wait4: exit code {code}")];
        if code == KILLED_CODE {
            evidence.push("137 is what a shell says of a child ended by SIGKILL".into());
        }
        let kills = self.victims_here();
        if kills > 0 {
            evidence.push(format!(
                "oom_kill of its cgroup rose by {kills} while it ran: of other processes in it"
            ));
        }
        evidence
    }

    fn no_killer(&self) -> String {
        match (self.machine.delta(), self.groups.is_empty()) {
            (None, true) => "SIGKILL; OOM counters could not be read".into(),
            (Some(kills @ 1..), false) => format!(
                "SIGKILL; oom_kill of the machine rose by {kills}, but not that of the cgroup of the process: \
                 the kernel killed others, and somebody sent this one"
            ),
            _ => "SIGKILL; no OOM counter moved, so somebody sent it".into(),
        }
    }

    fn oom(&self, scene: Scene<'_>) -> Option<Finding> {
        if let Some((number, group)) = self.oom_group() {
            let kills = self.victims_here();
            let mut evidence = vec![format!(
                "oom_kill of the {} rose by {kills}",
                scene.limits.name_of(number, group.limit)
            )];
            evidence.extend(group.limit.map(|limit| format!("its limit: {}", text::bytes(limit))));
            evidence.extend(who_grew(scene));
            return Some((Cause::CgroupOom, false, evidence));
        }
        let kills = self.machine.delta().filter(|kills| *kills > 0)?;
        if !self.groups.is_empty() && self.victims_here() == 0 {
            return None;
        }
        let mut evidence = vec![format!(
            "oom_kill of the machine rose by {kills}, and no cgroup of the process has a limit"
        )];
        evidence.extend(who_grew(scene));
        Some((Cause::SystemOom, false, evidence))
    }

    /// We did not see the end: the target may still run, or both of us were killed in one instant.
    fn not_told(&self, scene: Scene<'_>) -> Finding {
        if !scene.cut {
            return (Cause::NotSeen, false, vec!["the recording ended before the target".into()]);
        }
        if let Some((cause, _, evidence)) = self.oom(scene) {
            return (cause, true, evidence);
        }
        let full = |room: &Room| room.filled_share() >= NEARLY_FULL || scene.limits.about_to_fill();
        match scene.limits.latest().filter(full) {
            Some(room) => inferred(&room, scene),
            None => (Cause::NotSeen, true, vec!["the log is cut and no limit was near".into()]),
        }
    }
}

fn inferred(room: &Room, scene: Scene<'_>) -> Finding {
    let used = room.limit.saturating_sub(room.free);
    let percent = 100.0 * share(used as f64, room.limit as f64);
    let name = scene.limits.name(room);
    let mut evidence = vec![format!(
        "inferred: the log is cut at {} with {percent:.0} % of the limit in use ({name}, {})",
        text::duration(scene.last_s),
        text::bytes(room.limit)
    )];
    evidence.extend(who_grew(scene));
    let cause = if room.is_machine() { Cause::SystemOom } else { Cause::CgroupOom };
    (cause, true, evidence)
}

fn who_grew(scene: Scene<'_>) -> Option<String> {
    let (name, bytes) = scene.processes.who_grew_last()?;
    Some(format!("grew last: {name}, by {} in its last seconds", text::bytes(bytes)))
}
