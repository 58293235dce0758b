//! The tracker in real programs. Each test compiles a small program, runs it with the library preloaded and
//! compares what was recorded with what the program itself knows.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints why it is skipped"
)]

mod allocators;
mod faults;
mod foreign;
mod hazards;
mod heap;
mod python;
mod sampling;
mod session;
mod stacks;
