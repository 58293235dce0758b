//! Native memory from outside: glibc's malloc, other allocators by name, torch's storages.
//!
//! Reads an [`Image`](nilometer_image::Image); knows no Python object. Every number comes from a process that may be
//! broken: walks are bounded, what does not add up becomes a doubt, and nothing panics.

pub mod allocator;
pub mod glibc;
mod runs;
pub mod symbol;
pub mod torch;
