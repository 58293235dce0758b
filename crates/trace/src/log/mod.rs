//! Writing a run: `trace.nlog`, which only grows, and `open.nlog`, the block that is still open.
//!
//! Every tick is on disk (in the page cache) when [`LogWriter::tick`] returns: SIGKILL of the writer loses
//! at most the tick being written. `open.nlog` has two slots written in turn, because a kill can tear a
//! write (between two stores into a mapping, or between two pages of a `pwrite`: `generic_perform_write` checks
//! for fatal signals between folios); the slot of the tick before stays whole.
//!
//! Order in the file: a record that says what ticks mean (columns, processes) or what happened closes the
//! open block first, so it stands before the ticks that follow it. Those that may be frequent do not: their place is
//! given by their time stamps (`Record::is_placed_by_time`).
//!
//! A disk that refuses: the log is cut back to its last whole frame and the frame waits in a bounded backlog,
//! tried again before each later write. What does not fit the backlog is dropped, counted, and told by an
//! [`EventKind::Dropped`] as soon as anything can be written. The backlog is smaller than the file
//! `reserve`, which [`LogWriter::finish`] removes if the disk still refuses: the end of a run fits on a full disk.
//! (Removed earlier, its space would be taken by the next ticks or by the target.)
//! A disk that *stalls* blocks the caller; only a thread of its own could help against that.

mod tail;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use self::tail::{Disk, Tail};
use crate::{
    Error,
    frame::HEADER_BYTES,
    manifest::{LOG_FILE, OPEN_BLOCK_FILE, RESERVE_FILE},
    rare,
    record::{End, Event, EventKind, Record},
    tick::{self, BlockEncoder, TickRef},
};

/// A block is closed when it spans this long, …
pub const BLOCK_SPAN_NS: u64 = 1_000_000_000;
/// … or when its payload is longer than this.
pub const BLOCK_BYTES: usize = 8 << 10;
/// The second slot of `open.nlog` starts here, on a page of its own.
pub const SLOT_BYTES: u64 = 12 << 10;
pub const RESERVE_BYTES: usize = 64 << 10;

// An open block fits its slot: longer ones are closed at once.
const _: () = assert!((BLOCK_BYTES + HEADER_BYTES) as u64 <= SLOT_BYTES);

/// Blocks may fill the backlog up to here, …
const BACKLOG_BLOCKS_BYTES: usize = 32 << 10;
/// … other records up to here: without its processes a later tick means little.
const BACKLOG_RECORDS_BYTES: usize = 48 << 10;

/// What could not be stored and is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dropped {
    pub ticks: u64,
    pub records: u64,
}

impl Dropped {
    pub fn is_none(self) -> bool {
        self == Self::default()
    }

    fn add(&mut self, other: Self) {
        self.ticks += other.ticks;
        self.records += other.records;
    }
}

/// Writes one run. Errors leave it usable: what they concern waits in the backlog or is in [`Self::dropped`].
#[derive(Debug)]
pub struct LogWriter {
    directory: PathBuf,
    log: Tail,
    open: Box<dyn Disk>,
    /// A cheaper way to the same file, until it fails.
    slots: Option<Box<dyn Slots>>,
    second_slot: bool,
    block: BlockEncoder,
    /// The frame being written; reused.
    frame: Vec<u8>,
    /// Whole frames that the disk refused, oldest first.
    backlog: Vec<u8>,
    dropped: Dropped,
    /// The part of `dropped` that no event in the log tells yet.
    untold: Dropped,
    /// Why and when the last of them was dropped.
    refusal: String,
    refusal_ns: u64,
    last_ns: u64,
    written_bytes: u64,
}

/// Another way to write `open.nlog`, such as a memory mapping. What it has taken must survive the writer.
pub trait Slots: fmt::Debug + Send {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()>;
}

impl LogWriter {
    /// Creates the files of a run in an existing directory that has none yet.
    pub fn create(directory: &Path) -> Result<Self, Error> {
        Self::create_with(directory, |_| None)
    }

    /// The same; `slots` is given `open.nlog` in its full length.
    pub fn create_with(
        directory: &Path,
        slots: impl FnOnce(&File) -> Option<Box<dyn Slots>>,
    ) -> Result<Self, Error> {
        let log = create_new(directory, LOG_FILE)?;
        // Both are written in full now, so that rewriting the open block later needs no new disk blocks.
        let open = filled(directory, OPEN_BLOCK_FILE, 2 * SLOT_BYTES as usize)?;
        filled(directory, RESERVE_FILE, RESERVE_BYTES)?;
        let slots = slots(&open);
        let mut writer = Self::over(directory, Box::new(log), Box::new(open));
        writer.slots = slots;
        writer.written_bytes = 2 * SLOT_BYTES + RESERVE_BYTES as u64;
        Ok(writer)
    }

    fn over(directory: &Path, log: Box<dyn Disk>, open: Box<dyn Disk>) -> Self {
        Self {
            directory: directory.to_owned(),
            log: Tail::new(log),
            open,
            slots: None,
            second_slot: false,
            block: BlockEncoder::new(),
            frame: Vec::with_capacity(16 << 10),
            backlog: Vec::new(),
            dropped: Dropped::default(),
            untold: Dropped::default(),
            refusal: String::new(),
            refusal_ns: 0,
            last_ns: 0,
            written_bytes: 0,
        }
    }

    /// Stores one turn of the tick loop.
    #[inline]
    pub fn tick(&mut self, tick: TickRef<'_>) -> Result<(), Error> {
        self.last_ns = self.last_ns.max(tick.at_ns);
        match self.block.push(tick) {
            Ok(()) if self.block.len() > BLOCK_BYTES || self.block.span_ns() >= BLOCK_SPAN_NS => {
                self.close_block()
            }
            Ok(()) => self.save_open_block(),
            Err(error) => {
                self.drop_and_tell(Dropped { ticks: 1, records: 0 }, &error.to_string());
                if error == tick::Error::Full {
                    self.close_block()?;
                }
                Err(error.into())
            }
        }
    }

    /// Stores a rare record; ticks go to [`Self::tick`].
    pub fn append(&mut self, record: &Record) -> Result<(), Error> {
        if let Some(at_ns) = record.at_ns() {
            self.last_ns = self.last_ns.max(at_ns);
        }
        // If the block could not be stored, the record must still be tried: the backlog keeps their order.
        let closed = if record.is_placed_by_time() { Ok(()) } else { self.close_block() };
        let one = Dropped { ticks: 0, records: 1 };
        if let Err(error) = rare::encode(&mut self.frame, record) {
            self.drop_and_tell(one, &error.to_string());
            return Err(error);
        }
        self.store(one, BACKLOG_RECORDS_BYTES).and(closed)
    }

    /// Closes the log with its last record, removes the helper files and says what was lost on the way.
    ///
    /// After an error `open.nlog` stays, so that the last ticks are not lost with the writer.
    pub fn finish(mut self, end: End) -> Result<Dropped, Error> {
        self.last_ns = self.last_ns.max(end.at_ns);
        if self.flush_backlog().is_err() {
            self.remove(RESERVE_FILE)?;
        }
        // Stored, or waiting, or counted; the end is tried in each case.
        drop(self.close_block());
        rare::encode(&mut self.frame, &Record::End(end))?;
        if self.write_now().is_err() {
            self.remove(RESERVE_FILE)?;
            self.write_now().map_err(|source| self.refused(source))?;
        }
        self.remove(OPEN_BLOCK_FILE)?;
        self.remove(RESERVE_FILE)?;
        Ok(self.dropped)
    }

    /// All bytes handed to the disk so far: what recording costs.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Length of `trace.nlog`: what the size ceiling is about.
    pub fn log_bytes(&self) -> u64 {
        self.log.end()
    }

    pub fn dropped(&self) -> Dropped {
        self.dropped
    }

    #[inline]
    fn save_open_block(&mut self) -> Result<(), Error> {
        match self.write_slot() {
            Ok(bytes) => {
                self.second_slot = !self.second_slot;
                self.written_bytes += bytes as u64;
                Ok(())
            }
            // The tick is still in the block and will be written with the next one.
            Err(source) => Err(Error::Io { path: self.directory.join(OPEN_BLOCK_FILE), source }),
        }
    }

    #[inline]
    fn write_slot(&mut self) -> io::Result<usize> {
        let offset = if self.second_slot { SLOT_BYTES } else { 0 };
        let frame = self.block.frame();
        if let Some(slots) = &mut self.slots {
            if slots.write_at(frame, offset).is_ok() {
                return Ok(frame.len());
            }
            self.slots = None;
        }
        self.open.write_all_at(frame, offset).map(|()| frame.len())
    }

    fn close_block(&mut self) -> Result<(), Error> {
        if self.block.is_empty() {
            // Still to be cleared: a tick that was too long may have left its numbers in it.
            self.block.clear();
            return Ok(());
        }
        self.frame.clear();
        self.frame.extend_from_slice(self.block.frame());
        let ticks = self.block.ticks();
        self.block.clear();
        self.store(Dropped { ticks, records: 0 }, BACKLOG_BLOCKS_BYTES)
    }

    /// Writes `self.frame` behind what still waits, or lets it wait, or drops it.
    fn store(&mut self, load: Dropped, room: usize) -> Result<(), Error> {
        let Err(source) = self.write_now() else { return Ok(()) };
        if self.backlog.len() + self.frame.len() <= room {
            self.backlog.extend_from_slice(&self.frame);
        } else {
            self.drop_and_tell(load, &source.to_string());
        }
        Err(self.refused(source))
    }

    fn write_now(&mut self) -> io::Result<()> {
        self.flush_backlog()?;
        self.log.write(&self.frame)?;
        self.written_bytes += self.frame.len() as u64;
        Ok(())
    }

    fn flush_backlog(&mut self) -> io::Result<()> {
        if !self.backlog.is_empty() {
            self.log.write(&self.backlog)?;
            self.written_bytes += self.backlog.len() as u64;
            self.backlog.clear();
        }
        self.tell_drops()
    }

    /// What was dropped came after the backlog and before whatever is written next.
    fn tell_drops(&mut self) -> io::Result<()> {
        if self.untold.is_none() {
            return Ok(());
        }
        let mut why = self.refusal.clone();
        if self.untold.records > 0 {
            why = format!("{why}; also {} records that are no ticks", self.untold.records);
        }
        let what = EventKind::Dropped { ticks: self.untold.ticks, why };
        let mut frame = Vec::new();
        rare::encode(&mut frame, &Record::Event(Event { at_ns: self.refusal_ns, what }))
            .map_err(io::Error::other)?;
        self.log.write(&frame)?;
        self.written_bytes += frame.len() as u64;
        self.untold = Dropped::default();
        Ok(())
    }

    fn drop_and_tell(&mut self, load: Dropped, why: &str) {
        self.dropped.add(load);
        self.untold.add(load);
        why.clone_into(&mut self.refusal);
        self.refusal_ns = self.last_ns;
    }

    fn refused(&self, source: io::Error) -> Error {
        Error::Io { path: self.directory.join(LOG_FILE), source }
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        let path = self.directory.join(name);
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(Error::Io { path, source }),
            _ => Ok(()),
        }
    }
}

fn create_new(directory: &Path, name: &str) -> Result<File, Error> {
    let path = directory.join(name);
    // Readable too, because a mapping is.
    let result = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path);
    result.map_err(|source| Error::Io { path, source })
}

fn filled(directory: &Path, name: &str, bytes: usize) -> Result<File, Error> {
    let mut file = create_new(directory, name)?;
    // Written, not `set_len`: a hole would reserve nothing.
    match file.write_all(&vec![0; bytes]) {
        Ok(()) => Ok(file),
        Err(source) => Err(Error::Io { path: directory.join(name), source }),
    }
}
