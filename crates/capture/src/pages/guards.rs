//! Memory of the target registered with two userfaultfds that we hold: chunks with an even number with one, the others with
//! the other. The kernel joins no neighbours of different descriptors, so that it counts the touched pages of each chunk,
//! and it notes which pages are written once they are protected.
//!
//! The one invariant: only opening them needs a thread of the target; what was registered is the kernel's to take back
//! when we close them, or end for whatever reason.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use nilometer_kernel::sys::inject::Lent;
use nilometer_kernel::sys::protector::Protector;

use super::errand;

/// The descriptors of one process, for whoever looks at it.
pub(super) type Shared = Rc<RefCell<Guards>>;

/// Marks in a row at which no thread could be borrowed before it is given up.
const MOST_FAILURES: u32 = 3;

/// Why there are no descriptors.
#[derive(Debug)]
pub(super) enum Refused {
    /// At the next mark there may be.
    Now,
    Forever(String),
}

#[derive(Debug)]
pub(super) struct Guards {
    pid: i32,
    pair: Option<[Protector; 2]>,
    /// Why there are none: not tried again.
    why_not: Option<String>,
    /// How often in a row no thread could be borrowed.
    failures: u32,
    /// In which pieces memory is registered; as it is where mappings are not split.
    pub chunk_bytes: Option<u64>,
    stopped_ns: u64,
}

impl Guards {
    pub fn shared(pid: i32, chunk_bytes: Option<u64>) -> Shared {
        Rc::new(RefCell::new(Self {
            pid,
            pair: None,
            why_not: None,
            failures: 0,
            chunk_bytes,
            stopped_ns: 0,
        }))
    }

    /// Opens them where there are none, or none any more: a new program (`exec`) has memory of its own.
    pub fn open(&mut self) -> Result<(), Refused> {
        if let Some(why) = &self.why_not {
            return Err(Refused::Forever(why.clone()));
        }
        if self.pair.as_ref().is_some_and(|[even, _]| even.lives()) {
            return Ok(());
        }
        let pid = self.pid;
        let done = errand::run(pid, |lent| open_pair(pid, lent));
        self.stopped_ns += done.stopped_ns;
        match done.result {
            Ok(Ok(pair)) => {
                (self.pair, self.failures) = (Some(pair), 0);
                Ok(())
            }
            // It may be just becoming another program, or its threads be where none can be borrowed.
            Err(_) if self.failures < MOST_FAILURES => {
                self.failures += 1;
                Err(Refused::Now)
            }
            Ok(Err(error)) => Err(self.give_up(error.to_string())),
            Err(why) => Err(self.give_up(why)),
        }
    }

    fn give_up(&mut self, why: String) -> Refused {
        self.why_not = Some(why.clone());
        Refused::Forever(why)
    }

    /// Registers a range chunk by chunk, or as one; false if some of it is of a kind that cannot be registered.
    pub fn register(&self, range: &Range<u64>, as_one: bool) -> bool {
        let Some(pair) = &self.pair else { return false };
        let chunk_bytes = self.chunk_bytes.filter(|_| !as_one).unwrap_or(u64::MAX);
        let register =
            |(number, piece): (u64, Range<u64>)| pair[(number % 2) as usize].register(&piece).is_ok();
        // Whatever can be registered is.
        pieces(range, chunk_bytes).map(register).filter(|is_good| !is_good).count() == 0
    }

    pub fn close(&mut self) {
        self.pair = None;
    }

    pub fn take_stopped_ns(&mut self) -> u64 {
        std::mem::take(&mut self.stopped_ns)
    }
}

/// Opened there, taken over, and closed there again.
fn open_pair(pid: i32, lent: &Lent) -> std::io::Result<[Protector; 2]> {
    let open = || {
        let number = lent.open_userfaultfd()?;
        let taken = Protector::take(pid, number);
        lent.close(number)?;
        taken
    };
    Ok([open()?, open()?])
}

/// The chunks of a range with their numbers.
pub(super) fn pieces(range: &Range<u64>, chunk_bytes: u64) -> impl Iterator<Item = (u64, Range<u64>)> {
    let (range, first) = (range.clone(), range.start / chunk_bytes);
    let last = range.end.div_ceil(chunk_bytes);
    (first..last).map(move |number| {
        let start = number.saturating_mul(chunk_bytes);
        (number, start.max(range.start)..start.saturating_add(chunk_bytes).min(range.end))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_lie_within_the_range_and_end_at_multiples_of_a_chunk() {
        let told: Vec<(u64, Range<u64>)> = pieces(&(150..410), 100).collect();
        assert_eq!(told, [(1, 150..200), (2, 200..300), (3, 300..400), (4, 400..410)]);
        assert_eq!(pieces(&(150..410), u64::MAX).collect::<Vec<_>>(), [(0, 150..410)]);
    }
}
