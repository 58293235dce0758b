//! `--events`: the stream as it came from the rings, compressed by a thread of its own.
//!
//! `FORMAT.md` of `trace` has the layout. What cannot be written (a full disk, the ceiling, a thread that does not keep up) is
//! counted and told, never waited for.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, SendError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use nilometer_trace::allocs::stream::{self, Encoder};

/// Bytes of a chunk before it is compressed, and chunks that may wait.
const CHUNK_BYTES: usize = 1 << 20;
const MOST_WAITING: usize = 48;

/// The stream while it is recorded.
#[derive(Debug)]
pub struct Events {
    chunk: Vec<u8>,
    chunks: SyncSender<Vec<u8>>,
    thread: JoinHandle<Written>,
    /// Bytes of rings that were not kept.
    lost_bytes: u64,
}

/// What became of the stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    pub bytes: u64,
    pub lost_bytes: u64,
    /// Why it ends early.
    pub why: Option<String>,
}

impl Events {
    pub fn start(directory: &Path, most_bytes: u64) -> std::io::Result<Self> {
        let path = directory.join(stream::EVENTS_FILE);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        let (chunks, receiver) = sync_channel(MOST_WAITING);
        let work = move || write(&file, &receiver, most_bytes);
        let thread = std::thread::Builder::new().name("nilo-events".to_owned()).spawn(work)?;
        Ok(Self { chunk: Vec::with_capacity(CHUNK_BYTES * 2), chunks, thread, lost_bytes: 0 })
    }

    /// Bytes that were taken from a lane of a process.
    pub fn add(&mut self, process: u32, lane: u32, bytes: &[u8]) {
        stream::put_run(&mut self.chunk, process, lane, bytes);
        if self.chunk.len() >= CHUNK_BYTES {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        let chunk = std::mem::replace(&mut self.chunk, Vec::with_capacity(CHUNK_BYTES * 2));
        if let Err(TrySendError::Full(chunk) | TrySendError::Disconnected(chunk)) =
            self.chunks.try_send(chunk)
        {
            self.lost_bytes += chunk.len() as u64;
        }
    }

    /// Writes what is left and waits for the thread.
    pub fn finish(mut self) -> Written {
        let rest = std::mem::take(&mut self.chunk);
        let refused = self.chunks.send(rest).err().map_or(0, |SendError(chunk)| chunk.len() as u64);
        drop(self.chunks);
        let broke_off = || Written { why: Some("its thread broke off".to_owned()), ..Written::default() };
        let written = self.thread.join().unwrap_or_else(|_| broke_off());
        Written { lost_bytes: written.lost_bytes + self.lost_bytes + refused, ..written }
    }
}

fn write(file: &File, chunks: &Receiver<Vec<u8>>, most_bytes: u64) -> Written {
    let mut written = Written::default();
    let mut encoder = match Encoder::new() {
        Ok(encoder) => encoder,
        Err(error) => return Written { why: Some(error.to_string()), ..written },
    };
    written.put(file, encoder.header().map_err(|error| error.to_string()), most_bytes);
    while let Ok(chunk) = chunks.recv() {
        if written.why.is_none() && !chunk.is_empty() {
            let frame = encoder.chunk(&chunk).map_err(|error| error.to_string());
            written.put(file, frame, most_bytes);
        }
        if written.why.is_some() {
            written.lost_bytes += chunk.len() as u64; // the first one that was refused, too
        }
    }
    if written.why.is_none() {
        written.put(file, encoder.end().map_err(|error| error.to_string()), u64::MAX);
    }
    written
}

impl Written {
    fn put(&mut self, mut file: &File, frame: Result<&[u8], String>, most_bytes: u64) {
        let frame = match frame {
            Ok(frame) => frame,
            Err(why) => {
                self.why = Some(why);
                return;
            }
        };
        if self.bytes + frame.len() as u64 > most_bytes {
            self.why = Some("its ceiling (--max-log) is reached".to_owned());
            return;
        }
        match file.write_all(frame) {
            Ok(()) => self.bytes += frame.len() as u64,
            Err(error) => self.why = Some(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_ceiling_refuses_is_counted_from_the_first_byte_on() {
        let folder = tempfile::tempdir().unwrap();
        let mut events = Events::start(folder.path(), 100).unwrap();
        // Noise, which does not become short enough.
        let noise = (1..1000_u64).map(|n| (n * n).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        events.add(0, 0, &noise.flat_map(u64::to_le_bytes).collect::<Vec<u8>>());
        let length = events.chunk.len() as u64;
        let written = events.finish();
        assert_eq!(written.lost_bytes, length);
        assert!(written.why.is_some_and(|why| why.contains("--max-log")));
    }
}
