//! The system columns of a tick by meaning instead of by position; all sizes in bytes.

use nilometer_trace::record::{Columns, Tick, Unit};

use crate::unit::kib;

/// A cgroup of the run at one tick. Group 0 is the process's own, higher numbers are nearer to the root.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) number: u32,
    pub(crate) usage: Option<u64>,
    pub(crate) limit: Option<u64>,
    pub(crate) reclaimable: Option<u64>,
    pub(crate) oom_kills: Option<u64>,
    pub(crate) oom_events: Option<u64>,
}

impl Group {
    /// What cannot be taken back without killing or swapping.
    pub(crate) fn held(&self) -> Option<u64> {
        Some(self.usage?.saturating_sub(self.reclaimable.unwrap_or(0)))
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct GroupPlaces {
    number: u32,
    usage: Option<usize>,
    limit: Option<usize>,
    reclaimable: Option<usize>,
    oom_kills: Option<usize>,
    oom_events: Option<usize>,
}

/// Where each series stands in the ticks that follow a [`Columns`] record.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    columns: Columns,
    groups: Vec<GroupPlaces>,
    meminfo: Vec<Option<usize>>,
    psi_some: Option<usize>,
    oom_kill: Option<usize>,
    own_rss: Option<usize>,
    sampler_heap: Option<usize>,
    /// Places of `used`, `total` and `tree` of each graphics device.
    devices: Vec<[Option<usize>; 3]>,
}

/// The fields of `/proc/meminfo` that the models use, in the order of [`MEMINFO`], and one more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    MemTotal,
    MemFree,
    MemAvailable,
    Buffers,
    Cached,
    SwapCached,
    SwapTotal,
    SwapFree,
    Shmem,
    Slab,
    SUnreclaim,
    AnonPages,
    KernelStack,
    PageTables,
    Percpu,
    VmallocUsed,
    Hugetlb,
    /// No field of it: what processes have in swap.
    SwapOwned,
}

const MEMINFO: [&str; 17] = [
    "MemTotal",
    "MemFree",
    "MemAvailable",
    "Buffers",
    "Cached",
    "SwapCached",
    "SwapTotal",
    "SwapFree",
    "Shmem",
    "Slab",
    "SUnreclaim",
    "AnonPages",
    "KernelStack",
    "PageTables",
    "Percpu",
    "VmallocUsed",
    "Hugetlb",
];

impl Layout {
    pub(crate) fn new(columns: &Columns) -> Self {
        let place = |name: &str| columns.columns.iter().position(|column| column.name == name);
        Self {
            groups: groups(columns),
            meminfo: MEMINFO
                .iter()
                .map(|field| place(&format!("meminfo.{field}")))
                .chain([place("swap.processes")])
                .collect(),
            psi_some: place("psi.memory.some_avg10"),
            oom_kill: place("vmstat.oom_kill"),
            own_rss: place("nilo.rss"),
            sampler_heap: place("import.sampler_heap"),
            devices: (0..columns.columns.len())
                .map(|n| ["used", "total", "tree"].map(|what| place(&format!("device.{n}.{what}"))))
                .take_while(|places| places[0].is_some())
                .collect(),
            columns: columns.clone(),
        }
    }

    /// The tick's view through this layout; `None` where the system was not read.
    pub(crate) fn view<'a>(&'a self, tick: &'a Tick) -> Option<View<'a>> {
        (!tick.system.is_empty()).then_some(View { layout: self, values: &tick.system })
    }
}

fn groups(columns: &Columns) -> Vec<GroupPlaces> {
    let mut found: Vec<GroupPlaces> = Vec::new();
    for (place, column) in columns.columns.iter().enumerate() {
        if let Some((number, field)) = group_column(&column.name) {
            set_group_place(group_mut(&mut found, number), field, place);
        }
    }
    found.sort_by_key(|group| group.number);
    found
}

/// `cgroup.2.usage` is (2, "usage").
fn group_column(name: &str) -> Option<(u32, &str)> {
    let (number, field) = name.strip_prefix("cgroup.")?.split_once('.')?;
    Some((number.parse().ok()?, field))
}

fn group_mut(groups: &mut Vec<GroupPlaces>, number: u32) -> &mut GroupPlaces {
    let place = groups.iter().position(|group| group.number == number).unwrap_or(groups.len());
    if place == groups.len() {
        groups.push(GroupPlaces { number, ..GroupPlaces::default() });
    }
    &mut groups[place]
}

fn set_group_place(group: &mut GroupPlaces, field: &str, place: usize) {
    match field {
        "usage" => group.usage = Some(place),
        "limit" => group.limit = Some(place),
        "reclaimable" => group.reclaimable = Some(place),
        "oom_kills" => group.oom_kills = Some(place),
        "oom_events" => group.oom_events = Some(place),
        _ => {}
    }
}

/// The system values of one tick.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    layout: &'a Layout,
    values: &'a [u64],
}

impl View<'_> {
    /// The value at a place in the column's own unit made bytes; the largest value means "none".
    fn value(&self, place: Option<usize>) -> Option<u64> {
        let place = place?;
        let value = *self.values.get(place).filter(|value| **value != u64::MAX)?;
        match self.layout.columns.columns.get(place)?.unit {
            Unit::Kib => Some(kib(value)),
            _ => Some(value),
        }
    }

    pub(crate) fn meminfo(&self, field: Field) -> Option<u64> {
        self.value(*self.layout.meminfo.get(field as usize)?)
    }

    /// Pages in swap that have no copy in memory.
    pub(crate) fn swap_used(&self) -> Option<u64> {
        let total = self.meminfo(Field::SwapTotal)?;
        let free = self.meminfo(Field::SwapFree)?;
        Some(total.saturating_sub(free).saturating_sub(self.meminfo(Field::SwapCached).unwrap_or(0)))
    }

    /// Kernels before 3.14 do not tell it: then it is what is free and what is cache of files.
    pub(crate) fn available(&self) -> Option<u64> {
        self.meminfo(Field::MemAvailable).or_else(|| {
            let caches = self.meminfo(Field::Buffers)?.saturating_add(self.meminfo(Field::Cached)?);
            let files = caches.saturating_sub(self.meminfo(Field::Shmem).unwrap_or(0));
            Some(self.meminfo(Field::MemFree)?.saturating_add(files))
        })
    }

    /// In use without buffers and cache, and without the heap of the tool that recorded.
    pub(crate) fn in_use(&self) -> Option<u64> {
        let free = [Field::MemFree, Field::Buffers, Field::Cached];
        let total = self.meminfo(Field::MemTotal)?;
        let used =
            free.iter().try_fold(total, |rest, field| Some(rest.saturating_sub(self.meminfo(*field)?)))?;
        Some(used.saturating_sub(self.value(self.layout.sampler_heap).unwrap_or(0)))
    }

    pub(crate) fn psi_some_percent(&self) -> Option<f64> {
        self.value(self.layout.psi_some).map(|value| value as f64 / 100.0)
    }

    /// OOM kills on the whole machine since boot, those of cgroups included.
    pub(crate) fn oom_kill(&self) -> Option<u64> {
        self.value(self.layout.oom_kill)
    }

    pub(crate) fn own_rss(&self) -> Option<u64> {
        self.value(self.layout.own_rss)
    }

    /// Used, total and held by the tree, of each graphics device.
    pub(crate) fn devices(&self) -> impl Iterator<Item = [Option<u64>; 3]> + '_ {
        self.layout.devices.iter().map(|places| places.map(|place| self.value(place)))
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = Group> + '_ {
        self.layout.groups.iter().map(|group| Group {
            number: group.number,
            usage: self.value(group.usage),
            limit: self.value(group.limit),
            reclaimable: self.value(group.reclaimable),
            oom_kills: self.value(group.oom_kills),
            oom_events: self.value(group.oom_events),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilometer_trace::record::Column;

    fn layout(names: &[(&str, Unit)]) -> Layout {
        let columns = names.iter().map(|(name, unit)| Column { name: (*name).into(), unit: *unit }).collect();
        Layout::new(&Columns { columns })
    }

    #[test]
    fn units_become_bytes_and_the_largest_value_is_none() {
        let layout = layout(&[("meminfo.MemFree", Unit::Kib), ("cgroup.1.limit", Unit::Bytes)]);
        let tick = Tick { system: vec![3, u64::MAX], ..Tick::default() };
        let view = layout.view(&tick).unwrap();
        assert_eq!(view.meminfo(Field::MemFree), Some(3072));
        assert_eq!(view.groups().next(), Some(Group { number: 1, ..Group::default() }));
        assert_eq!(view.meminfo(Field::MemTotal), None);
    }

    #[test]
    fn every_field_has_its_name() {
        assert_eq!(MEMINFO[Field::Hugetlb as usize], "Hugetlb");
        assert_eq!(MEMINFO[Field::AnonPages as usize], "AnonPages");
    }

    #[test]
    fn a_short_tick_has_no_value_for_late_columns() {
        let layout = layout(&[("a", Unit::Count), ("meminfo.MemFree", Unit::Kib)]);
        let tick = Tick { system: vec![1], ..Tick::default() };
        assert_eq!(layout.view(&tick).unwrap().meminfo(Field::MemFree), None);
    }
}
