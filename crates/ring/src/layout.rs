//! Where things are in the two files that a tracked process shares: the control file and the book.
//!
//! Both are memfds of a fixed, sparse size, sealed against shrinking and growing. Pages are backed
//! (`fallocate`) before their offset is published here, so that neither side can meet a page it cannot get.

use core::sync::atomic::{AtomicU32, AtomicU64};

pub const PAGE: u64 = 4096;
pub const VERSION: u32 = 1;
pub const CONTROL_MAGIC: u64 = u64::from_le_bytes(*b"NILOctl\0");
pub const BOOK_MAGIC: u64 = u64::from_le_bytes(*b"NILObook");

/// Sizes of the files; almost all of it is holes.
pub const CONTROL_FILE: u64 = 1 << 30;
pub const BOOK_FILE: u64 = 2 << 30;

/// Lanes a process can have; a lane is used by one thread after the other.
pub const MAX_LANES: usize = 4096;
/// Bytes of the control file that are always backed: header and lane directory.
pub const CONTROL_FIXED: u64 = PAGE + (MAX_LANES * 8) as u64;

/// The first page of the control file. Written by the tracker except where said.
#[derive(Debug)]
#[repr(C)]
pub struct Control {
    /// Written last: whoever sees it sees the rest.
    pub magic: AtomicU64,
    pub version: AtomicU32,
    pub pid: AtomicU32,
    /// The process whose memory this one started with, 0 for a fresh image.
    pub forked_from: AtomicU32,
    /// See [`crate::event::Mode`]. Also written by the recorder, to switch.
    pub mode: AtomicU32,
    pub mean_bytes: AtomicU64,
    pub exact_bytes: AtomicU64,
    /// Generation of the loaded libraries: remembered stacks of another one are void.
    pub generation: AtomicU32,
    /// `PY_VERSION_HEX >> 16` of the interpreter found, 0 for none.
    pub python: AtomicU32,
    _line_1: [u64; 2],

    /// When the image started, or was forked: ticks, and `CLOCK_MONOTONIC` of the same moment.
    pub start_ticks: AtomicU64,
    pub start_ns: AtomicU64,
    /// The book that the numbers of this process belong to (its inode).
    pub book: AtomicU64,
    /// Where `_PyEval_EvalFrameDefault` begins, 0 for none.
    pub eval: AtomicU64,
    /// Bytes of this file handed out so far.
    pub used_bytes: AtomicU64,
    /// Lanes in the directory.
    pub lanes: AtomicU32,
    /// Why the mode is lower than asked: bits of [`degraded`].
    pub degraded: AtomicU32,
    _line_2: [u64; 2],

    /// Bumped by the recorder at each look: a sign of life, and a coarse clock for the tracker.
    pub beat: AtomicU64,
    /// The recorder's process id as the target sees it, 0 if unknown.
    pub recorder: AtomicU32,
    _gap_3: AtomicU32,
    _line_3: [u64; 6],

    pub counters: Counters,
    /// Start and end of each part of the interpreter's loop that was met, as far as they are known; the first zero
    /// ends the list.
    pub evaluations: [[AtomicU64; 2]; EVALUATIONS],
}

/// Parts of the interpreter's loop that can be told.
pub const EVALUATIONS: usize = 16;

/// Reasons of [`Control::degraded`].
pub mod degraded {
    /// A page of the rings was refused.
    pub const RING_REFUSED: u32 = 1;
    /// A page of the book was refused, or its ceiling is reached.
    pub const BOOK_REFUSED: u32 = 2;
    /// The recorder is gone: nothing is recorded any more.
    pub const RECORDER_GONE: u32 = 4;
    /// The interpreter is not one whose frames are known.
    pub const PYTHON_UNKNOWN: u32 = 8;
    /// More sampled blocks live than the table holds: the mean was raised.
    pub const TABLE_FULL: u32 = 16;
    /// The book is nearly full: inner frames of new stacks are not kept. All events are.
    pub const BOOK_FOLDED: u32 = 32;
    /// The tracker did without memory that it wanted: its memory cgroup has little left.
    pub const LITTLE_ROOM: u32 = 64;
}

/// What was not recorded, and what it cost. Sums over the life of the process.
#[derive(Debug)]
#[repr(C)]
pub struct Counters {
    /// Events lost because a ring was full for too long.
    pub lost: AtomicU64,
    /// Events of signal handlers that interrupted the tracker: not recorded.
    pub nested: AtomicU64,
    /// Events of threads without a lane that found the orphans' lane busy.
    pub orphans_lost: AtomicU64,
    /// Times a thread met a full ring.
    pub waits: AtomicU64,
    /// Longest wait, in ticks.
    pub longest_wait: AtomicU64,
    /// Stacks that got the "dropped" node.
    pub stacks_dropped: AtomicU64,
    /// Stacks cut at the depth limit.
    pub stacks_cut: AtomicU64,
    /// Requests for pages that were refused.
    pub refused: AtomicU64,
    /// Hooks left by `longjmp` and taken over.
    pub abandoned: AtomicU64,
    /// Bytes of private memory that the tracker mapped for itself.
    pub private_bytes: AtomicU64,
    /// Unwind rules computed.
    pub rules: AtomicU64,
    /// Frames passed by the frame-pointer guess, for want of a rule.
    pub guessed: AtomicU64,
    /// Stacks whose inner frames were not kept: counted when they are met, not once each.
    pub stacks_folded: AtomicU64,
}

/// What stands at the start of a lane's pages; the ring's bytes follow at [`LANE_HEADER`].
#[derive(Debug)]
#[repr(C)]
pub struct LaneHeader {
    /// The thread that writes, 0 for nobody.
    pub owner: AtomicU32,
    _gap: AtomicU32,
    _line_1: [u64; 7],
    /// Bytes written since the lane exists. By the tracker.
    pub head: AtomicU64,
    _line_2: [u64; 7],
    /// Bytes taken. By the recorder.
    pub tail: AtomicU64,
    _line_3: [u64; 7],
}

pub const LANE_HEADER: u64 = 256;
/// Sizes of lanes in bytes, header included: a thread that fills one moves to the next.
pub const LANE_SIZES: [u64; 5] = [16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];

/// Nodes per segment, as a power of two; a node is 16 bytes.
pub const NODE_BITS: u32 = 14;
pub const NODE_SEGMENTS: usize = 4096;
pub const DEFINITION_SEGMENTS: usize = 1024;
/// Bytes of every segment of the book.
pub const SEGMENT: u64 = 256 << 10;
/// Where the directories of segments are: behind the header's page, one after the other.
pub const NODE_DIRECTORY: u64 = PAGE;
pub const DEFINITION_DIRECTORY: u64 = NODE_DIRECTORY + (NODE_SEGMENTS * 4) as u64;
/// Bytes of the book that are always backed.
pub const BOOK_FIXED: u64 = DEFINITION_DIRECTORY + (DEFINITION_SEGMENTS * 4) as u64;

/// The first page of the book, which a family of forked processes shares.
#[derive(Debug)]
#[repr(C)]
pub struct BookHeader {
    pub magic: AtomicU64,
    pub version: AtomicU32,
    /// Not 0 once the rest is kept for marks: new stacks are folded into what is known of them.
    pub folding: AtomicU32,
    /// Bytes of the file handed out, and the ceiling that was set.
    pub used_bytes: AtomicU64,
    pub limit_bytes: AtomicU64,
    /// The next node's number.
    pub nodes: AtomicU64,
    /// The next definition's place, counted through all segments.
    pub definitions: AtomicU64,
    /// The next definition's number.
    pub next_id: AtomicU32,
    /// Not 0 once a segment was refused: nothing more is tried.
    pub full: AtomicU32,
    /// Forked children that could not connect to the recorder: it cannot know of them otherwise.
    pub unheard: AtomicU64,
}

/// A frame of a stack.
#[derive(Debug)]
#[repr(C)]
pub struct Node {
    /// A return address, or a Python position (see [`crate::book::Frame`]).
    pub place: AtomicU64,
    /// The caller's node, and the depth above it (saturating) in the upper half.
    pub parent: AtomicU64,
}

const _: () = {
    assert!(size_of::<Control>() <= PAGE as usize);
    assert!(core::mem::offset_of!(Control, start_ticks) == 64);
    assert!(core::mem::offset_of!(Control, beat) == 128);
    assert!(core::mem::offset_of!(Control, counters) == 192);
    assert!(core::mem::offset_of!(LaneHeader, head) == 64);
    assert!(core::mem::offset_of!(LaneHeader, tail) == 128);
    assert!(size_of::<LaneHeader>() as u64 <= LANE_HEADER);
    assert!(size_of::<Node>() as u64 * (1 << NODE_BITS) == SEGMENT);
};
