//! All chunks of all arenas, in order of address, eight bytes each.
//!
//! A mark is where a chunk begins, with its state in the low bits (chunks are aligned to 16); it ends where the next
//! mark stands. The one invariant: marks increase, and the last one is [`State::Outside`].

use std::ops::Range;

/// A chunk's header: the size of the one before (or its last bytes), its own size.
pub(super) const HEADER: u64 = 16;

const STATE: u64 = 0xf;

/// What a stretch of the allocator's memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum State {
    /// Handed out to the program.
    InUse = 0,
    /// Handed out, with a mapping of its own.
    Mapped = 1,
    /// In a bin: unsorted, small or large.
    Free = 2,
    /// In a fastbin: free, not joined with its neighbours.
    Fastbin = 3,
    /// In a thread's cache: free, but `mallinfo` calls it used.
    Cached = 4,
    /// The end of an arena, from which new chunks are cut.
    Top = 5,
    /// The allocator's own: arena and heap headers, fence posts, the thread caches' heads, alignment.
    Metadata = 6,
    /// Within an arena, but the walk could not tell.
    Unknown = 7,
    /// Not malloc's.
    Outside = 8,
}

impl State {
    const ALL: [Self; 9] = [
        Self::InUse,
        Self::Mapped,
        Self::Free,
        Self::Fastbin,
        Self::Cached,
        Self::Top,
        Self::Metadata,
        Self::Unknown,
        Self::Outside,
    ];

    pub fn is_in_use(self) -> bool {
        matches!(self, Self::InUse | Self::Mapped)
    }

    /// Was handed out, now or before it was freed.
    pub fn is_chunk(self) -> bool {
        !matches!(self, Self::Metadata | Self::Unknown | Self::Outside | Self::Top)
    }

    /// Held by the allocator for later.
    pub fn is_free(self) -> bool {
        matches!(self, Self::Free | Self::Fastbin | Self::Cached | Self::Top)
    }
}

/// One chunk as the program sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// What `malloc` returned.
    pub start: u64,
    /// What `malloc_usable_size` would say.
    pub usable: u64,
    pub state: State,
}

impl Chunk {
    pub fn in_use(&self) -> bool {
        self.state.is_in_use()
    }

    pub fn range(&self) -> Range<u64> {
        self.start..self.start + self.usable
    }
}

/// A stretch between two marks, with its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stretch {
    pub start: u64,
    pub end: u64,
    pub state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mark(u64);

impl Mark {
    pub fn new(start: u64, state: State) -> Self {
        Self(start & !STATE | state as u64)
    }

    pub fn start(self) -> u64 {
        self.0 & !STATE
    }

    pub fn state(self) -> State {
        State::ALL.get((self.0 & STATE) as usize).copied().unwrap_or(State::Unknown)
    }
}

#[derive(Debug, Default)]
pub(super) struct Index {
    marks: Vec<Mark>,
    /// What of a mapped chunk cannot be used by the program.
    mapped_overhead: u64,
}

impl Index {
    /// Joins stretches of marks; each is sorted and ends with [`State::Outside`]. Those that overlap an earlier one
    /// are dropped.
    pub fn join(mut parts: Vec<Vec<Mark>>, mapped_overhead: u64) -> Self {
        parts.retain(|part| part.len() > 1);
        parts.sort_by_key(|part| part[0]);
        let mut marks: Vec<Mark> = Vec::with_capacity(parts.iter().map(Vec::len).sum());
        for part in parts {
            let end = marks.last().map_or(0, |mark| mark.start());
            if part[0].start() < end {
                continue;
            }
            // Where one ends the next begins: one mark says it.
            if part[0].start() == end {
                marks.pop();
            }
            marks.extend(part);
        }
        Self { marks, mapped_overhead }
    }

    pub fn len(&self) -> usize {
        self.marks.len()
    }

    pub fn stretches(&self) -> impl Iterator<Item = Stretch> + '_ {
        self.marks.windows(2).map(|pair| Stretch {
            start: pair[0].start(),
            end: pair[1].start(),
            state: pair[0].state(),
        })
    }

    /// The stretches that begin within a range.
    pub fn within(&self, range: Range<u64>) -> impl Iterator<Item = Stretch> + '_ {
        let from = self.marks.partition_point(|mark| mark.start() < range.start);
        let to = self
            .marks
            .partition_point(|mark| mark.start() < range.end)
            .min(self.marks.len().saturating_sub(1));
        (from..to).map(|index| self.stretch(index))
    }

    fn stretch(&self, index: usize) -> Stretch {
        Stretch {
            start: self.marks[index].start(),
            end: self.marks[index + 1].start(),
            state: self.marks[index].state(),
        }
    }

    /// The stretch that holds `address`.
    pub fn holding(&self, address: u64) -> Option<Stretch> {
        let index = self.marks.partition_point(|mark| mark.start() <= address).checked_sub(1)?;
        (index + 1 < self.marks.len()).then(|| self.stretch(index))
    }

    /// As the program sees it: a chunk's last word is the first of the next one's header, a mapped chunk has no next.
    pub fn chunk(&self, stretch: Stretch) -> Chunk {
        let overhead = if stretch.state == State::Mapped { self.mapped_overhead } else { HEADER - 8 };
        Chunk {
            start: stretch.start + HEADER,
            usable: stretch.bytes().saturating_sub(overhead),
            state: stretch.state,
        }
    }

    /// Gives chunks in use another state: those that begin at `starts`. Returns those that are none.
    pub fn restate(&mut self, mut starts: Vec<u64>, state: State) -> Vec<u64> {
        starts.sort_unstable();
        let mut strangers = Vec::new();
        let mut from = 0;
        for start in starts {
            from += seek(&self.marks[from..], start);
            match self.marks.get_mut(from) {
                Some(mark) if mark.start() == start && mark.state().is_in_use() => {
                    *mark = Mark::new(start, state);
                }
                _ => strangers.push(start),
            }
        }
        strangers
    }
}

/// How many marks stand before `start`: doubling steps, because the next one asked for is near.
fn seek(marks: &[Mark], start: u64) -> usize {
    let mut step = 1;
    while marks.get(step).is_some_and(|mark| mark.start() < start) {
        step *= 2;
    }
    let from = step / 2;
    let to = (step + 1).min(marks.len());
    from.min(to) + marks[from.min(to)..to].partition_point(|mark| mark.start() < start)
}

impl Stretch {
    pub fn bytes(&self) -> u64 {
        self.end - self.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index() -> Index {
        let first = vec![
            Mark::new(0x1000, State::InUse),
            Mark::new(0x1020, State::Free),
            Mark::new(0x1100, State::InUse),
            Mark::new(0x1140, State::Top),
            Mark::new(0x2000, State::Outside),
        ];
        let second = vec![Mark::new(0x2000, State::Mapped), Mark::new(0x5000, State::Outside)];
        let overlapping = vec![Mark::new(0x4000, State::InUse), Mark::new(0x4100, State::Outside)];
        Index::join(vec![second, overlapping, first], HEADER)
    }

    #[test]
    fn stretches_meet_and_none_overlaps() {
        let states: Vec<State> = index().stretches().map(|s| s.state).collect();
        assert_eq!(states, [State::InUse, State::Free, State::InUse, State::Top, State::Mapped]);
        assert_eq!(index().within(0x1020..0x2000).count(), 3);
    }

    #[test]
    fn an_address_finds_its_stretch() {
        let index = index();
        assert_eq!(index.holding(0x10ff).map(|s| s.start), Some(0x1020));
        assert_eq!(index.holding(0xfff), None);
        assert_eq!(index.holding(0x5000), None);
        let mapped = index.chunk(index.holding(0x2000).unwrap());
        assert_eq!(mapped, Chunk { start: 0x2010, usable: 0x2ff0, state: State::Mapped });
    }

    #[test]
    fn only_chunks_in_use_change_their_state() {
        let mut index = index();
        assert_eq!(
            index.restate(vec![0x1100, 0x1020, 0x1000, 0x9000, 0x1110], State::Cached),
            [0x1020, 0x1110, 0x9000]
        );
        assert_eq!(index.stretches().filter(|s| s.state == State::Cached).count(), 2);
    }
}
