//! Native stacks: a walk by the rules of `.eh_frame`, with a memory of the last stack.
//!
//! Two stacks of one thread mostly share their outer frames. The last one is kept with the words it was read
//! from; as soon as a frame of the new walk is in the same state as a remembered one, the rest is the same if
//! those words still are: a compare of memory, without a lookup. Nothing in the target is patched.

mod object;
mod rule;
mod whole;

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use nilometer_ring::book::{Frame, special};
use nilometer_ring::event::{Level, Mode};

use super::node;
use super::process::control;
use super::record::Caller;
use super::tls::{Tls, on_stack};
pub use object::forked;
pub use object::function_range;
use object::function_start;
#[cfg(not(test))]
pub use object::{are_of_one_object, begin, unloaded};
use rule::Rule;
#[cfg(not(test))]
pub use rule::set_initialiser;
pub use whole::{BUSY, LARGE_BYTES};
use whole::{Context, Wholes};

/// Frames that can be kept of a stack.
pub const MAX_DEPTH: usize = 256;

static DEPTH: AtomicUsize = AtomicUsize::new(MAX_DEPTH);

pub fn set_depth(depth: usize) {
    DEPTH.store(depth.min(MAX_DEPTH), Relaxed);
}

/// A frame of a walk or of the remembered stack.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Seen {
    /// The return address into this frame; it was read at `sp - 8`.
    ip: usize,
    /// The stack pointer in this frame, and its rbp.
    sp: usize,
    bp: usize,
    /// Where `bp` was read; 0 if it is the inner frame's. In a remembered frame also 0 if it does not matter.
    bp_slot: usize,
    /// During a walk the rule of `ip`, later the node and flags.
    word: u64,
}

/// Below a library's initialiser: all frames from here inwards have this node.
const SEALED: u64 = 1 << 32;
/// The frames outwards were found through this frame's rbp. Optimised code uses it for anything, so that two
/// equal frames mostly differ in it.
const NEEDS_BP: u64 = 1 << 33;

/// What a thread remembers between two walks.
#[repr(C)]
pub struct Memory {
    /// Frames of the last stack, outermost first.
    length: usize,
    /// The last walk went from frame to frame: `known` is that stack.
    is_fresh: bool,
    known: [Seen; MAX_DEPTH],
    /// Frames of the walk under way, innermost first.
    fresh: [Seen; MAX_DEPTH],
    /// Stacks that come again and again.
    pub wholes: Wholes,
}

impl Memory {
    /// True once after a walk from frame to frame.
    #[inline(always)]
    pub fn take_fresh(&mut self) -> bool {
        core::mem::take(&mut self.is_fresh)
    }

    /// The return address into the frame of the last stack that an address lies in.
    pub fn frame_at(&self, address: usize) -> Option<usize> {
        let inwards = self.known.get(..self.length)?.iter().rev();
        inwards.take_while(|seen| seen.sp <= address).last().map(|seen| seen.ip)
    }

    /// Nothing remembered holds any more.
    pub fn forget(&mut self) {
        self.length = 0;
        self.wholes.forget();
    }
}

/// A walk from here is about to be asked for.
#[inline(always)]
pub fn expect(memory: &Memory, caller: Caller) {
    // SAFETY: the return address of the hook.
    memory.wholes.expect(unsafe { read(caller.entry) }, caller.entry + 8);
}

/// The stack of a hook's caller, as a node.
#[inline(always)]
pub fn walk(memory: &mut Memory, tls: &Tls, caller: Caller) -> u32 {
    // SAFETY: the return address of the hook.
    let ip = unsafe { read(caller.entry) };
    let sp = caller.entry + 8;
    if !on_stack(tls, sp) {
        // A signal's or a fiber's stack: its bounds are not known, nothing outside the hook is read.
        return node::child(special::NONE, Frame::native(ip as u64, 0));
    }
    match memory.wholes.find(ip, sp, caller.frame) {
        Ok(node) => node,
        Err(context) => {
            let start = Seen { ip, sp, bp: caller.frame, bp_slot: 0, word: 0 };
            walk_anew(memory, tls, start, context)
        }
    }
}

#[inline(never)]
fn walk_anew(memory: &mut Memory, tls: &Tls, start: Seen, context: Context) -> u32 {
    let (kept, count, whole) = walk_out(memory, tls.stack_high - 16, start);
    let node = intern(memory, kept, count, whole);
    // Samples are few, and their stacks hardly ever the same twice: to remember them would cost more than it saves.
    if Mode(control().mode.load(Relaxed)).level() != Level::Sampled {
        let Memory { known, length, wholes, .. } = memory;
        wholes.keep(context, known.get(..*length).unwrap_or(&[]), node);
    }
    memory.is_fresh = true;
    node
}

/// # Safety
/// The word at `address` can be read.
#[inline(always)]
unsafe fn read(address: usize) -> usize {
    // SAFETY: by the caller's promise.
    unsafe { (address as *const usize).read() }
}

/// Walks until the rest is known or the stack ends. How many outer frames of the last stack are kept, how
/// many fresh ones lie below them, and whether the end was reached.
#[inline(always)]
fn walk_out(memory: &mut Memory, limit: usize, start: Seen) -> (usize, usize, bool) {
    let depth = DEPTH.load(Relaxed);
    let mut seen = start;
    let mut known = memory.length;
    for count in 0..depth {
        while known > 0 && memory.known[known - 1].sp < seen.sp {
            known -= 1;
        }
        if known > 0 && same_frame(&memory.known[known - 1], &seen) {
            match changed_from(&memory.known[..known]) {
                None => return (known, count, true),
                Some(at) => known = at,
            }
        }
        let rule = Rule::of(seen.ip);
        seen.word = rule.word();
        memory.fresh[count] = seen;
        match step(&seen, rule, limit) {
            Some(outer) => seen = outer,
            None => return (0, count + 1, true),
        }
    }
    (0, depth, false)
}

#[inline(always)]
fn same_frame(known: &Seen, seen: &Seen) -> bool {
    known.sp == seen.sp && known.ip == seen.ip && (known.bp == seen.bp || known.word & NEEDS_BP == 0)
}

/// The words that the outer frames were read from: how many of them, from the outside, are in doubt.
/// `None` if all are as they were.
#[inline(always)]
fn changed_from(known: &[Seen]) -> Option<usize> {
    let (_, outer) = known.split_last()?;
    for (index, frame) in outer.iter().enumerate().rev() {
        // SAFETY: both words lie further out on the live stack than a frame that was just reached.
        let same = unsafe {
            read(frame.sp - 8) == frame.ip && (frame.bp_slot == 0 || read(frame.bp_slot) == frame.bp)
        };
        if !same {
            return Some(index);
        }
    }
    None
}

/// One frame outwards; `None` at the end of the stack.
#[inline(always)]
fn step(seen: &Seen, rule: Rule, limit: usize) -> Option<Seen> {
    let (cfa, bp_slot) = if rule.is_plain() {
        let cfa = rule.cfa(seen.sp, seen.bp, limit)?;
        (cfa, rule.bp_slot(cfa, seen.bp))
    } else {
        guess(rule, seen, limit)?
    };
    if cfa <= seen.sp || cfa >= limit || (bp_slot != 0 && (bp_slot < seen.sp - 8 || bp_slot >= limit)) {
        return None;
    }
    // SAFETY: both slots lie between the hook's frame and the upper end of this thread's stack.
    let (ip, bp) = unsafe { (read(cfa - 8), if bp_slot == 0 { seen.bp } else { read(bp_slot) }) };
    (ip >= 4096).then_some(Seen { ip, sp: cfa, bp, bp_slot, word: 0 })
}

/// For code without rules (compiled at run time): a frame pointer, if it looks like one.
#[cold]
fn guess(rule: Rule, seen: &Seen, limit: usize) -> Option<(usize, usize)> {
    let plausible = !rule.is_end() && seen.bp >= seen.sp && seen.bp < limit && seen.bp.is_multiple_of(8);
    plausible.then(|| {
        control().counters.guessed.fetch_add(1, Relaxed);
        (seen.bp + 16, seen.bp)
    })
}

/// Gives the fresh frames their nodes and remembers them.
#[inline(always)]
fn intern(memory: &mut Memory, kept: usize, count: usize, whole: bool) -> u32 {
    let Memory { length, known, fresh, .. } = memory;
    let base = if kept > 0 { Some(known[kept - 1]) } else { None };
    let (mut node, mut flags) = base.map_or((special::NONE, 0), |seen| (seen.word as u32, seen.word));
    if !whole {
        control().counters.stacks_cut.fetch_add(1, Relaxed);
        node = special::CUT;
    }
    let mut calls_initialiser = base.is_some_and(|seen| Rule::of(seen.ip).is_initialiser());
    let mut at = kept;
    // The frame outwards of the one at hand: was its rbp read from memory, and does it matter?
    let mut outer_slot = base.map_or(0, |seen| seen.bp_slot);
    for index in (0..count).rev() {
        let mut seen = fresh[index];
        let rule = Rule::from_word(seen.word);
        if flags & SEALED == 0 {
            // Registrations in static initialisers give millions of stacks that nobody reads: one is kept.
            let place = if calls_initialiser { function_start(seen.ip) } else { seen.ip };
            flags |= if calls_initialiser { SEALED } else { 0 };
            calls_initialiser = rule.is_initialiser();
            node = node::child(node, Frame::native(place as u64, rule.epoch()));
        }
        let inherited = flags & NEEDS_BP != 0 && outer_slot == 0;
        let needs_bp = rule.uses_bp() || inherited;
        outer_slot = seen.bp_slot;
        if !needs_bp {
            seen.bp_slot = 0;
        }
        flags = (flags & SEALED) | if needs_bp { NEEDS_BP } else { 0 };
        seen.word = u64::from(node) | flags;
        if at < MAX_DEPTH {
            known[at] = seen;
            at += 1;
        }
    }
    *length = if whole { at } else { 0 };
    node
}
