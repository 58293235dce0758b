//! Libraries that come and go.

use core::ffi::{c_int, c_void};

use super::active;
use crate::tracker::guard::Hold;
use crate::tracker::real::{self, REAL};
use crate::tracker::{native, process, python, record};

/// Jumps on: the real function looks at its return address to know whose search path to use.
///
/// # Safety
/// As for the real function.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlopen(_name: *const libc::c_char, _flags: c_int) -> *mut c_void {
    core::arch::naked_asm!(
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {before}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "jmp rax",
        before = sym before_dlopen,
    )
}

/// A library loaded before this one may have been Python's. Returns where to go on.
extern "C" fn before_dlopen() -> *mut c_void {
    if !process::is_idle() {
        python::find();
        python::allocator::wrap_if_asked();
    }
    let real = real::again(&REAL.dlopen, c"dlopen");
    real.map_or(nowhere as *const () as *mut c_void, |_| REAL.dlopen.address())
}

extern "C" fn nowhere() -> *mut c_void {
    core::ptr::null_mut()
}

/// # Safety
/// As for the real function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlclose(handle: *mut c_void) -> c_int {
    let Some(real) = real::again(&REAL.dlclose, c"dlclose") else { return -1 };
    // SAFETY: the target's own call.
    let result = unsafe { real(handle) };
    let here = 0_usize;
    if active().is_some()
        && let Ok(hold) = Hold::take(&raw const here as usize & !7)
    {
        hold.record();
        native::unloaded(|module| record::unloaded(&hold, module));
    }
    result
}
