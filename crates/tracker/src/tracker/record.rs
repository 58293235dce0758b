//! From a hook to a record: what is said about each event. The caller holds the guard.

use core::ffi::c_void;

use nilometer_ring::Encoder;
use nilometer_ring::event::{Level, Mode, Source, Stacks, mapping};

use super::guard::Hold;
use super::thread::Thread;
use super::tls::{Tls, tls};
use super::{native, python, real, sample, thread};

/// Where a hook was called from.
#[derive(Clone, Copy)]
pub struct Caller {
    /// Where the return address is on the stack.
    pub entry: usize,
    /// The caller's rbp.
    pub frame: usize,
}

/// Before the real call, if each event is told: an allocation is coming.
#[inline(always)]
pub fn expect(hold: &Hold, mode: Mode, caller: Caller) {
    if mode.level() != Level::Sampled {
        thread::peek(hold.tls(), |thread| native::expect(&thread.native, caller));
    }
}

/// After the real call: a block was handed out.
#[inline(always)]
pub fn allocated(hold: &Hold, mode: Mode, source: Source, block: *mut c_void, bytes: usize, caller: Caller) {
    if mode.level() != Level::Sampled {
        exact(hold, source, block as u64, bytes as u64, caller);
    } else if sample::may_be_drawn(hold.tls(), bytes) && sample::drawn(hold.tls(), bytes) {
        sampled(hold, source, block as u64, bytes as u64, caller);
    }
}

/// In sampled mode, before the real call: true if the block will not be told. Where the real allocator calls no hook
/// of ours, nothing more is to be done then.
#[inline(always)]
pub fn is_passed_over(mode: Mode, bytes: usize) -> bool {
    mode.level() == Level::Sampled && real::is_quiet() && !sample::may_be_drawn(tls(), bytes)
}

/// As [`allocated`], after [`is_passed_over`] said no.
#[inline(always)]
pub fn allocated_slowly(hold: &Hold, mode: Mode, block: *mut c_void, bytes: usize, caller: Caller) {
    if mode.level() == Level::Sampled && real::is_quiet() {
        if sample::drawn(hold.tls(), bytes) {
            sampled(hold, Source::Malloc, block as u64, bytes as u64, caller);
        }
    } else {
        allocated(hold, mode, Source::Malloc, block, bytes, caller);
    }
}

#[inline(always)]
fn exact(hold: &Hold, source: Source, block: u64, bytes: u64, caller: Caller) {
    if block != 0 {
        hold.record();
        write_alloc(hold, source, block, bytes, caller);
    }
}

#[cold]
#[inline(never)]
fn sampled(hold: &Hold, source: Source, block: u64, bytes: u64, caller: Caller) {
    hold.record();
    if block != 0 && sample::note(block) {
        write_alloc(hold, source, block, bytes, caller);
    }
}

#[inline(always)]
fn write_alloc(hold: &Hold, source: Source, block: u64, bytes: u64, caller: Caller) {
    thread::with(hold.tls(), |thread| {
        let stacks = capture(hold, thread, caller);
        if matches!(source, Source::Python | Source::PythonRealloc) {
            thread.write_python(|encoder, out| encoder.alloc(out, source, block, bytes, stacks));
        } else {
            thread.write(|encoder, out| encoder.alloc(out, source, block, bytes, stacks));
        }
    });
}

/// Can the free of this block matter? In sampled mode that is one look into a table.
#[inline(always)]
pub fn is_told(mode: Mode, block: *mut c_void) -> bool {
    mode.level() != Level::Sampled || mode.has(Mode::ALL_FREES) || sample::may_be_known(block as u64)
}

/// Before the real call: once it is freed, another thread may get the block and say so first.
#[inline(always)]
pub fn freeing(hold: &Hold, mode: Mode, block: *mut c_void) -> bool {
    tell_free(hold, mode, block, |thread| thread.write(|encoder, out| encoder.free(out, block as u64)))
}

/// As [`freeing`], for Python's allocator.
#[inline(always)]
pub fn freeing_python(hold: &Hold, mode: Mode, block: *mut c_void) -> bool {
    tell_free(hold, mode, block, |thread| thread.write_python(|encoder, out| encoder.free(out, block as u64)))
}

#[inline(always)]
fn tell_free(hold: &Hold, mode: Mode, block: *mut c_void, write: impl FnOnce(&mut Thread)) -> bool {
    if block.is_null() {
        return false;
    }
    if mode.level() == Level::Sampled && !sample::known(block as u64) && !mode.has(Mode::ALL_FREES) {
        return false;
    }
    hold.record();
    thread::with(hold.tls(), write);
    hold.call();
    true
}

/// A `realloc` failed: the block told to be freed lives on.
#[cold]
pub fn unfreed(hold: &Hold, mode: Mode, block: *mut c_void) {
    hold.record();
    if mode.level() == Level::Sampled {
        sample::note(block as u64);
    }
    thread::with(hold.tls(), |thread| thread.write(Encoder::unfree));
}

#[cold]
pub fn mapped(hold: &Hold, address: usize, bytes: usize, kind: u8, caller: Caller) {
    hold.record();
    thread::with(hold.tls(), |thread| {
        // What an allocator maps for itself is told by its flag; it needs no stack.
        let stacks =
            if kind & mapping::BACKING == 0 { capture(hold, thread, caller) } else { Stacks::default() };
        thread.write(|encoder, out| encoder.map(out, address as u64, bytes as u64, kind, stacks));
    });
}

#[cold]
pub fn unmapping(hold: &Hold, address: usize, bytes: usize) {
    hold.record();
    thread::with(hold.tls(), |thread| {
        thread.write(|encoder, out| encoder.unmap(out, address as u64, bytes as u64));
    });
}

#[cold]
pub fn remapped(hold: &Hold, from: (usize, usize), to: (usize, usize), caller: Caller) {
    hold.record();
    let wide = |(address, bytes)| (address as u64, bytes as u64);
    thread::with(hold.tls(), |thread| {
        let stacks = capture(hold, thread, caller);
        thread.write(|encoder, out| encoder.remap(out, wide(from), wide(to), stacks));
    });
}

#[cold]
pub fn moved_break(hold: &Hold, address: usize, caller: Caller) {
    hold.record();
    thread::with(hold.tls(), |thread| {
        let stacks = capture(hold, thread, caller);
        thread.write(|encoder, out| encoder.program_break(out, address as u64, stacks));
    });
}

#[cold]
pub fn discarded(hold: &Hold, address: usize, bytes: usize, lazily: bool) {
    hold.record();
    thread::with(hold.tls(), |thread| {
        thread.write(|encoder, out| encoder.discard(out, address as u64, bytes as u64, lazily));
    });
}

#[cold]
pub fn forked(hold: &Hold, child: u32) {
    hold.record();
    thread::with(hold.tls(), |thread| thread.write(|encoder, out| encoder.fork(out, child)));
}

#[cold]
pub fn unloaded(hold: &Hold, module: u32) {
    hold.record();
    thread::with(hold.tls(), |thread| thread.write(|encoder, out| encoder.unload(out, module)));
}

#[inline(always)]
fn capture(hold: &Hold, thread: &mut Thread, caller: Caller) -> Stacks {
    thread.check_generation();
    // SAFETY: this thread's own bytes.
    let tls = unsafe { &*hold.tls() };
    let python = python::walk(&mut thread.python);
    let native = native::walk(&mut thread.native, tls, caller);
    if thread.native.take_fresh() {
        walked(thread, tls, python);
    }
    Stacks { native, python }
}

/// After a walk from frame to frame: what there is to learn from it.
#[inline(never)]
fn walked(thread: &mut Thread, tls: &Tls, python: u32) {
    let walks = thread.native.wholes.count_walk();
    if walks == native::BUSY {
        thread.set_busy(true);
    }
    if python != 0 {
        python::evaluation::learn(&thread.native, tls, walks);
    }
}
