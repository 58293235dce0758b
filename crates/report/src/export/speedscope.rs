//! speedscope's own JSON: one sampled profile for each figure, all with the same frames.
//!
//! The frames stand after the profiles, so that stacks need not be kept.

use std::io::{self, Write};
use std::sync::Arc;

use nilometer_analysis::allocs::model::{Frame, FrameKind, Site, What};
use nilometer_analysis::allocs::profile::Profile;
use serde::Serialize;
use serde_json::to_writer;

use super::number::Numbers;
use super::{LeftOut, TOOL};

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

/// The figures, in the order of the viewer's list.
const FIGURES: [(What, &str); 5] = [
    (What::Peak, "at the peak"),
    (What::Live, "live at the end"),
    (What::Cumulative, "all that was handed out"),
    (What::Temporary, "temporary"),
    (What::Growth, "growth per step"),
];

#[derive(Serialize)]
struct SharedFrame<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

/// `out` should be buffered.
pub fn write(profile: &Profile<'_>, name: &str, what: What, out: &mut dyn Write) -> io::Result<LeftOut> {
    let mut book = Book { numbers: Numbers::starting_at(0), frames: Vec::new() };
    let shown: Vec<(What, &str)> = FIGURES.into_iter().filter(|(figure, _)| has(profile, *figure)).collect();
    let active = shown.iter().position(|(figure, _)| *figure == what).unwrap_or(0);
    write!(out, "{{\"$schema\":\"{SCHEMA}\",\"exporter\":\"{TOOL}\",\"name\":")?;
    to_writer(&mut *out, name)?;
    write!(out, ",\"activeProfileIndex\":{active},\"profiles\":[")?;
    for (index, (figure, title)) in shown.iter().enumerate() {
        out.write_all(if index > 0 { b",\n" } else { b"\n" })?;
        book.write_profile(profile, *figure, &format!("{name}: {title}"), out)?;
    }
    out.write_all(b"],\"shared\":{\"frames\":[")?;
    book.write_frames(out)?;
    out.write_all(b"]}}\n")?;
    Ok(left_out(profile))
}

/// The peak always, others where something is to be seen.
fn has(profile: &Profile<'_>, figure: What) -> bool {
    let whole = &profile.whole;
    match figure {
        What::Peak => true,
        What::Live => whole.live_end_bytes > 0,
        What::Cumulative => whole.cumulative_bytes > 0,
        What::Temporary => whole.temporary_bytes > 0,
        What::Growth => whole.growth_bytes_per_step.is_some(),
    }
}

fn left_out(profile: &Profile<'_>) -> LeftOut {
    let sampled = profile.whole.sampling.is_some();
    let several = profile.whole.processes.len() > 1;
    let mut left = vec!["speedscope has no place for numbers of blocks".to_owned()];
    left.extend(several.then(|| "which of the processes allocated is not in it".to_owned()));
    left.extend(sampled.then(|| "the intervals of sampled figures are not in it".to_owned()));
    left
}

struct Book {
    numbers: Numbers<Arc<Frame>>,
    frames: Vec<Arc<Frame>>,
}

impl Book {
    fn write_profile(
        &mut self,
        profile: &Profile<'_>,
        figure: What,
        title: &str,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        out.write_all(b"{\"type\":\"sampled\",\"name\":")?;
        to_writer(&mut *out, title)?;
        out.write_all(b",\"unit\":\"bytes\",\"startValue\":0,\"samples\":[")?;
        let mut weights: Vec<u64> = Vec::new();
        let mut written = Ok(());
        profile.each(None, |site| {
            let weight = site.amounts.value(figure).round();
            if weight >= 1.0 && written.is_ok() {
                written = self.write_stack(site, weights.is_empty(), out);
                weights.push(weight as u64);
            }
        });
        written?;
        out.write_all(b"],\"weights\":")?;
        to_writer(&mut *out, &weights)?;
        write!(out, ",\"endValue\":{}}}", weights.iter().sum::<u64>())
    }

    /// Outermost frame first.
    fn write_stack(&mut self, site: &Site, first: bool, out: &mut dyn Write) -> io::Result<()> {
        let numbers: Vec<u64> = site.stack.iter().rev().map(|frame| self.number(frame)).collect();
        if !first {
            out.write_all(b",")?;
        }
        Ok(to_writer(out, &numbers)?)
    }

    fn number(&mut self, frame: &Arc<Frame>) -> u64 {
        let frames = &mut self.frames;
        self.numbers.of(frame, |_| frames.push(Arc::clone(frame)))
    }

    fn write_frames(&self, out: &mut dyn Write) -> io::Result<()> {
        for (index, frame) in self.frames.iter().enumerate() {
            out.write_all(if index > 0 { b",\n" } else { b"\n" })?;
            to_writer(&mut *out, &shared(frame))?;
        }
        Ok(())
    }
}

fn shared(frame: &Frame) -> SharedFrame<'_> {
    let noted = frame.kind == FrameKind::Note;
    let file = frame.file.as_deref().or(frame.library.as_deref()).filter(|_| !noted);
    SharedFrame { name: &frame.function, file, line: frame.line.filter(|_| !noted) }
}
