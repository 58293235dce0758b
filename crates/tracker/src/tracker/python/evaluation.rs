//! Which native code evaluates Python: the parts of the interpreter's loop.
//!
//! Compilers move parts of the loop far away from where its name is, and distributions strip the names of the parts. But
//! each evaluation keeps a structure of its own on the C stack, and the native frame that it lies in belongs to the
//! loop. The parts are few: they are learned from the first stacks and written into the control page.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use nilometer_ring::layout::EVALUATIONS;

use super::layout::{FrameKind, Layout, SHIM};
use super::{LAYOUT, innermost, thread_state, word};
use crate::tracker::native;
use crate::tracker::process::control;
use crate::tracker::tls::{Tls, on_stack};

/// Stacks of a thread that are looked at; later ones now and then.
const FIRST: u32 = 4096;
const THEN_EVERY: u32 = 64;

static ADDING: AtomicU32 = AtomicU32::new(0);
/// Start and end of each part.
static PARTS: [[AtomicU64; 2]; EVALUATIONS] = [const { [const { AtomicU64::new(0) }; 2] }; EVALUATIONS];

/// After a walk of both stacks, the thread's `walks`th.
#[inline(always)]
pub fn learn(native: &native::Memory, tls: &Tls, walks: u32) {
    if walks < FIRST || walks.is_multiple_of(THEN_EVERY) {
        look(native, tls);
    }
}

#[cold]
#[inline(never)]
fn look(native: &native::Memory, tls: &Tls) {
    let layout = LAYOUT.load(Acquire);
    if layout.is_null() {
        return;
    }
    // SAFETY: one of the statics of `layout`.
    let mark = own_structure(unsafe { &*layout }, tls);
    let part = mark.and_then(|mark| native.frame_at(mark)).filter(|&ip| !is_known(ip));
    if let Some(range) = part.and_then(native::function_range) {
        add(range);
    }
}

/// Where on the C stack the innermost evaluation keeps its structure.
fn own_structure(layout: &Layout, tls: &Tls) -> Option<usize> {
    let found = match layout.frame.kind {
        FrameKind::Object { .. } => return None,
        // SAFETY: the state of this thread, which has a Python frame.
        FrameKind::Flagged { .. } => unsafe { word(thread_state()?, layout.thread_frame) },
        FrameKind::Shimmed { owner } => innermost_shim(layout, owner)?,
    };
    on_stack(tls, found).then_some(found)
}

fn innermost_shim(layout: &Layout, owner: u16) -> Option<usize> {
    let mut frame = innermost(layout);
    for _ in 0..super::MAX_DEPTH {
        if frame == 0 {
            return None;
        }
        // SAFETY: a frame of this thread's live chain.
        unsafe {
            if ((frame + owner as usize) as *const u8).read() >= SHIM {
                return Some(frame);
            }
            frame = word(frame, layout.frame.previous);
        }
    }
    None
}

fn is_known(ip: usize) -> bool {
    let ip = ip as u64 - 1;
    PARTS.iter().any(|[start, end]| start.load(Relaxed) <= ip && ip < end.load(Relaxed))
}

fn add((start, end): (usize, usize)) {
    if ADDING.swap(1, AcqRel) != 0 {
        return; // the next stack will tell it again
    }
    if let Some(part) = PARTS.iter().find(|part| part[0].load(Relaxed) == 0) {
        part[1].store(end as u64, Relaxed);
        part[0].store(start as u64, Release);
        tell();
    }
    ADDING.store(0, Release);
}

/// Writes what is known into this process's control page.
pub fn tell() {
    for ([start, end], told) in PARTS.iter().zip(&control().evaluations) {
        told[1].store(end.load(Relaxed), Relaxed);
        told[0].store(start.load(Relaxed), Release);
    }
}

/// In a forked child nobody is at it.
pub fn forked() {
    ADDING.store(0, Relaxed);
}
