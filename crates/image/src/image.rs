//! What was copied at one instant.
//!
//! What is not in the copy is read from the file behind the mapping, if it is a private mapping of a file that was
//! not written to there. What was left out on purpose or failed is never taken from a file.

use std::ops::Range;
use std::sync::Arc;

use nilometer_kernel::sys::mapped::Mapped;

use crate::files::{Files, Place};
use crate::index::Index;
use crate::mapping::{Mapping, mapping_index};
use crate::residency::{Residency, merged};
use crate::{Memory, Modules};

/// The bytes of a process at one instant, and where they were.
#[derive(Debug)]
pub struct Image {
    bytes: Mapped,
    /// Sorted by address, not overlapping.
    segments: Vec<Segment>,
    mappings: Vec<Mapping>,
    files: Files,
    /// Sorted: what differs from the file, or may, and is not here.
    withheld: Vec<Range<u64>>,
    residency: Residency,
    index: Index,
}

/// A run of copied bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    pub start: u64,
    pub end: u64,
    /// Where its first byte stands in the buffer.
    offset: usize,
}

impl Segment {
    pub fn new(start: u64, end: u64, offset: usize) -> Self {
        Self { start, end, offset }
    }

    #[inline]
    fn holds(&self, address: u64) -> bool {
        self.start <= address && address < self.end
    }

    /// Its part of the buffer.
    pub(crate) fn bytes<'a>(&self, buffer: &'a [u8]) -> Option<&'a [u8]> {
        buffer.get(self.offset..)?.get(..(self.end - self.start) as usize)
    }

    /// `range` lies within it.
    pub(crate) fn part(&self, range: Range<u64>) -> Self {
        Self::new(range.start, range.end, self.offset + (range.start - self.start) as usize)
    }
}

impl Image {
    /// `segments` within `bytes`; those that are not are dropped. Without files and residency.
    pub fn new(bytes: Mapped, mut segments: Vec<Segment>, mut mappings: Vec<Mapping>) -> Self {
        segments.retain(|s| {
            s.start < s.end && s.offset.saturating_add((s.end - s.start) as usize) <= bytes.len()
        });
        segments.sort_by_key(|s| s.start);
        segments.dedup_by(|next, last| next.start < last.end);
        mappings.sort_by_key(|mapping| mapping.start);
        let index = Index::new(segments.iter().map(|segment| segment.start..segment.end));
        let (files, withheld, residency) = Default::default();
        Self { bytes, segments, mappings, files, withheld, residency, index }
    }

    /// Looks below `place` for what was not copied, except in the ranges `withheld`.
    pub(crate) fn with_files(self, place: &Arc<Place>, withheld: Vec<Range<u64>>) -> Self {
        let files = Files::new(&self.mappings, place);
        self.with(files, withheld)
    }

    /// `files` of the same mappings.
    pub(crate) fn with(mut self, files: Files, withheld: Vec<Range<u64>>) -> Self {
        self.files = files;
        self.withheld = merged(withheld);
        self
    }

    pub(crate) fn with_residency(mut self, residency: Residency) -> Self {
        self.residency = residency;
        self
    }

    pub fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    /// The programs and libraries that were loaded.
    pub fn modules(&self) -> Modules {
        Modules::new(&self.mappings, &self.files)
    }

    /// Copied runs in order of address.
    pub fn segments(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.segments.iter().map(|s| (s.start, &self.bytes[s.offset..s.offset + (s.end - s.start) as usize]))
    }

    pub fn copied_bytes(&self) -> u64 {
        self.segments.iter().map(|s| s.end - s.start).sum()
    }

    /// How many bytes of `range` were in memory when it was copied, also where they were left out; `None` where that
    /// was not looked at (a core).
    pub fn resident(&self, range: Range<u64>) -> Option<u64> {
        self.residency.within(range)
    }

    /// `length` bytes from `address`, if one segment, or one mapping of a file, holds them all.
    #[inline]
    pub fn slice(&self, address: u64, length: usize) -> Option<&[u8]> {
        let Some(segment) = self.segment(address) else { return self.backed(address)?.get(..length) };
        let from = (address - segment.start) as usize;
        let rest = (segment.end - address) as usize;
        if length > rest {
            return None;
        }
        let start = segment.offset + from;
        self.bytes.get(start..start + length)
    }

    #[inline]
    pub fn word(&self, address: u64) -> Option<u64> {
        let bytes = self.slice(address, 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    #[inline]
    fn segment(&self, address: u64) -> Option<&Segment> {
        match self.segments.get(self.index.candidates(address))? {
            [only] => Some(only).filter(|segment| segment.holds(address)),
            several => {
                let before = several.partition_point(|segment| segment.start <= address);
                several.get(before.checked_sub(1)?).filter(|segment| segment.holds(address))
            }
        }
    }

    /// From `address` on as far as the file holds it: to the end of the mapping, the next copied run, or the next
    /// withheld range.
    #[cold]
    fn backed(&self, address: u64) -> Option<&[u8]> {
        let index = mapping_index(&self.mappings, address)?;
        let mapping = self.mappings.get(index).filter(|mapping| !mapping.shared)?;
        let end = mapping.end.min(self.next_segment(address)).min(self.next_withheld(address)?);
        let bytes = self.files.of(index)?.bytes()?;
        let from = usize::try_from(mapping.offset.checked_add(address - mapping.start)?).ok()?;
        let length = usize::try_from(end.checked_sub(address)?).ok()?;
        bytes.get(from..)?.get(..length.min(bytes.len() - from))
    }

    fn next_segment(&self, address: u64) -> u64 {
        let index = self.segments.partition_point(|segment| segment.start <= address);
        self.segments.get(index).map_or(u64::MAX, |segment| segment.start)
    }

    /// `None` inside of one.
    fn next_withheld(&self, address: u64) -> Option<u64> {
        let index = self.withheld.partition_point(|range| range.end <= address);
        let next = self.withheld.get(index).map_or(u64::MAX, |range| range.start);
        (next > address).then_some(next)
    }

    /// From `address` to the end of what holds it, at most `length`.
    fn some(&self, address: u64, length: usize) -> Option<&[u8]> {
        if let Some(segment) = self.segment(address) {
            return self.slice(address, length.min((segment.end - address) as usize));
        }
        self.backed(address).map(|bytes| &bytes[..bytes.len().min(length)]).filter(|bytes| !bytes.is_empty())
    }
}

impl Memory for Image {
    /// Also across the borders of segments and files.
    fn read(&self, address: u64, into: &mut [u8]) -> Option<()> {
        if let Some(bytes) = self.slice(address, into.len()) {
            into.copy_from_slice(bytes);
            return Some(());
        }
        let mut filled = 0;
        while let Some(rest) = into.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let bytes = self.some(address.checked_add(filled as u64)?, rest.len())?;
            rest.get_mut(..bytes.len())?.copy_from_slice(bytes);
            filled += bytes.len();
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
