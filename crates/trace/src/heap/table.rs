//! The small table that a run keeps of each census: its largest kinds, and the rest in one row.

use std::cmp::Reverse;

use super::{Fold, Graph, NO_OBJECT, ShownKinds};
use crate::record::{HeapRow, HeapTable};

impl HeapTable {
    /// By kind, with at most `most` rows; storages are told with their tensors.
    pub fn of(graph: &Graph, at_ns: u64, pid: i32, most: usize) -> Self {
        let mut rows = rows(graph);
        rows.sort_by(|a, b| {
            Reverse(a.total_bytes()).cmp(&Reverse(b.total_bytes())).then(a.kind.cmp(&b.kind))
        });
        let others = rows.split_off(most.min(rows.len()));
        let mut table = Self {
            at_ns,
            pid,
            pause_ns: graph.origin.pause.stopped_ns,
            partial: !graph.origin.partial.is_empty(),
            other_kinds: others.len() as u64,
            ..Self::default()
        };
        for row in &others {
            table.other.add(row);
        }
        table.rows = rows;
        table
    }
}

fn rows(graph: &Graph) -> Vec<HeapRow> {
    let fold = Fold::of(graph);
    let kinds = ShownKinds::of(graph, &fold);
    let row = |name: &String| HeapRow { kind: name.clone(), ..HeapRow::default() };
    let mut rows: Vec<HeapRow> = kinds.names.iter().map(row).collect();
    for object in 0..graph.len() as u32 {
        let row = &mut rows[kinds.shown(object) as usize];
        row.count += 1;
        row.bytes = row.bytes.saturating_add(graph.objects.bytes[object as usize]);
    }
    for payload in &graph.payloads {
        let row = &mut rows[kinds.shown(fold.told_as(payload.owner)) as usize];
        row.payload_bytes = row.payload_bytes.saturating_add(payload.bytes);
    }
    for (storage, teller) in fold.tellers().iter().filter(|row| row.1 != NO_OBJECT) {
        let bytes = graph.objects.bytes[*storage as usize];
        let own = &mut rows[kinds.shown(*storage) as usize];
        (own.count, own.bytes) = (own.count - 1, own.bytes - bytes);
        rows[kinds.shown(*teller) as usize].bytes += bytes;
    }
    rows.retain(|row| row.count > 0);
    rows
}

#[cfg(test)]
mod tests {
    use super::super::{GraphBuilder, Holder, Nature, Part, Special};
    use super::*;

    #[test]
    fn the_largest_kinds_have_rows_and_the_rest_is_one() {
        let mut it = GraphBuilder::default();
        let [instance, dict] = [("Node", Nature::Instance), ("dict", Nature::Dict)]
            .map(|(name, nature)| it.kind(name, "__main__", nature));
        let [tensor, storage] = [("torch.Tensor", Nature::Tensor), ("StorageImpl", Nature::Storage)]
            .map(|(name, nature)| it.kind(name, "torch", nature));
        let node = it.object(0x10, instance, 48);
        let own = it.object(0x50, dict, 104);
        it.object(0x60, dict, 64);
        let weight = it.object(0x70, tensor, 80);
        let held = it.object(0x80, storage, 100);
        let lost = it.object(0x90, storage, 100);
        it.edge(node, own, Part::Special(Special::Dict));
        it.edge(weight, held, Part::Special(Special::Storage));
        it.payload(held, 0x1000, 4096);
        it.payload(lost, 0x2000, 512);
        it.root(node, Holder::Modules, "__main__");
        let table = HeapTable::of(&it.finish(), 7, 4711, 2);
        let row = |kind: &str, count, bytes, payload_bytes| HeapRow {
            kind: kind.into(),
            count,
            bytes,
            payload_bytes,
        };
        assert_eq!(
            table.rows,
            [row("torch.Tensor", 1, 180, 4096), row("torch storage (held by C++ only)", 1, 100, 512)]
        );
        assert_eq!((table.other_kinds, table.other), (3, row("", 3, 48 + 104 + 64, 0)));
        assert_eq!((table.at_ns, table.pid), (7, 4711));
    }
}
