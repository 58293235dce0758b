//! Reading a run while it is written: each look gives what is new since the look before.
//!
//! The one invariant: all looks together give the records that [`crate::Reader`] gives, each once. A tick is given as soon
//! as it is in the open block, and not again when that block is closed; a mark that is written later than the tick that
//! follows it is given later too.

use std::{fs::File, os::unix::fs::FileExt as _, path::Path, path::PathBuf};

use crate::{
    Error,
    frame::{self, Frame, HEADER_BYTES, Kind, MAX_PAYLOAD_BYTES, Parsed},
    manifest::{LOG_FILE, OPEN_BLOCK_FILE},
    rare,
    reader::{Early, newest_open_block, read_open_block, refuse_newer},
    record::{Record, Tick},
    scan::Search,
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
    early: Early,
    /// The last block that the log has.
    closed_seq: u64,
    /// The block that was open at the last look, and how many of its ticks were given.
    open_seq: u64,
    open_given: u64,
    last_ns: Option<u64>,
    ended: bool,
    behind: bool,
    damaged_bytes: u64,
    /// What stood last was no frame: the next one is searched.
    searching: bool,
    search: Search,
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
            early: Early::default(),
            closed_seq: 0,
            open_seq: 0,
            open_given: 0,
            last_ns: None,
            ended: false,
            behind: false,
            damaged_bytes: 0,
            searching: false,
            search: Search::default(),
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
            match self.parse(rest) {
                Parsed::Whole { total } => {
                    self.searching = false;
                    if let Some(whole) = rest.get(..total) {
                        self.give_frame(&Frame::view(whole), see)?;
                    }
                    used += total;
                }
                Parsed::Incomplete { .. } => break,
                Parsed::Bad => {
                    self.searching = true;
                    let skipped = frame::next_magic(rest).max(1);
                    self.damaged_bytes += skipped as u64;
                    used += skipped;
                }
            }
        }
        Ok(used)
    }

    /// What stands at the start of `bytes`. Of what only looks like a frame, after damage, not all can be checked.
    fn parse(&mut self, bytes: &[u8]) -> Parsed {
        match frame::parse(bytes.get(..HEADER_BYTES).unwrap_or(bytes)) {
            Parsed::Incomplete { total } if total <= bytes.len() => {
                let may_check = !self.searching || self.search.allows(total);
                if may_check { frame::parse(bytes) } else { Parsed::Bad }
            }
            told => told,
        }
    }

    fn give_frame(&mut self, frame: &Frame<'_>, see: &mut impl FnMut(&Record)) -> Result<(), Error> {
        match frame.known_kind() {
            None => {}
            Some(Kind::Ticks) => self.closed_seq = self.closed_seq.max(self.give_block(frame.payload, see).0),
            Some(kind) => {
                refuse_newer(kind, frame.payload)?;
                match rare::decode(kind, frame.payload) {
                    Some(record) if record.is_placed_by_time() => self.early.hold_back(record),
                    Some(record) => self.give(&record, see),
                    None => {}
                }
            }
        }
        Ok(())
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
        while let Some(record) = self.early.next_until(Some(until_ns)) {
            self.note(&record);
            see(&record);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Each place looks like the start of a long frame: to check them all would take hours.
    #[test]
    fn hostile_bytes_are_passed_over_in_bounded_time() {
        let long = 4_u32 << 20;
        let mut header = [0; HEADER_BYTES];
        frame::seal(&mut header, Kind::Mark as u8);
        header[4..8].copy_from_slice(&long.to_le_bytes());
        let bytes = header.repeat(3 * long as usize / HEADER_BYTES);
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(LOG_FILE), &bytes).unwrap();
        let mut follower = Follower::open(folder.path()).unwrap();
        let mut looks = 0;
        while looks == 0 || follower.is_behind() {
            follower.look(|_| panic!("there is no record")).unwrap();
            looks += 1;
        }
        // The last ones may still become frames.
        assert!(follower.damaged_bytes() >= u64::from(long) && looks < 9, "{looks} looks");
    }
}
