//! The consumer's half of the encoding. Total: any bytes give events or an error, never a panic.

use crate::cursor::{BadNumber, Source as Bytes};
use crate::encode::{ADDRESS_SHIFT, RECENT, recent_place};
use crate::event::{Event, Mode, Source, Stacks, op};

/// Why a lane's bytes cannot be read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// A number is cut or too long.
    Number,
    /// An operation that this version does not know.
    Operation(u8),
    /// A stack or thread number beyond 32 bits.
    Range,
}

impl From<BadNumber> for Error {
    fn from(_: BadNumber) -> Self {
        Self::Number
    }
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Number => f.write_str("a number is cut or too long"),
            Self::Operation(code) => write!(f, "unknown operation {code}"),
            Self::Range => f.write_str("a number is out of its range"),
        }
    }
}

impl core::error::Error for Error {}

/// Mirrors the [`crate::Encoder`] of one lane.
#[derive(Debug, Clone)]
pub struct Decoder {
    ticks: u64,
    address: u64,
    bytes: u64,
    stacks: Stacks,
    recent: [u64; RECENT],
    tid: u32,
    mode: Mode,
    mean_bytes: u64,
    exact_bytes: u64,
}

impl Default for Decoder {
    fn default() -> Self {
        Self {
            ticks: 0,
            address: 0,
            bytes: 0,
            stacks: Stacks::default(),
            recent: [0; RECENT],
            tid: 0,
            mode: Mode(0),
            mean_bytes: 0,
            exact_bytes: 0,
        }
    }
}

impl Decoder {
    /// The last time told: a lower bound for the events since then.
    pub fn ticks(&self) -> u64 {
        self.ticks
    }

    /// The thread that writes this lane now.
    pub fn tid(&self) -> u32 {
        self.tid
    }

    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// How many bytes an allocation of `bytes` stands for: itself, or more when it was drawn at random.
    ///
    /// A block of `s` bytes is drawn with probability `1 - exp(-s / mean)`; dividing by it is unbiased.
    #[cfg(feature = "std")]
    pub fn weight_bytes(&self, bytes: u64) -> f64 {
        let sampled = self.mode.level() == crate::event::Level::Sampled && bytes < self.exact_bytes;
        if !sampled || self.mean_bytes == 0 || bytes == 0 {
            return bytes as f64;
        }
        bytes as f64 / -(-(bytes as f64) / self.mean_bytes as f64).exp_m1()
    }

    /// The next event of `bytes`; `None` at their end. Ticks and padding are taken in silently.
    ///
    /// After an error the lane is lost until the next [`Event::Begin`]: lengths are not told.
    pub fn next(&mut self, bytes: &mut Bytes<'_>) -> Result<Option<Event>, Error> {
        while bytes.remaining() > 0 {
            let first = bytes.byte()?;
            match first & op::MASK {
                op::NOTHING => {}
                op::TICK => self.ticks = self.ticks.wrapping_add(bytes.difference()? as u64),
                code => return self.event(first, code, bytes).map(Some),
            }
        }
        Ok(None)
    }

    fn event(&mut self, first: u8, code: u8, bytes: &mut Bytes<'_>) -> Result<Event, Error> {
        Ok(match code {
            op::MALLOC => self.alloc(first, Source::Malloc, bytes)?,
            op::REALLOC => self.alloc(first, Source::Realloc, bytes)?,
            op::PY_ALLOC => self.alloc(first, Source::Python, bytes)?,
            op::PY_REALLOC => self.alloc(first, Source::PythonRealloc, bytes)?,
            op::FREE => Event::Free { address: self.freed(first, bytes)? },
            op::UNFREE => Event::Unfree { address: bytes.number()? << ADDRESS_SHIFT },
            op::BEGIN => self.begin(bytes)?,
            op::END => Event::End,
            op::MODE => self.change_mode(bytes)?,
            op::GAP => Event::Gap { events: bytes.number()? },
            _ => rare(code, bytes)?,
        })
    }

    fn begin(&mut self, bytes: &mut Bytes<'_>) -> Result<Event, Error> {
        let (tid, serial) = (small(bytes)?, small(bytes)?);
        let ticks = bytes.number()?;
        *self = Self { ticks, tid, ..Self::default() };
        Ok(Event::Begin { tid, serial })
    }

    fn change_mode(&mut self, bytes: &mut Bytes<'_>) -> Result<Event, Error> {
        self.mode = Mode(small(bytes)?);
        self.mean_bytes = bytes.number()?;
        self.exact_bytes = bytes.number()?;
        Ok(Event::Mode { mode: self.mode, mean_bytes: self.mean_bytes, exact_bytes: self.exact_bytes })
    }

    fn alloc(&mut self, first: u8, source: Source, bytes: &mut Bytes<'_>) -> Result<Event, Error> {
        let address = self.address(bytes)?;
        if first & op::SAME_SIZE == 0 {
            self.bytes = bytes.number()?;
        }
        if first & op::SAME_NATIVE == 0 {
            self.stacks.native = moved(self.stacks.native, bytes)?;
        }
        if first & op::SAME_PYTHON == 0 {
            self.stacks.python = moved(self.stacks.python, bytes)?;
        }
        self.recent[recent_place(address)] = address;
        Ok(Event::Alloc { address, bytes: self.bytes, source, stacks: self.stacks })
    }

    fn freed(&mut self, first: u8, bytes: &mut Bytes<'_>) -> Result<u64, Error> {
        if first & op::RECENT != 0 {
            return Ok(self.recent[usize::from(bytes.byte()?)]);
        }
        self.address(bytes)
    }

    fn address(&mut self, bytes: &mut Bytes<'_>) -> Result<u64, Error> {
        let difference = bytes.difference()? << ADDRESS_SHIFT;
        self.address = self.address.wrapping_add(difference as u64);
        Ok(self.address)
    }
}

/// Events that stand for themselves: they use nothing of what was said before.
fn rare(code: u8, bytes: &mut Bytes<'_>) -> Result<Event, Error> {
    Ok(match code {
        op::MAP => {
            let (address, length, kind) = (bytes.number()?, bytes.number()?, bytes.byte()?);
            Event::Map { address, bytes: length, kind, stacks: stacks(bytes)? }
        }
        op::UNMAP => Event::Unmap { address: bytes.number()?, bytes: bytes.number()? },
        op::REMAP => {
            let (from, from_bytes) = (bytes.number()?, bytes.number()?);
            let (to, to_bytes) = (bytes.number()?, bytes.number()?);
            Event::Remap { from, from_bytes, to, to_bytes, stacks: stacks(bytes)? }
        }
        op::BREAK => Event::Break { address: bytes.number()?, stacks: stacks(bytes)? },
        op::DISCARD => {
            let (address, length, lazily) = (bytes.number()?, bytes.number()?, bytes.byte()?);
            Event::Discard { address, bytes: length, lazily: lazily != 0 }
        }
        op::FORK => Event::Fork { child: small(bytes)? },
        op::UNLOAD => Event::Unload { module: small(bytes)? },
        _ => return Err(Error::Operation(code)),
    })
}

fn small(bytes: &mut Bytes<'_>) -> Result<u32, Error> {
    u32::try_from(bytes.number()?).map_err(|_| Error::Range)
}

fn stacks(bytes: &mut Bytes<'_>) -> Result<Stacks, Error> {
    Ok(Stacks { native: small(bytes)?, python: small(bytes)? })
}

fn moved(from: u32, bytes: &mut Bytes<'_>) -> Result<u32, Error> {
    let to = i64::from(from).checked_add(bytes.difference()?).ok_or(Error::Range)?;
    u32::try_from(to).map_err(|_| Error::Range)
}

#[cfg(test)]
mod tests;
