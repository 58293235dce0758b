//! The producer's half of the encoding: what the thread said last, so that the next record can be short.

use crate::cursor::Cursor;
use crate::event::{Mode, Source, Stacks, op};

/// How many recent addresses a thread keeps: as many as one byte can name.
pub const RECENT: usize = 256;

/// Addresses are multiples of eight.
pub(crate) const ADDRESS_SHIFT: u32 = 3;

/// The place of an address among the recent ones. Blocks of one size class differ in the middle bits.
#[inline(always)]
pub(crate) fn recent_place(address: u64) -> usize {
    ((address >> 4) ^ (address >> 12)) as usize & (RECENT - 1)
}

/// The state that the decoder of this lane mirrors. All zero is a valid start.
#[derive(Debug)]
#[repr(C)]
pub struct Encoder {
    ticks: u64,
    address: u64,
    bytes: u64,
    freed: u64,
    stacks: Stacks,
    recent: [u64; RECENT],
}

impl Default for Encoder {
    fn default() -> Self {
        Self { ticks: 0, address: 0, bytes: 0, freed: 0, stacks: Stacks::default(), recent: [0; RECENT] }
    }
}

impl Encoder {
    /// Starts a stream afresh: the decoder forgets what it knew as well.
    pub fn begin(&mut self, out: &mut Cursor, tid: u32, serial: u32, ticks: u64) {
        *self = Self::default();
        self.ticks = ticks;
        out.byte(op::BEGIN);
        out.number(u64::from(tid));
        out.number(u64::from(serial));
        out.number(ticks);
    }

    pub fn end(&mut self, out: &mut Cursor) {
        out.byte(op::END);
    }

    #[inline(always)]
    pub fn tick(&mut self, out: &mut Cursor, ticks: u64) {
        out.byte(op::TICK);
        out.difference(ticks.wrapping_sub(self.ticks) as i64);
        self.ticks = ticks;
    }

    pub fn mode(&mut self, out: &mut Cursor, mode: Mode, mean_bytes: u64, exact_bytes: u64) {
        out.byte(op::MODE);
        out.number(u64::from(mode.0));
        out.number(mean_bytes);
        out.number(exact_bytes);
    }

    pub fn gap(&mut self, out: &mut Cursor, events: u64) {
        out.byte(op::GAP);
        out.number(events);
    }

    #[inline(always)]
    pub fn alloc(&mut self, out: &mut Cursor, source: Source, address: u64, bytes: u64, stacks: Stacks) {
        let first = out.position();
        let mut code = match source {
            Source::Malloc => op::MALLOC,
            Source::Realloc => op::REALLOC,
            Source::Python => op::PY_ALLOC,
            Source::PythonRealloc => op::PY_REALLOC,
        };
        out.byte(code);
        self.address(out, address);
        if bytes == self.bytes {
            code |= op::SAME_SIZE;
        } else {
            out.number(bytes);
            self.bytes = bytes;
        }
        code |= self.stacks(out, stacks);
        self.recent[recent_place(address)] = address;
        // SAFETY: `first` is where this record's first byte was written a moment ago.
        unsafe { first.write(code) };
    }

    #[inline(always)]
    pub fn free(&mut self, out: &mut Cursor, address: u64) {
        self.freed = address;
        let place = recent_place(address);
        if self.recent[place] == address {
            out.byte(op::FREE | op::RECENT);
            out.byte(place as u8);
        } else {
            out.byte(op::FREE);
            self.address(out, address);
        }
    }

    /// Takes the last [`Self::free`] back.
    pub fn unfree(&mut self, out: &mut Cursor) {
        out.byte(op::UNFREE);
        out.number(self.freed >> ADDRESS_SHIFT);
    }

    pub fn map(&mut self, out: &mut Cursor, address: u64, bytes: u64, kind: u8, stacks: Stacks) {
        out.byte(op::MAP);
        range(out, address, bytes);
        out.byte(kind);
        both_stacks(out, stacks);
    }

    pub fn unmap(&mut self, out: &mut Cursor, address: u64, bytes: u64) {
        out.byte(op::UNMAP);
        range(out, address, bytes);
    }

    pub fn remap(&mut self, out: &mut Cursor, from: (u64, u64), to: (u64, u64), stacks: Stacks) {
        out.byte(op::REMAP);
        range(out, from.0, from.1);
        range(out, to.0, to.1);
        both_stacks(out, stacks);
    }

    pub fn program_break(&mut self, out: &mut Cursor, address: u64, stacks: Stacks) {
        out.byte(op::BREAK);
        out.number(address);
        both_stacks(out, stacks);
    }

    pub fn discard(&mut self, out: &mut Cursor, address: u64, bytes: u64, lazily: bool) {
        out.byte(op::DISCARD);
        range(out, address, bytes);
        out.byte(u8::from(lazily));
    }

    pub fn fork(&mut self, out: &mut Cursor, child: u32) {
        out.byte(op::FORK);
        out.number(u64::from(child));
    }

    pub fn unload(&mut self, out: &mut Cursor, module: u32) {
        out.byte(op::UNLOAD);
        out.number(u64::from(module));
    }

    #[inline(always)]
    fn address(&mut self, out: &mut Cursor, address: u64) {
        out.difference(address.wrapping_sub(self.address) as i64 >> ADDRESS_SHIFT);
        self.address = address & !((1 << ADDRESS_SHIFT) - 1);
    }

    #[inline(always)]
    fn stacks(&mut self, out: &mut Cursor, stacks: Stacks) -> u8 {
        let mut code = 0;
        if stacks.native == self.stacks.native {
            code |= op::SAME_NATIVE;
        } else {
            out.difference(i64::from(stacks.native) - i64::from(self.stacks.native));
        }
        if stacks.python == self.stacks.python {
            code |= op::SAME_PYTHON;
        } else {
            out.difference(i64::from(stacks.python) - i64::from(self.stacks.python));
        }
        self.stacks = stacks;
        code
    }
}

/// Mappings are far from the heap: they do not disturb what is remembered for it.
fn range(out: &mut Cursor, address: u64, bytes: u64) {
    out.number(address);
    out.number(bytes);
}

/// As [`range`]: nothing is remembered.
fn both_stacks(out: &mut Cursor, stacks: Stacks) {
    out.number(u64::from(stacks.native));
    out.number(u64::from(stacks.python));
}
