//! Deep and retained size of what a path reaches: the `asizeof` of a process that was never asked.

use nilometer_trace::heap::ObjectId;

use super::bits::Bits;
use super::model::{By, Of, Sum};
use super::{Error, Grouping, Heap, Set, array, reach, resolve, retain, select};

/// Rows of the table by kind.
const ROWS: usize = 10;

pub(super) fn of(heap: &Heap<'_>, path: &str) -> Result<Of, Error> {
    let object = resolve::find(heap, path)?;
    let own = Set { ids: select::under(heap, object).ids(), selection: vec![format!("under {path}")] };
    let deep = reach::reachable(heap.graph(), &[object], |_| false);
    Ok(Of {
        path: path.into(),
        object: heap.item(object),
        deep: sum(heap, &deep),
        own: sum(heap, &Bits::of(heap.len(), &own.ids)),
        retained: retain::retained(heap, &[object]),
        arrays: array::totals(heap, &own.ids),
        table: heap.table(&own, Grouping { by: By::Kind, top: Some(ROWS), ..Grouping::default() })?,
    })
}

fn sum(heap: &Heap<'_>, among: &Bits) -> Sum {
    let ids: Vec<ObjectId> = among.ids();
    heap.sum(&Set { ids, selection: Vec::new() })
}
