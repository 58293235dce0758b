//! `malloc` and its kin.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

use nilometer_ring::event::{Mode, Source};

use super::active;
use crate::tracker::entry::entry;
use crate::tracker::guard::Hold;
use crate::tracker::real::{self, REAL};
use crate::tracker::record::{self, Caller};

entry!(#[unsafe(no_mangle)] malloc(_n: usize) -> *mut c_void, "rsi", "rdx" => on_malloc,
    sampled(), small("rdi"), passed_over("rdi"));
entry!(#[unsafe(no_mangle)] calloc(_k: usize, _n: usize) -> *mut c_void, "rdx", "rcx" => on_calloc,
    sampled(), product("rdi", "rsi"), small("rcx"), passed_over("rcx"));
entry!(#[unsafe(no_mangle)] realloc(_b: *mut c_void, _n: usize) -> *mut c_void, "rdx", "rcx" => on_realloc,
    sampled(), small("rsi"), not_drawn("edi"), passed_over("rsi"));
entry!(#[unsafe(no_mangle)] free(_b: *mut c_void), "rsi", "rdx" => on_free, sampled(), not_drawn("edi"));
entry!(#[unsafe(no_mangle)] reallocarray(_b: *mut c_void, _k: usize, _n: usize) -> *mut c_void, "rcx", "r8" => on_reallocarray);
entry!(#[unsafe(no_mangle)] posix_memalign(_o: *mut *mut c_void, _a: usize, _n: usize) -> c_int, "rcx", "r8" => on_posix_memalign);
entry!(#[unsafe(no_mangle)] aligned_alloc(_a: usize, _n: usize) -> *mut c_void, "rdx", "rcx" => on_aligned_alloc);
entry!(#[unsafe(no_mangle)] memalign(_a: usize, _n: usize) -> *mut c_void, "rdx", "rcx" => on_memalign);
entry!(#[unsafe(no_mangle)] valloc(_n: usize) -> *mut c_void, "rsi", "rdx" => on_valloc);
entry!(#[unsafe(no_mangle)] pvalloc(_n: usize) -> *mut c_void, "rsi", "rdx" => on_pvalloc);

/// Calls `allocate` and tells of its block.
#[inline(always)]
fn tell(bytes: usize, entry: usize, frame: usize, allocate: impl FnOnce() -> *mut c_void) -> *mut c_void {
    match active() {
        Some(mode) if !record::is_passed_over(mode, bytes) => {
            tell_slowly(mode, bytes, entry, frame, allocate)
        }
        _ => allocate(),
    }
}

#[inline(always)]
fn tell_slowly(
    mode: Mode,
    bytes: usize,
    entry: usize,
    frame: usize,
    allocate: impl FnOnce() -> *mut c_void,
) -> *mut c_void {
    let Ok(hold) = Hold::take(entry) else { return allocate() };
    let caller = Caller { entry, frame };
    record::expect(&hold, mode, caller);
    let block = allocate();
    record::allocated_slowly(&hold, mode, block, bytes, caller);
    block
}

/// The commonest hook: nothing is saved on the stack before it is known that something is to be done.
extern "C" fn on_malloc(bytes: usize, entry: usize, frame: usize) -> *mut c_void {
    match active() {
        Some(mode) if !record::is_passed_over(mode, bytes) => active_malloc(bytes, entry, frame, mode),
        _ => real::malloc(bytes),
    }
}

#[inline(never)]
extern "C" fn active_malloc(bytes: usize, entry: usize, frame: usize, mode: Mode) -> *mut c_void {
    tell_slowly(mode, bytes, entry, frame, || real::malloc(bytes))
}

extern "C" fn on_calloc(count: usize, bytes: usize, entry: usize, frame: usize) -> *mut c_void {
    tell(count.wrapping_mul(bytes), entry, frame, || real::calloc(count, bytes))
}

extern "C" fn on_free(block: *mut c_void, entry: usize, _frame: usize) {
    match active() {
        Some(mode) if record::is_told(mode, block) => active_free(block, entry),
        // SAFETY: the target's own call.
        _ => unsafe { real::free(block) },
    }
}

#[inline(never)]
extern "C" fn active_free(block: *mut c_void, entry: usize) {
    // Held until the end: what the allocator unmaps meanwhile is its own.
    let _hold = active().and_then(|mode| {
        let hold = Hold::take(entry).ok()?;
        record::freeing(&hold, mode, block);
        Some(hold)
    });
    // SAFETY: the target's own call.
    unsafe { real::free(block) };
}

extern "C" fn on_realloc(old: *mut c_void, bytes: usize, entry: usize, frame: usize) -> *mut c_void {
    // SAFETY: the target's own call.
    let reallocate = || unsafe { real::realloc(old, bytes) };
    let Some(mode) = active() else { return reallocate() };
    let Ok(hold) = Hold::take(entry) else { return reallocate() };
    let told = record::freeing(&hold, mode, old);
    let new = reallocate();
    if new.is_null() && told && bytes != 0 {
        record::unfreed(&hold, mode, old);
    }
    let source = if old.is_null() { Source::Malloc } else { Source::Realloc };
    record::allocated(&hold, mode, source, new, bytes, Caller { entry, frame });
    new
}

extern "C" fn on_reallocarray(
    old: *mut c_void,
    count: usize,
    bytes: usize,
    entry: usize,
    frame: usize,
) -> *mut c_void {
    let Some(total) = count.checked_mul(bytes) else {
        // SAFETY: this thread's errno.
        unsafe { *libc::__errno_location() = libc::ENOMEM };
        return null_mut();
    };
    on_realloc(old, total, entry, frame)
}

extern "C" fn on_posix_memalign(
    out: *mut *mut c_void,
    align: usize,
    bytes: usize,
    entry: usize,
    frame: usize,
) -> c_int {
    let Some(real) = found(&REAL.posix_memalign) else { return libc::ENOMEM };
    let mut result = libc::ENOMEM;
    tell(bytes, entry, frame, || {
        // SAFETY: the target's own call; `out` is written on success.
        unsafe {
            result = real(out, align, bytes);
            if result == 0 { *out } else { null_mut() }
        }
    });
    result
}

extern "C" fn on_aligned_alloc(align: usize, bytes: usize, entry: usize, frame: usize) -> *mut c_void {
    let Some(real) = found(&REAL.aligned_alloc) else { return null_mut() };
    // SAFETY: the target's own call.
    tell(bytes, entry, frame, || unsafe { real(align, bytes) })
}

extern "C" fn on_memalign(align: usize, bytes: usize, entry: usize, frame: usize) -> *mut c_void {
    let Some(real) = found(&REAL.memalign) else { return null_mut() };
    // SAFETY: the target's own call.
    tell(bytes, entry, frame, || unsafe { real(align, bytes) })
}

extern "C" fn on_valloc(bytes: usize, entry: usize, frame: usize) -> *mut c_void {
    let Some(real) = found(&REAL.valloc) else { return null_mut() };
    // SAFETY: the target's own call.
    tell(bytes, entry, frame, || unsafe { real(bytes) })
}

extern "C" fn on_pvalloc(bytes: usize, entry: usize, frame: usize) -> *mut c_void {
    let Some(real) = found(&REAL.pvalloc) else { return null_mut() };
    // SAFETY: the target's own call.
    tell(bytes.next_multiple_of(4096), entry, frame, || unsafe { real(bytes) })
}

/// A function that has no substitute before it is looked up.
fn found<F: Copy>(slot: &real::Slot<F>) -> Option<F> {
    slot.get().or_else(|| if real::resolve() { slot.get() } else { None })
}
