//! The guard: a thread is in at most one hook at a time, and only its holder may record.
//!
//! It is one word of TLS: 0, or the stack address at the entry of the hook that holds it, with a bit that
//! says whether the thread is inside the real allocator (mappings made there are the allocator's own) or
//! inside the tracker. Because it is an address, a hook that was left by `longjmp` or an exception is noticed:
//! a later call comes from further out on the same stack, or has overwritten the word that was there.

use core::sync::atomic::Ordering::Relaxed;

use super::process;
use super::tls::{Tls, on_stack, tls};

/// The thread is inside the real function; without it, inside the tracker.
const REAL: usize = 1;

/// Proof that this thread holds the guard. Released on drop.
pub struct Hold {
    tls: *mut Tls,
    entry: usize,
}

/// Why a hook may not record.
#[derive(Debug, PartialEq, Eq)]
pub enum Busy {
    /// Inside the tracker itself: a signal handler interrupted it.
    Tracker,
    /// Inside the real allocator.
    Allocator,
}

impl Hold {
    /// Takes the guard for a hook whose return address is at `entry`, about to call the real function.
    #[inline(always)]
    pub fn take(entry: usize) -> Result<Self, Busy> {
        let tls = tls();
        // SAFETY: this thread's own bytes.
        let held = unsafe { (*tls).hold };
        if held != 0 {
            take_over(tls, held, entry)?;
        }
        // SAFETY: as above; the entry is a word of the running hook's stack.
        unsafe {
            (*tls).hold_word = *(entry as *const usize);
            (*tls).hold = entry | REAL;
        }
        Ok(Self { tls, entry })
    }

    /// For a nested hook that may record although the thread is inside the real allocator: the outer hook
    /// has nothing open. Gives the guard back as it was.
    pub fn nested(entry: usize) -> Option<Nested> {
        let tls = tls();
        // SAFETY: this thread's own bytes.
        let (held, word) = unsafe { ((*tls).hold, (*tls).hold_word) };
        (held & REAL != 0).then(|| {
            // SAFETY: as in `take`.
            unsafe {
                (*tls).hold_word = *(entry as *const usize);
                (*tls).hold = entry;
            }
            Nested { hold: core::mem::ManuallyDrop::new(Self { tls, entry }), held, word }
        })
    }

    /// The real function is done: what follows is the tracker's.
    #[inline(always)]
    pub fn record(&self) {
        // SAFETY: this thread's own bytes.
        unsafe { (*self.tls).hold = self.entry };
    }

    /// Back into the real function.
    #[inline(always)]
    pub fn call(&self) {
        // SAFETY: as above.
        unsafe { (*self.tls).hold = self.entry | REAL };
    }

    #[inline(always)]
    pub fn tls(&self) -> *mut Tls {
        self.tls
    }
}

impl Drop for Hold {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: this thread's own bytes.
        unsafe { (*self.tls).hold = 0 };
    }
}

/// A guard inside a guard; see [`Hold::nested`].
pub struct Nested {
    pub hold: core::mem::ManuallyDrop<Hold>,
    held: usize,
    word: usize,
}

impl Drop for Nested {
    fn drop(&mut self) {
        // SAFETY: this thread's own bytes.
        unsafe {
            (*self.hold.tls).hold_word = self.word;
            (*self.hold.tls).hold = self.held;
        }
    }
}

/// A holder that is still running lies further out and its return address is where it was. Stacks whose bounds
/// are not known (a fiber's, a signal's) are not read: there the holder is taken to be alive.
fn is_alive(tls: &Tls, holder: usize, entry: usize) -> bool {
    if !on_stack(tls, holder) {
        return true;
    }
    let further_in = entry < holder || !on_stack(tls, entry);
    // SAFETY: a word of this thread's stack: further out than the entry, or of the stack that a signal left.
    further_in && unsafe { *(holder as *const usize) } == tls.hold_word
}

/// The guard is set. Ours if its holder was abandoned; else the event is passed over and counted.
#[cold]
#[inline(never)]
fn take_over(tls: *mut Tls, held: usize, entry: usize) -> Result<(), Busy> {
    // SAFETY: this thread's own bytes, and this function holds no reference across a call.
    let tls = unsafe { &mut *tls };
    let holder = held & !REAL;
    if is_alive(tls, holder, entry) {
        if held & REAL != 0 {
            return Err(Busy::Allocator); // what the outer hook will tell, or the allocator's own business
        }
        process::control().counters.nested.fetch_add(1, Relaxed);
        return Err(Busy::Tracker);
    }
    process::control().counters.abandoned.fetch_add(1, Relaxed);
    if held & REAL == 0 {
        super::thread::interrupted(tls);
    }
    Ok(())
}
