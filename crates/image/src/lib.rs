//! Another process's memory: live, stopped copy, core; maps, ELF, build ids.
//!
//! An [`Image`] is what was copied at one instant, with the list of mappings and the files behind them; it does not
//! change any more. A [`Peek`](live::Peek) reads a process that goes on. Both are a [`Memory`], so that whoever knows a
//! data structure writes its reader once. This crate knows no interpreter and no allocator.

pub mod core;
mod elf;
mod error;
mod export;
mod files;
mod image;
mod index;
pub mod live;
mod mapping;
mod memory;
mod module;
mod residency;

pub use error::Error;
pub use image::{Image, Segment};
pub use mapping::{Mapping, parse_mappings};
pub use memory::Memory;
pub use module::{Module, Modules};
pub use residency::merged;
