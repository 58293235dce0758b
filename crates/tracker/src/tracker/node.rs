//! Stacks to numbers: the book's nodes, found again by a table of this process.
//!
//! When the book is nearly full, frames that have no node yet are folded into a mark below the innermost frame that
//! has one: an event then says less about where it came from, and says so.

use core::sync::atomic::Ordering::Relaxed;

use nilometer_ring::book::{FOLDED, special};
use nilometer_ring::layout::degraded;

use super::process::{self, BOOK, BOOK_FD, control};
use super::table::{Table, hash};

static INDEX: Table = Table::new();

/// The node of a frame below `parent`. `place` is not zero.
#[inline(always)]
pub fn child(parent: u32, place: u64) -> u32 {
    find(parent, place).unwrap_or_else(|| new_child(parent, place))
}

#[inline(always)]
fn find(parent: u32, place: u64) -> Option<u32> {
    let found = INDEX.find(place, hash(place, parent), |value| (value >> 32) as u32 == parent);
    found.map(|value| value as u32)
}

#[cold]
#[inline(never)]
fn new_child(parent: u32, place: u64) -> u32 {
    if parent == special::DROPPED || BOOK.place_of(parent) == FOLDED {
        return parent;
    }
    match add(parent, place) {
        special::FOLD => fold(parent),
        node => node,
    }
}

fn fold(parent: u32) -> u32 {
    let control = control();
    control.degraded.fetch_or(degraded::BOOK_FOLDED, Relaxed);
    control.counters.stacks_folded.fetch_add(1, Relaxed);
    find(parent, FOLDED).unwrap_or_else(|| add(parent, FOLDED))
}

fn add(parent: u32, place: u64) -> u32 {
    let node = BOOK.append(&BOOK_FD, parent, place);
    if node == special::DROPPED {
        control().counters.stacks_dropped.fetch_add(1, Relaxed);
        process::degrade(degraded::BOOK_REFUSED);
    } else if node != special::FOLD
        && !INDEX.insert(place, hash(place, parent), (u64::from(parent) << 32) | u64::from(node))
    {
        BOOK.fold(); // a node that cannot be found again would be written again and again
    }
    node
}

pub fn forked() {
    INDEX.forked();
}
