//! The repeats log: `free`, then the second at which each run began and the second at which the last one ended,
//! then `free` again.
//!
//! N + 1 times are N runs. An output of `free` has no time of its own: it gets that of the time beside it.

use nilometer_trace::record::{EventKind, Phase};

use crate::emit::Emitter;
use crate::error::{Error, Fault, quoted};
use crate::free::{self, COLUMNS, Reading, parse_head};
use crate::lines::Lines;
use crate::time::parse_stamp;

const SHAPE: &str =
    "a repeats log is: `free`, one Unix second before each run and one after the last, `free`";
const METHOD: &str = "imported from a log of repeated runs: `free` before and after, one time stamp before each run \
                      and one after the last";

#[derive(Debug, Default)]
struct Repeats {
    /// The output of `free` that no later line has placed yet.
    waiting: Option<Reading>,
    /// Log time of the first and the last stamp, and how many there were.
    first_ns: u64,
    last_ns: u64,
    stamps: u64,
}

/// The header of the first `free` was read already.
pub(crate) fn convert(lines: &mut Lines<'_>, out: &mut Emitter<'_, '_>) -> Result<(), Error> {
    let Some(before) = free::read(lines)? else {
        return Err(lines.at(Fault::new("the file ends within the first `free`", SHAPE)));
    };
    out.machine(before.total, before.swap_total);
    out.note(METHOD);
    let mut repeats = Repeats { waiting: Some(before), ..Repeats::default() };
    while lines.advance()? {
        match parse_head(lines.text()) {
            Some(Ok(_)) => repeats.free(lines, out)?,
            Some(Err(fault)) => return Err(lines.at(fault)),
            None => repeats.stamp(lines, out)?,
        }
    }
    repeats.finish(lines, out)
}

impl Repeats {
    fn free(&mut self, lines: &mut Lines<'_>, out: &mut Emitter<'_, '_>) -> Result<(), Error> {
        if self.waiting.is_some() {
            return Err(lines.at(Fault::new("two outputs of `free` with no time between them", SHAPE)));
        }
        let number = lines.number();
        self.waiting = free::read(lines)?;
        if self.waiting.is_none() {
            out.note(format!("the log is cut within the `free` of line {number}, which was left out"));
        }
        Ok(())
    }

    fn stamp(&mut self, lines: &Lines<'_>, out: &mut Emitter<'_, '_>) -> Result<(), Error> {
        let stamp_ns = parse_stamp(lines.text()).map_err(|_| {
            let what = format!("expected a Unix time or `free`, found {}", quoted(lines.text()));
            lines.at(Fault::new(what, SHAPE))
        })?;
        let at_ns = out.at(stamp_ns)?;
        if self.stamps == 0 {
            self.first_ns = at_ns;
            out.columns(COLUMNS.into_iter())?;
            self.put(at_ns, Phase::Before, out)?;
            out.event(at_ns, EventKind::Started)?;
        } else {
            out.phase(self.last_ns, format!("run {}", self.stamps))?;
            // Somebody looked between two runs as well.
            self.put(self.last_ns, Phase::During, out)?;
        }
        (self.last_ns, self.stamps) = (at_ns, self.stamps + 1);
        Ok(())
    }

    fn put(&mut self, at_ns: u64, phase: Phase, out: &mut Emitter<'_, '_>) -> Result<(), Error> {
        self.waiting.take().map_or(Ok(()), |free| out.tick(at_ns, phase, &free.values()))
    }

    fn finish(mut self, lines: &Lines<'_>, out: &mut Emitter<'_, '_>) -> Result<(), Error> {
        let runs = self.stamps.saturating_sub(1);
        if runs == 0 {
            let what =
                format!("the log ends after {} time stamps, and a run needs one on each side", self.stamps);
            return Err(lines.at(Fault::new(what, SHAPE)));
        }
        if self.waiting.is_none() {
            out.note("there is no `free` after the runs: what they left behind cannot be told");
        }
        let span_ns = Some(self.last_ns.saturating_sub(self.first_ns));
        out.event(self.last_ns, EventKind::Repeats { runs, span_ns })?;
        out.event(self.last_ns, EventKind::Exited)?;
        self.put(self.last_ns, Phase::After, out)
    }
}
