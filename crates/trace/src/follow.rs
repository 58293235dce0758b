//! Reading a run while it is written: each look gives what is new since the look before.
//!
//! The one invariant: all looks together give the records that [`crate::Reader`] gives, each once. A tick is given as soon
//! as it is in the open block, and not again when that block is closed; a mark that is written later than the tick that
//! follows it is given later too.

use std::{collections::VecDeque, fs::File, os::unix::fs::FileExt as _, path::Path, path::PathBuf};

use crate::{
    Error,
    frame::{self, Frame, HEADER_BYTES, Kind, MAX_PAYLOAD_BYTES, Parsed},
    manifest::{LOG_FILE, OPEN_BLOCK_FILE},
    rare,
    reader::{is_early, newest_open_block, read_open_block, refuse_newer},
    record::{Record, Tick},
    tick::{BlockDecoder, block_seq},
};

const CHUNK_BYTES: usize = 256 << 10;
/// A look at a long log reads no more than this: whoever looks has other things to do.
const MOST_BYTES: u64 = 4 << 20;

/// A place in a log that grows.
#[derive(Debug)]
pub struct Follower {
    open_path: PathBuf,
    path: PathBuf,
    log: File,
    /// Everything before it was given.
    at: u64,
    buffer: Vec<u8>,
    block: BlockDecoder,
    /// Always a [`Record::Tick`]; its vectors are reused.
    tick: Record,
    /// Marks and the like that stand before the ticks of their second; see [`crate::Reader`].
    early: VecDeque<Record>,
    /// The last block that the log has.
    closed_seq: u64,
    /// The block that was open at the last look, and how many of its ticks were given.
    open_seq: u64,
    open_given: u64,
    last_ns: Option<u64>,
    ended: bool,
    behind: bool,
    damaged_bytes: u64,
}

impl Follower {
    pub fn open(directory: &Path) -> Result<Self, Error> {
        let path = directory.join(LOG_FILE);
        let log = File::open(&path).map_err(|source| Error::Io { path: path.clone(), source })?;
        Ok(Self {
            open_path: directory.join(OPEN_BLOCK_FILE),
            path,
            log,
            at: 0,
            buffer: Vec::new(),
            block: BlockDecoder::new(),
            tick: Record::Tick(Tick::default()),
            early: VecDeque::new(),
            closed_seq: 0,
            open_seq: 0,
            open_given: 0,
            last_ns: None,
            ended: false,
            behind: false,
            damaged_bytes: 0,
        })
    }

    /// Shows what is new to `see`, some megabytes of it at most; see [`Self::is_behind`].
    pub fn look(&mut self, mut see: impl FnMut(&Record)) -> Result<(), Error> {
        // The open block first: if it is closed while we read, the log has it and this copy is ignored.
        let open = newest_open_block(&read_open_block(&self.open_path)?);
        self.read_log(&mut see)?;
        let open = open.filter(|payload| block_seq(payload).is_ok_and(|seq| seq > self.closed_seq));
        if let Some(payload) = open.filter(|_| !self.ended && !self.behind) {
            (self.open_seq, self.open_given) = self.give_block(&payload, &mut see);
        }
        if self.ended {
            self.release(u64::MAX, &mut see);
        }
        Ok(())
    }

    /// The last record was given.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// The log has more than the last look gave.
    pub fn is_behind(&self) -> bool {
        self.behind
    }

    /// The last time that any record told.
    pub fn last_ns(&self) -> Option<u64> {
        self.last_ns
    }

    /// Bytes that are no frame and were skipped.
    pub fn damaged_bytes(&self) -> u64 {
        self.damaged_bytes
    }

    fn read_log(&mut self, see: &mut impl FnMut(&Record)) -> Result<(), Error> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut want = CHUNK_BYTES;
        let until = self.at + MOST_BYTES;
        self.behind = false;
        let result = loop {
            buffer.resize(want, 0);
            let read = match self.log.read_at(&mut buffer, self.at) {
                Ok(read) => read,
                Err(source) => break Err(Error::Io { path: self.path.clone(), source }),
            };
            let used = match self.give_frames(buffer.get(..read).unwrap_or_default(), see) {
                Ok(used) => used,
                Err(error) => break Err(error),
            };
            self.at += used as u64;
            // Less than was asked for is all there is; nothing whole in a full buffer is a longer frame.
            match (used, read < want) {
                (_, true) => break Ok(()),
                (0, false) if want > MAX_PAYLOAD_BYTES + HEADER_BYTES => break Ok(()),
                (0, false) => want *= 2,
                _ if self.at >= until => {
                    self.behind = true;
                    break Ok(());
                }
                _ => {}
            }
        };
        buffer.truncate(CHUNK_BYTES);
        self.buffer = buffer;
        result
    }

    /// Gives the whole frames at the start of `bytes`; returns their length, and that of what is no frame.
    fn give_frames(&mut self, bytes: &[u8], see: &mut impl FnMut(&Record)) -> Result<usize, Error> {
        let mut used = 0;
        while let Some(rest) = bytes.get(used..).filter(|rest| !rest.is_empty()) {
            match frame::parse(rest) {
                Parsed::Whole { total } => {
                    if let Some(frame) = rest.get(..total).and_then(Frame::decode) {
                        self.give_frame(&frame, see)?;
                    }
                    used += total;
                }
                Parsed::Incomplete { .. } => break,
                Parsed::Bad => {
                    let skipped = frame::next_magic(rest).max(1);
                    self.damaged_bytes += skipped as u64;
                    used += skipped;
                }
            }
        }
        Ok(used)
    }

    fn give_frame(&mut self, frame: &Frame<'_>, see: &mut impl FnMut(&Record)) -> Result<(), Error> {
        match frame.known_kind() {
            None => {}
            Some(Kind::Ticks) => self.closed_seq = self.closed_seq.max(self.give_block(frame.payload, see).0),
            Some(kind) => {
                refuse_newer(kind, frame.payload)?;
                match rare::decode(kind, frame.payload) {
                    Some(record) if is_early(&record) => self.hold_back(record),
                    Some(record) => self.give(&record, see),
                    None => {}
                }
            }
        }
        Ok(())
    }

    fn hold_back(&mut self, record: Record) {
        let place = self.early.partition_point(|held| held.at_ns() <= record.at_ns());
        self.early.insert(place, record);
    }

    fn give(&mut self, record: &Record, see: &mut impl FnMut(&Record)) {
        if let Some(at_ns) = record.at_ns() {
            self.release(at_ns, see);
        }
        self.ended |= matches!(record, Record::End(_));
        self.note(record);
        see(record);
    }

    fn note(&mut self, record: &Record) {
        self.last_ns = self.last_ns.max(record.at_ns());
    }

    /// Early records up to this time.
    fn release(&mut self, until_ns: u64, see: &mut impl FnMut(&Record)) {
        while self.early.front().is_some_and(|held| held.at_ns() <= Some(until_ns)) {
            if let Some(record) = self.early.pop_front() {
                self.note(&record);
                see(&record);
            }
        }
    }

    /// Gives the ticks of a block that were not given while it was open; returns its number and how many it has.
    fn give_block(&mut self, payload: &[u8], see: &mut impl FnMut(&Record)) -> (u64, u64) {
        let Ok(seq) = self.block.load(payload) else { return (0, 0) };
        let given = if seq == self.open_seq { self.open_given } else { 0 };
        let mut count = 0;
        let mut held = std::mem::replace(&mut self.tick, Record::Tick(Tick::default()));
        while let Record::Tick(tick) = &mut held
            && self.block.next_into(tick).unwrap_or(false)
        {
            count += 1;
            if count > given {
                // What was read in the course of a tick bears the tick's own time and comes after it.
                let before_ns = tick.at_ns.saturating_sub(1);
                self.release(before_ns, see);
                self.note(&held);
                see(&held);
            }
        }
        self.tick = held;
        (seq, count.max(given))
    }
}
