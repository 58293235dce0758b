//! Whose the memory is, by the ledger's own claims.

use nilometer_trace::pages::Owner;

use crate::ledger::owners;

/// Nothing where its memory cannot be read: rows are then named by their mappings.
pub(super) fn read(pid: i32) -> Vec<Owner> {
    let stretches = owners(pid).unwrap_or_default().into_iter();
    let owner = |stretch: crate::ledger::Stretch| {
        let (start, end) = (stretch.range.start, stretch.range.end);
        Owner { pid, start, end, name: stretch.name }
    };
    stretches.map(owner).collect()
}
