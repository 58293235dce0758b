//! The library that `nilo run --allocs` preloads: it sees each allocation and says so into a ring.
//!
//! It lives in somebody else's process, inside the allocator. So: no lock, allocation or system call on the
//! way of an event; nothing of libc that may allocate; no thread of its own; `errno` is left alone; when
//! something is missing or refused, less is recorded and the target runs on.
//!
//! ```text
//! hook (hook/)  -- holds the guard --> record  --> thread's lane --> recorder
//!                                        |
//!                                        +-- stacks (native/, python/) --> book
//! ```
//!
//! Built for the target with `panic = "abort"` it is `no_std`: there is no allocator to use by mistake.
//! Other builds (checks, unit tests) have the standard library and never run as a preload.
#![cfg_attr(all(panic = "abort", not(test)), no_std)]
#![allow(unsafe_code, reason = "interposing the allocator is unsafe from end to end")]
#![allow(clippy::inline_always, reason = "a call costs a tenth of what recording an event may")]
#![allow(clippy::cast_ptr_alignment, reason = "stack slots and interpreter structures are aligned")]
#![cfg_attr(test, allow(dead_code, reason = "the hooks, which use most of it, are not in the test program"))]

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod tracker;

#[cfg(all(panic = "abort", not(test)))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: ends the process; there is nobody to unwind to.
    unsafe { libc::abort() }
}
