//! Touched memory: working set by window, reuse distances, heat map, what is cold and whose.
//!
//! Looks come in as they were stored; nothing here knows how they were made. The one invariant: what is told of a look
//! is the sum of its spans.

mod births;
mod build;
pub mod curve;
pub mod heat;
mod mapping;
pub mod model;
pub mod order;
mod picture;
pub mod reuse;
pub mod shards;
mod touches;

pub use build::Builder;
pub use model::Pages;
pub use nilometer_trace::pages::{Sees, Unit};
pub use touches::Touches;

#[cfg(test)]
mod tests;
