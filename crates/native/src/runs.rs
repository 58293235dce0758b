//! The copied bytes of an image as runs that touch no hole, for walks that read word after word.
//!
//! Two segments that meet are two runs; a number never lies across them where malloc and C++ put it (both are
//! aligned to pages), and a walk that crosses over asks again.

use nilometer_image::live::Peek;
use nilometer_image::{Image, Memory as _};

/// Copied runs in order of address.
#[derive(Debug)]
pub(crate) struct Runs<'a> {
    runs: Vec<Run<'a>>,
    /// Single numbers that no run holds are read from the running process.
    beyond: Option<&'a Peek>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Run<'a> {
    pub start: u64,
    pub bytes: &'a [u8],
}

impl<'a> Runs<'a> {
    pub fn of(image: &'a Image) -> Self {
        Self { runs: image.segments().map(|(start, bytes)| Run { start, bytes }).collect(), beyond: None }
    }

    /// One run of bytes that were read otherwise.
    pub fn one(start: u64, bytes: &'a [u8]) -> Self {
        Self { runs: vec![Run { start, bytes }], beyond: None }
    }

    /// One run, and what is asked for elsewhere from the process as it runs.
    pub fn beside(start: u64, bytes: &'a [u8], peek: &'a Peek) -> Self {
        Self { runs: vec![Run { start, bytes }], beyond: Some(peek) }
    }

    pub fn all(&self) -> &[Run<'a>] {
        &self.runs
    }

    /// The run that holds `address`.
    pub fn at(&self, address: u64) -> Option<Run<'a>> {
        let index = self.runs.partition_point(|run| run.start <= address).checked_sub(1)?;
        self.runs.get(index).copied().filter(|run| address < run.end())
    }

    pub fn word(&self, address: u64) -> Option<u64> {
        match self.at(address) {
            Some(run) => run.word(address),
            None => self.beyond?.u64(address),
        }
    }

    /// For many words in order of address.
    pub fn reader(&self) -> Reader<'_, 'a> {
        Reader { runs: self, run: Run { start: 0, bytes: &[] } }
    }

    pub fn half(&self, address: u64) -> Option<u32> {
        let Some(run) = self.at(address) else { return self.beyond?.u32(address) };
        let bytes = run.bytes.get((address - run.start) as usize..)?.first_chunk()?;
        Some(u32::from_le_bytes(*bytes))
    }

    /// `length` bytes from `address`, if one run holds them all.
    pub fn slice(&self, address: u64, length: usize) -> Option<&'a [u8]> {
        let run = self.at(address)?;
        run.bytes.get((address - run.start) as usize..)?.get(..length)
    }

    /// The parts of runs that lie within a range.
    pub fn within(&self, start: u64, end: u64) -> impl Iterator<Item = Run<'a>> {
        let first = self.runs.partition_point(|run| run.end() <= start);
        self.runs[first..]
            .iter()
            .take_while(move |run| run.start < end)
            .filter_map(move |run| run.cut(start, end))
    }
}

/// Remembers the run that was asked last.
#[derive(Debug)]
pub(crate) struct Reader<'r, 'a> {
    runs: &'r Runs<'a>,
    run: Run<'a>,
}

impl Reader<'_, '_> {
    #[inline]
    pub fn word(&mut self, address: u64) -> Option<u64> {
        let word = self.run.word(address);
        if word.is_some() {
            return word;
        }
        self.run = self.runs.at(address)?;
        self.run.word(address)
    }
}

impl Run<'_> {
    pub fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    #[inline]
    pub fn word(&self, address: u64) -> Option<u64> {
        let offset = address.checked_sub(self.start)? as usize;
        let bytes = self.bytes.get(offset..)?.first_chunk()?;
        Some(u64::from_le_bytes(*bytes))
    }

    fn cut(&self, start: u64, end: u64) -> Option<Self> {
        let from = start.saturating_sub(self.start) as usize;
        let to = (end.min(self.end()) - self.start) as usize;
        let bytes = self.bytes.get(from..to)?;
        (!bytes.is_empty()).then_some(Self { start: self.start + from as u64, bytes })
    }
}
