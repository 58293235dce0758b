//! Bytes to ticks: never panics, and memory stays proportional to the block whatever it claims.

use super::{
    CHANGED_SHIFT, COLUMN_COUNT, Error, Fields, GAP, HWM, MAX_BLOCK_BYTES, MAX_COLUMNS, MEMORY,
    MEMORY_IN_KIB, Rough, SYSTEM, Samples, TREE, TREE_IN_KIB, expected_hwm, sample,
};
use crate::{
    record::{Bounds, Phase, ProcessSample, Tick},
    varint::Cursor,
};

/// The number of a block, from its payload.
pub fn block_seq(payload: &[u8]) -> Result<u64, Error> {
    Cursor::new(payload).varint().ok_or(Error::Truncated)
}

/// Takes blocks one after the other and gives their ticks; buffers are reused.
#[derive(Debug, Default)]
pub struct BlockDecoder {
    payload: Vec<u8>,
    at: usize,
    state: State,
}

/// What the block said last.
#[derive(Debug, Default)]
struct State {
    at_ns: u64,
    /// As distance from [`Rough`].
    tree: Bounds,
    system: Vec<u64>,
    samples: Samples,
}

impl BlockDecoder {
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts on a block and returns its number. What was left of the block before is forgotten.
    pub fn load(&mut self, payload: &[u8]) -> Result<u64, Error> {
        self.payload.clear();
        self.at = 0;
        if payload.len() > MAX_BLOCK_BYTES {
            return Err(Error::Full);
        }
        let mut cursor = Cursor::new(payload);
        let seq = cursor.varint().ok_or(Error::Truncated)?;
        self.state.clear(cursor.varint().ok_or(Error::Truncated)?);
        self.at = payload.len() - cursor.remaining();
        self.payload.extend_from_slice(payload);
        Ok(seq)
    }

    /// Replaces `tick` by the next one; `false` at the end of the block. After an error the block is at its end.
    pub fn next_into(&mut self, tick: &mut Tick) -> Result<bool, Error> {
        if self.at == self.payload.len() {
            return Ok(false);
        }
        let mut cursor = Cursor::new(&self.payload[self.at..]);
        let result = self.state.read_tick(&mut cursor, tick);
        let remaining = if result.is_ok() { cursor.remaining() } else { 0 };
        self.at = self.payload.len() - remaining;
        result.map(|()| true)
    }
}

impl State {
    fn clear(&mut self, at_ns: u64) {
        self.at_ns = at_ns;
        self.tree = Bounds::default();
        self.system.clear();
        self.samples.clear();
    }

    fn read_tick(&mut self, cursor: &mut Cursor<'_>, tick: &mut Tick) -> Result<(), Error> {
        let elapsed = cursor.varint().ok_or(Error::Truncated)?;
        self.at_ns = self.at_ns.wrapping_add(elapsed);
        tick.at_ns = self.at_ns;
        let flags = cursor.byte().ok_or(Error::Truncated)?;
        tick.phase = phase(flags)?;
        tick.system.clear();
        if flags & SYSTEM != 0 {
            self.read_system(cursor, flags)?;
            tick.system.extend_from_slice(&self.system);
        }
        tick.processes.clear();
        let rough = self.read_processes(cursor, &mut tick.processes)?;
        tick.tree = None;
        if flags & TREE != 0 {
            self.read_tree(cursor, flags).ok_or(Error::Truncated)?;
            tick.tree = Some(rough.bounds(self.tree));
        }
        Ok(())
    }

    fn read_tree(&mut self, cursor: &mut Cursor<'_>, flags: u8) -> Option<()> {
        let unit = if flags & TREE_IN_KIB == 0 { 2 } else { 0 };
        self.tree.low_kib = self.tree.low_kib.wrapping_add((cursor.signed()? << unit) as u64);
        self.tree.high_kib = self.tree.high_kib.wrapping_add((cursor.signed()? << unit) as u64);
        Some(())
    }

    fn read_system(&mut self, cursor: &mut Cursor<'_>, flags: u8) -> Result<(), Error> {
        if flags & COLUMN_COUNT != 0 {
            let columns = cursor.varint().ok_or(Error::Truncated)?;
            let columns = usize::try_from(columns).map_err(|_| Error::Columns)?;
            if columns > MAX_COLUMNS {
                return Err(Error::Columns);
            }
            self.system.resize(columns, 0);
        }
        let mut column = 0_usize;
        for _ in 0..cursor.varint().ok_or(Error::Truncated)? {
            let gap = cursor.varint().ok_or(Error::Truncated)?;
            let delta = cursor.signed().ok_or(Error::Truncated)?;
            column = usize::try_from(gap).ok().and_then(|gap| column.checked_add(gap)).ok_or(Error::Range)?;
            let value = self.system.get_mut(column).ok_or(Error::Range)?;
            *value = value.wrapping_add(delta as u64);
            column += 1;
        }
        Ok(())
    }

    fn read_processes(
        &mut self,
        cursor: &mut Cursor<'_>,
        out: &mut Vec<ProcessSample>,
    ) -> Result<Rough, Error> {
        let count = cursor.varint().ok_or(Error::Truncated)?;
        // Each takes a byte at least, so a wrong count cannot make us reserve much.
        let count = usize::try_from(count).ok().filter(|&count| count <= cursor.remaining());
        let count = count.ok_or(Error::Truncated)?;
        out.reserve(count);
        self.samples.start_tick();
        let mut rough = Rough::default();
        let mut expected = 0_u64;
        for _ in 0..count {
            let mask = cursor.varint().ok_or(Error::Truncated)?;
            let gap = if mask & GAP == 0 { 0 } else { cursor.varint().ok_or(Error::Truncated)? };
            let index = expected.checked_add(gap).and_then(|index| u32::try_from(index).ok());
            let index = index.ok_or(Error::Range)?;
            expected = u64::from(index) + 1;
            let last = self.samples.of(index);
            read_process(cursor, mask, last)?;
            rough.add(last);
            out.push(sample(index, last)?);
        }
        Ok(rough)
    }
}

fn phase(flags: u8) -> Result<Phase, Error> {
    if flags & !(3 | TREE | SYSTEM | TREE_IN_KIB | COLUMN_COUNT) != 0 {
        return Err(Error::Range);
    }
    match flags & 3 {
        0 => Ok(Phase::Before),
        1 => Ok(Phase::During),
        2 => Ok(Phase::After),
        _ => Err(Error::Range),
    }
}

#[inline]
fn read_process(cursor: &mut Cursor<'_>, mask: u64, fields: &mut Fields) -> Result<(), Error> {
    if mask >= MEMORY_IN_KIB << 1 {
        return Err(Error::Range);
    }
    let unit = if mask & MEMORY_IN_KIB == 0 { 2 } else { 0 };
    let mut changed = (mask & (MEMORY_IN_KIB - 1)) >> CHANGED_SHIFT;
    let mut hwm_delta = 0;
    while changed != 0 {
        let field = changed.trailing_zeros() as usize;
        changed &= changed - 1;
        let delta =
            if MEMORY[field] { cursor.signed().map(|pages| (pages << unit) as u64) } else { cursor.varint() };
        let delta = delta.ok_or(Error::Truncated)?;
        if field == HWM {
            hwm_delta = delta;
        } else {
            fields[field] = fields[field].wrapping_add(delta);
        }
    }
    fields[HWM] = expected_hwm(fields[HWM], fields).wrapping_add(hwm_delta);
    Ok(())
}
