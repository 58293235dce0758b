//! A ledger: what the resident memory of one process is made of at one instant, line by line.
//!
//! The one invariant: each resident byte is in exactly one part, and `sum(parts) + residual = rss` to the byte;
//! [`Ledger::close`] makes it so and nothing changes parts afterwards.

use serde::{Deserialize, Serialize};

use crate::heap::Pause;

/// Packages that a log keeps by name.
const MOST_LIBRARIES: usize = 12;
const MOST_NOTES: usize = 8;
const LONGEST_COMMAND: usize = 200;

/// One process at one instant.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ledger {
    pub pid: i32,
    pub parent: i32,
    pub command: String,
    /// `3.11.7`; empty where there is none that can be read.
    pub python: String,
    pub realtime_ns: u64,
    pub badge: Badge,
    pub pause: Pause,
    /// The page walk's sum, at the same instant as the parts.
    pub rss_bytes: u64,
    /// The kernel's counter at that instant: it lags behind by up to some pages per processor.
    pub kernel_rss_bytes: Option<u64>,
    /// Shared pages divided by the number of processes that have them.
    pub pss_bytes: Option<u64>,
    /// What no other process has.
    pub uss_bytes: Option<u64>,
    /// Swapped out: no part of the resident memory.
    pub swap_bytes: u64,
    pub parts: Vec<Part>,
    pub residual_bytes: i64,
    /// Programs and libraries by package, largest first.
    pub libraries: Vec<Library>,
    pub python_heap: Option<PythonHeap>,
    pub malloc: Option<Malloc>,
    /// Of a process that was forked and runs the program of its parent.
    pub unshared: Option<Unshared>,
    /// Allocators that are loaded besides glibc's: their inside is not read.
    pub allocators: Vec<String>,
    /// What is known and not resident, or counted beside RSS.
    pub beside: Vec<Named>,
    /// Why a split is missing or not exact, in sentences.
    pub notes: Vec<String>,
}

/// How far it can be trusted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Badge {
    /// Everything was read while the process stood still.
    #[default]
    Exact,
    /// It was read while it ran: parts may be of different instants.
    Estimated,
    /// By kind of mapping only: its memory could not be read.
    Mappings,
    /// Three counters of the kernel: not even its mappings could be read.
    Counters,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    pub name: Line,
    pub bytes: u64,
    pub pss_bytes: Option<u64>,
    pub uss_bytes: Option<u64>,
    /// The largest of what it is made of, or what must be known of it.
    pub detail: Vec<Named>,
    pub method: Method,
}

/// A part of a part.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    pub name: String,
    pub bytes: u64,
}

/// How PSS and USS of a line were obtained; its bytes are counted page by page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// All its pages are in mappings that are wholly private, or wholly this line's.
    Exact,
    /// Some of its mappings are shared in part: their PSS is divided by bytes.
    Apportioned,
    /// From counters alone.
    Counter,
}

/// What resident memory can be, in the order in which it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// Pages of programs and libraries as they are in their files.
    Code,
    /// What was written to their variables and relocations.
    LibraryData,
    PythonObjects,
    /// Free blocks, pools and arenas of Python's allocator.
    PythonSlack,
    /// Freed objects that Python keeps for the next ones of their type.
    PythonFree,
    /// Buffers of arrays and tensors, each once.
    Arrays,
    MallocInUse,
    /// Free, but not given back: bins, fastbins, threads' caches, the ends of arenas.
    MallocHeld,
    MallocMetadata,
    /// Within malloc's arenas, and the walk could not tell.
    MallocUnknown,
    /// Memory of an allocator that is known by name only, as far as it can be told apart: other anonymous memory.
    OtherAllocator,
    Stacks,
    SharedMemory,
    /// Mapped files that are no programs.
    Files,
    /// Pages that are there because a neighbour was touched.
    HugeRounding,
    /// The allocation tracker's own.
    Tracker,
    /// Private memory without a file of which nothing else is known.
    OtherMaps,
    /// Where memory cannot be read: private memory without a file.
    Anonymous,
}

impl Line {
    pub const ALL: [Self; 18] = [
        Self::Code,
        Self::LibraryData,
        Self::PythonObjects,
        Self::PythonSlack,
        Self::PythonFree,
        Self::Arrays,
        Self::MallocInUse,
        Self::MallocHeld,
        Self::MallocMetadata,
        Self::MallocUnknown,
        Self::OtherAllocator,
        Self::Stacks,
        Self::SharedMemory,
        Self::Files,
        Self::HugeRounding,
        Self::Tracker,
        Self::OtherMaps,
        Self::Anonymous,
    ];
}

/// A package of programs and libraries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Library {
    pub name: String,
    pub files: u64,
    /// Resident pages of its files.
    pub code_bytes: u64,
    /// What was written to its variables and relocations.
    pub data_bytes: u64,
    pub pss_bytes: u64,
    /// Pages that no other process has.
    pub uss_bytes: u64,
    /// Its files and what is mapped with them, resident or not.
    pub mapped_bytes: u64,
    /// Python objects and buffers that its modules hold, resident or not; none where that was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_bytes: Option<u64>,
}

/// What the interpreter has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PythonHeap {
    pub objects: u64,
    pub arenas: u64,
    pub pools: u64,
    /// Buffers of arrays and tensors.
    pub buffers: u64,
    /// Their whole length, resident or not, wherever they are.
    pub buffer_bytes: u64,
    /// Of those, what only C or C++ holds.
    pub native_only_bytes: u64,
    /// Of those, torch's parameters, and what tensors name as their gradients.
    pub weights_bytes: u64,
    pub gradients_bytes: u64,
    /// What torch's optimizers keep in their state.
    pub optimizer_bytes: u64,
    /// Resident in mapped files and in shared memory: told in those lines.
    pub buffers_in_files_bytes: u64,
    pub buffers_in_shared_bytes: u64,
}

/// What a child has copied of its parent's memory since the fork: pages that both have at the same place, and that
/// are no longer one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unshared {
    pub parent: i32,
    pub bytes: u64,
    /// Still one with the parent, or with its other children.
    pub shared_bytes: u64,
    /// The kinds of Python objects that lie on copied pages, by their bytes there, largest first.
    pub kinds: Vec<Named>,
    /// Bytes of all objects there.
    pub objects_bytes: u64,
}

/// What glibc's malloc has, resident or not: comparable with `mallinfo2`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Malloc {
    pub version: Option<String>,
    pub arenas: u64,
    pub system_bytes: u64,
    /// `uordblks`: in use, with the threads' caches and the allocator's own.
    pub in_use_bytes: u64,
    /// `fordblks`: in bins and at the ends of arenas.
    pub free_bytes: u64,
    pub tcache_bytes: u64,
    pub fastbin_bytes: u64,
    /// `hblkhd`: chunks with a mapping of their own.
    pub mapped_bytes: u64,
    pub mapped_chunks: u64,
    /// Resident and held, by arena: the main one, and those of threads.
    pub held_main_bytes: u64,
    pub held_threads_bytes: u64,
    /// Resident, and `malloc_trim(0)` would give it back.
    pub trimmable_bytes: u64,
}

impl Ledger {
    /// Parts in their order, empty ones dropped; the residual is what they do not explain.
    pub fn close(&mut self) {
        self.parts.retain(|part| part.bytes > 0);
        self.parts.sort_by_key(|part| part.name);
        self.residual_bytes = signed(self.rss_bytes).saturating_sub(signed(self.explained_bytes()));
    }

    /// What a log keeps: the largest packages, the others as one; details and notes as far as they are short.
    pub fn shorten(&mut self) {
        let more = self.libraries.split_off(MOST_LIBRARIES.min(self.libraries.len()));
        if !more.is_empty() {
            let mut rest = Library { name: format!("{} more packages", more.len()), ..Library::default() };
            for library in &more {
                rest.add(library);
            }
            self.libraries.push(rest);
        }
        self.notes.truncate(MOST_NOTES);
        self.command = self.command.chars().take(LONGEST_COMMAND).collect();
    }

    // Saturating: a ledger comes from any log, and a sum of its numbers must not panic.
    pub fn explained_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).fold(0, u64::saturating_add)
    }

    pub fn bytes(&self, line: Line) -> u64 {
        let of_line = self.parts.iter().filter(|part| part.name == line);
        of_line.map(|part| part.bytes).fold(0, u64::saturating_add)
    }
}

impl Library {
    fn add(&mut self, other: &Self) {
        self.files += other.files;
        self.code_bytes += other.code_bytes;
        self.data_bytes += other.data_bytes;
        self.pss_bytes += other.pss_bytes;
        self.uss_bytes += other.uss_bytes;
        self.mapped_bytes += other.mapped_bytes;
        self.held_bytes =
            self.held_bytes.map(|held| held + other.held_bytes.unwrap_or(0)).or(other.held_bytes);
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: Line, bytes: u64) -> Part {
        Part { name, bytes, pss_bytes: None, uss_bytes: None, detail: Vec::new(), method: Method::Exact }
    }

    #[test]
    fn a_closed_ledger_adds_up_either_way() {
        for (rss, residual) in [(100, 30), (50, -20)] {
            let parts = vec![part(Line::Stacks, 20), part(Line::Files, 0), part(Line::Code, 50)];
            let mut ledger = Ledger { rss_bytes: rss, parts, ..Ledger::default() };
            ledger.close();
            assert_eq!(ledger.residual_bytes, residual);
            let names: Vec<Line> = ledger.parts.iter().map(|part| part.name).collect();
            assert_eq!(names, [Line::Code, Line::Stacks]);
            assert_eq!(ledger.explained_bytes() as i64 + ledger.residual_bytes, rss as i64);
        }
    }

    #[test]
    fn a_log_may_hold_any_numbers() {
        let parts = vec![part(Line::Code, u64::MAX), part(Line::Code, 5), part(Line::Stacks, u64::MAX)];
        let ledger = Ledger { parts, ..Ledger::default() };
        assert_eq!([ledger.bytes(Line::Code), ledger.explained_bytes()], [u64::MAX; 2]);
    }

    #[test]
    fn what_is_cut_for_the_log_is_summed() {
        let library = |code_bytes| Library { code_bytes, files: 1, ..Library::default() };
        let mut ledger = Ledger { libraries: (0..20).map(library).collect(), ..Ledger::default() };
        ledger.shorten();
        assert_eq!(ledger.libraries.len(), MOST_LIBRARIES + 1);
        let last = ledger.libraries.last().unwrap();
        assert_eq!(
            (last.name.as_str(), last.files, last.code_bytes),
            ("8 more packages", 8, (12..20).sum::<u64>())
        );
    }

    #[test]
    fn every_line_is_listed_once_and_in_order() {
        assert!(Line::ALL.is_sorted());
        assert_eq!(Line::ALL.len(), Line::Anonymous as usize + 1);
    }
}
