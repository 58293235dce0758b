//! Two censuses of one program: what came, what went, what changed its size.
//!
//! An object is the same if its address and the name of its type are; an address may have been used again, so "likely".

use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;
use std::iter::Peekable;

use nilometer_trace::heap::{Graph, KindId, ObjectId};

use super::amount::{Amount, Amounts};
use super::group::Partition;
use super::model::{Change, ChangeRow, Delta, Diff, Order, Sum};
use super::{Error, Grouping, Heap, Set};
use crate::unit::signed;

pub(super) fn diff(before: &Heap<'_>, after: &Heap<'_>, grouping: Grouping) -> Result<Diff, Error> {
    let (before_side, after_side) = (Side::of(before, grouping)?, Side::of(after, grouping)?);
    let rows = Rows::of(&before_side, &after_side);
    let changes = changes(&before_side, &after_side, &rows);
    let total = sum(changes.iter());
    let all = changes.len();
    let named = rows.names.into_iter().zip(changes).map(|(kind, change)| ChangeRow { row: 0, kind, change });
    let mut listed: Vec<ChangeRow> = named.filter(|row| !is_unchanged(&row.change)).collect();
    sort(&mut listed, grouping.order);
    let rows_total = listed.len();
    let rest = listed.split_off(grouping.top.unwrap_or(usize::MAX).min(rows_total));
    listed.iter_mut().enumerate().for_each(|(place, row)| row.row = place);
    Ok(Diff {
        before: before.summary(),
        after: after.summary(),
        by: grouping.by,
        total,
        rows: listed,
        rows_total: rows_total as u64,
        rest: sum(rest.iter().map(|row| &row.change)),
        unchanged_rows: (all - rows_total) as u64,
        different_processes: before.graph().origin.pid != after.graph().origin.pid,
    })
}

fn is_unchanged(change: &Change) -> bool {
    change.count == 0 && change.bytes == 0 && change.payload_bytes == 0
}

fn sort(rows: &mut [ChangeRow], order: Order) {
    rows.sort_by(|a, b| a.kind.cmp(&b.kind));
    let total = |change: &Change| change.bytes + change.payload_bytes;
    match order {
        Order::Total => rows.sort_by_key(|row| Reverse((total(&row.change), row.change.count))),
        Order::Bytes => rows.sort_by_key(|row| Reverse(row.change.bytes)),
        Order::Payload => rows.sort_by_key(|row| Reverse(row.change.payload_bytes)),
        Order::Count => rows.sort_by_key(|row| Reverse(row.change.count)),
        Order::Name => {}
    }
}

fn sum<'a>(changes: impl Iterator<Item = &'a Change>) -> Change {
    changes.fold(Change::default(), |mut sum, it| {
        sum.count += it.count;
        sum.bytes += it.bytes;
        sum.payload_bytes += it.payload_bytes;
        sum.count_before += it.count_before;
        sum.count_after += it.count_after;
        sum.total_before += it.total_before;
        sum.total_after += it.total_after;
        sum.new = added(sum.new, &it.new);
        sum.gone = added(sum.gone, &it.gone);
        sum.resized = joined(sum.resized, it.resized);
        sum.regrouped = joined(sum.regrouped, it.regrouped);
        sum
    })
}

fn added(sum: Sum, other: &Sum) -> Sum {
    Sum {
        count: sum.count + other.count,
        bytes: sum.bytes + other.bytes,
        payload_bytes: sum.payload_bytes + other.payload_bytes,
        resident_payload_bytes: sum
            .resident_payload_bytes
            .or((sum.count == 0).then_some(0))
            .and_then(|resident| Some(resident + other.resident_payload_bytes?)),
    }
}

fn joined(a: Delta, b: Delta) -> Delta {
    Delta {
        count: a.count + b.count,
        bytes: a.bytes + b.bytes,
        payload_bytes: a.payload_bytes + b.payload_bytes,
    }
}

/// One census, grouped.
struct Side<'h, 'g> {
    graph: &'g Graph,
    ids: Vec<ObjectId>,
    partition: Partition<'h, 'g>,
    amounts: Amounts<'g>,
}

impl<'h, 'g> Side<'h, 'g> {
    fn of(heap: &'h Heap<'g>, grouping: Grouping) -> Result<Self, Error> {
        let ids = heap.all().ids;
        let partition = Partition::of(heap, &ids, grouping.by)?;
        let amounts = heap.amounts_among(&ids);
        Ok(Self { graph: heap.graph(), ids, partition, amounts })
    }

    fn each(&self) -> impl Iterator<Item = Seen> + '_ {
        let objects = &self.graph.objects;
        self.ids.iter().zip(self.partition.group.iter()).zip(self.amounts.each(&self.ids)).map(
            |((id, group), amount)| Seen {
                address: objects.address[*id as usize],
                kind: objects.kind[*id as usize],
                group: *group,
                amount,
            },
        )
    }
}

/// An object on the way through.
#[derive(Debug, Clone, Copy)]
struct Seen {
    address: u64,
    kind: KindId,
    group: u32,
    amount: Amount,
}

/// Groups of both sides under one number for each name.
struct Rows {
    names: Vec<String>,
    before: Vec<u32>,
    after: Vec<u32>,
}

impl Rows {
    fn of(before: &Side<'_, '_>, after: &Side<'_, '_>) -> Self {
        let mut names = Vec::new();
        let mut numbers = HashMap::new();
        let mut number = |name: String| {
            *numbers.entry(name.clone()).or_insert_with(|| {
                names.push(name);
                names.len() as u32 - 1
            })
        };
        let mut map = |side: &Side<'_, '_>| {
            let groups = side.partition.group.iter().max().map_or(0, |last| *last + 1);
            let mut used = vec![false; groups as usize];
            side.partition.group.iter().for_each(|group| used[*group as usize] = true);
            let name = |group: u32| {
                if used[group as usize] { number(side.partition.name(group)) } else { u32::MAX }
            };
            (0..groups).map(name).collect::<Vec<u32>>()
        };
        let (before, after) = (map(before), map(after));
        Self { names, before, after }
    }
}

/// Kinds of the second census by those of the first, by name.
fn kinds(before: &Graph, after: &Graph) -> Vec<Option<u32>> {
    let mut numbers: HashMap<&str, u32> = HashMap::new();
    for kind in &after.kinds {
        let next = numbers.len() as u32;
        numbers.entry(&kind.name).or_insert(next);
    }
    before.kinds.iter().map(|kind| numbers.get(kind.name.as_str()).copied()).collect()
}

fn own_kinds(graph: &Graph) -> Vec<u32> {
    kinds(graph, graph).into_iter().map(Option::unwrap_or_default).collect()
}

/// Calls back with each object's two sides.
fn meet(before: &Side<'_, '_>, after: &Side<'_, '_>, mut see: impl FnMut(Option<&Seen>, Option<&Seen>)) {
    let (to_after, own) = (kinds(before.graph, after.graph), own_kinds(after.graph));
    let (mut old, mut new) = (before.each().peekable(), after.each().peekable());
    loop {
        match order(&mut old, &mut new) {
            None => return,
            Some(Ordering::Less) => see(old.next().as_ref(), None),
            Some(Ordering::Greater) => see(None, new.next().as_ref()),
            Some(Ordering::Equal) => {
                let (Some(a), Some(b)) = (old.next(), new.next()) else { return };
                if to_after[a.kind as usize] == Some(own[b.kind as usize]) {
                    see(Some(&a), Some(&b));
                } else {
                    see(Some(&a), None);
                    see(None, Some(&b));
                }
            }
        }
    }
}

/// Which side has the next address.
fn order(
    old: &mut Peekable<impl Iterator<Item = Seen>>,
    new: &mut Peekable<impl Iterator<Item = Seen>>,
) -> Option<Ordering> {
    match (old.peek(), new.peek()) {
        (None, None) => None,
        (Some(_), None) => Some(Ordering::Less),
        (None, Some(_)) => Some(Ordering::Greater),
        (Some(a), Some(b)) => Some(a.address.cmp(&b.address)),
    }
}

fn changes(before: &Side<'_, '_>, after: &Side<'_, '_>, rows: &Rows) -> Vec<Change> {
    let mut found = Found::new(rows.names.len());
    meet(before, after, |old, new| {
        let old = old.map(|it| (rows.before[it.group as usize] as usize, it.amount));
        let new = new.map(|it| (rows.after[it.group as usize] as usize, it.amount));
        found.see(old, new);
    });
    found.changes()
}

/// Sums for each row.
struct Found {
    before: Vec<Amount>,
    after: Vec<Amount>,
    new: Vec<Amount>,
    gone: Vec<Amount>,
    resized: Vec<Delta>,
    regrouped: Vec<Delta>,
}

impl Found {
    fn new(rows: usize) -> Self {
        let none = || vec![Amount::default(); rows];
        let still = || vec![Delta::default(); rows];
        Self {
            before: none(),
            after: none(),
            new: none(),
            gone: none(),
            resized: still(),
            regrouped: still(),
        }
    }

    fn see(&mut self, old: Option<(usize, Amount)>, new: Option<(usize, Amount)>) {
        if let Some((row, amount)) = old {
            self.before[row].add(&amount);
        }
        if let Some((row, amount)) = new {
            self.after[row].add(&amount);
        }
        match (old, new) {
            (Some((row, amount)), None) => self.gone[row].add(&amount),
            (None, Some((row, amount))) => self.new[row].add(&amount),
            (Some(old), Some(new)) if old.0 == new.0 => self.resize(old.0, &old.1, &new.1),
            (Some(old), Some(new)) => {
                let nothing = Amount::default();
                self.regrouped[old.0] = joined(self.regrouped[old.0], delta(&old.1, &nothing));
                self.regrouped[new.0] = joined(self.regrouped[new.0], delta(&nothing, &new.1));
            }
            (None, None) => {}
        }
    }

    fn resize(&mut self, row: usize, old: &Amount, new: &Amount) {
        if old.bytes != new.bytes || old.payload != new.payload {
            let change = Delta { count: 1, ..delta(old, new) };
            self.resized[row] = joined(self.resized[row], change);
        }
    }

    fn changes(&self) -> Vec<Change> {
        (0..self.before.len()).map(|row| self.change(row)).collect()
    }

    fn change(&self, row: usize) -> Change {
        let (before, after) = (&self.before[row], &self.after[row]);
        let Delta { count, bytes, payload_bytes } = delta(before, after);
        Change {
            count,
            bytes,
            payload_bytes,
            count_before: before.count,
            count_after: after.count,
            total_before: before.total(),
            total_after: after.total(),
            new: self.new[row].into(),
            gone: self.gone[row].into(),
            resized: self.resized[row],
            regrouped: self.regrouped[row],
        }
    }
}

fn delta(old: &Amount, new: &Amount) -> Delta {
    Delta {
        count: signed(new.count) - signed(old.count),
        bytes: signed(new.bytes) - signed(old.bytes),
        payload_bytes: signed(new.payload) - signed(old.payload),
    }
}

/// The objects of the second census that the first does not have.
pub(super) fn since(before: &Heap<'_>, after: &Heap<'_>) -> Set {
    let (old, new) = (&before.graph().objects, &after.graph().objects);
    let (to_after, own) = (kinds(before.graph(), after.graph()), own_kinds(after.graph()));
    let mut at = 0;
    let is_new = |id: &ObjectId| {
        let address = new.address[*id as usize];
        while old.address.get(at).is_some_and(|it| *it < address) {
            at += 1;
        }
        let same = old.address.get(at) == Some(&address)
            && to_after[old.kind[at] as usize] == Some(own[new.kind[*id as usize] as usize]);
        !same
    };
    let ids = (0..after.len() as ObjectId).filter(is_new).collect();
    Set { ids, selection: vec!["not in the earlier snapshot".into()] }
}
