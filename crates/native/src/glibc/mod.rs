//! glibc's malloc, read from outside: which memory it has, what of it is in use, what it merely holds.
//!
//! Nothing is asked of the process and nothing of it has a name there: arenas are found by their shape and walked
//! header by header. The one invariant: of an arena's bytes each is told in exactly one column,
//! `system = in_use + free + fastbin + tcache + top + metadata + unknown`.
//! `mallinfo2` says the same in other words: `uordblks = in_use + tcache + metadata`, `fordblks` is the rest.

mod arena;
mod cache;
mod doubt;
mod heap;
mod index;
mod locate;
mod mapped;
mod parameters;
mod survey;
mod version;
mod walk;

use std::ops::Range;

use nilometer_image::{Image, Mapping, Modules};

pub use arena::Arena;
pub use doubt::Doubt;
pub use index::{Chunk, State};
pub(crate) use locate::HIGHEST;
pub use locate::Layout;
pub use survey::{Survey, Visitor, survey};

use crate::runs::Runs;
use index::{HEADER, Index};

/// A program has no more variables than that: what is longer is a file of data, mapped to be changed.
const MOST_DATA: u64 = 256 << 20;

/// Why there is nothing to tell.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Another allocator, another libc, or not one call of malloc yet.
    #[error("no arena of glibc's malloc in this process")]
    NoArena,
}

/// Everything that glibc's malloc has.
#[derive(Debug)]
pub struct Malloc {
    /// As `2.36`; the layout is told by memory itself.
    pub version: Option<String>,
    /// The main one first.
    pub arenas: Vec<Arena>,
    pub mapped: Mapped,
    pub layout: Layout,
    /// What did not add up; empty when all did.
    pub doubts: Vec<Doubt>,
    index: Index,
}

/// Chunks with a mapping of their own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mapped {
    /// By malloc's own counters where they were found, else as many as were found.
    pub count: u64,
    pub bytes: u64,
    /// Those that were found one by one, and are in the index.
    pub found_count: u64,
    pub found_bytes: u64,
}

impl Malloc {
    pub fn read(image: &Image, modules: &Modules) -> Result<Self, Error> {
        let malloc = arena::read(&Runs::of(image), image.mappings())?;
        Ok(Self { version: version::version(image, modules), ..malloc })
    }

    /// The chunk that holds `address` in what it handed out (or did, before it was freed).
    pub fn chunk_at(&self, address: u64) -> Option<Chunk> {
        let stretch = self.index.holding(address.checked_sub(HEADER)?)?;
        let chunk = self.index.chunk(stretch);
        (chunk.state.is_chunk() && chunk.range().contains(&address)).then_some(chunk)
    }

    /// Is `address` inside a chunk that the program has?
    pub fn is_in_use(&self, address: u64) -> bool {
        self.chunk_at(address).is_some_and(|chunk| chunk.in_use())
    }

    /// All chunks that were or are handed out, in order of address.
    pub fn chunks(&self) -> impl Iterator<Item = Chunk> + '_ {
        let chunks = self.index.stretches().filter(|stretch| stretch.state.is_chunk());
        chunks.map(|stretch| self.index.chunk(stretch))
    }

    /// What is held and not handed out, in order of address: for asking what of it is resident.
    pub fn free_ranges(&self) -> impl Iterator<Item = (State, Range<u64>)> + '_ {
        self.ranges().filter(|(state, _)| state.is_free())
    }

    /// Every stretch of malloc's memory with its state, headers included; those that are not malloc's left out.
    pub fn ranges(&self) -> impl Iterator<Item = (State, Range<u64>)> + '_ {
        let own = self.index.stretches().filter(|stretch| stretch.state != State::Outside);
        own.map(|stretch| (stretch.state, stretch.start..stretch.end))
    }

    /// What `malloc_trim(0)` could give back, in order of address, resident or not.
    pub fn trimmable_ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.index.stretches().filter_map(|stretch| arena::trimmable(stretch, self.main_top()))
    }

    /// Sums over all arenas.
    pub fn total(&self) -> Arena {
        self.arenas.iter().fold(Arena::default(), Arena::plus)
    }

    /// Only the main arena's top can be given back.
    fn main_top(&self) -> Option<u64> {
        self.arenas.first().map(|arena| arena.top)
    }
}

/// libc's writable data first, then that of everything else that has a file: a static program has its libc inside.
fn writable_files(mappings: &[Mapping]) -> Vec<Range<u64>> {
    let is_data = |m: &&Mapping| m.is_file() && m.write && !m.shared && !m.is_device();
    let writable = mappings.iter().filter(is_data).filter(|m| m.bytes() <= MOST_DATA);
    let is_of_libc =
        |m: &&Mapping| is_libc(m.path.file_name().and_then(|name| name.to_str()).unwrap_or_default());
    let (libc, others): (Vec<&Mapping>, Vec<&Mapping>) = writable.partition(is_of_libc);
    libc.into_iter().chain(others).map(Mapping::range).collect()
}

fn is_libc(name: &str) -> bool {
    name.starts_with("libc.so.") || name.starts_with("libc-2.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, start: u64, bytes: u64) -> Mapping {
        Mapping {
            start,
            end: start + bytes,
            read: true,
            write: true,
            path: path.into(),
            ..Mapping::default()
        }
    }

    /// A model's weights, mapped to be changed, would be read into memory of ours.
    #[test]
    fn variables_are_looked_for_in_libc_first_and_not_in_files_of_data() {
        let mappings = [
            file("/bin/program", 0x1000, 0x2000),
            file("/data/weights.bin", 1 << 40, 100 << 30),
            file("/lib/libc.so.6", 0x7f00_0000_0000, 0x6000),
        ];
        assert_eq!(writable_files(&mappings), [0x7f00_0000_0000..0x7f00_0000_6000, 0x1000..0x3000]);
    }
}
