//! What a ledger means: what must stay, what could go and how, and the sums of a tree.
//!
//! Nothing is advised without the bytes that it would save and a way to check it.

pub mod run;

use serde::Serialize;

pub use nilometer_trace::heap::PauseMode;
pub use nilometer_trace::ledger::{
    Badge, Ledger, Library, Line, Malloc, Method, Named, Part, PythonHeap, Unshared,
};

use crate::text;

/// Less than this is not worth a word.
const WORTH_BYTES: u64 = 16 << 20;
/// Nor is less than this share of the whole.
const WORTH_SHARE: f64 = 0.03;
/// More arenas than this, and `MALLOC_ARENA_MAX=2` would make them fewer.
const FEW_ARENAS: u64 = 2;

/// The lines by what can be done about them; together with the residual they are the whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Judgement {
    /// Code, data, buffers, memory in use.
    pub must_stay_bytes: u64,
    /// Held and not used.
    pub could_go_bytes: u64,
    /// Objects of Python: as many as the program makes of its data.
    pub structure_bytes: u64,
    /// Of which nothing is known.
    pub not_judged_bytes: u64,
}

/// Something to do, with its evidence.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Hint {
    /// A word for tools: `malloc_trim`, `malloc_arena_max`, …
    pub name: &'static str,
    /// How much it is about.
    pub bytes: u64,
    pub what: String,
    /// How to make sure.
    pub check: String,
}

/// A ledger that was thought about.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Account {
    #[serde(flatten)]
    pub ledger: Ledger,
    pub judgement: Judgement,
    pub hints: Vec<Hint>,
}

/// Several processes, each memory counted once.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Tree {
    pub processes: u64,
    /// Each process's share of what it shares.
    pub pss_bytes: u64,
    /// Not a total: what is shared is in it once per process.
    pub rss_sum_bytes: u64,
    /// By PSS.
    pub parts: Vec<TreePart>,
    pub residual_bytes: i64,
    /// Processes whose PSS is not known: they are not in the sums.
    pub unknown: Vec<i32>,
}

/// A line of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TreePart {
    pub name: Line,
    pub pss_bytes: u64,
}

pub fn account(ledger: Ledger) -> Account {
    let (judgement, hints) = (judge(&ledger), hints(&ledger));
    Account { ledger, judgement, hints }
}

fn judge(ledger: &Ledger) -> Judgement {
    let mut judged = Judgement::default();
    for part in &ledger.parts {
        *match part.name {
            Line::Code
            | Line::LibraryData
            | Line::Arrays
            | Line::MallocInUse
            | Line::MallocMetadata
            | Line::Stacks
            | Line::SharedMemory
            | Line::Files
            | Line::Tracker => &mut judged.must_stay_bytes,
            Line::PythonSlack | Line::PythonFree | Line::MallocHeld | Line::HugeRounding => {
                &mut judged.could_go_bytes
            }
            Line::PythonObjects => &mut judged.structure_bytes,
            Line::MallocUnknown | Line::OtherAllocator | Line::OtherMaps | Line::Anonymous => {
                &mut judged.not_judged_bytes
            }
        } += part.bytes;
    }
    judged
}

fn is_worth(bytes: u64, ledger: &Ledger) -> bool {
    bytes >= WORTH_BYTES && bytes as f64 >= ledger.rss_bytes as f64 * WORTH_SHARE
}

fn hints(ledger: &Ledger) -> Vec<Hint> {
    let found = [arenas(ledger), trim(ledger), slack(ledger), rounding(ledger), shared(ledger)];
    let mut hints: Vec<Hint> =
        found.into_iter().flatten().filter(|hint| is_worth(hint.bytes, ledger)).collect();
    hints.sort_by_key(|hint| std::cmp::Reverse(hint.bytes));
    hints
}

/// What fewer arenas would hold less of.
fn arenas(ledger: &Ledger) -> Option<Hint> {
    let malloc = ledger.malloc.as_ref().filter(|malloc| malloc.arenas > FEW_ARENAS)?;
    let bytes = malloc.held_threads_bytes;
    Some(Hint {
        name: "malloc_arena_max",
        bytes,
        what: format!(
            "{} is free in {} arenas of threads: start it with MALLOC_ARENA_MAX=2",
            text::bytes(bytes),
            malloc.arenas - 1
        ),
        check: "run it again with MALLOC_ARENA_MAX=2 and compare this line".into(),
    })
}

fn trim(ledger: &Ledger) -> Option<Hint> {
    let bytes = ledger.malloc.as_ref()?.trimmable_bytes;
    let call = match ledger.python.as_str() {
        "" => "malloc_trim(0)",
        _ => "ctypes.CDLL('libc.so.6').malloc_trim(0)",
    };
    Some(Hint {
        name: "malloc_trim",
        bytes,
        what: format!(
            "{} was freed and is held by malloc in whole pages: {call} gives it back",
            text::bytes(bytes)
        ),
        check: "call it in the program, then read the ledger again: the line shrinks by that much".into(),
    })
}

fn slack(ledger: &Ledger) -> Option<Hint> {
    let bytes = ledger.bytes(Line::PythonSlack);
    (bytes > 0).then(|| Hint {
        name: "python_slack",
        bytes,
        what: format!(
            "{} is free in pools and arenas of Python that live objects keep: new objects will use it, \
             no call gives it back",
            text::bytes(bytes)
        ),
        check: "sys._debugmallocstats() in the program prints arenas and free blocks".into(),
    })
}

fn rounding(ledger: &Ledger) -> Option<Hint> {
    let bytes = ledger.bytes(Line::HugeRounding);
    (bytes > 0).then(|| Hint {
        name: "huge_pages",
        bytes,
        what: format!("{} are zeros beside used memory in huge pages", text::bytes(bytes)),
        check: "AnonHugePages in /proc/PID/smaps; run it with transparent huge pages off".into(),
    })
}

/// What outlives the process or is charged to whoever touched it first.
fn shared(ledger: &Ledger) -> Option<Hint> {
    let bytes = ledger.bytes(Line::SharedMemory);
    (bytes > 0).then(|| Hint {
        name: "shared_memory",
        bytes,
        what: format!(
            "{} is shared memory: in every process that maps it, on the machine once",
            text::bytes(bytes)
        ),
        check: "df /dev/shm; PSS beside RSS".into(),
    })
}

/// The sum over processes, by PSS.
pub fn tree(ledgers: &[Account]) -> Tree {
    let mut tree = Tree { processes: ledgers.len() as u64, ..Tree::default() };
    for Account { ledger, .. } in ledgers {
        tree.rss_sum_bytes += ledger.rss_bytes;
        match ledger.pss_bytes {
            Some(pss) => tree.pss_bytes += pss,
            None => tree.unknown.push(ledger.pid),
        }
    }
    for line in Line::ALL {
        let parts = ledgers.iter().flat_map(|account| &account.ledger.parts);
        let pss_bytes = parts.filter(|part| part.name == line).filter_map(|part| part.pss_bytes).sum();
        if pss_bytes > 0 {
            tree.parts.push(TreePart { name: line, pss_bytes });
        }
    }
    let explained: u64 = tree.parts.iter().map(|part| part.pss_bytes).sum();
    tree.residual_bytes = tree.pss_bytes as i64 - explained as i64;
    tree
}

/// The lines of Topographica's accounting: code, objects, arrays, and all the rest.
pub fn equation(ledger: &Ledger) -> [(&'static str, i64); 4] {
    let sum = |lines: &[Line]| lines.iter().map(|line| ledger.bytes(*line)).sum::<u64>() as i64;
    let code = sum(&[Line::Code, Line::LibraryData]);
    let objects = sum(&[Line::PythonObjects, Line::PythonSlack, Line::PythonFree]);
    let arrays = sum(&[Line::Arrays]);
    let other = ledger.rss_bytes as i64 - code - objects - arrays;
    [("code", code), ("objects", objects), ("arrays", arrays), ("other", other)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(rss: u64, parts: &[(Line, u64)]) -> Ledger {
        let part = |(name, bytes): &(Line, u64)| Part {
            name: *name,
            bytes: *bytes,
            pss_bytes: Some(bytes / 2),
            uss_bytes: Some(0),
            detail: Vec::new(),
            method: Method::Exact,
        };
        let parts = parts.iter().map(part).collect();
        let mut ledger = Ledger { rss_bytes: rss, pss_bytes: Some(rss / 2), parts, ..Ledger::default() };
        ledger.close();
        ledger
    }

    #[test]
    fn every_byte_is_judged_once() {
        let parts: Vec<(Line, u64)> = Line::ALL.iter().map(|line| (*line, 10)).collect();
        let ledger = ledger(200, &parts);
        let judged = judge(&ledger);
        let sum =
            judged.must_stay_bytes + judged.could_go_bytes + judged.structure_bytes + judged.not_judged_bytes;
        assert_eq!(sum, ledger.explained_bytes());
    }

    #[test]
    fn nothing_is_advised_without_bytes_worth_it() {
        let mut small = ledger(1 << 30, &[(Line::MallocHeld, 20 << 20)]);
        small.malloc = Some(Malloc { arenas: 9, trimmable_bytes: 20 << 20, ..Malloc::default() });
        assert_eq!(hints(&small), []);
        let mut large = ledger(1 << 30, &[(Line::MallocHeld, 500 << 20)]);
        large.malloc = Some(Malloc {
            arenas: 9,
            trimmable_bytes: 300 << 20,
            held_threads_bytes: 400 << 20,
            ..Malloc::default()
        });
        let found: Vec<(&str, u64)> = hints(&large).iter().map(|hint| (hint.name, hint.bytes)).collect();
        assert_eq!(found, [("malloc_arena_max", 400 << 20), ("malloc_trim", 300 << 20)]);
    }

    #[test]
    fn two_arenas_are_few() {
        let mut one = ledger(1 << 30, &[(Line::MallocHeld, 500 << 20)]);
        one.malloc = Some(Malloc { arenas: 2, held_threads_bytes: 400 << 20, ..Malloc::default() });
        assert_eq!(hints(&one), []);
    }

    #[test]
    fn a_tree_is_summed_by_pss() {
        let both = [
            account(ledger(100, &[(Line::Code, 60), (Line::Stacks, 40)])),
            account(ledger(100, &[(Line::Code, 60)])),
        ];
        let tree = tree(&both);
        assert_eq!((tree.pss_bytes, tree.rss_sum_bytes, tree.residual_bytes), (100, 200, 20));
        assert_eq!(tree.parts[0], TreePart { name: Line::Code, pss_bytes: 60 });
    }

    #[test]
    fn the_equation_adds_up() {
        let ledger = ledger(100, &[(Line::Code, 25), (Line::PythonObjects, 10), (Line::Arrays, 15)]);
        let terms = equation(&ledger);
        assert_eq!(terms, [("code", 25), ("objects", 10), ("arrays", 15), ("other", 50)]);
    }
}
