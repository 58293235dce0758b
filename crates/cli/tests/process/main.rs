//! Real processes under the real binary. One small program per behaviour (in `tests/programs`), synchronised
//! by pipes; no sleeps, no retries; a skip prints its reason and is counted.

mod harness;

mod exits;

mod watched;

mod faults;
mod outlives;
mod peaks;
mod roles;
mod tree;
