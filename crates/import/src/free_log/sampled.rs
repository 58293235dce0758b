//! The 100 Hz log: a time and `free`, then the bytes of the sampler's own heap, again and again.
//!
//! Such a log is taken around one run, and where the run begins and ends is not in it. So the first sample is
//! the state before, the last one the state after.

use nilometer_trace::record::{EventKind, Phase, Unit};

use crate::emit::{Emitter, SAMPLER_HEAP};
use crate::error::{Error, Fault, quoted};
use crate::free::{self, COLUMNS, Reading, parse_head};
use crate::lines::Lines;

const SHAPE: &str =
    "a record is: time and header of `free`, Mem:, -/+ buffers/cache:, Swap:, bytes of the sampler";
const METHOD: &str = "imported from a log of `free` taken around one run, which is not marked in it: before is the \
                      first sample, after the last; the sampler's own heap is subtracted";

#[derive(Debug, Clone, Copy)]
struct Sample {
    stamp_ns: u64,
    free: Reading,
    heap_bytes: u64,
}

/// `stamp_ns` is that of the first header, which was read already.
pub(crate) fn convert(stamp_ns: u64, lines: &mut Lines<'_>, out: &mut Emitter<'_, '_>) -> Result<(), Error> {
    let Some(first) = read_rest(stamp_ns, lines)? else {
        return Err(lines.at(Fault::new("the file ends within the first record", SHAPE)));
    };
    out.machine(first.free.total, first.free.swap_total);
    out.note(METHOD);
    // One sample waits: the last of all is the state after the run.
    let (mut held, mut phase, mut count) = (first, Phase::Before, 1u64);
    while let Some(sample) = read_next(lines, out)? {
        put(&held, phase, out)?;
        (held, phase, count) = (sample, Phase::During, count + 1);
    }
    match count {
        1 => put(&held, Phase::During, out),
        _ => put_last(&held, out),
    }
}

fn put_last(last: &Sample, out: &mut Emitter<'_, '_>) -> Result<(), Error> {
    let at_ns = out.at(last.stamp_ns)?;
    out.event(at_ns, EventKind::Repeats { runs: 1, span_ns: None })?;
    out.event(at_ns, EventKind::Exited)?;
    put(last, Phase::After, out)
}

/// `None` at the end; a record that the end cuts is left out.
fn read_next(lines: &mut Lines<'_>, out: &mut Emitter<'_, '_>) -> Result<Option<Sample>, Error> {
    if !lines.advance()? {
        return Ok(None);
    }
    let number = lines.number();
    let stamp = match parse_head(lines.text()) {
        Some(Ok(head)) => head.stamp,
        Some(Err(fault)) => return Err(lines.at(fault)),
        None => None,
    };
    let Some(stamp_ns) = stamp else {
        let what = format!("expected a time and the header of `free`, found {}", quoted(lines.text()));
        return Err(lines.at(Fault::new(what, SHAPE)));
    };
    let sample = read_rest(stamp_ns, lines)?;
    if sample.is_none() {
        out.note(format!("the log is cut within the record of line {number}, which was left out"));
    }
    Ok(sample)
}

fn read_rest(stamp_ns: u64, lines: &mut Lines<'_>) -> Result<Option<Sample>, Error> {
    let Some(free) = free::read(lines)? else { return Ok(None) };
    if !lines.advance()? {
        return Ok(None);
    }
    let Ok(heap_bytes) = lines.text().parse() else {
        let what = format!("expected the bytes of the sampler's heap, found {}", quoted(lines.text()));
        return Err(lines.at(Fault::new(what, SHAPE)));
    };
    Ok(Some(Sample { stamp_ns, free, heap_bytes }))
}

fn put(sample: &Sample, phase: Phase, out: &mut Emitter<'_, '_>) -> Result<(), Error> {
    let at_ns = out.at(sample.stamp_ns)?;
    if out.ticks() == 0 {
        out.columns(COLUMNS.into_iter().chain([(SAMPLER_HEAP, Unit::Bytes)]))?;
    }
    let mut values = sample.free.values().to_vec();
    values.push(sample.heap_bytes);
    out.tick(at_ns, phase, &values)?;
    if phase == Phase::Before {
        out.event(at_ns, EventKind::Started)?;
    }
    Ok(())
}
