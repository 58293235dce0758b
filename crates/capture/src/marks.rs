//! Marks: lines that the target (or anybody) appends to the file named by `$NILO_MARKS`.
//!
//! `step N`, `phase NAME`, `note TEXT`, each with optional `pid=PID` and `ns=CLOCK_MONOTONIC` at the end.
//! `echo "step 12" >> $NILO_MARKS` works from any language. A line without a time is stamped when it
//! is read; it was written after the last look, and that is its stated error.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nilometer_kernel::sys::inotify::Watch;
use nilometer_trace::record::{Mark, MarkKind};

/// A line longer than this is not a mark; it is skipped and counted.
const LONGEST_LINE: usize = 4096;
/// What one look reads at most, so that a target that floods its marks cannot stall the sampling.
const MOST_PER_LOOK: usize = 1 << 20;

/// The marks file being followed.
#[derive(Debug)]
pub struct Marks {
    file: File,
    watch: Option<Watch>,
    pending: Vec<u8>,
    /// The beginning of the present line was too long and is gone; so must be its rest.
    skipping: bool,
    looked_ns: u64,
    pub malformed: u64,
}

impl Marks {
    /// Creates the file (0600) and starts to follow it.
    pub fn create(path: &Path, now_ns: u64) -> std::io::Result<Self> {
        let file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
        let watch = Watch::modifications(path).ok();
        Ok(Self { file, watch, pending: Vec::new(), skipping: false, looked_ns: now_ns, malformed: 0 })
    }

    /// Becomes readable when a line was appended.
    pub fn descriptor(&self) -> Option<i32> {
        self.watch.as_ref().map(Watch::raw)
    }

    /// Hands over the marks that arrived since the last look.
    pub fn look(&mut self, now_ns: u64, mut take: impl FnMut(Mark)) {
        if let Some(watch) = &mut self.watch {
            watch.drain();
        }
        let mut left = MOST_PER_LOOK;
        let mut chunk = [0u8; 4096];
        while left > 0 {
            let Ok(read @ 1..) = self.file.read(&mut chunk) else { break };
            left = left.saturating_sub(read);
            self.pending.extend_from_slice(&chunk[..read]);
            self.take_lines(now_ns, &mut take);
        }
        self.looked_ns = now_ns;
    }

    fn take_lines(&mut self, now_ns: u64, take: &mut impl FnMut(Mark)) {
        let mut begin = 0;
        while let Some(length) = self.pending[begin..].iter().position(|b| *b == b'\n') {
            let line = &self.pending[begin..begin + length];
            let mark = parse_line(line, now_ns, self.looked_ns).filter(|_| length <= LONGEST_LINE);
            match mark {
                _ if std::mem::take(&mut self.skipping) => {}
                Some(mark) => take(mark),
                None => self.malformed += 1,
            }
            begin += length + 1;
        }
        self.pending.drain(..begin);
        if self.pending.len() > LONGEST_LINE {
            self.pending.clear();
            self.malformed += u64::from(!std::mem::replace(&mut self.skipping, true));
        }
    }
}

/// One line without its newline. `None` when it is no mark.
pub fn parse_line(line: &[u8], now_ns: u64, looked_ns: u64) -> Option<Mark> {
    let line = std::str::from_utf8(line).ok()?.trim();
    let (line, stamp) = take_suffix(line, "ns=");
    let (line, pid) = take_suffix(line, "pid=");
    let (line, stamp) = if stamp.is_none() { take_suffix(line, "ns=") } else { (line, stamp) };
    let what = parse_kind(line)?;
    // A stamp from the future or from another clock is worth less than our own.
    let stamp = stamp.filter(|ns| *ns <= now_ns && *ns != 0);
    Some(Mark {
        at_ns: stamp.unwrap_or(now_ns),
        error_ns: if stamp.is_some() { 0 } else { now_ns.saturating_sub(looked_ns) },
        pid: pid.and_then(|p| i32::try_from(p).ok()),
        what,
    })
}

fn parse_kind(line: &str) -> Option<MarkKind> {
    let (word, rest) = line.split_once(char::is_whitespace)?;
    let rest = rest.trim();
    match word {
        "step" => rest.parse().ok().map(MarkKind::Step),
        "phase" if !rest.is_empty() => Some(MarkKind::Phase(rest.to_owned())),
        "note" if !rest.is_empty() => Some(MarkKind::Note(rest.to_owned())),
        _ => None,
    }
}

/// Cuts a trailing ` KEY=NUMBER` off the line.
fn take_suffix<'a>(line: &'a str, key: &str) -> (&'a str, Option<u64>) {
    let Some((rest, last)) = line.rsplit_once(char::is_whitespace) else { return (line, None) };
    match last.strip_prefix(key).and_then(|number| number.parse().ok()) {
        Some(number) => (rest.trim_end(), Some(number)),
        None => (line, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(line: &str) -> Option<Mark> {
        parse_line(line.as_bytes(), 1000, 400)
    }

    #[test]
    fn an_unstamped_step_is_stamped_on_arrival_with_its_error() {
        let m = mark("step 12").unwrap();
        assert_eq!((m.at_ns, m.error_ns, m.what, m.pid), (1000, 600, MarkKind::Step(12), None));
    }

    #[test]
    fn a_stamp_and_a_pid_are_taken_in_either_order() {
        for line in ["step 3 pid=77 ns=900", "step 3 ns=900 pid=77"] {
            let m = mark(line).unwrap();
            assert_eq!((m.at_ns, m.error_ns, m.what, m.pid), (900, 0, MarkKind::Step(3), Some(77)));
        }
    }

    #[test]
    fn a_stamp_from_the_future_is_replaced() {
        assert_eq!(mark("step 3 ns=5000").unwrap().at_ns, 1000);
    }

    #[test]
    fn phases_and_notes_keep_their_words() {
        assert_eq!(mark("phase warm up").unwrap().what, MarkKind::Phase("warm up".into()));
        assert_eq!(mark("note a=b pid=x").unwrap().what, MarkKind::Note("a=b pid=x".into()));
    }

    #[test]
    fn a_line_that_is_too_long_is_one_malformed_line_however_it_arrives() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("marks");
        let mut marks = Marks::create(&path, 0).unwrap();
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        let mut seen = Vec::new();
        let long = "x".repeat(LONGEST_LINE);
        for part in ["note ", &long, &long, " step 4\nstep 5\nnote ", &long, "\n", "step 6\n"] {
            std::io::Write::write_all(&mut file, part.as_bytes()).unwrap();
            marks.look(1, |mark| seen.push(mark.what));
        }
        assert_eq!(seen, [MarkKind::Step(5), MarkKind::Step(6)]);
        assert_eq!(marks.malformed, 2);
    }

    #[test]
    fn other_lines_are_no_marks() {
        for line in ["", "step", "step x", "step -1", "steps 3", "phase", "\u{0}"] {
            assert_eq!(mark(line), None, "{line:?}");
        }
        assert_eq!(parse_line(b"note \xff", 0, 0), None);
    }
}
