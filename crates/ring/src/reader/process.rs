//! One process: its mode, its counters, its lanes.

use std::fs::File;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::Error;
use super::map::Map;
use crate::cursor::Source;
use crate::decode;
use crate::event::Mode;
use crate::layout::{
    CONTROL_FILE, CONTROL_MAGIC, Control, LANE_HEADER, LANE_SIZES, LaneHeader, MAX_LANES, PAGE, VERSION,
};
use crate::{Decoder, Event};

/// A tracked process image, seen from outside. Stays readable after the process is dead.
#[derive(Debug)]
pub struct Process {
    map: Map,
    lanes: Vec<Lane>,
    /// Lanes whose bytes made no sense from some point on.
    corrupt: u64,
}

#[derive(Debug)]
struct Lane {
    offset: u64,
    capacity: u64,
    decoder: Decoder,
    broken: bool,
}

/// What does not change while a process image lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    pub pid: u32,
    pub forked_from: u32,
    pub start_ticks: u64,
    pub start_ns: u64,
    pub book_inode: u64,
    /// `PY_VERSION_HEX >> 16`, 0 while no interpreter was found.
    pub python: u32,
    /// Where `_PyEval_EvalFrameDefault` begins, 0 for none.
    pub eval: u64,
}

/// The counters of [`crate::layout::Counters`], read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    pub lost: u64,
    pub nested: u64,
    pub orphans_lost: u64,
    pub waits: u64,
    pub longest_wait_ticks: u64,
    pub stacks_dropped: u64,
    pub stacks_cut: u64,
    /// Stacks whose inner frames were not kept, counted when met.
    pub stacks_folded: u64,
    pub refused: u64,
    pub abandoned: u64,
    /// Private memory of the tracker in the target, and its share of the rings.
    pub private_bytes: u64,
    pub ring_bytes: u64,
    pub rules: u64,
    pub guessed: u64,
    /// Lanes given up by this reader because their bytes made no sense.
    pub corrupt_lanes: u64,
    /// Bits of [`crate::layout::degraded`].
    pub degraded: u32,
}

impl Process {
    /// Opens a control file that was passed over a socket.
    pub fn open(control: &File) -> Result<Self, Error> {
        let map = Map::new(control, CONTROL_FILE)?;
        let process = Self { map, lanes: Vec::new(), corrupt: 0 };
        let header = process.header()?;
        if header.magic.load(Acquire) != CONTROL_MAGIC || header.version.load(Relaxed) != VERSION {
            return Err(Error::NotOurs);
        }
        Ok(process)
    }

    fn header(&self) -> Result<&Control, Error> {
        self.map.at::<Control>(0).ok_or(Error::NotOurs)
    }

    /// The inode of the control file: tells images of one process id apart.
    pub fn inode(&self) -> u64 {
        self.map.inode()
    }

    pub fn facts(&self) -> Result<Facts, Error> {
        let header = self.header()?;
        Ok(Facts {
            pid: header.pid.load(Relaxed),
            forked_from: header.forked_from.load(Relaxed),
            start_ticks: header.start_ticks.load(Relaxed),
            start_ns: header.start_ns.load(Relaxed),
            book_inode: header.book.load(Relaxed),
            python: header.python.load(Relaxed),
            eval: header.eval.load(Relaxed),
        })
    }

    pub fn mode(&self) -> Result<Mode, Error> {
        Ok(Mode(self.header()?.mode.load(Relaxed)))
    }

    /// Switches the target. It notices at its next event; each lane tells from where on the mode holds.
    pub fn set_mode(&self, mode: Mode) -> Result<(), Error> {
        self.header()?.mode.store(mode.0, Relaxed);
        Ok(())
    }

    /// Says that the recorder lives. To be called at least once a second.
    pub fn beat(&self) -> Result<(), Error> {
        self.header()?.beat.fetch_add(1, Relaxed);
        Ok(())
    }

    pub fn totals(&self) -> Result<Totals, Error> {
        let header = self.header()?;
        let counters = &header.counters;
        let get = |counter: &AtomicU64| counter.load(Relaxed);
        Ok(Totals {
            lost: get(&counters.lost),
            nested: get(&counters.nested),
            orphans_lost: get(&counters.orphans_lost),
            waits: get(&counters.waits),
            longest_wait_ticks: get(&counters.longest_wait),
            stacks_dropped: get(&counters.stacks_dropped),
            stacks_cut: get(&counters.stacks_cut),
            stacks_folded: get(&counters.stacks_folded),
            refused: get(&counters.refused),
            abandoned: get(&counters.abandoned),
            private_bytes: get(&counters.private_bytes),
            ring_bytes: get(&header.used_bytes),
            rules: get(&counters.rules),
            guessed: get(&counters.guessed),
            corrupt_lanes: self.corrupt,
            degraded: header.degraded.load(Relaxed),
        })
    }

    /// Code that evaluates Python, from and to: parts of the interpreter's loop met so far (3.11 and later). More than
    /// [`Facts::eval`] tells, because compilers move parts of the loop elsewhere.
    pub fn evaluations(&self) -> Result<Vec<(u64, u64)>, Error> {
        let parts = self.header()?.evaluations.iter();
        let parts = parts.map(|[start, end]| (start.load(Acquire), end.load(Relaxed)));
        Ok(parts.take_while(|(start, _)| *start != 0).collect())
    }

    /// Lanes published so far.
    pub fn lanes(&mut self) -> usize {
        let count = self.header().map_or(0, |header| header.lanes.load(Acquire) as usize).min(MAX_LANES);
        for index in self.lanes.len()..count {
            match self.lane(index) {
                Some(lane) => self.lanes.push(lane),
                None => break,
            }
        }
        self.lanes.len()
    }

    /// `None` while the entry is not yet written, or when it makes no sense.
    fn lane(&self, index: usize) -> Option<Lane> {
        let entry = self.map.at::<AtomicU64>(PAGE + index as u64 * 8)?.load(Acquire);
        let (offset, bytes) = ((entry & 0xffff_ffff) * PAGE, (entry >> 32) * PAGE);
        let sound = entry != 0 && LANE_SIZES.contains(&bytes) && offset + bytes <= CONTROL_FILE;
        sound.then(|| Lane {
            offset,
            capacity: bytes - LANE_HEADER,
            decoder: Decoder::default(),
            broken: false,
        })
    }

    /// Takes what is in a lane, undecoded, to the end of `into`. Returns how many bytes.
    pub fn take(&mut self, lane: usize, into: &mut Vec<u8>) -> usize {
        let Some(Lane { offset, capacity, .. }) = self.lanes.get(lane) else { return 0 };
        let Some(header) = self.map.at::<LaneHeader>(*offset) else { return 0 };
        let (head, tail) = (header.head.load(Acquire), header.tail.load(Relaxed));
        let length = head.wrapping_sub(tail);
        if length == 0 || length > *capacity {
            return 0;
        }
        let at = tail % capacity;
        let first = length.min(capacity - at);
        let data = offset + LANE_HEADER;
        self.map.copy(data + at, first, into);
        self.map.copy(data, length - first, into);
        header.tail.store(head, Release);
        length as usize
    }

    /// Drains all lanes once, handing each event to `sink` with its lane's decoder (thread, time, mode).
    /// Returns the bytes taken.
    pub fn drain(&mut self, buffer: &mut Vec<u8>, mut sink: impl FnMut(usize, &Decoder, Event)) -> usize {
        let mut total = 0;
        for index in 0..self.lanes() {
            buffer.clear();
            total += self.take(index, buffer);
            if let Some(lane) = self.lanes.get_mut(index) {
                let sound = !lane.broken && decode_into(&mut lane.decoder, buffer, index, &mut sink).is_ok();
                if !sound && !lane.broken {
                    lane.broken = true;
                    self.corrupt += 1;
                }
            }
        }
        total
    }
}

fn decode_into(
    decoder: &mut Decoder,
    bytes: &[u8],
    lane: usize,
    sink: &mut impl FnMut(usize, &Decoder, Event),
) -> Result<(), decode::Error> {
    let mut source = Source::new(bytes);
    while let Some(event) = decoder.next(&mut source)? {
        sink(lane, decoder, event);
    }
    Ok(())
}
