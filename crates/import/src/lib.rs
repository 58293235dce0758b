//! Recordings of other tools in, our records out: as told, nothing invented. What a foreign log does not say
//! (processes, the cost of its sampler, a monotonic clock) is absent here too, or noted as made up.
//!
//! Reads a stream line by line and holds one foreign record at a time, so a log of any size needs the same
//! memory. Knows no file and no directory. The one invariant: no bytes panic; what is malformed is refused
//! with its line, and only a record that the end of the file cuts is left out, and that is noted.

pub mod damon;
mod detect;
mod emit;
mod error;
mod free;
mod free_log;
mod lines;
mod meminfo_log;
mod outline;
mod time;

use std::io::BufRead;

use nilometer_trace::Record;

pub use detect::{Detected, Format, HEAD_BYTES, detect};
pub use error::Error;
pub use outline::Outline;

use emit::Emitter;
use lines::Lines;

/// Takes each record in order; all but the last one ([`Outline::end`]).
pub type Sink<'a> = dyn FnMut(&Record) -> Result<(), nilometer_trace::Error> + 'a;

/// Turns a foreign recording into records.
pub fn convert(format: Format, input: &mut dyn BufRead, sink: &mut Sink<'_>) -> Result<Outline, Error> {
    let mut lines = Lines::new(input);
    let mut emitter = Emitter::new(sink);
    match format {
        Format::MeminfoLog => meminfo_log::convert(&mut lines, &mut emitter)?,
        Format::FreeLog => free_log::convert(&mut lines, &mut emitter)?,
    }
    Ok(emitter.finish())
}
