//! Stacks to numbers: the book's nodes, found again by a table of this process.

use core::sync::atomic::Ordering::Relaxed;

use nilometer_ring::book::special;
use nilometer_ring::layout::degraded;

use super::process::{self, BOOK, BOOK_FD, control};
use super::table::{Table, hash};

static INDEX: Table = Table::new();

/// The node of a frame below `parent`. `place` is not zero.
#[inline(always)]
pub fn child(parent: u32, place: u64) -> u32 {
    let found = INDEX.find(place, hash(place, parent), |value| (value >> 32) as u32 == parent);
    match found {
        Some(value) => value as u32,
        None => new_child(parent, place),
    }
}

#[cold]
#[inline(never)]
fn new_child(parent: u32, place: u64) -> u32 {
    if parent == special::DROPPED {
        return parent;
    }
    let node = BOOK.append(&BOOK_FD, parent, place);
    if node == special::DROPPED {
        control().counters.stacks_dropped.fetch_add(1, Relaxed);
        process::degrade(degraded::BOOK_REFUSED);
    } else {
        INDEX.insert(place, hash(place, parent), (u64::from(parent) << 32) | u64::from(node));
    }
    node
}

pub fn forked() {
    INDEX.forked();
}
