//! Models in, text and JSON out. Never sees a record, never touches the system.
//!
//! [`term`] writes for people, [`json`] for tools; both show the same [`nilometer_analysis::Run`]. The one invariant:
//! whatever a process calls itself, nothing but our own escape sequences reaches the terminal.

pub mod allocs;
mod chart;
pub mod compare;
mod figure;
pub mod heap;
mod hint;
pub mod json;
mod layout;
pub mod leak;
pub mod ledger;
mod sentence;
pub mod sweep;
mod table;
pub mod term;
pub mod text;

pub use layout::Style;

#[cfg(test)]
mod tests;
