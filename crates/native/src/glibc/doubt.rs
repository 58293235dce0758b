//! What did not add up.

/// Found while reading; the figures stand, with this said beside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Doubt {
    /// Stopped inside malloc, or overwritten.
    #[error("the chain of chunks is broken at {places} place(s) in the arena at {arena:#x}")]
    Broken { arena: u64, places: usize },
    #[error("the arena at {arena:#x} has {system} bytes by its own count, {walked} were found")]
    Sum { arena: u64, system: u64, walked: u64 },
    #[error("the heaps of the arena at {arena:#x} could not be read")]
    NoHeap { arena: u64 },
    #[error("a list of free chunks in the arena at {arena:#x} does not end")]
    Endless { arena: u64 },
    #[error("{chunks} chunk(s) on lists of free chunks are no chunks in use")]
    Strangers { chunks: usize },
    #[error(
        "malloc counts {count} mapped chunks of {bytes} bytes, {found_count} of {found_bytes} bytes were found"
    )]
    Mapped { count: u64, bytes: u64, found_count: u64, found_bytes: u64 },
    /// So mapped chunks are those that were found, unchecked.
    #[error("malloc's own counters were not found")]
    NoParameters,
}
