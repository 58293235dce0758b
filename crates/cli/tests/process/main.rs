//! Real processes under the real binary. One small program per behaviour (in `tests/programs`), synchronised
//! by pipes; no sleeps, no retries; a skip prints its reason and is counted.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, clippy::print_stderr)] // as in any test

mod harness;

mod allocs_view;

mod devices;
mod exits;
mod fleet;
mod repeat;
mod stop_after;

mod watched;

mod faults;
mod hostile;
mod outlives;
mod page;
mod peaks;
mod roles;
mod schema;
mod steps;
mod tree;

mod counter;
mod onlooker;
mod pty;

mod inherit;
mod lackey;
mod pid1;
mod serial_terminal;
mod signals;

mod limited;
mod living;

mod heap;
mod heap_harmless;
mod heap_refused;
mod heap_run;
mod heap_seed;
mod heap_target;
mod heap_torch;

mod leak;
mod metrics;
mod pages;
mod pages_births;
mod pages_command;
mod where_ledger;
mod where_parts;
mod where_run;

mod allocs;
mod categories;
mod clusters;
mod compare;
mod exports;
mod sweep;
mod top;

mod attach;
mod control;
mod launchers;
mod ranks;
mod relay;
mod serial_allocs;
mod serial_death;
mod serial_swap;
mod serial_watchdog;
mod slurm;
