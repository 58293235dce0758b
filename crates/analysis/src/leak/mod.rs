//! Does it leak, where, how fast, and how sure is that?
//!
//! [`LeakBuilder`] is fed the records of a run beside [`crate::RunBuilder`]; [`verdict()`] makes of both one [`Leak`]:
//! class, rate with its interval, place, forecast, and the smallest rate that would have been seen. Pure.
//! The one invariant: "grows" is never said from one sample, nor from resident memory alone where a look inside the
//! process can tell what is live from what an allocator keeps.

mod axis;
mod collect;
mod form;
pub mod generate;
mod inside;
pub mod model;
mod place;
mod repeat;
pub mod series;
mod site;
mod teeth;
mod trend;
mod verdict;

pub use collect::LeakBuilder;
pub use model::Leak;
pub use place::{Snapshot, add_holders};
pub use site::{Line, add_sites};
pub use verdict::verdict;

#[cfg(test)]
mod tests;
