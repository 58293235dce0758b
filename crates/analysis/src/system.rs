//! The machine while the run lasted: swap, available memory, pressure, OOM kills, and what stayed behind.

use nilometer_trace::record::Phase;

use crate::bounded::Capped;
use crate::column::{Field, View};
use crate::model::{Device, Outlives, Part, System};
use crate::settle::{HELD, RECLAIMABLE, SWAPPED, Watch};
use crate::unit::signed;

const REMAINS: usize = 64;

#[derive(Debug)]
pub(crate) struct SystemWatch {
    memory: Option<u64>,
    swap_max: Option<u64>,
    swap_before: Option<u64>,
    available_min: Option<u64>,
    /// The kernel did not tell what is available.
    pub(crate) available_estimated: bool,
    psi_some_max: Option<f64>,
    launcher: Option<u64>,
    held: Vec<Watch>,
    cache: Watch,
    remains: Capped<Part>,
    devices: Vec<Device>,
}

fn larger<T: PartialOrd + Copy>(kept: Option<T>, new: Option<T>) -> Option<T> {
    match (kept, new) {
        (Some(kept), Some(new)) => Some(if new > kept { new } else { kept }),
        (kept, new) => kept.or(new),
    }
}

impl SystemWatch {
    pub(crate) fn new() -> Self {
        Self {
            memory: None,
            swap_max: None,
            swap_before: None,
            available_min: None,
            available_estimated: false,
            psi_some_max: None,
            launcher: None,
            held: HELD.into_iter().map(Watch::new).collect(),
            cache: Watch::new(RECLAIMABLE),
            remains: Capped::new(REMAINS),
            devices: Vec::new(),
        }
    }

    pub(crate) fn tick(&mut self, at_ns: u64, phase: Phase, view: &View<'_>) {
        self.memory = view.meminfo(Field::MemTotal).or(self.memory);
        self.devices(view);
        match phase {
            Phase::Before => self.before(view),
            Phase::During => self.during(view),
            Phase::After => self.watches().for_each(|watch| watch.after(at_ns, view)),
        }
    }

    fn devices(&mut self, view: &View<'_>) {
        for (number, [used, total, tree]) in view.devices().enumerate() {
            if number == self.devices.len() {
                self.devices.push(Device::default());
            }
            let device = &mut self.devices[number];
            device.total_bytes = total.or(device.total_bytes);
            device.used_max_bytes = device.used_max_bytes.max(used.unwrap_or(0));
            device.tree_max_bytes = device.tree_max_bytes.max(tree.unwrap_or(0));
        }
    }

    fn watches(&mut self) -> impl Iterator<Item = &mut Watch> {
        self.held.iter_mut().chain(std::iter::once(&mut self.cache))
    }

    fn before(&mut self, view: &View<'_>) {
        self.swap_before = view.swap_used().or(self.swap_before);
        self.launcher = larger(self.launcher, view.own_rss());
        self.watches().for_each(|watch| watch.before(view));
    }

    fn during(&mut self, view: &View<'_>) {
        self.swap_max = larger(self.swap_max, view.swap_used());
        self.psi_some_max = larger(self.psi_some_max, view.psi_some_percent());
        let available = view.available();
        self.available_estimated |= available.is_some() && view.meminfo(Field::MemAvailable).is_none();
        self.available_min = match (self.available_min, available) {
            (Some(kept), Some(new)) => Some(kept.min(new)),
            (kept, new) => kept.or(new),
        };
    }

    /// Our own resident size before the target was started: `ru_maxrss` of the target begins there.
    pub(crate) fn launcher_bytes(&self) -> Option<u64> {
        self.launcher
    }

    /// Shared memory that was found by name after the end.
    pub(crate) fn remains(&mut self, name: &str, bytes: u64) {
        self.remains.push(Part { name: name.into(), bytes });
    }

    /// What was found by name is there, whatever the noise of the sums. What of it is in swap is told there.
    fn outlives(&self) -> Vec<Outlives> {
        let mut outlives: Vec<Outlives> = self.held.iter().filter_map(Watch::finish).collect();
        let named = self.remains.items.iter().fold(0, |sum: u64, part| sum.saturating_add(part.bytes));
        let swapped = outlives.iter().find(|item| item.name == SWAPPED.name).map_or(0, |item| item.bytes);
        let named = named.saturating_sub(swapped);
        match outlives.iter_mut().find(|item| item.name == HELD[0].name) {
            Some(shared) => shared.bytes = shared.bytes.max(named),
            None if named > 0 => outlives.push(Outlives {
                name: HELD[0].name.into(),
                bytes: named,
                change_bytes: signed(named),
                noise_bytes: 0,
                settled: true,
            }),
            None => {}
        }
        outlives
    }

    pub(crate) fn finish(&self, oom_kills: Option<u64>, device_names: &[String]) -> System {
        let outlives = self.outlives();
        let sum = outlives.iter().fold(0, |sum: u64, item| sum.saturating_add(item.bytes));
        System {
            memory_bytes: self.memory,
            devices: named(&self.devices, device_names),
            swap_used_max_bytes: self.swap_max,
            swap_used_before_bytes: self.swap_before,
            available_min_bytes: self.available_min,
            outlives_process_bytes: (!outlives.is_empty()).then_some(sum),
            outlives,
            remains: self.remains.items.clone(),
            reclaimable: self.cache.finish(),
            psi_some_max_percent: self.psi_some_max,
            oom_kills,
        }
    }
}

fn named(devices: &[Device], names: &[String]) -> Vec<Device> {
    let name = |number: usize| names.get(number).cloned().unwrap_or_else(|| format!("device {number}"));
    devices.iter().enumerate().map(|(n, device)| Device { name: name(n), ..device.clone() }).collect()
}
