//! Which limit binds: at every tick the room under each cgroup of the run and in the machine's RAM; the least
//! room over the run names the limit. Limits may change in mid-run, and reclaimable cache does not count.

use std::collections::BTreeMap;

use nilometer_trace::Manifest;

use crate::bounded::Capped;
use crate::clock::Clock;
use crate::column::{Field, Group, View};
use crate::model::{Limit, Peak};
use crate::unit::{difference, share};

const MACHINE: &str = "machine RAM";
const CHANGES: usize = 64;
/// The system is looked at this often at least, and told of only when something has moved.
const LOOKED_NS: u64 = 100_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Group(u32),
    Machine,
}

/// Room under one limit at one tick.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    owner: Owner,
    pub(crate) limit: u64,
    pub(crate) free: u64,
    pub(crate) at_ns: u64,
}

impl Room {
    pub(crate) fn filled_share(&self) -> f64 {
        1.0 - share(self.free as f64, self.limit as f64)
    }

    pub(crate) fn is_machine(&self) -> bool {
        self.owner == Owner::Machine
    }
}

#[derive(Debug)]
pub(crate) struct LimitFinder {
    told: Option<(u64, String)>,
    machine_bytes: u64,
    worst: Option<Room>,
    /// Tightest room at the last look and the one before it.
    latest: Option<Room>,
    before_latest: Option<Room>,
    groups: BTreeMap<u32, u64>,
    pub(crate) changes: Capped<Change>,
}

/// A cgroup's limit was set to something else; `None` is "no limit".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) at_ns: u64,
    pub(crate) group: u32,
    pub(crate) from: Option<u64>,
    pub(crate) to: Option<u64>,
}

impl LimitFinder {
    pub(crate) fn new(manifest: &Manifest) -> Self {
        Self {
            told: manifest.limit.as_ref().map(|limit| (limit.bytes, limit.source.clone())),
            machine_bytes: manifest.host.memory_bytes,
            worst: None,
            latest: None,
            before_latest: None,
            groups: BTreeMap::new(),
            changes: Capped::new(CHANGES),
        }
    }

    pub(crate) fn tick(&mut self, at_ns: u64, view: &View<'_>) {
        self.note_changes(at_ns, view);
        let groups = view.groups().filter_map(|group| group_room(at_ns, &group));
        let Some(tightest) = groups.chain(machine_room(at_ns, view)).min_by_key(|room| room.free) else {
            return;
        };
        self.before_latest = self.latest.replace(tightest);
        if self.worst.is_none_or(|worst| tightest.free < worst.free) {
            self.worst = Some(tightest);
        }
    }

    /// A tick that tells nothing of the system: after some time that means that nothing moves.
    pub(crate) fn silent_tick(&mut self, at_ns: u64) {
        if self.latest.is_some_and(|latest| at_ns.saturating_sub(latest.at_ns) >= LOOKED_NS) {
            self.before_latest = self.latest;
        }
    }

    fn note_changes(&mut self, at_ns: u64, view: &View<'_>) {
        for group in view.groups() {
            let to = group.limit;
            let from = self.groups.insert(group.number, to.unwrap_or(u64::MAX));
            let from = from.map(|bytes| Some(bytes).filter(|bytes| *bytes != u64::MAX));
            if let Some(from) = from.filter(|from| *from != to) {
                self.changes.push(Change { at_ns, group: group.number, from, to });
            }
        }
    }

    /// The room at the last look.
    pub(crate) fn latest(&self) -> Option<Room> {
        self.latest
    }

    /// At the pace of the last two looks the limit was reached before the look after next.
    pub(crate) fn about_to_fill(&self) -> bool {
        let (Some(last), Some(before)) = (self.latest, self.before_latest) else { return false };
        let taken = before.free.saturating_sub(last.free);
        last.owner == before.owner && taken > 0 && taken.saturating_mul(2) >= last.free
    }

    pub(crate) fn name(&self, room: &Room) -> String {
        match room.owner {
            Owner::Machine => MACHINE.into(),
            Owner::Group(number) => self.group_name(number),
        }
    }

    pub(crate) fn group_name(&self, number: u32) -> String {
        self.name_of(number, self.groups.get(&number).copied())
    }

    /// A group by its path where that is known: the manifest names the one whose limit bound at the start.
    pub(crate) fn name_of(&self, number: u32, limit: Option<u64>) -> String {
        match (number, &self.told) {
            (_, Some((bytes, source))) if source.starts_with("cgroup") && limit == Some(*bytes) => {
                source.clone()
            }
            (0, _) => "cgroup of the process".into(),
            _ => format!("cgroup {number} above that of the process"),
        }
    }

    pub(crate) fn finish(&self, peak: Option<&Peak>, clock: &Clock) -> Option<Limit> {
        let (bytes, source) = match &self.worst {
            Some(room) => (room.limit, self.name(room)),
            None => self.told_limit()?,
        };
        let headroom_bytes = difference(bytes, peak.map_or(0, |peak| peak.bytes));
        Some(Limit {
            bytes,
            source,
            headroom_bytes,
            headroom_share: share(headroom_bytes as f64, bytes as f64),
            least_free_bytes: self.worst.map(|room| room.free),
            least_free_at_s: self.worst.map(|room| clock.seconds(room.at_ns)),
        })
    }

    /// Without any sample: what was true at the start.
    fn told_limit(&self) -> Option<(u64, String)> {
        let machine = (self.machine_bytes > 0).then(|| (self.machine_bytes, MACHINE.to_owned()));
        let told = self
            .told
            .clone()
            .map(|(bytes, source)| (bytes, if source == "machine" { MACHINE.into() } else { source }));
        told.or(machine)
    }
}

fn group_room(at_ns: u64, group: &Group) -> Option<Room> {
    let limit = group.limit?;
    let free = limit.saturating_sub(group.held()?);
    Some(Room { owner: Owner::Group(group.number), limit, free, at_ns })
}

fn machine_room(at_ns: u64, view: &View<'_>) -> Option<Room> {
    let limit = view.meminfo(Field::MemTotal)?;
    Some(Room { owner: Owner::Machine, limit, free: view.available()?, at_ns })
}
