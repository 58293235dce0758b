//! Models in; text, HTML, pictures and JSON out. Never sees a record, never touches the system.
//!
//! [`term`] writes for people at a terminal, [`html`] for a browser, [`json`] for tools; all show the same
//! [`nilometer_analysis::Run`]. The one invariant: whatever a process calls itself, nothing but our own escape sequences
//! reaches the terminal, and nothing but our own script runs in a page.

pub mod allocs;
mod chart;
pub mod compare;
pub mod export;
mod figure;
pub mod heap;
mod hint;
pub mod html;
pub mod json;
mod layout;
pub mod leak;
pub mod ledger;
pub mod pages;
pub mod plot;
pub mod rank;
pub mod redact;
pub mod scene;
mod sentence;
pub mod stacks;
pub mod sweep;
mod table;
pub mod tagged;
pub mod term;
pub mod text;
pub mod top;

pub use layout::Style;

#[cfg(test)]
mod tests;
