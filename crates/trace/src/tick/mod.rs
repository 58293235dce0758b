//! Ticks packed into blocks of about one second.
//!
//! A block is self-contained: its first tick is a difference to nothing (all zero), every later one to what
//! the block said last of the same column or process. `FORMAT.md` draws the bytes. All differences wrap, so
//! any `u64` comes back exactly and the "not available" value `u64::MAX` costs one byte after a zero.

mod decode;
mod encode;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

pub use decode::{BlockDecoder, block_seq};
pub use encode::BlockEncoder;

use crate::record::{Bounds, Phase, ProcessSample, Tick};

/// A larger block is neither written nor read; about 15 000 processes in one tick.
pub const MAX_BLOCK_BYTES: usize = 512 << 10;
/// Columns that stay zero cost no bytes, so a block cannot prove their number: this bounds it.
pub const MAX_COLUMNS: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("processes are not in increasing order of index")]
    Order,
    #[error("more than {MAX_COLUMNS} system columns")]
    Columns,
    #[error("the block would exceed {MAX_BLOCK_BYTES} bytes")]
    Full,
    #[error("a tick is stored with LogWriter::tick, not as a record of its own")]
    Alone,
    #[error("the block ends inside a tick, or a number is too long")]
    Truncated,
    #[error("a field has a value that its type cannot hold")]
    Range,
}

/// A tick whose vectors belong to somebody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TickRef<'a> {
    pub at_ns: u64,
    pub phase: Phase,
    pub tree: Option<Bounds>,
    pub system: &'a [u64],
    pub processes: &'a [ProcessSample],
    /// `processes` and `tree` are to the last bit those of the tick before, and nobody needs to look at them again.
    pub is_same: bool,
}

impl<'a> From<&'a Tick> for TickRef<'a> {
    fn from(tick: &'a Tick) -> Self {
        Self {
            at_ns: tick.at_ns,
            phase: tick.phase,
            tree: tick.tree,
            system: &tick.system,
            processes: &tick.processes,
            is_same: false,
        }
    }
}

// The flags byte of a tick. The lowest two bits are the phase.
const TREE: u8 = 1 << 2;
const SYSTEM: u8 = 1 << 3;
/// The tree's bounds are given in kB; without it, in units of 4 kB.
const TREE_IN_KIB: u8 = 1 << 4;
/// The number of columns follows: it is not that of the last system reading in this block.
const COLUMN_COUNT: u8 = 1 << 5;

/// The numbers of a process sample, those that change at every tick first: their mask fits one byte.
type Fields = [u64; 14];
const HWM: usize = 6;
/// Fields that are memory: anon, file, shmem, hwm, swap. They go up and down; all others only grow.
const MEMORY: [bool; 14] =
    [true, false, false, false, true, true, true, false, true, false, false, false, false, false];

// The mask of a process. Field `n` changed: bit `n + 1`.
const CHANGED_SHIFT: u32 = 1;
/// The index is not one more than that of the process before: the gap follows.
const GAP: u64 = 1;
/// Memory in this sample is given in kB; without it in units of 4 kB, the smallest page there is.
const MEMORY_IN_KIB: u64 = 1 << 15;

fn fields(sample: &ProcessSample) -> Fields {
    [
        sample.anon_kib,
        sample.minor_faults,
        sample.user_ticks,
        sample.system_ticks,
        sample.file_kib,
        sample.shmem_kib,
        sample.hwm_kib,
        u64::from(sample.threads),
        sample.swap_kib,
        sample.major_faults,
        sample.child_minor_faults,
        sample.child_user_ticks,
        sample.child_system_ticks,
        sample.child_major_faults,
    ]
}

fn sample(index: u32, fields: &Fields) -> Result<ProcessSample, Error> {
    Ok(ProcessSample {
        index,
        anon_kib: fields[0],
        minor_faults: fields[1],
        user_ticks: fields[2],
        system_ticks: fields[3],
        file_kib: fields[4],
        shmem_kib: fields[5],
        hwm_kib: fields[HWM],
        threads: u32::try_from(fields[7]).map_err(|_| Error::Range)?,
        swap_kib: fields[8],
        major_faults: fields[9],
        child_minor_faults: fields[10],
        child_user_ticks: fields[11],
        child_system_ticks: fields[12],
        child_major_faults: fields[13],
    })
}

fn rss(fields: &Fields) -> u64 {
    fields[0].wrapping_add(fields[4]).wrapping_add(fields[5])
}

/// A high-water mark stays, or is the RSS that just set it: the difference to this is nearly always zero.
#[inline]
fn expected_hwm(previous_hwm: u64, now: &Fields) -> u64 {
    previous_hwm.max(rss(now))
}

/// What the processes of a tick say of the tree: the largest RSS and the sum.
///
/// The stored bounds are their distance from these, which changes only when a new PSS is known.
#[derive(Debug, Clone, Copy, Default)]
struct Rough {
    largest: u64,
    sum: u64,
}

impl Rough {
    #[inline]
    fn add(&mut self, fields: &Fields) {
        let rss = rss(fields);
        self.largest = self.largest.max(rss);
        self.sum = self.sum.wrapping_add(rss);
    }

    fn distance(self, tree: Bounds) -> Bounds {
        Bounds {
            low_kib: tree.low_kib.wrapping_sub(self.largest),
            high_kib: tree.high_kib.wrapping_sub(self.sum),
        }
    }

    fn bounds(self, distance: Bounds) -> Bounds {
        Bounds {
            low_kib: distance.low_kib.wrapping_add(self.largest),
            high_kib: distance.high_kib.wrapping_add(self.sum),
        }
    }
}

/// The last numbers of each process in a block.
///
/// Processes come in the same order at nearly every tick, so the slot after the last one is tried first;
/// the map makes any other order cost linear time too, whatever a hostile block does.
#[derive(Debug, Default)]
struct Samples {
    slots: Vec<(u32, Fields)>,
    by_index: HashMap<u32, usize>,
    next: usize,
}

impl Samples {
    fn clear(&mut self) {
        self.slots.clear();
        self.by_index.clear();
        self.next = 0;
    }

    fn start_tick(&mut self) {
        self.next = 0;
    }

    #[inline]
    fn of(&mut self, index: u32) -> &mut Fields {
        let slot = match self.slots.get(self.next) {
            Some(&(there, _)) if there == index => self.next,
            _ => self.find_or_add(index),
        };
        self.next = slot + 1;
        &mut self.slots[slot].1
    }

    fn find_or_add(&mut self, index: u32) -> usize {
        let slots = &mut self.slots;
        *self.by_index.entry(index).or_insert_with(|| {
            slots.push((index, Fields::default()));
            slots.len() - 1
        })
    }
}
