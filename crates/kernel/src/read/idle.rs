//! Idle page tracking: `/sys/kernel/mm/page_idle/bitmap`, `/proc/kpageflags` (`CONFIG_IDLE_PAGE_TRACKING`, since Linux 4.3).
//!
//! The bitmap is by frame, 64 frames a word in native order, and takes whole words only; one call moves at most 4,096
//! bytes. The last word is lost where memory does not end at a multiple of 64 frames: reading it gives nothing, which
//! must not be taken for "touched". Pages outside the LRU lists are never idle (`mm/page_idle.c`).

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// What one call moves (`BITMAP_CHUNK_SIZE` rounds, `mm/page_idle.c`; sysfs gives a page at a time).
const MOST_BYTES: usize = 4096;
/// A hole of so many words is filled with zeros, which mark nothing.
const SMALL_HOLE: u64 = 16;
/// include/uapi/linux/kernel-page-flags.h
const KPF_LRU: u64 = 1 << 5;
const KPF_HEAD: u64 = 1 << 15;
const KPF_TAIL: u64 = 1 << 16;
const KPF_HUGE: u64 = 1 << 17;
const KPF_THP: u64 = 1 << 22;
const KPF_ZERO_PAGE: u64 = 1 << 24;
/// A folio is no larger than this many frames (a huge page of 1 GiB is hugetlbfs's, and not tracked).
const MOST_FOLIO: u64 = 512;

/// Bits of the frames that are of interest, by word.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct FrameSet {
    words: BTreeMap<u64, u64>,
}

impl FrameSet {
    pub fn insert(&mut self, frame: u64) {
        *self.words.entry(frame / 64).or_default() |= 1 << (frame % 64);
    }

    pub fn contains(&self, frame: u64) -> bool {
        self.words.get(&(frame / 64)).is_some_and(|word| word & (1 << (frame % 64)) != 0)
    }

    pub fn len(&self) -> u64 {
        self.words.values().map(|word| u64::from(word.count_ones())).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Words side by side, or nearly, as (first word, their bits).
    fn runs(&self) -> Vec<(u64, Vec<u64>)> {
        let mut runs: Vec<(u64, Vec<u64>)> = Vec::new();
        for (word, bits) in &self.words {
            match runs.last_mut() {
                Some((first, run)) if *word - (*first + run.len() as u64) <= SMALL_HOLE => {
                    run.resize((*word - *first) as usize, 0);
                    run.push(*bits);
                }
                _ => runs.push((*word, vec![*bits])),
            }
        }
        runs
    }
}

/// The bitmap of the whole machine. Two users of it disturb each other.
#[derive(Debug)]
pub struct IdleBitmap {
    file: File,
}

impl IdleBitmap {
    /// `root` is `/`, or a test's.
    pub fn open(root: &Path) -> io::Result<Self> {
        let path = root.join("sys/kernel/mm/page_idle/bitmap");
        Ok(Self { file: OpenOptions::new().read(true).write(true).open(path)? })
    }

    /// Marks these frames idle, and no other.
    pub fn mark(&self, frames: &FrameSet) -> io::Result<()> {
        for (first, bits) in frames.runs() {
            let bytes: Vec<u8> = bits.iter().flat_map(|word| word.to_ne_bytes()).collect();
            let mut done = 0;
            while done < bytes.len() {
                let piece = &bytes[done..bytes.len().min(done + MOST_BYTES)];
                match self.file.write_at(piece, first * 8 + done as u64) {
                    Ok(0) => break, // the last, partial word
                    Ok(written) => done += written,
                    // Behind the end of memory.
                    Err(error) if error.raw_os_error() == Some(libc::ENXIO) => break,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Those of `frames` that are idle, and those whose word could be read at all.
    pub fn read(&self, frames: &FrameSet) -> io::Result<(FrameSet, FrameSet)> {
        let (mut idle, mut known) = (FrameSet::default(), FrameSet::default());
        let mut bytes = Vec::new();
        for (first, wanted) in frames.runs() {
            bytes.clear();
            bytes.resize(wanted.len() * 8, 0);
            let read = self.read_words(first, &mut bytes)?;
            let words = bytes.chunks_exact(8).take(read / 8).map(|word| word.try_into().unwrap_or_default());
            for ((word, wanted), at) in words.map(u64::from_ne_bytes).zip(&wanted).zip(first..) {
                if *wanted != 0 {
                    known.words.insert(at, *wanted);
                    idle.words.insert(at, word & wanted);
                }
            }
        }
        Ok((idle, known))
    }

    fn read_words(&self, first: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < bytes.len() {
            let until = bytes.len().min(done + MOST_BYTES);
            match self.file.read_at(&mut bytes[done..until], first * 8 + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }
}

/// What a frame is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Folio {
    /// A page of its own.
    Single,
    /// Part of a larger folio, whose head has the bit.
    Part { head: u64, huge: bool },
    /// Never tracked: hugetlbfs, the page of zeros.
    Untracked,
}

/// `/proc/kpageflags`.
#[derive(Debug)]
pub struct PageFlags {
    file: File,
    buffer: Vec<u64>,
    first: u64,
}

/// Flags that are read at a time: frames of a process lie in runs.
const FLAGS_AHEAD: u64 = 512;

impl PageFlags {
    pub fn open(root: &Path) -> io::Result<Self> {
        Ok(Self { file: File::open(root.join("proc/kpageflags"))?, buffer: Vec::new(), first: 0 })
    }

    /// Forgets what was read before.
    pub fn refresh(&mut self) {
        self.buffer.clear();
    }

    pub fn folio(&mut self, frame: u64) -> io::Result<Folio> {
        let flags = self.flags(frame)?;
        if flags & (KPF_HUGE | KPF_ZERO_PAGE) != 0 {
            return Ok(Folio::Untracked);
        }
        let huge = flags & KPF_THP != 0;
        if flags & KPF_HEAD != 0 {
            return Ok(Folio::Part { head: frame, huge });
        }
        if flags & KPF_TAIL == 0 {
            return Ok(Folio::Single);
        }
        for head in (frame.saturating_sub(MOST_FOLIO)..frame).rev() {
            let flags = self.flags(head)?;
            if flags & KPF_HEAD != 0 {
                return Ok(Folio::Part { head, huge });
            }
            if flags & KPF_TAIL == 0 {
                break; // it was split meanwhile
            }
        }
        Ok(Folio::Single)
    }

    /// Whether the kernel tracks it at all: only what is on a list of pages to be reclaimed.
    pub fn is_tracked(&mut self, frame: u64) -> io::Result<bool> {
        Ok(self.flags(frame)? & KPF_LRU != 0)
    }

    fn flags(&mut self, frame: u64) -> io::Result<u64> {
        let known = |at: &Self| frame.checked_sub(at.first).and_then(|i| at.buffer.get(i as usize).copied());
        if let Some(flags) = known(self) {
            return Ok(flags);
        }
        // Aligned, so that going backwards through a folio reads each block once.
        self.first = frame - frame % FLAGS_AHEAD;
        let mut bytes = vec![0; FLAGS_AHEAD as usize * 8];
        let read = self.file.read_at(&mut bytes, self.first * 8)?;
        let words = bytes.chunks_exact(8).take(read / 8).map(|word| word.try_into().unwrap_or_default());
        self.buffer = words.map(u64::from_ne_bytes).collect();
        Ok(known(self).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(bitmap: &[u64], flags: &[u64]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let bytes = |words: &[u64]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
        std::fs::create_dir_all(root.path().join("sys/kernel/mm/page_idle")).unwrap();
        std::fs::create_dir(root.path().join("proc")).unwrap();
        std::fs::write(root.path().join("sys/kernel/mm/page_idle/bitmap"), bytes(bitmap)).unwrap();
        std::fs::write(root.path().join("proc/kpageflags"), bytes(flags)).unwrap();
        root
    }

    #[test]
    fn only_the_frames_that_were_asked_for_are_told() {
        let root = root(&[u64::MAX, 0, 1 << 5, 0], &[]);
        let bitmap = IdleBitmap::open(root.path()).unwrap();
        let mut frames = FrameSet::default();
        for frame in [3, 64, 133, 134, 256, 10_000] {
            frames.insert(frame);
        }
        let (idle, known) = bitmap.read(&frames).unwrap();
        let told = |set: &FrameSet| [3, 64, 133, 134, 256, 10_000].map(|frame| set.contains(frame));
        assert_eq!(told(&idle), [true, false, true, false, false, false]);
        // The file ends before the last two: they are unknown, not touched.
        assert_eq!(told(&known), [true, true, true, true, false, false]);
        assert_eq!((idle.len(), known.len(), frames.is_empty()), (2, 4, false));
    }

    #[test]
    fn more_than_one_call_moves_is_moved() {
        let root = root(&vec![0; 4000], &[]);
        let bitmap = IdleBitmap::open(root.path()).unwrap();
        let mut frames = FrameSet::default();
        for frame in (0..4000 * 64).step_by(7) {
            frames.insert(frame);
        }
        bitmap.mark(&frames).unwrap();
        assert_eq!(bitmap.read(&frames).unwrap(), (frames.clone(), frames));
    }

    #[test]
    fn folios_are_told_by_their_heads() {
        let mut flags = vec![0; 2000];
        flags[600] = KPF_HEAD | KPF_THP;
        flags[601..1112].fill(KPF_TAIL | KPF_THP);
        flags[1500] = KPF_ZERO_PAGE;
        flags[1600] = KPF_HEAD | KPF_HUGE;
        flags[1700] = KPF_TAIL; // its head is gone
        flags[5] = KPF_LRU;
        let root = root(&[], &flags);
        let mut flags = PageFlags::open(root.path()).unwrap();
        let mut folio = |frame| flags.folio(frame).unwrap();
        let part = Folio::Part { head: 600, huge: true };
        assert_eq!([folio(1111), folio(600), folio(700)], [part; 3]);
        assert_eq!([folio(5), folio(1112), folio(1700)], [Folio::Single; 3]);
        assert_eq!([folio(1500), folio(1600)], [Folio::Untracked; 2]);
        assert_eq!(folio(50_000), Folio::Single);
        assert!(flags.is_tracked(5).unwrap() && !flags.is_tracked(6).unwrap());
        flags.refresh();
    }
}
