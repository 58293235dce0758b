//! What looks at touched pages store: one JSON document a line, in `pages.jsonl`.
//!
//! The first line tells how was looked, then come mappings as they are met, one line for each look, owners, the end. An address
//! trace has no looks: its reuse distances are one line.
//! The one invariant: a line exists whole or is left out by the reader, so a file cut anywhere is readable up to the cut.

use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};

/// The file in the directory of a recording.
pub const PAGES_FILE: &str = "pages.jsonl";
/// The version that this writes, and the highest that it reads.
pub const VERSION: u32 = 1;
/// A longer line is no line of ours.
const LONGEST_LINE: u64 = 256 << 20;

/// One line of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    About(Box<About>),
    Mapping(Mapping),
    Look(Look),
    Distances(Box<Distances>),
    Owner(Owner),
    End(End),
}

/// What an access is for a backend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sees {
    R,
    W,
    #[default]
    RW,
}

/// The smallest piece of memory that is told apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A page, or the folio (huge page) that it is part of.
    Page,
    Region,
    Chunk,
    #[default]
    Mapping,
}

/// How was looked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct About {
    pub version: u32,
    pub pid: i32,
    pub command: String,
    pub kernel: String,
    pub realtime_ns: u64,
    pub backend: String,
    /// Why this one.
    pub why: String,
    pub sees: Sees,
    pub unit: Unit,
    /// 0 for whole mappings.
    pub unit_bytes: u64,
    pub exact: bool,
    pub page_bytes: u64,
    /// How written pages are told; none where they are not.
    pub written: Option<String>,
    pub written_why_not: Option<String>,
    /// How page faults are seen; none where they are not.
    pub births: Option<String>,
    pub reuse_why_not: Option<String>,
    /// What this way of looking changes for others.
    pub disturbs: Vec<String>,
    pub injects: Option<String>,
    /// Times after a mark, in seconds, as asked.
    pub asked_s: Vec<f64>,
    pub pause: bool,
    pub filters: Vec<String>,
    pub notes: Vec<String>,
    /// Where it is part of a run: how long the command had run when it began.
    pub after_start_ns: Option<u64>,
}

/// A mapping, told before its number is used. Of several that lie side by side and are alike there is one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapping {
    pub id: u32,
    pub pid: i32,
    pub start: u64,
    pub perms: String,
    pub name: String,
}

/// What was touched from a mark until `effective_ns` later.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Look {
    /// Counts marks: looks of one round have the same mark.
    pub round: u32,
    /// The last look of its round: the next mark follows.
    pub last: bool,
    pub asked_ns: u64,
    pub effective_ns: u64,
    /// From the beginning of the recording to the mark.
    pub mark_ns: u64,
    pub stopped_ns: u64,
    pub cpu_ns: u64,
    /// Steps that ended between mark and look.
    pub steps: Option<u64>,
    pub processes: Vec<Process>,
}

/// One process in a look.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Process {
    pub pid: i32,
    pub rss_bytes: u64,
    /// Resident, and left out by filters.
    pub skipped_bytes: u64,
    /// Resident, and the backend cannot tell.
    pub untracked_bytes: u64,
    /// Touched, and perhaps by another process that has the same page.
    pub shared_bytes: u64,
    /// Of these, counted with another process of the same look already; none where page frames are not known.
    pub again_bytes: Option<u64>,
    /// Touched as part of a huge page.
    pub huge_bytes: u64,
    /// Pages of files that may only look touched: they were mapped since the mark, beside one that was touched.
    pub around_bytes: u64,
    #[serde(with = "flat")]
    pub spans: Vec<Span>,
    /// Pages that were written: first page and number; none where that is not seen.
    pub written: Option<Vec<(u64, u64)>>,
    /// Page faults; none where they are not seen.
    pub births: Option<Births>,
}

/// Page faults of a process from a mark to a look: memory that had no page, or one that it had to copy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Births {
    pub faults: u64,
    /// Where they were, each page once: first page and number. With a huge page come more pages than these.
    pub pages: Vec<(u64, u64)>,
    /// The files whose code met most of them.
    pub code: Vec<(String, u64)>,
    /// Seen, and not kept; with the first process for all.
    pub lost: u64,
    /// Of processes that are not in the look; with the first process.
    pub elsewhere: u64,
}

/// A stretch of one mapping, in pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Span {
    pub first: u64,
    pub pages: u64,
    pub resident: u64,
    pub touched: u64,
    pub mapping: u32,
}

/// How far apart the touches of an address trace are. Every access is in it, so their order is known.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Distances {
    pub unit_bytes: u64,
    /// Accesses, each once for every unit that it lies in.
    pub touches: u64,
    /// Touches of units that were never touched before: as many as there are units.
    pub cold: u64,
    /// Different units since a unit was touched last, itself included, and how many touches had so many.
    #[serde(with = "bins")]
    pub counts: Vec<(u64, u64)>,
    /// Units whose touches were followed at the end, and their share of all: 1 if it is exact.
    pub followed: u64,
    pub share: f64,
    /// Of a sample: how far its two halves are from the whole, as a share of the touches that would miss, at most.
    pub error: Option<f64>,
    pub accesses: Accesses,
}

/// What a trace consists of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Accesses {
    pub loads: u64,
    pub stores: u64,
    /// Both by one instruction.
    pub modifies: u64,
    /// Of these, such that lie in two units or more.
    pub crossing: u64,
    /// Not among the touches.
    pub instructions: u64,
}

/// Whose the memory is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    pub pid: i32,
    pub start: u64,
    pub end: u64,
    pub name: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct End {
    pub duration_ns: u64,
    pub cpu_ns: u64,
    pub why: String,
    pub notes: Vec<String>,
    /// The command's own, where we started it: its exit code, 128 and the signal's number.
    pub exit_code: Option<i32>,
}

impl Process {
    // Saturating: a file comes from anywhere, and a sum of its numbers must not panic.
    pub fn touched_pages(&self) -> u64 {
        self.spans.iter().map(|span| span.touched).fold(0, u64::saturating_add)
    }

    pub fn written_pages(&self) -> Option<u64> {
        Some(sum_of_runs(self.written.as_ref()?))
    }

    /// The least that is new: each page that had a fault once.
    pub fn born_pages(&self) -> Option<u64> {
        Some(sum_of_runs(&self.births.as_ref()?.pages))
    }
}

fn sum_of_runs(runs: &[(u64, u64)]) -> u64 {
    runs.iter().map(|(_, pages)| *pages).fold(0, u64::saturating_add)
}

/// Spans as one list of numbers; a first page is told as its distance from the end of the one before.
mod flat {
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

    use super::Span;

    pub fn serialize<S: Serializer>(spans: &[Span], to: S) -> Result<S::Ok, S::Error> {
        let mut end = 0;
        to.collect_seq(spans.iter().flat_map(|span| {
            let gap = span.first.wrapping_sub(end);
            end = span.first + span.pages;
            [gap, span.pages, span.resident, span.touched, u64::from(span.mapping)]
        }))
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Vec<Span>, D::Error> {
        let numbers = Vec::<u64>::deserialize(from)?;
        let mut end = 0_u64;
        let mut spans = Vec::with_capacity(numbers.len() / 5);
        for piece in numbers.chunks(5) {
            let &[gap, pages, resident, touched, mapping] = piece else {
                return Err(D::Error::custom("a span has five numbers"));
            };
            let first = end.wrapping_add(gap);
            let fits = first.checked_add(pages).is_some_and(|end| end <= 1 << 52);
            if !fits || resident > pages || touched > pages {
                return Err(D::Error::custom("a span that cannot be"));
            }
            end = first + pages;
            spans.push(Span { first, pages, resident, touched, mapping: mapping as u32 });
        }
        Ok(spans)
    }
}

/// Pairs in order of the first number, of which the others' sum has room.
mod bins {
    use serde::{Deserialize, Deserializer, Serialize as _, Serializer, de::Error as _};

    /// More touches than any trace has: sums of some of them still fit.
    const MOST_TOUCHES: u64 = 1 << 60;

    pub fn serialize<S: Serializer>(bins: &[(u64, u64)], to: S) -> Result<S::Ok, S::Error> {
        bins.serialize(to)
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Vec<(u64, u64)>, D::Error> {
        let bins = Vec::<(u64, u64)>::deserialize(from)?;
        let sum = bins.iter().try_fold(0_u64, |sum, (_, touches)| sum.checked_add(*touches));
        let in_order = bins.is_sorted_by(|one, next| one.0 < next.0);
        if !in_order || bins.first().is_some_and(|bin| bin.0 == 0) || sum.is_none_or(|sum| sum > MOST_TOUCHES)
        {
            return Err(D::Error::custom("distances that cannot be"));
        }
        Ok(bins)
    }
}

/// Appends one line.
pub fn write_line(to: &mut impl Write, line: &Line) -> io::Result<()> {
    let mut text = serde_json::to_vec(line).map_err(io::Error::other)?;
    text.push(b'\n');
    to.write_all(&text)
}

/// Hands over the lines in their order; the number of lines that could not be understood, which is told.
pub fn read_lines(from: &mut impl BufRead, mut take: impl FnMut(Line)) -> io::Result<u64> {
    let mut text = Vec::new();
    let mut bad = 0;
    loop {
        text.clear();
        let read = io::Read::take(&mut *from, LONGEST_LINE).read_until(b'\n', &mut text)?;
        if read == 0 {
            return Ok(bad);
        }
        match serde_json::from_slice(&text) {
            Ok(line) => take(line),
            Err(_) => bad += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look() -> Look {
        let spans = vec![
            Span { first: 10, pages: 4, resident: 4, touched: 1, mapping: 0 },
            Span { first: 14, pages: 2, resident: 0, touched: 0, mapping: 1 },
            Span { first: 99, pages: 1, resident: 1, touched: 1, mapping: 1 },
        ];
        let births =
            Births { faults: 3, pages: vec![(10, 2)], code: vec![("libc".into(), 3)], ..Births::default() };
        let process = Process {
            pid: 7,
            spans,
            written: Some(vec![(10, 1)]),
            births: Some(births),
            ..Process::default()
        };
        Look { round: 3, asked_ns: 5, processes: vec![process], ..Look::default() }
    }

    fn written(lines: &[Line]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for line in lines {
            write_line(&mut bytes, line).unwrap();
        }
        bytes
    }

    fn read(bytes: &[u8]) -> (Vec<Line>, u64) {
        let mut lines = Vec::new();
        let bad = read_lines(&mut &*bytes, |line| lines.push(line)).unwrap();
        (lines, bad)
    }

    #[test]
    fn what_is_written_is_read() {
        let about = About { version: VERSION, backend: "mappings".into(), ..About::default() };
        let distances = Distances { counts: vec![(1, 7), (300, 2)], share: 0.25, ..Distances::default() };
        let lines = vec![
            Line::About(Box::new(about)),
            Line::Look(look()),
            Line::Distances(Box::new(distances)),
            Line::End(End::default()),
        ];
        assert_eq!(read(&written(&lines)), (lines, 0));
    }

    #[test]
    fn a_cut_leaves_the_lines_before_it() {
        let bytes = written(&[Line::Look(look()), Line::Look(look())]);
        for cut in 0..bytes.len() {
            let (lines, bad) = read(&bytes[..cut]);
            let whole = bytes[..cut].split(|byte| *byte == b'\n').count() - 1;
            assert!(lines.len() + bad as usize <= whole + 1 && lines.len() >= whole);
        }
    }

    #[test]
    fn any_numbers_of_pages_add_up() {
        let process = Process { written: Some(vec![(0, u64::MAX), (0, 7)]), ..Process::default() };
        assert_eq!((process.touched_pages(), process.written_pages()), (0, Some(u64::MAX)));
    }

    #[test]
    fn spans_that_cannot_be_are_refused() {
        for spans in ["[1,2,3]", "[0,1,2,0,0]", "[0,1,1,9,0]", "[18446744073709551615,5,0,0,0]"] {
            let line = format!("{{\"look\":{{\"processes\":[{{\"spans\":{spans}}}]}}}}\n");
            assert_eq!(read(line.as_bytes()), (vec![], 1), "{spans}");
        }
    }

    #[test]
    fn distances_that_cannot_be_are_refused() {
        for counts in ["[[0,1]]", "[[2,1],[1,1]]", "[[1,1],[1,1]]", "[[1,18446744073709551615],[2,1]]"] {
            let line = format!("{{\"distances\":{{\"counts\":{counts}}}}}\n");
            assert_eq!(read(line.as_bytes()), (vec![], 1), "{counts}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            read(&bytes);
        }
    }
}
