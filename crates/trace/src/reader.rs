//! Reading a run back, whatever happened to it.
//!
//! Streaming: one frame at a time is in memory. Damaged bytes are skipped and counted, the next whole frame
//! is searched; nothing is yielded whose checksum is wrong. [`Reader::ending`] says how the log ends.

use std::{
    collections::BTreeMap,
    fmt,
    fs::File,
    io::{self, Cursor, Read as _},
    path::Path,
};

use serde::Deserialize;

use crate::{
    Error, FORMAT_VERSION,
    frame::{Frame, Kind},
    log::SLOT_BYTES,
    manifest::{LOG_FILE, OPEN_BLOCK_FILE},
    rare,
    record::{Columns, Record, Tick},
    scan::Scanner,
    tick::{BlockDecoder, block_seq},
};

/// How a log ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The [`Record::End`] is there and nothing is damaged.
    Clean,
    Cut {
        /// End of the last whole frame of `trace.nlog`; for [`Why::Damaged`] the first damaged byte.
        offset: u64,
        /// The last time that any record told.
        at_ns: Option<u64>,
        why: Why,
    },
}

/// Why a log is not [`Ending::Clean`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// No whole record at all.
    Empty,
    /// All is whole, but the last record is missing: nilo was killed, or still runs.
    NoEnd,
    /// The last frame is torn: nilo was killed while writing, or the disk was full.
    Torn { bytes: u64 },
    /// Bytes inside that are no frame were skipped. `ended`: the last record was there all the same.
    Damaged { bytes: u64, ended: bool },
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Cut { offset, why, .. } = self else { return f.write_str("complete") };
        match why {
            Why::Empty => write!(f, "empty: nothing was recorded"),
            Why::NoEnd => write!(f, "cut at byte {offset}: nilo was killed, or still runs"),
            Why::Torn { bytes } => {
                write!(f, "cut at byte {offset}: the last record is torn ({bytes} bytes of it are there)")
            }
            Why::Damaged { bytes, ended: true } => {
                write!(f, "damaged at byte {offset}: {bytes} bytes were skipped")
            }
            Why::Damaged { bytes, ended: false } => {
                write!(f, "damaged at byte {offset}: {bytes} bytes were skipped, and the end is missing")
            }
        }
    }
}

/// What was met besides records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    pub ticks: u64,
    /// Whole frames that this version does not understand: a newer nilo made them.
    pub unknown: u64,
    /// Blocks of ticks that are missing by their numbers: dropped by the writer, or damaged.
    pub missing_blocks: u64,
}

/// Gives the records of a run in the order of their times, then those of the block that was open.
#[derive(Debug)]
pub struct Reader {
    frames: Scanner,
    open_block: Option<Vec<u8>>,
    block: BlockDecoder,
    /// Always a [`Record::Tick`]; its vectors are reused.
    tick: Record,
    rare: Record,
    early: Early,
    released: Record,
    staged: Option<Found>,
    tally: Tally,
    last_seq: u64,
    last_ns: Option<u64>,
    any: bool,
    ended: bool,
    failed: bool,
}

#[derive(Debug, Clone, Copy)]
enum Found {
    Tick,
    Rare,
    Released,
    Nothing,
}

impl Reader {
    /// Opens a run directory, which may still be written to.
    pub fn open(directory: &Path) -> Result<Self, Error> {
        // The open block first: if it is closed while we read, the log has it and this copy is ignored.
        let open = read_open_block(&directory.join(OPEN_BLOCK_FILE))?;
        let path = directory.join(LOG_FILE);
        let file = File::open(&path).map_err(|source| Error::Io { path, source })?;
        Ok(Self::over(Scanner::new(Box::new(file)), &open))
    }

    /// Reads the contents of `trace.nlog` and `open.nlog` (empty if there is none).
    pub fn from_bytes(log: impl Into<Vec<u8>>, open: &[u8]) -> Self {
        Self::over(Scanner::new(Box::new(Cursor::new(log.into()))), open)
    }

    fn over(frames: Scanner, open: &[u8]) -> Self {
        Self {
            frames,
            open_block: newest_open_block(open),
            block: BlockDecoder::new(),
            tick: Record::Tick(Tick::default()),
            rare: Record::Columns(Columns::default()),
            early: Early::default(),
            released: Record::Columns(Columns::default()),
            staged: None,
            tally: Tally::default(),
            last_seq: 0,
            last_ns: None,
            any: false,
            ended: false,
            failed: false,
        }
    }

    /// The next record; its buffers are reused by the next call. This is the fast way: no allocation per tick.
    pub fn next_record(&mut self) -> Result<Option<&Record>, Error> {
        if self.failed {
            return Ok(None);
        }
        let found = self.advance_in_time();
        self.failed = found.is_err();
        let record = match found? {
            Found::Tick => &self.tick,
            Found::Rare => &self.rare,
            Found::Released => &self.released,
            Found::Nothing => return Ok(None),
        };
        self.any = true;
        self.ended |= matches!(record, Record::End(_));
        self.last_ns = self.last_ns.max(record.at_ns());
        Ok(Some(record))
    }

    /// Shows every remaining record to `see` and says how the log ends.
    pub fn visit(&mut self, mut see: impl FnMut(&Record)) -> Result<Ending, Error> {
        while let Some(record) = self.next_record()? {
            see(record);
        }
        Ok(self.ending())
    }

    /// How the log ends, as far as it was read: meaningful after the last record.
    pub fn ending(&self) -> Ending {
        let cut = |offset, why| Ending::Cut { offset, at_ns: self.last_ns, why };
        let end = self.frames.good_end;
        if let Some(damage) = self.frames.damage {
            cut(damage.first_offset, Why::Damaged { bytes: damage.bytes, ended: self.ended })
        } else if self.ended {
            Ending::Clean
        } else if self.frames.torn_bytes > 0 {
            cut(end, Why::Torn { bytes: self.frames.torn_bytes })
        } else if self.any {
            cut(end, Why::NoEnd)
        } else {
            cut(end, Why::Empty)
        }
    }

    /// How far into the log the whole frames go that were read so far.
    pub fn position_bytes(&self) -> u64 {
        self.frames.good_end
    }

    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Like [`Self::advance`], with early records put in their places.
    fn advance_in_time(&mut self) -> Result<Found, Error> {
        loop {
            if let Some(staged) = self.staged {
                if self.release_before(staged) {
                    return Ok(Found::Released);
                }
                self.staged = None;
                return Ok(staged);
            }
            match self.advance()? {
                Found::Rare if self.rare.is_placed_by_time() => {
                    let record = std::mem::replace(&mut self.rare, Record::Columns(Columns::default()));
                    self.early.hold_back(record);
                }
                found => self.staged = Some(found),
            }
        }
    }

    /// True when an early record comes before the staged one. What was read in the course of a tick bears
    /// the tick's own time and comes after it.
    fn release_before(&mut self, staged: Found) -> bool {
        let until_ns = match staged {
            Found::Tick => self.tick.at_ns().map(|at_ns| at_ns.saturating_sub(1)),
            Found::Rare => self.rare.at_ns(),
            Found::Released | Found::Nothing => Some(u64::MAX),
        };
        let Some(record) = self.early.next_until(until_ns) else { return false };
        self.released = record;
        true
    }

    fn advance(&mut self) -> Result<Found, Error> {
        loop {
            if self.next_tick() {
                return Ok(Found::Tick);
            }
            let offset = self.frames.offset();
            let frame = self.frames.next_frame().map_err(|source| Error::Read { offset, source })?;
            let Some(frame) = frame else {
                if self.enter_open_block() {
                    continue;
                }
                return Ok(Found::Nothing);
            };
            match frame.known_kind() {
                None => self.tally.unknown += 1,
                Some(Kind::Ticks) => match self.block.load(frame.payload) {
                    Ok(seq) => self.count_block(seq),
                    Err(_) => self.frames.reject(),
                },
                Some(kind) => {
                    refuse_newer(kind, frame.payload)?;
                    if let Some(record) = rare::decode(kind, frame.payload) {
                        self.rare = record;
                        return Ok(Found::Rare);
                    }
                    self.tally.unknown += 1;
                }
            }
        }
    }

    /// `false` at the end of the block, or where its contents make no sense although its checksum is right.
    fn next_tick(&mut self) -> bool {
        let Record::Tick(tick) = &mut self.tick else { return false };
        match self.block.next_into(tick) {
            Ok(true) => {
                self.tally.ticks += 1;
                true
            }
            Ok(false) => false,
            Err(_) => {
                self.frames.reject();
                false
            }
        }
    }

    fn count_block(&mut self, seq: u64) {
        self.tally.missing_blocks += seq.saturating_sub(self.last_seq.saturating_add(1));
        self.last_seq = self.last_seq.max(seq);
    }

    /// The open block counts only if the log does not have it yet; a closed one may linger in the file.
    fn enter_open_block(&mut self) -> bool {
        let Some(payload) = self.open_block.take() else { return false };
        match self.block.load(&payload) {
            Ok(seq) if seq > self.last_seq && !self.ended => {
                self.count_block(seq);
                true
            }
            _ => {
                self.block = BlockDecoder::new();
                false
            }
        }
    }
}

/// Owned records. Each tick allocates; see [`Reader::next_record`] for speed.
impl Iterator for Reader {
    type Item = Result<Record, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_record().map(Option::<&Record>::cloned).transpose()
    }
}

/// Records that are placed by their time stand in the file before the ticks of their second; they wait here, in the
/// order of their times, until those come.
#[derive(Debug, Default)]
pub(crate) struct Early {
    /// By time, and by how many came before: hostile logs hold many, in any order.
    held: BTreeMap<(Option<u64>, u64), Record>,
    count: u64,
}

impl Early {
    pub(crate) fn hold_back(&mut self, record: Record) {
        self.count += 1;
        self.held.insert((record.at_ns(), self.count), record);
    }

    /// The first one, if its time is not later.
    pub(crate) fn next_until(&mut self, until_ns: Option<u64>) -> Option<Record> {
        let first = self.held.first_entry()?;
        (first.key().0 <= until_ns).then(|| first.remove())
    }
}

#[derive(Deserialize)]
struct Version {
    format_version: u32,
}

/// Looks at nothing but the version: the rest of a newer header may have another shape.
pub(crate) fn refuse_newer(kind: Kind, payload: &[u8]) -> Result<(), Error> {
    if kind != Kind::Header {
        return Ok(());
    }
    match serde_json::from_slice(payload) {
        Ok(Version { format_version: found }) if found > FORMAT_VERSION => {
            Err(Error::Newer { found, supported: FORMAT_VERSION })
        }
        _ => Ok(()),
    }
}

pub(crate) fn read_open_block(path: &Path) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    match File::open(path).and_then(|file| file.take(2 * SLOT_BYTES).read_to_end(&mut bytes)) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(Error::Io { path: path.to_owned(), source })
        }
        _ => Ok(bytes),
    }
}

/// The later of the two slots: one may be torn, or hold the tick before.
pub(crate) fn newest_open_block(file: &[u8]) -> Option<Vec<u8>> {
    let slot = |bytes| {
        let frame = Frame::decode(bytes)?;
        (frame.known_kind() == Some(Kind::Ticks)).then_some(frame.payload)
    };
    let second = file.get(SLOT_BYTES as usize..).unwrap_or_default();
    let slots = [slot(file), slot(second)];
    let newest = slots.into_iter().flatten().max_by_key(|payload| (block_seq(payload).ok(), payload.len()));
    newest.map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Mark, MarkKind};

    #[test]
    fn marks_wait_in_the_order_of_their_times_however_many_and_mixed_they_are() {
        let mark =
            |at_ns, step| Record::Mark(Mark { at_ns, error_ns: 0, pid: None, what: MarkKind::Step(step) });
        let mut early = Early::default();
        for number in 0..300_000_u64 {
            early.hold_back(mark(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20, number));
        }
        early.hold_back(mark(0, 300_000)); // of two of one time the first comes first
        assert_eq!(early.next_until(Some(0)), Some(mark(0, 0)));
        let mut times = Vec::new();
        while let Some(record) = early.next_until(Some(u64::MAX)) {
            times.push(record.at_ns());
        }
        assert!(times.is_sorted() && times.len() == 300_000);
        assert_eq!(early.next_until(Some(u64::MAX)), None);
    }
}
