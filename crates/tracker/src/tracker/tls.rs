//! What each thread has at a fixed place: 56 bytes, reached with two instructions.
//!
//! Rust's `thread_local!` would allocate on first use through `__tls_get_addr` and run destructors. These
//! bytes are in the initial TLS block of every thread, zero at its start, and cost the target 56 bytes of its
//! static TLS reserve.

use core::arch::{asm, global_asm};

use super::thread::Thread;

global_asm!(
    ".section .tbss.nilo_tls,\"awT\",@nobits",
    ".p2align 3",
    ".type nilo_tls,@object",
    ".size nilo_tls,56",
    "nilo_tls:",
    ".zero 56",
    ".text"
);

/// The bytes of `nilo_tls`.
#[repr(C)]
pub struct Tls {
    /// Null before the first event, [`DEAD`] after the last destructor.
    pub thread: *mut Thread,
    /// Sampled mode: bytes until the next sample.
    pub countdown: i64,
    /// The guard; see `guard`.
    pub hold: usize,
    /// The word at the holder's entry: its return address, as long as it is there.
    pub hold_word: usize,
    /// The thread's own stack; 0 if unknown.
    pub stack_low: usize,
    pub stack_high: usize,
    /// The generator of the sample distances; 0 before the first.
    pub random: u64,
}

const _: () = assert!(size_of::<Tls>() == 56);

/// The thread's last destructor has run: its lane is given back.
pub const DEAD: *mut Thread = core::ptr::dangling_mut();

/// This thread's bytes. They live as long as the thread, which is as long as the caller runs.
#[inline(always)]
pub fn tls() -> *mut Tls {
    let at: *mut Tls;
    // SAFETY: the thread pointer is at fs:0, and the linker knows the distance from it.
    unsafe {
        asm!("mov {0}, qword ptr fs:[0]", "add {0}, qword ptr [rip + nilo_tls@GOTTPOFF]",
            out(reg) at, options(pure, nomem, nostack));
    }
    at
}

/// The thread pointer: glibc puts it at the upper end of a thread's stack.
pub fn thread_pointer() -> usize {
    let at: usize;
    // SAFETY: reads the word that the ABI puts there.
    unsafe { asm!("mov {0}, qword ptr fs:[0]", out(reg) at, options(pure, readonly, nostack)) };
    at
}

/// True if an address lies on this thread's own stack.
#[inline(always)]
pub fn on_stack(tls: &Tls, address: usize) -> bool {
    address >= tls.stack_low && address < tls.stack_high
}
