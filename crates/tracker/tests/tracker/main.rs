//! The tracker in real programs. Each test compiles a small program, runs it with the library preloaded and
//! compares what was recorded with what the program itself knows.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(unsafe_code, reason = "tests of the preloaded library send signals and read shared memory")]

mod allocators;
mod faults;
mod foreign;
mod hazards;
mod heap;
mod python;
mod sampling;
mod session;
mod stacks;
