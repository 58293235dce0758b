//! The tracker proper, for x86-64 Linux.

mod entry;
mod guard;
mod headroom;
#[cfg(not(test))]
mod hook;
mod native;
mod node;
mod process;
mod python;
mod real;
mod record;
mod sample;
mod settings;
mod symbol;
mod sys;
mod table;
mod thread;
mod tls;
