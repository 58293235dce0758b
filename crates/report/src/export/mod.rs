//! Models in, bytes of other tools' formats out: one file a format.
//!
//! Writers stream: what they keep is bounded by the number of stacks, steps listed and processes, never by the length of a
//! run. Each returns sentences about what its format cannot carry or was left out. The one invariant: the same models
//! give the same bytes.

pub mod firefox;
pub mod heaptrack;
mod number;
pub mod perfetto;
pub mod pprof;
pub mod speedscope;
pub mod tensorboard;

use nilometer_analysis::Run;
use nilometer_analysis::timeline::Origin;

/// What a run is, to those who write about it.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    pub run: &'a Run,
    pub origin: &'a Origin,
    /// How the run is called.
    pub name: &'a str,
}

/// What was not carried, one sentence each.
pub type LeftOut = Vec<String>;

const TOOL: &str = concat!("nilo ", env!("CARGO_PKG_VERSION"));
