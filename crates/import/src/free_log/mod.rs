//! Logs made of outputs of `free`: a time before each ([`sampled`]), or one before and one after a list of times
//! ([`repeats`]).

mod repeats;
mod sampled;

use crate::emit::Emitter;
use crate::error::{Error, Fault, quoted};
use crate::free::{Head, parse_head};
use crate::lines::Lines;

pub(crate) fn convert(lines: &mut Lines<'_>, out: &mut Emitter<'_, '_>) -> Result<(), Error> {
    if !lines.advance()? {
        return Err(lines.at(Fault::new("the file is empty", "see docs/import.md for the formats")));
    }
    match parse_head(lines.text()) {
        Some(Ok(Head { stamp: Some(stamp) })) => sampled::convert(stamp, lines, out),
        Some(Ok(Head { stamp: None })) => repeats::convert(lines, out),
        Some(Err(fault)) => Err(lines.at(fault)),
        None => {
            let what = format!("expected the header of `free`, found {}", quoted(lines.text()));
            Err(lines.at(Fault::new(what, "a free-log begins with `total used free shared buffers cached`")))
        }
    }
}
