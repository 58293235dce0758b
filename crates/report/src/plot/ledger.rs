//! What resident memory is made of: a waterfall whose bars add up to RSS, the residual one of them.

use nilometer_analysis::ledger::Line;
use nilometer_analysis::ledger::run::Moment;

use super::Size;
use super::bars::{Bar, bars};
use crate::ledger::line_name;
use crate::scene::{Ink, Scene};
use crate::text;

/// The colour of a line of the ledger, the same wherever it is shown.
pub(crate) fn ink(line: Line) -> Ink {
    match line {
        Line::PythonObjects => Ink::Series(0),
        Line::PythonSlack | Line::PythonFree => Ink::Series(4),
        Line::Arrays => Ink::Series(1),
        Line::MallocInUse | Line::MallocMetadata | Line::MallocUnknown | Line::OtherAllocator => {
            Ink::Series(2)
        }
        Line::MallocHeld => Ink::Series(6),
        Line::Code | Line::LibraryData => Ink::Series(7),
        Line::SharedMemory => Ink::Series(3),
        Line::Files => Ink::Series(5),
        Line::Stacks | Line::HugeRounding | Line::Tracker | Line::OtherMaps | Line::Anonymous => Ink::Rest,
    }
}

pub fn ledger(moment: &Moment, size: Size) -> Option<Scene> {
    let mut parts = moment.parts.clone();
    parts.sort_by_key(|part| std::cmp::Reverse(part.bytes));
    let whole = moment.rss_bytes as f64;
    let share = |bytes: f64| format!("  {}", text::percent(bytes / whole.max(1.0)));
    let mut from = 0.0;
    let mut rows: Vec<Bar> = Vec::new();
    for part in parts.iter().filter(|part| part.bytes > 0) {
        let bytes = part.bytes as f64;
        rows.push(Bar {
            name: line_name(part.name).to_owned(),
            bytes,
            ink: ink(part.name),
            from,
            note: share(bytes),
        });
        from += bytes;
    }
    let residual = moment.residual_bytes as f64;
    rows.push(Bar { name: "residual".into(), bytes: residual, ink: Ink::Limit, from, note: String::new() });
    rows.push(Bar { name: "RSS".into(), bytes: whole, ink: Ink::Faint, from: 0.0, note: String::new() });
    let title = format!("Resident memory of process {} at {}", moment.pid, text::duration(moment.at_s));
    bars(&title, &rows, size)
}
