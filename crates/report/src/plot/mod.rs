//! Charts: models in, scenes out. The same pictures in the HTML report and from `nilo plot`.
//!
//! Pure; a model without the data for a chart gives `None`, and whoever asked says how to get it.

mod allocs;
mod axis;
mod bars;
mod compare;
mod frame;
mod leak;
mod ledger;
mod pages;
mod run;
mod sweep;
mod system;

pub use allocs::allocs;
pub(crate) use allocs::label as frame_label;
pub use bars::{Bar, bars, categories};
pub use compare::{course, differences};
pub use leak::leak;
pub(crate) use ledger::ink as ledger_ink;
pub use ledger::ledger;
pub use pages::{heat, misses, ranks, working_set};
pub use run::{run, runs};
pub use sweep::sweep;
pub use system::{system, system_all};

/// Width and height in points.
pub type Size = (f64, f64);

/// As in the page.
pub const SIZE: Size = (960.0, 300.0);
