//! Records in, models out. Pure: no system call, no clock, no printing.
//!
//! [`RunBuilder`] is fed the records of one run in the order of its log and ends in a [`Run`], the model that
//! every view shows. It is a composition of small aggregators, one module each, and holds a bounded amount
//! of memory however long the run was: series are decimated, steps and events thinned, and it is said where.
//! The one invariant: nothing in here panics or loses a total, whatever the records say.

pub mod allocs;
mod bounded;
mod builder;
mod cadence;
mod cause;
mod clock;
mod closing;
mod column;
pub mod compare;
mod curve;
mod doubt;
mod event;
pub mod fit;
mod growth;
pub mod heap;
pub mod leak;
pub mod ledger;
mod limit;
pub mod live;
mod machine;
mod made_of;
pub mod metric;
pub mod model;
pub mod pages;
mod peak;
mod process;
mod quality;
mod random;
pub mod rank;
mod repeat;
mod rhythm;
mod settle;
pub mod stats;
mod step;
pub mod sweep;
mod system;
pub mod tagged;
pub mod text;
pub mod timeline;
mod tracked;
mod unit;
mod unseen;
mod worker;

pub use builder::{LogEnding, RunBuilder};
pub use machine::MachineBuilder;
pub use model::Run;

#[cfg(test)]
mod tests;
