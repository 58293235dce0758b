//! Recordings of other tools in, our records out: as told, nothing invented. What a foreign log does not say
//! (processes, the cost of its sampler, a monotonic clock) is absent here too, or noted as made up.
//!
//! Logs of readings and address traces are read line by line, one foreign record at a time, so a log of any size needs the same
//! memory; recordings of allocations are read whole. Knows no file and no directory. The one invariant: no bytes panic;
//! what is malformed is refused with its place, and only a record that the end of the file cuts is left out, and that is noted.

pub mod damon;
mod detect;
mod emit;
mod error;
mod free;
mod free_log;
mod heap_log;
pub mod lackey;
mod lines;
mod meminfo_log;
pub mod mxnet;
mod outline;
mod pprof;
mod sites;
mod smaps;
mod stacks;
mod time;
mod torch;

use std::io::BufRead;

use nilometer_trace::Record;

pub use detect::{Detected, Format, HEAD_BYTES, detect};
pub use error::Error;
pub use outline::Outline;
pub use sites::Sites;

use emit::Emitter;
use heap_log::{Looks, heapy, muppy};
use lines::Lines;

/// Takes each record in order; all but the last one ([`Outline::end`]).
pub type Sink<'a> = dyn FnMut(&Record) -> Result<(), nilometer_trace::Error> + 'a;

/// What the recording does not say and the user knows.
#[derive(Debug, Clone, Copy, Default)]
pub struct Known {
    /// Bytes of the numbers of one array, where only headers were counted.
    pub array_bytes: Option<u64>,
}

/// Turns a foreign log of readings into records. Recordings of allocations have none: see [`sites()`].
pub fn convert(
    format: Format,
    known: &Known,
    input: &mut dyn BufRead,
    sink: &mut Sink<'_>,
) -> Result<Outline, Error> {
    let mut lines = Lines::new(input);
    let mut emitter = Emitter::new(sink);
    let mut looks = Looks::new(known.array_bytes);
    match format {
        Format::MeminfoLog => meminfo_log::convert(&mut lines, &mut emitter)?,
        Format::FreeLog => free_log::convert(&mut lines, &mut emitter)?,
        Format::Heapy => heapy::convert(&mut lines, &mut looks, &mut emitter)?,
        Format::Muppy => muppy::convert(&mut lines, &mut looks, &mut emitter)?,
        Format::Smaps => smaps::convert(&mut lines, &mut emitter)?,
        Format::MxnetLog | Format::Torch | Format::Jax | Format::Pprof => {}
    }
    Ok(emitter.finish())
}

/// Turns a recording of allocations into sites with stacks.
pub fn sites(format: Format, name: &str, bytes: &[u8]) -> Result<Sites, Error> {
    match format {
        Format::Torch => torch::parse(bytes),
        Format::Jax | Format::Pprof => pprof::parse(bytes),
        Format::MxnetLog => Ok(mxnet::sites(&[(name.to_owned(), mxnet::parse(bytes)?)])),
        _ => Ok(Sites::default()),
    }
}
