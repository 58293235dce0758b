//! A hash table that many threads read and fill without a lock, and that can grow under them.
//!
//! Entries are never removed. Growing copies into a larger table; what other threads put into the old one
//! meanwhile is lost and will be inserted again. So a table may only hold what can be found anew.

use core::ptr::null_mut;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};

use super::{headroom, process, sys};

/// A key and a value; both are zero in a free entry, and a value is never zero.
#[repr(C)]
pub struct Entry {
    key: AtomicU64,
    value: AtomicU64,
}

pub struct Table {
    /// The first entry; the low bits of the address, zero in a mapping, hold the size as a power of two.
    entries: AtomicPtr<Entry>,
    used: AtomicUsize,
    growing: AtomicU32,
}

const FIRST_BITS: u32 = 12;
const LAST_BITS: u32 = 24;
/// Longest run of entries looked at.
const PROBES: usize = 64;

#[inline(always)]
fn spread(hash: u64) -> u64 {
    hash.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Table {
    pub const fn new() -> Self {
        Self { entries: AtomicPtr::new(null_mut()), used: AtomicUsize::new(0), growing: AtomicU32::new(0) }
    }

    /// Address and size are read together: a mixed reading would be out of bounds.
    #[inline(always)]
    fn view(&self) -> Option<(*const Entry, u32)> {
        let tagged = self.entries.load(Acquire);
        if tagged.is_null() {
            return None;
        }
        let bits = tagged as usize as u32 & 63;
        Some((tagged.map_addr(|address| address & !63), bits))
    }

    /// The value of an entry with this key that `wanted` accepts. `hash` decides where to look.
    #[inline(always)]
    pub fn find(&self, key: u64, hash: u64, wanted: impl Fn(u64) -> bool) -> Option<u64> {
        let (entries, bits) = self.view()?;
        let mask = (1_usize << bits) - 1;
        let mut at = (spread(hash) >> (64 - bits)) as usize;
        for _ in 0..PROBES {
            // SAFETY: `at` is below the number of entries; tables are never unmapped.
            let entry = unsafe { &*entries.add(at) };
            let found = entry.key.load(Acquire);
            if found == key {
                let value = entry.value.load(Acquire);
                if value != 0 && wanted(value) {
                    return Some(value);
                }
            } else if found == 0 {
                return None;
            }
            at = (at + 1) & mask;
        }
        None
    }

    /// Adds an entry, if there is room or room can be made; else false. `key` and `value` are not zero.
    #[cold]
    pub fn insert(&self, key: u64, hash: u64, value: u64) -> bool {
        let capacity = self.view().map_or(0, |(_, bits)| 1_usize << bits);
        if self.used.load(Relaxed) * 3 >= capacity * 2 {
            self.grow();
        }
        let put = || self.view().is_some_and(|(entries, bits)| put(entries, bits, key, hash, value));
        let added = put() || {
            self.grow(); // its neighbours are taken
            put()
        };
        if added {
            self.used.fetch_add(1, Relaxed);
        }
        added || self.growing.load(Relaxed) != 0
    }

    /// Twice as large.
    fn grow(&self) {
        let bits = self.view().map_or(FIRST_BITS, |(_, bits)| bits + 1);
        if bits > LAST_BITS || self.growing.swap(1, AcqRel) != 0 {
            return;
        }
        let length = size_of::<Entry>() << bits;
        let new = headroom::map_private(length).cast::<Entry>();
        if !new.is_null() {
            process::control().counters.private_bytes.fetch_add(length as u64, Relaxed);
            let old = self.view();
            let copied = old.map_or(0, |old| copy(old, new, bits));
            self.used.store(copied, Relaxed);
            self.entries.store(new.map_addr(|address| address | bits as usize), Release);
            if let Some((entries, bits)) = old {
                discard(entries, bits);
            }
        }
        self.growing.store(0, Release);
    }

    /// In a forked child: whoever was growing is not here any more.
    pub fn forked(&self) {
        self.growing.store(0, Relaxed);
    }
}

/// Gives the pages back but leaves the mapping: a late reader sees an empty table.
fn discard(entries: *const Entry, bits: u32) {
    let length = size_of::<Entry>() << bits;
    // SAFETY: our own private mapping; zeros are valid entries.
    unsafe { sys::advise(entries.cast_mut().cast(), length, libc::MADV_DONTNEED) };
    process::control().counters.private_bytes.fetch_sub(length as u64, Relaxed);
}

fn put(entries: *const Entry, bits: u32, key: u64, hash: u64, value: u64) -> bool {
    let mask = (1_usize << bits) - 1;
    let mut at = (spread(hash) >> (64 - bits)) as usize;
    for _ in 0..PROBES {
        // SAFETY: as in `find`.
        let entry = unsafe { &*entries.add(at) };
        if entry.key.load(Relaxed) == 0 && entry.key.compare_exchange(0, key, AcqRel, Relaxed).is_ok() {
            entry.value.store(value, Release);
            return true;
        }
        at = (at + 1) & mask;
    }
    false
}

/// The hash of an entry of the stack index and of the code table: of the key and the value's upper half. Both are
/// often in rows, so that one product alone would put many pairs into one place.
#[inline(always)]
pub fn hash(key: u64, upper: u32) -> u64 {
    let mixed = key ^ u64::from(upper).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ (mixed >> 32)
}

fn copy((old, old_bits): (*const Entry, u32), new: *const Entry, bits: u32) -> usize {
    let mut copied = 0;
    for at in 0..1_usize << old_bits {
        // SAFETY: as in `find`.
        let entry = unsafe { &*old.add(at) };
        let (key, value) = (entry.key.load(Acquire), entry.value.load(Acquire));
        if key != 0 && value != 0 && put(new, bits, key, hash(key, (value >> 32) as u32), value) {
            copied += 1;
        }
    }
    copied
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_survive_growth() {
        let table = Table::new();
        for n in 1..=50_000_u64 {
            let value = (n % 7) << 32 | n;
            table.insert(n, hash(n, (n % 7) as u32), value);
        }
        let found = (1..=50_000_u64)
            .filter(|&n| table.find(n, hash(n, (n % 7) as u32), |v| v as u32 == n as u32).is_some())
            .count();
        assert_eq!(found, 50_000);
        assert_eq!(table.find(60_000, hash(60_000, 3), |_| true), None);
    }

    /// As stacks are: few frames, each below very many others.
    #[test]
    fn rows_of_keys_and_parents_find_their_places() {
        let table = Table::new();
        for parent in 1..60_000_u32 {
            for frame in 0..4_u64 {
                let key = 0x5555_5555_1000 + frame * 0x15;
                assert!(table.insert(key, hash(key, parent), u64::from(parent) << 32 | 1));
            }
        }
        let (_, bits) = table.view().unwrap();
        assert!(bits <= 19, "{bits} bits for 240,000 entries");
    }

    #[test]
    fn one_key_may_have_several_values() {
        let table = Table::new();
        table.insert(5, hash(5, 1), 1 << 32 | 0xa);
        table.insert(5, hash(5, 2), 2 << 32 | 0x14);
        assert_eq!(table.find(5, hash(5, 2), |v| v >> 32 == 2), Some(2 << 32 | 0x14));
    }
}
