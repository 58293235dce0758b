//! How the bytes of a process are read without changing what it shares.
//!
//! `process_vm_readv` pins the pages it reads, and pinning an anonymous page that two processes share since a fork makes
//! a copy of it first (`gup_must_unshare`, include/linux/mm.h, since Linux 5.19): reading a worker of a loader would
//! double its memory. `/proc/PID/mem` does not pin, and is slower by a third; it is used where pages are shared, and from the
//! moment on at which a process that runs is seen to have forked.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::OnceLock;

use nilometer_kernel::sys::memory::{self, Span};
use nilometer_kernel::sys::pagemap::{PageRun, PageState, Pagemap};

/// Where bytes come from.
#[derive(Debug)]
pub(super) enum Source {
    Calls(Calls),
    File(File),
}

/// By calls, as long as the process has not forked.
#[derive(Debug)]
pub(super) struct Calls {
    pid: i32,
    /// Who shares what; not where nothing else is to be had anyway.
    pagemap: Option<Pagemap>,
    /// Opened when something is shared.
    file: OnceLock<Option<File>>,
}

impl Source {
    /// By calls where no anonymous page among `touched` is shared with another process.
    pub fn of(pid: i32, touched: &[PageRun], pagemap: &Pagemap) -> Self {
        let mut own = touched.iter().filter(|run| run.state == PageState::Own);
        if own.any(|run| pagemap.has_shared(&(run.start..run.end)).unwrap_or(false)) {
            return Self::gentle(pid);
        }
        Self::calls(pid, Pagemap::open(pid).ok())
    }

    /// By the file, whatever is shared.
    pub fn gentle(pid: i32) -> Self {
        open_memory(pid).map_or_else(|| Self::calls(pid, None), Self::File)
    }

    pub(super) fn calls(pid: i32, pagemap: Option<Pagemap>) -> Self {
        Self::Calls(Calls { pid, pagemap, file: OnceLock::new() })
    }

    /// Copies bytes from `address`; fewer than asked where the mapping ends.
    pub fn read_bytes(&self, address: u64, into: &mut [u8]) -> io::Result<usize> {
        self.read_spans(&mut [Span { address, into }])
    }

    /// Fills spans in their order; how many bytes came before the first page that cannot be read.
    pub fn read_spans(&self, spans: &mut [Span]) -> io::Result<usize> {
        let file = match self {
            Self::File(file) => file,
            Self::Calls(calls) => match calls.file_after_fork(spans) {
                Some(file) => file,
                None => return memory::read_spans(calls.pid, spans),
            },
        };
        let mut filled = 0;
        for span in spans.iter_mut().take(memory::MOST_SPANS) {
            let read = match read_whole(file, span) {
                Err(error) if filled == 0 => return Err(error),
                read => read.unwrap_or(0),
            };
            filled += read;
            if read < span.into.len() {
                break;
            }
        }
        Ok(filled)
    }
}

impl Calls {
    /// The file instead, once the first page of a reading is shared: a fork shares all at once.
    fn file_after_fork(&self, spans: &[Span]) -> Option<&File> {
        let pagemap = self.pagemap.as_ref()?;
        let is_shared = || spans.first().is_some_and(|span| pagemap.is_shared(span.address));
        if self.file.get().is_none() && !is_shared() {
            return None;
        }
        self.file.get_or_init(|| open_memory(self.pid)).as_ref()
    }
}

fn open_memory(pid: i32) -> Option<File> {
    File::open(format!("/proc/{pid}/mem")).ok()
}

/// An unreadable page ends it; what came before counts.
fn read_whole(file: &File, span: &mut Span) -> io::Result<usize> {
    let mut filled = 0;
    while filled < span.into.len() {
        match file.read_at(&mut span.into[filled..], span.address + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if filled == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_read_the_same() {
        let words = *b"read me, both of you";
        let me = std::process::id() as i32;
        for source in [Source::calls(me, None), Source::gentle(me)] {
            let (mut first, mut second) = ([0; 7], [0; 4]);
            let at = words.as_ptr() as u64;
            let mut spans =
                [Span { address: at, into: &mut first }, Span { address: at + 9, into: &mut second }];
            assert_eq!(source.read_spans(&mut spans).unwrap(), 11);
            assert_eq!((&first, &second), (b"read me", b"both"));
            assert!(source.read_bytes(1, &mut first).is_err());
        }
    }
}
