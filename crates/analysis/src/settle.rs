//! What outlives the process: quantities of the system before the start and after the end.
//!
//! Others use the machine too. The least value after the end counts, against the middle of the values before the
//! start, and a change smaller than what the quantity did by itself before the start is none.

use crate::bounded::Thinned;
use crate::column::{Field, View};
use crate::model::Outlives;
use crate::stats;
use crate::unit::signed;

const MIB: i64 = 1 << 20;

/// One quantity: a signed sum of meminfo fields.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quantity {
    pub(crate) name: &'static str,
    plus: &'static [Field],
    minus: &'static [Field],
    /// Other processes of the machine, per-CPU batches and free lists move it by this much. A longer look
    /// before the start (`--before 60s`) measures the noise; it cannot make it smaller than this.
    least_noise_bytes: i64,
    /// Pages on their way back to the free lists are in none of the fields; only what stays that long counts.
    settles_in_ns: u64,
}

/// Counted in what outlives the process.
pub(crate) const HELD: [Quantity; 5] = [
    Quantity {
        name: "shared memory and tmpfs",
        plus: &[Field::Shmem],
        minus: &[],
        least_noise_bytes: MIB / 4,
        settles_in_ns: 0,
    },
    Quantity {
        name: "unreclaimable slab",
        plus: &[Field::SUnreclaim],
        minus: &[],
        least_noise_bytes: 16 * MIB,
        settles_in_ns: 0,
    },
    Quantity {
        name: "kernel stacks, page tables, per-CPU",
        plus: &[Field::KernelStack, Field::PageTables, Field::Percpu],
        minus: &[],
        least_noise_bytes: 16 * MIB,
        settles_in_ns: 0,
    },
    Quantity {
        name: "unaccounted (drivers, pinned pages)",
        plus: &[Field::MemTotal],
        minus: &[
            Field::AnonPages,
            Field::MemFree,
            Field::Buffers,
            Field::Cached,
            Field::SwapCached,
            Field::Slab,
            Field::KernelStack,
            Field::PageTables,
            Field::Percpu,
            Field::VmallocUsed,
            Field::Hugetlb,
        ],
        least_noise_bytes: 32 * MIB,
        settles_in_ns: 2_000_000_000,
    },
    SWAPPED,
];

/// Shared memory and files in memory that the kernel has moved to swap: processes take theirs with them when they end.
pub(crate) const SWAPPED: Quantity = Quantity {
    name: "swap that no process has",
    plus: &[Field::SwapTotal],
    minus: &[Field::SwapFree, Field::SwapCached, Field::SwapOwned],
    least_noise_bytes: 2 * MIB,
    settles_in_ns: 0,
};

/// Page cache without shared memory, which `Cached` contains.
pub(crate) const RECLAIMABLE: Quantity = Quantity {
    name: "page cache (given back on demand)",
    plus: &[Field::Cached, Field::Buffers],
    minus: &[Field::Shmem],
    least_noise_bytes: MIB,
    settles_in_ns: 0,
};

impl Quantity {
    /// How much others move it.
    pub(crate) fn noise_bytes(&self) -> f64 {
        self.least_noise_bytes as f64
    }

    /// `None` if the first field of either list was not told; others that are absent are zero.
    pub(crate) fn value(&self, view: &View<'_>) -> Option<i64> {
        view.meminfo(*self.plus.first()?)?;
        self.minus.first().map_or(Some(0), |field| view.meminfo(*field))?;
        let plus = self.plus.iter().filter_map(|field| view.meminfo(*field)).map(signed);
        let plus = plus.fold(0, i64::saturating_add);
        let minus = self.minus.iter().filter_map(|field| view.meminfo(*field)).map(signed);
        Some(minus.fold(plus, i64::saturating_sub))
    }
}

/// A quantity as it was before and after.
#[derive(Debug)]
pub(crate) struct Watch {
    quantity: Quantity,
    before: Thinned<f64>,
    least_before: i64,
    most_before: i64,
    least_after: Option<i64>,
    first_after_ns: Option<u64>,
    last_after_ns: u64,
}

impl Watch {
    pub(crate) fn new(quantity: Quantity) -> Self {
        Self {
            quantity,
            before: Thinned::new(512),
            least_before: i64::MAX,
            most_before: i64::MIN,
            least_after: None,
            first_after_ns: None,
            last_after_ns: 0,
        }
    }

    pub(crate) fn before(&mut self, view: &View<'_>) {
        if let Some(value) = self.quantity.value(view) {
            self.before.push(value as f64);
            self.least_before = self.least_before.min(value);
            self.most_before = self.most_before.max(value);
        }
    }

    pub(crate) fn after(&mut self, at_ns: u64, view: &View<'_>) {
        self.first_after_ns.get_or_insert(at_ns);
        self.last_after_ns = at_ns;
        if let Some(value) = self.quantity.value(view) {
            self.least_after = Some(self.least_after.map_or(value, |least| least.min(value)));
        }
    }

    pub(crate) fn finish(&self) -> Option<Outlives> {
        let before = stats::median(&mut self.before.items().to_vec())? as i64;
        let change_bytes = self.least_after?.saturating_sub(before);
        let spread = self.most_before.saturating_sub(self.least_before);
        let noise = spread.max(self.quantity.least_noise_bytes);
        let looked_ns = self.last_after_ns.saturating_sub(self.first_after_ns?);
        let settled = looked_ns >= self.quantity.settles_in_ns;
        let bytes = if settled && change_bytes > noise { change_bytes as u64 } else { 0 };
        let name = self.quantity.name.into();
        Some(Outlives { name, bytes, change_bytes, noise_bytes: noise as u64, settled })
    }
}
