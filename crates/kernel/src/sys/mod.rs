//! System calls that the standard library does not offer: launching, signals, waiting, clocks, limits.
//!
//! The only module outside the injected crates where `unsafe` is allowed. Each function is a thin, safe
//! wrapper; policy (what to forward, when to sample) lives in `capture`.
#![allow(unsafe_code)] // the calls below have no safe wrapper in `nix` or `std`

pub mod clock;
pub mod companion;
pub mod faults;
pub mod inherited;
pub mod inject;
pub mod inotify;
pub mod launch;
pub mod limits;
pub mod lock;
pub mod mapped;
pub mod memory;
pub mod nvml;
pub mod own_code;
pub mod pagemap;
pub mod peer;
pub mod poll;
pub mod process;
pub mod protector;
pub mod pty;
pub mod sentinel;
pub mod signals;
pub mod slate;
pub mod stop;
mod traced;
pub mod trial;
pub mod urgent;

/// The last error of this thread, as `std::io::Error`.
fn last_error() -> std::io::Error {
    std::io::Error::last_os_error()
}

/// Turns the `-1 means errno` convention into a `Result`.
fn check(result: libc::c_int) -> std::io::Result<libc::c_int> {
    if result < 0 { Err(last_error()) } else { Ok(result) }
}
