//! Mappings and the program break.
//!
//! `mmap` and its kin are made as system calls: libc adds nothing to them but `errno`.

use core::ffi::{c_int, c_void};

use nilometer_ring::event::mapping;

use super::active;
use crate::tracker::entry::entry;
use crate::tracker::guard::{Busy, Hold};
use crate::tracker::real::REAL;
use crate::tracker::record::{self, Caller};
use crate::tracker::sys::{self, syscall};

/// As [`entry!`], for functions with more arguments than registers are left: the address of the saved rbp,
/// above which the return address is, goes on the stack.
macro_rules! entry_with_frame {
    ($name:ident($($arg:ident: $type:ty),*) -> $result:ty => $inner:path) => {
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> $result {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "push rbp",
                ".cfi_def_cfa_offset 16",
                ".cfi_offset rbp, -16",
                "mov rbp, rsp",
                ".cfi_def_cfa_register rbp",
                "push rbp",
                "push rbp",
                "call {inner}",
                "leave",
                ".cfi_def_cfa rsp, 8",
                "ret",
                ".cfi_endproc",
                inner = sym $inner,
            )
        }
    };
}

entry_with_frame!(mmap(_a: *mut c_void, _n: usize, _p: c_int, _f: c_int, _d: c_int, _o: i64) -> *mut c_void => on_mmap);
entry_with_frame!(mmap64(_a: *mut c_void, _n: usize, _p: c_int, _f: c_int, _d: c_int, _o: i64) -> *mut c_void => on_mmap);
entry!(#[unsafe(no_mangle)] munmap(_a: *mut c_void, _n: usize) -> c_int, "rdx", "rcx" => on_munmap);
entry!(#[unsafe(no_mangle)] madvise(_a: *mut c_void, _n: usize, _w: c_int) -> c_int, "rcx", "r8" => on_madvise);
entry!(#[unsafe(no_mangle)] brk(_a: *mut c_void) -> c_int, "rsi", "rdx" => on_brk);
entry!(#[unsafe(no_mangle)] sbrk(_n: isize) -> *mut c_void, "rsi", "rdx" => on_sbrk);
entry_with_frame!(mremap(_a: *mut c_void, _o: usize, _n: usize, _f: c_int, _t: *mut c_void) -> *mut c_void => on_mremap);

/// Runs `act` with the guard: this hook's own, or that of the allocator that calls us.
fn guarded(entry: usize, act: impl FnOnce(&Hold, bool)) {
    if active().is_none() {
        return;
    }
    match Hold::take(entry) {
        Ok(hold) => act(&hold, false),
        Err(Busy::Allocator) => {
            if let Some(nested) = Hold::nested(entry) {
                act(&nested.hold, true);
            }
        }
        Err(Busy::Tracker) => {}
    }
}

fn answer(result: Result<usize, sys::Errno>) -> usize {
    result.unwrap_or_else(|sys::Errno(errno)| {
        // SAFETY: this thread's errno.
        unsafe { *libc::__errno_location() = errno };
        usize::MAX
    })
}

/// The caller, from the address of its saved rbp.
unsafe fn caller_of(frame: *const usize) -> Caller {
    // SAFETY: written by the entry: rbp, and above it the return address.
    unsafe { Caller { entry: frame as usize + 8, frame: *frame } }
}

unsafe extern "C" fn on_mmap(
    address: *mut c_void,
    length: usize,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: i64,
    frame: *const usize,
) -> *mut c_void {
    // SAFETY: the target's own call.
    let result = answer(unsafe { syscall!(libc::SYS_mmap, address, length, protection, flags, fd, offset) })
        as *mut c_void;
    if result != libc::MAP_FAILED {
        // SAFETY: given by the entry.
        let caller = unsafe { caller_of(frame) };
        guarded(caller.entry, |hold, nested| {
            let kind = kind_of(protection, flags) | if nested { mapping::BACKING } else { 0 };
            record::mapped(hold, result as usize, length, kind, caller);
        });
    }
    result
}

fn kind_of(protection: c_int, flags: c_int) -> u8 {
    let mut kind = 0;
    if flags & libc::MAP_ANONYMOUS == 0 {
        kind |= mapping::FILE;
    }
    if protection & (libc::PROT_READ | libc::PROT_WRITE) == 0 {
        kind |= mapping::RESERVED;
    }
    if flags & libc::MAP_SHARED != 0 {
        kind |= mapping::SHARED;
    }
    kind
}

extern "C" fn on_munmap(address: *mut c_void, length: usize, entry: usize, _frame: usize) -> c_int {
    // Told before: another thread may get the range as soon as it is free.
    guarded(entry, |hold, _| record::unmapping(hold, address as usize, length));
    // SAFETY: the target's own call.
    answer(unsafe { syscall!(libc::SYS_munmap, address, length) }) as c_int
}

unsafe extern "C" fn on_mremap(
    address: *mut c_void,
    old: usize,
    new: usize,
    flags: c_int,
    to: *mut c_void,
    _unused: usize,
    frame: *const usize,
) -> *mut c_void {
    // SAFETY: the target's own call.
    let result = answer(unsafe { syscall!(libc::SYS_mremap, address, old, new, flags, to) }) as *mut c_void;
    if result != libc::MAP_FAILED {
        // SAFETY: given by the entry.
        let caller = unsafe { caller_of(frame) };
        guarded(caller.entry, |hold, nested| {
            // Inside an allocator it is the way a large block grows: the outer hook tells of it.
            if !nested {
                record::remapped(hold, (address as usize, old), (result as usize, new), caller);
            }
        });
    }
    result
}

extern "C" fn on_madvise(
    address: *mut c_void,
    length: usize,
    advice: c_int,
    entry: usize,
    _frame: usize,
) -> c_int {
    // SAFETY: the target's own call.
    let result = answer(unsafe { syscall!(libc::SYS_madvise, address, length, advice) }) as c_int;
    if result == 0 && matches!(advice, libc::MADV_DONTNEED | libc::MADV_FREE) {
        guarded(entry, |hold, _| {
            record::discarded(hold, address as usize, length, advice == libc::MADV_FREE);
        });
    }
    result
}

extern "C" fn on_brk(address: *mut c_void, entry: usize, frame: usize) -> c_int {
    let Some(real) = REAL.brk.get() else { return -1 };
    // SAFETY: the target's own call.
    let result = unsafe { real(address) };
    if result == 0 {
        guarded(entry, |hold, _| record::moved_break(hold, address as usize, Caller { entry, frame }));
    }
    result
}

extern "C" fn on_sbrk(bytes: isize, entry: usize, frame: usize) -> *mut c_void {
    let Some(real) = REAL.sbrk.get() else { return libc::MAP_FAILED };
    // SAFETY: the target's own call.
    let before = unsafe { real(bytes) };
    if before != libc::MAP_FAILED && bytes != 0 {
        let now = (before as usize).wrapping_add_signed(bytes);
        guarded(entry, |hold, _| record::moved_break(hold, now, Caller { entry, frame }));
    }
    before
}
