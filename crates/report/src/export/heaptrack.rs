//! heaptrack's text format (file version 3), as `heaptrack_print` and `heaptrack_gui` read it.
//!
//! That format is a history: one line for each block handed out or given back. A recording has sums for each stack and not
//! the order, so one is made up that has the same sums: the same blocks at the peak, the same left at the end, as many
//! handed out, as many temporary. The one invariant: at no moment is more live than at the recorded peak.

mod history;

use std::io::{self, Write};
use std::sync::Arc;

use nilometer_analysis::allocs::model::{Frame, FrameKind, Site};
use nilometer_analysis::allocs::profile::Profile;

use super::number::Numbers;
use super::{LeftOut, Subject};
use history::{Blocks, Book, Event, Sums};

/// heaptrack 1.4.0, file version 3: texts with their length.
const VERSION: &str = "v 10400 3";
const PAGE_BYTES: u64 = 4096;
/// Lines for blocks that were given back before the peak; such a file is read in some seconds.
const MOST_PASSING: u64 = 10_000_000;

/// `out` should be buffered, and packed if its name says so.
pub fn write(profile: &Profile<'_>, subject: &Subject<'_>, out: &mut dyn Write) -> io::Result<LeftOut> {
    let mut file = File::new(out);
    file.head(subject)?;
    let mut sums: Vec<Sums> = Vec::new();
    let mut written = Ok(());
    profile.each(None, |site| {
        if written.is_ok() {
            written = file.trace(site).map(|trace| sums.push(Sums::new(trace, &site.amounts)));
        }
    });
    written?;
    let kept_one_in = thin(&mut sums);
    file.blocks(sums, profile)?;
    file.end(subject)?;
    Ok(left_out(profile, kept_one_in))
}

/// Drops blocks that came and went where there are too many of them; one in so many is kept.
fn thin(sums: &mut [Sums]) -> u64 {
    let passing: u64 = sums.iter().map(Sums::passing).fold(0, u64::saturating_add);
    let one_in = passing.div_ceil(MOST_PASSING).max(1);
    if one_in > 1 {
        for sum in sums {
            sum.thin(one_in);
        }
    }
    one_in
}

fn left_out(profile: &Profile<'_>, one_in: u64) -> LeftOut {
    let mut left = vec![
        "a recording has no order of allocations: only the start, the peak and the end are at their times in heaptrack's curves"
            .to_owned(),
    ];
    if one_in > 1 {
        left.push(format!("of the blocks that were given back before the end, one in {one_in} is told"));
    }
    if profile.whole.sampling.is_some() {
        left.push(
            "the run was sampled: numbers of blocks are estimates, and their sizes are means".to_owned(),
        );
    }
    left
}

/// The lines of the file; all numbers are hexadecimal, and number 0 is none.
struct File<'a> {
    out: &'a mut dyn Write,
    texts: Numbers<String>,
    frames: Numbers<Arc<Frame>>,
    traces: Numbers<(u64, u64)>,
}

impl<'a> File<'a> {
    fn new(out: &'a mut dyn Write) -> Self {
        Self {
            out,
            texts: Numbers::starting_at(1),
            frames: Numbers::starting_at(1),
            traces: Numbers::starting_at(1),
        }
    }

    fn head(&mut self, subject: &Subject<'_>) -> io::Result<()> {
        let command = subject.run.command.join(" ").replace(['\n', '\r'], " ");
        let pages = subject.run.about.memory_bytes / PAGE_BYTES;
        writeln!(self.out, "{VERSION}\nX {command}\nI {PAGE_BYTES:x} {pages:x}")
    }

    fn text(&mut self, text: &str) -> io::Result<u64> {
        let mut told = false;
        let number = self.texts.of(text, |_| told = true);
        if told {
            writeln!(self.out, "s {:x} {text}", text.len())?;
        }
        Ok(number)
    }

    /// Line ends would end the entry.
    fn name(&mut self, text: &str) -> io::Result<u64> {
        if text.contains(['\n', '\r']) {
            self.text(&text.replace(['\n', '\r'], " "))
        } else {
            self.text(text)
        }
    }

    /// From the outermost caller on; each frame with its callers has a number.
    fn trace(&mut self, site: &Site) -> io::Result<u64> {
        let mut parent = 0;
        for frame in site.stack.iter().rev() {
            let frame = self.frame(frame)?;
            let mut told = false;
            let number = self.traces.of(&(frame, parent), |_| told = true);
            if told {
                writeln!(self.out, "t {frame:x} {parent:x}")?;
            }
            parent = number;
        }
        Ok(parent)
    }

    fn frame(&mut self, frame: &Arc<Frame>) -> io::Result<u64> {
        let mut told = false;
        let number = self.frames.of(frame, |_| told = true);
        if told {
            let place = frame.file.as_deref().filter(|_| frame.kind != FrameKind::Note);
            let module = self.name(frame.library.as_deref().unwrap_or("(none)"))?;
            let function = self.name(&frame.function)?;
            let file = if let Some(place) = place { self.name(place)? } else { 0 };
            let line = frame.line.unwrap_or(0);
            writeln!(self.out, "i {number:x} {module:x} {function:x} {file:x} {line:x}")?;
        }
        Ok(number)
    }

    fn blocks(&mut self, sums: Vec<Sums>, profile: &Profile<'_>) -> io::Result<()> {
        let times = &profile.times;
        let ms = |at_ns: u64| at_ns.saturating_sub(times.started_ns) / 1_000_000;
        let out = &mut *self.out;
        let mut infos: Numbers<(u64, u64)> = Numbers::starting_at(0);
        let mut info = |blocks: &Blocks, out: &mut dyn Write| {
            let mut told = false;
            let number = infos.of(&(blocks.each_bytes, blocks.trace), |_| told = true);
            if told {
                writeln!(out, "a {:x} {:x}", blocks.each_bytes, blocks.trace)?;
            }
            io::Result::Ok(number)
        };
        // heaptrack takes the number 0 for "no block": it names one that is never handed out.
        info(&Blocks { trace: 1, each_bytes: 0, count: 0 }, out)?;
        writeln!(out, "c 0")?;
        let mut written = Ok(());
        Book::new(sums).play(profile.whole.peak.bytes, &mut |event| {
            if written.is_ok() {
                written = match event {
                    Event::Peak => writeln!(out, "c {:x}", ms(times.peak_ns)),
                    Event::End => writeln!(out, "c {:x}", ms(times.ended_ns)),
                    Event::Out(blocks) => info(blocks, out).and_then(|number| writeln!(out, "+ {number:x}")),
                    Event::Back(blocks) => info(blocks, out).and_then(|number| writeln!(out, "- {number:x}")),
                };
            }
        });
        written
    }

    fn end(&mut self, subject: &Subject<'_>) -> io::Result<()> {
        let peak_bytes = subject.run.peak.as_ref().map_or(0, |peak| peak.bytes);
        writeln!(self.out, "R {:x}", peak_bytes / PAGE_BYTES)?;
        self.out.flush()
    }
}
