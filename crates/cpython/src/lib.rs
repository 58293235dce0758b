//! CPython from outside: interpreter layouts, pools, objects, references, frames.

mod census;
mod classify;
mod collector;
mod error;
mod footprint;
mod holding;
mod idle;
mod kind;
pub mod layout;
mod locate;
mod optimizer;
mod payload;
mod pool;
mod prescan;
mod reader;
mod reference;
mod root;
mod size;
pub mod stack;
mod version;

pub use census::{
    CensusOptions, Detail, Mismatch, Timings, census, census_timed, census_with_footprint, mismatches,
};
pub use error::Error;
pub use footprint::Footprint;
pub use holding::Holding;
pub use locate::{Interpreter, Python, locate};
pub use prescan::{Survey, prescan, survey, uncovered};
pub use version::{Level, Version};
