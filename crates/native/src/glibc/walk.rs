//! From chunk to chunk through one stretch of an arena.
//!
//! Each header tells its own size and whether the chunk before it is in use, so that one word per chunk is read.
//! Every step goes forward, and a step that makes no sense ends the walk or is skipped over: the bytes in between are
//! [`State::Unknown`], never guessed.

use super::index::{HEADER, Mark, State};
use crate::runs::Runs;

pub(super) const PREVIOUS_IN_USE: u64 = 1;
pub(super) const IS_MAPPED: u64 = 2;
const FLAGS: u64 = 7;
/// The smallest chunk.
pub(super) const SMALLEST: u64 = 32;

/// A place where the chain broke is searched for a new beginning this far.
const LONGEST_GAP: u64 = 64 << 20;
/// So many chunks in a row are no accident.
const CHAIN: usize = 24;
/// A stretch broken more often than this is not walked further.
const MOST_BREAKS: usize = 64;

const PAGE: u64 = 4096;

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Walk {
    /// Ends with [`State::Outside`] where the walk ended.
    pub marks: Vec<Mark>,
    pub breaks: usize,
    /// The chain met the arena's top.
    pub met_top: bool,
}

/// The stretch to be walked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stretch {
    /// Of the first chunk.
    pub first: u64,
    pub end: u64,
    pub top: u64,
    /// It may hold something else than chunks: the walk ends at the first break or pair of fences.
    pub strict: bool,
}

/// What one header says.
pub(super) enum Step {
    To(u64),
    /// An artificial chunk, too small to be one.
    Fence,
    /// The last header of a heap that is full.
    Last,
    Broken,
}

pub(super) fn walk(runs: &Runs<'_>, stretch: Stretch) -> Walk {
    let mut walk = Walk::default();
    let mut at = stretch.first;
    while at < stretch.end {
        at = match walk.chain(runs, stretch, at) {
            Ok(end) if stretch.strict => return walk.ended(end),
            Ok(at) => at,
            Err(broken) => walk.skip(runs, stretch, broken),
        };
    }
    walk.ended(stretch.end)
}

impl Walk {
    fn ended(mut self, end: u64) -> Self {
        self.marks.push(Mark::new(end, State::Outside));
        self
    }

    /// Follows the chain up to the stretch's end or a pair of fences; the error is where it breaks.
    fn chain(&mut self, runs: &Runs<'_>, stretch: Stretch, from: u64) -> Result<u64, u64> {
        let mut at = from;
        let mut reader = runs.reader();
        let mut first = true;
        while at < stretch.end {
            let head = reader.word(at + 8).ok_or(at)?;
            if !first && head & PREVIOUS_IN_USE == 0 {
                self.free_last();
            }
            first = false;
            if at == stretch.top {
                return Ok(self.end_at_top(head, stretch, at));
            }
            at = match step(head, at, stretch.end) {
                Step::To(next) => self.chunk(at, next, stretch.top),
                Step::Fence => match self.fence(runs, at) {
                    Ok(next) => next,
                    Err(end) if stretch.strict => return Ok(end),
                    Err(end) => self.leave(runs, stretch, end),
                },
                Step::Last => {
                    self.marks.push(Mark::new(at, State::Metadata));
                    stretch.end
                }
                Step::Broken => return Err(at),
            };
        }
        Ok(at)
    }

    /// A chunk that reaches over the top is being cut off it at this moment: it ends where the top begins.
    #[inline]
    fn chunk(&mut self, at: u64, next: u64, top: u64) -> u64 {
        self.marks.push(Mark::new(at, State::InUse));
        if at < top && top < next { top } else { next }
    }

    fn end_at_top(&mut self, head: u64, stretch: Stretch, at: u64) -> u64 {
        self.met_top = true;
        let end = at.saturating_add(head & !(HEADER - 1));
        // One without bytes is damaged, and no stretch.
        if at < end {
            self.marks.push(Mark::new(at, State::Top));
        }
        if end < stretch.end {
            self.marks.push(Mark::new(end, State::Metadata));
        }
        stretch.end
    }

    /// After a fence comes the heap's last header, or another one and then (the error) memory that is not malloc's.
    fn fence(&mut self, runs: &Runs<'_>, at: u64) -> Result<u64, u64> {
        self.marks.push(Mark::new(at, State::Metadata));
        let next = at + HEADER;
        if runs.word(next + 8).is_none_or(|head| head & !FLAGS != HEADER) {
            return Ok(next);
        }
        self.marks.push(Mark::new(next, State::Metadata));
        // The fences stand at the end of a page, but for what alignment takes.
        let end = next + HEADER;
        let page = end.next_multiple_of(PAGE);
        Err(if page - end <= HEADER { page } else { end })
    }

    /// Behind a pair of fences: somebody else moved the break. The chain begins again at some place after it.
    fn leave(&mut self, runs: &Runs<'_>, stretch: Stretch, at: u64) -> u64 {
        let next = resume(runs, stretch, at);
        if at < next {
            self.marks.push(Mark::new(at, State::Outside));
        }
        next
    }

    fn skip(&mut self, runs: &Runs<'_>, stretch: Stretch, at: u64) -> u64 {
        self.breaks += 1;
        self.marks.push(Mark::new(at, State::Unknown));
        if stretch.strict || self.breaks > MOST_BREAKS {
            stretch.end
        } else {
            resume(runs, stretch, at + HEADER)
        }
    }

    fn free_last(&mut self) {
        if let Some(mark) = self.marks.last_mut().filter(|mark| mark.state() == State::InUse) {
            *mark = Mark::new(mark.start(), State::Free);
        }
    }
}

#[inline]
pub(super) fn step(head: u64, at: u64, end: u64) -> Step {
    let size = head & !FLAGS;
    let sound = size >= SMALLEST && size.is_multiple_of(HEADER) && size <= end - at && head & IS_MAPPED == 0;
    match size {
        _ if sound => Step::To(at + size),
        HEADER => Step::Fence,
        0 if head == PREVIOUS_IN_USE => Step::Last,
        _ => Step::Broken,
    }
}

/// Where a chain begins again that leads to the top or is long enough to be none by accident; the end if nowhere.
pub(super) fn resume(runs: &Runs<'_>, stretch: Stretch, from: u64) -> u64 {
    let last = stretch.end.min(from.saturating_add(LONGEST_GAP));
    let pieces = runs.within(from, last);
    let mut places =
        pieces.flat_map(|run| (run.start.next_multiple_of(HEADER)..run.end()).step_by(HEADER as usize));
    places.find(|at| leads_on(runs, stretch, *at)).unwrap_or(stretch.end)
}

fn leads_on(runs: &Runs<'_>, stretch: Stretch, from: u64) -> bool {
    let mut at = from;
    for _ in 0..CHAIN {
        if at == stretch.top {
            return true;
        }
        match runs.word(at + 8).map(|head| step(head, at, stretch.end)) {
            Some(Step::To(next)) if next < stretch.end => at = next,
            // A stretch between two strangers.
            Some(Step::Fence) => {
                return at > from && runs.word(at + 24).is_some_and(|head| head & !FLAGS == HEADER);
            }
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_top_without_bytes_is_no_stretch() {
        let stretch = Stretch { first: 0x1000, end: 0x1080, top: 0x1020, strict: false };
        for head in [1, 9] {
            let mut words = [0u64; 16];
            (words[1], words[5]) = (0x21, head);
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let walk = walk(&Runs::one(0x1000, &bytes), stretch);
            let marks: Vec<_> = walk.marks.iter().map(|mark| (mark.start(), mark.state())).collect();
            let rest = [(0x1020, State::Metadata), (0x1080, State::Outside)];
            assert_eq!(marks, [[(0x1000, State::InUse)].as_slice(), &rest].concat(), "{head}");
        }
    }
}
