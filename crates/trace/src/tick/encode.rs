//! Ticks to bytes, without allocating once the buffers have grown.

use super::{
    CHANGED_SHIFT, COLUMN_COUNT, Error, Fields, GAP, HWM, MAX_BLOCK_BYTES, MAX_COLUMNS, MEMORY,
    MEMORY_IN_KIB, Rough, SYSTEM, Samples, TREE, TREE_IN_KIB, TickRef, expected_hwm, fields,
};
use crate::{
    frame::{self, HEADER_BYTES, Kind},
    record::{Bounds, Phase, ProcessSample},
    varint::{put, put_signed},
};

/// The open block.
#[derive(Debug)]
pub struct BlockEncoder {
    /// Room for the header, then the payload: the frame is made where it stands.
    frame: Vec<u8>,
    seq: u64,
    ticks: u64,
    first_ns: u64,
    last_ns: u64,
    /// As distance from [`Rough`].
    tree: Bounds,
    system: Vec<u64>,
    samples: Samples,
    same: Same,
    /// A tick did not fit: what the block remembers is ahead of its bytes, so it takes no more.
    full: bool,
}

/// The bytes that a tick's processes and tree have when they are those of the tick before: while nothing changes they
/// are made once.
#[derive(Debug, Default)]
struct Same {
    bytes: Vec<u8>,
    flags: u8,
}

impl Default for BlockEncoder {
    fn default() -> Self {
        Self::new()
    }
}

impl BlockEncoder {
    /// An empty block with number 1.
    pub fn new() -> Self {
        Self {
            frame: empty_frame(),
            seq: 1,
            ticks: 0,
            first_ns: 0,
            last_ns: 0,
            tree: Bounds::default(),
            system: Vec::new(),
            samples: Samples::default(),
            same: Same::default(),
            full: false,
        }
    }

    /// Adds a tick. After an error the block holds what it held before.
    #[inline]
    pub fn push(&mut self, tick: TickRef<'_>) -> Result<(), Error> {
        if !tick.is_same && tick.processes.windows(2).any(|pair| pair[0].index >= pair[1].index) {
            return Err(Error::Order);
        }
        if tick.system.len() > MAX_COLUMNS {
            return Err(Error::Columns);
        }
        if self.full {
            return Err(Error::Full);
        }
        let before = self.frame.len();
        self.put_tick(tick);
        if self.len() > MAX_BLOCK_BYTES {
            self.frame.truncate(before);
            self.full = true;
            return Err(Error::Full);
        }
        self.ticks += 1;
        Ok(())
    }

    #[inline]
    fn put_tick(&mut self, tick: TickRef<'_>) {
        if self.is_empty() {
            put(&mut self.frame, self.seq);
            put(&mut self.frame, tick.at_ns);
            (self.first_ns, self.last_ns) = (tick.at_ns, tick.at_ns);
        }
        put(&mut self.frame, tick.at_ns.wrapping_sub(self.last_ns));
        self.last_ns = tick.at_ns;
        let flags_at = self.frame.len();
        self.frame.push(0);
        let mut flags = match tick.phase {
            Phase::Before => 0,
            Phase::During => 1,
            Phase::After => 2,
        };
        if !tick.system.is_empty() {
            flags |= SYSTEM | self.put_system(tick.system);
        }
        flags |= self.put_tree_and_processes(&tick);
        self.frame[flags_at] = flags;
    }

    /// A difference to nothing and one to itself are other bytes, so the first tick of a block and the first one that is
    /// the same as its predecessor are made anew.
    #[inline]
    fn put_tree_and_processes(&mut self, tick: &TickRef<'_>) -> u8 {
        if tick.is_same && !self.same.bytes.is_empty() {
            self.frame.extend_from_slice(&self.same.bytes);
            return self.same.flags;
        }
        let start = self.frame.len();
        let rough = self.put_processes(tick.processes);
        let flags = tick.tree.map_or(0, |tree| TREE | self.put_tree(rough.distance(tree)));
        self.same.bytes.clear();
        if tick.is_same && self.ticks > 0 {
            self.same.bytes.extend_from_slice(&self.frame[start..]);
            self.same.flags = flags;
        }
        flags
    }

    fn put_tree(&mut self, distance: Bounds) -> u8 {
        let low = distance.low_kib.wrapping_sub(self.tree.low_kib) as i64;
        let high = distance.high_kib.wrapping_sub(self.tree.high_kib) as i64;
        self.tree = distance;
        let (unit, flag) = if (low | high).trailing_zeros() >= 2 { (2, 0) } else { (0, TREE_IN_KIB) };
        put_signed(&mut self.frame, low >> unit);
        put_signed(&mut self.frame, high >> unit);
        flag
    }

    fn put_system(&mut self, values: &[u64]) -> u8 {
        let mut flag = 0;
        if values.len() != self.system.len() {
            flag = COLUMN_COUNT;
            put(&mut self.frame, values.len() as u64);
            self.system.resize(values.len(), 0);
        }
        let changed = values.iter().zip(&self.system).filter(|(now, last)| now != last).count();
        put(&mut self.frame, changed as u64);
        let mut expected = 0;
        for (column, (&now, last)) in values.iter().zip(&mut self.system).enumerate() {
            if now != *last {
                put(&mut self.frame, (column - expected) as u64);
                put_signed(&mut self.frame, now.wrapping_sub(*last) as i64);
                *last = now;
                expected = column + 1;
            }
        }
        flag
    }

    fn put_processes(&mut self, samples: &[ProcessSample]) -> Rough {
        put(&mut self.frame, samples.len() as u64);
        self.samples.start_tick();
        let mut rough = Rough::default();
        let mut expected = 0;
        for sample in samples {
            let gap = u64::from(sample.index) - expected;
            expected = u64::from(sample.index) + 1;
            let now = fields(sample);
            rough.add(&now);
            put_process(&mut self.frame, gap, self.samples.of(sample.index), now);
        }
        rough
    }

    /// The frame payload; empty before the first tick.
    pub fn payload(&self) -> &[u8] {
        &self.frame[HEADER_BYTES..]
    }

    /// The whole frame, as it is stored.
    #[inline]
    pub fn frame(&mut self) -> &[u8] {
        frame::seal(&mut self.frame, Kind::Ticks as u8);
        &self.frame
    }

    pub fn len(&self) -> usize {
        self.payload().len()
    }

    pub fn is_empty(&self) -> bool {
        self.payload().is_empty()
    }

    pub fn ticks(&self) -> u64 {
        self.ticks
    }

    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Time from the first tick to the last.
    pub fn span_ns(&self) -> u64 {
        self.last_ns.saturating_sub(self.first_ns)
    }

    #[cfg(test)]
    pub(super) fn capacities(&self) -> [usize; 4] {
        let samples = &self.samples;
        let (slots, map) = (samples.slots.capacity(), samples.by_index.capacity());
        [self.frame.capacity(), self.system.capacity(), slots, map]
    }

    /// Starts the next block, with the next number if this one holds ticks; buffers stay.
    pub fn clear(&mut self) {
        self.frame.truncate(HEADER_BYTES);
        self.seq += u64::from(self.ticks > 0);
        self.ticks = 0;
        (self.first_ns, self.last_ns) = (0, 0);
        self.tree = Bounds::default();
        self.system.clear();
        self.samples.clear();
        self.same.bytes.clear();
        self.full = false;
    }
}

fn empty_frame() -> Vec<u8> {
    let mut frame = Vec::with_capacity(16 << 10);
    frame.resize(HEADER_BYTES, 0);
    frame
}

fn put_process(out: &mut Vec<u8>, gap: u64, last: &mut Fields, now: Fields) {
    let mut deltas = [0_i64; 14];
    let mut mask = if gap == 0 { 0 } else { GAP };
    let mut memory = 0;
    for (field, delta) in deltas.iter_mut().enumerate() {
        let expected = if field == HWM { expected_hwm(last[HWM], &now) } else { last[field] };
        *delta = now[field].wrapping_sub(expected) as i64;
        mask |= u64::from(*delta != 0) << (field as u32 + CHANGED_SHIFT);
        memory |= if MEMORY[field] { *delta } else { 0 };
    }
    let unit = if memory.trailing_zeros() >= 2 { 2 } else { 0 };
    put(out, if unit == 0 { mask | MEMORY_IN_KIB } else { mask });
    if gap != 0 {
        put(out, gap);
    }
    for (field, &delta) in deltas.iter().enumerate().filter(|&(_, &delta)| delta != 0) {
        if MEMORY[field] {
            put_signed(out, delta >> unit);
        } else {
            put(out, delta as u64);
        }
    }
    *last = now;
}
