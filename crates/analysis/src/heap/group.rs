//! Tables: the objects of a set by something, each object in one row.

use std::borrow::Cow;
use std::cmp::Reverse;

use nilometer_trace::heap::{Kind, ObjectId, ShownKinds};
use rustc_hash::FxHashMap;

use super::amount::{Amount, Amounts};
use super::attribute::Attributes;
use super::model::{By, Order, Row, Sum, Table};
use super::owner::Owners;
use super::{Error, Grouping, Heap, Set, attribute, owner};
use crate::text;
use crate::unit::share;

/// The group of each object of a set, and what the groups are called.
pub(super) struct Partition<'h, 'g> {
    /// In the order of the set; of a whole heap by kind there is a column already.
    pub(super) group: Cow<'h, [u32]>,
    names: Names<'h, 'g>,
}

enum Names<'h, 'g> {
    Kinds(&'h ShownKinds),
    Modules(Vec<String>),
    Sizes,
    Owners(Box<Owners>, &'h ShownKinds),
    Attributes(&'h Attributes, &'h Heap<'g>),
}

impl<'h, 'g> Partition<'h, 'g> {
    pub(super) fn of(heap: &'h Heap<'g>, ids: &[ObjectId], by: By) -> Result<Self, Error> {
        let told = heap.told_among(ids);
        let mut partition = Self::untold(heap, ids, by, &told)?;
        for (storage, teller) in &told {
            if let (Ok(storage), Ok(teller)) = (ids.binary_search(storage), ids.binary_search(teller)) {
                partition.group.to_mut()[storage] = partition.group[teller];
            }
        }
        Ok(partition)
    }

    fn untold(
        heap: &'h Heap<'g>,
        ids: &[ObjectId],
        by: By,
        told: &[(ObjectId, ObjectId)],
    ) -> Result<Self, Error> {
        Ok(match by {
            By::Kind if ids.len() == heap.len() => {
                Self { group: Cow::Borrowed(heap.kinds().all()), names: Names::Kinds(heap.kinds()) }
            }
            By::Kind => Self::each(ids, |id| heap.kinds().shown(id), Names::Kinds(heap.kinds())),
            By::Type => Self::each(ids, |id| plain(heap, id), Names::Kinds(heap.kinds())),
            By::Module => modules(heap, ids),
            By::Size => sizes(heap, ids, told),
            By::Owner => {
                let mut owners = owner::of(heap, ids);
                Self {
                    group: Cow::Owned(std::mem::take(&mut owners.group)),
                    names: Names::Owners(Box::new(owners), heap.kinds()),
                }
            }
            By::Attribute => {
                let attributes = heap.attributes()?;
                Self::each(ids, |id| attributes.group(id), Names::Attributes(attributes, heap))
            }
        })
    }

    fn each(ids: &[ObjectId], group: impl Fn(ObjectId) -> u32, names: Names<'h, 'g>) -> Self {
        Self { group: ids.iter().map(|id| group(*id)).collect(), names }
    }

    pub(super) fn name(&self, group: u32) -> String {
        let place = group as usize;
        match &self.names {
            Names::Kinds(kinds) => kinds.names[place].clone(),
            Names::Modules(names) => names[place].clone(),
            Names::Sizes => size_name(group),
            Names::Owners(owners, kinds) => owners.name(group, kinds),
            Names::Attributes(attributes, heap) => attributes.name(heap, group),
        }
    }

    /// Objects that others hold as well, in the order of the set.
    fn also(&self, ids: &[ObjectId]) -> Option<Vec<bool>> {
        let Names::Attributes(attributes, _) = &self.names else { return None };
        Some(ids.iter().map(|id| attributes.is_elsewhere(*id)).collect())
    }

    /// The amount of each group.
    pub(super) fn sums(&self, amounts: impl Iterator<Item = Amount>) -> Vec<Amount> {
        let groups = self.group.iter().max().map_or(0, |last| *last as usize + 1);
        let mut sums = vec![Amount::default(); groups];
        for (group, amount) in self.group.iter().zip(amounts) {
            sums[*group as usize].add(&amount);
        }
        sums
    }
}

/// A storage that only C++ holds has no type that Python would print; its row is the same in both.
fn plain(heap: &Heap<'_>, object: ObjectId) -> u32 {
    let shown = heap.kinds().shown(object);
    let native = heap.is_storage(object);
    if native { shown } else { heap.kinds().plain(heap.graph(), object) }
}

fn modules<'h, 'g>(heap: &'h Heap<'g>, ids: &[ObjectId]) -> Partition<'h, 'g> {
    let mut names: Vec<String> = Vec::new();
    let mut numbers: FxHashMap<&str, u32> = FxHashMap::default();
    let number = |kind: &'g Kind| {
        let name = if kind.module.is_empty() { "(native)" } else { kind.module.as_str() };
        *numbers.entry(name).or_insert_with(|| {
            names.push(name.to_owned());
            names.len() as u32 - 1
        })
    };
    let of_kind: Vec<u32> = heap.graph().kinds.iter().map(number).collect();
    let kind = &heap.graph().objects.kind;
    Partition::each(ids, |id| of_kind[kind[id as usize] as usize], Names::Modules(names))
}

fn sizes<'h, 'g>(heap: &'h Heap<'g>, ids: &[ObjectId], told: &[(ObjectId, ObjectId)]) -> Partition<'h, 'g> {
    let amounts = Amounts::told(heap.graph(), told);
    let group = amounts.each(ids).map(|amount| size_class(amount.total())).collect();
    Partition { group, names: Names::Sizes }
}

/// 0 for nothing, else one more than the power of two below.
fn size_class(bytes: u64) -> u32 {
    u64::BITS - bytes.leading_zeros()
}

fn size_name(class: u32) -> String {
    match class {
        0 => "0 B".into(),
        1 => "1 B".into(),
        _ => format!("{} to {}", text::bytes(1 << (class - 1)), text::bytes((1 << class) - 1)),
    }
}

/// Groups with their sums, in the order of the table.
pub(super) fn ranked(partition: &Partition<'_, '_>, sums: &[Amount], order: Order) -> Vec<(u32, Amount)> {
    let filled = (0..).zip(sums.iter().copied()).filter(|row| row.1 != Amount::default());
    let mut rows: Vec<(u32, Amount)> = filled.collect();
    match order {
        Order::Total => rows.sort_by_key(|row| Reverse(row.1.total())),
        Order::Bytes => rows.sort_by_key(|row| Reverse(row.1.bytes)),
        Order::Payload => rows.sort_by_key(|row| Reverse(row.1.payload)),
        Order::Count => rows.sort_by_key(|row| Reverse(row.1.count)),
        Order::Name => rows.sort_by_cached_key(|row| partition.name(row.0)),
    }
    rows
}

pub(super) fn table(heap: &Heap<'_>, set: &Set, grouping: Grouping) -> Result<Table, Error> {
    let partition = Partition::of(heap, &set.ids, grouping.by)?;
    let sums = partition.sums(heap.amounts_among(&set.ids).each(&set.ids));
    let ranked = ranked(&partition, &sums, grouping.order);
    let top = grouping.top.unwrap_or(usize::MAX).min(ranked.len());
    let total = added(&ranked);
    let mut rows = Vec::with_capacity(top);
    let mut above = 0;
    for (row, (group, amount)) in ranked[..top].iter().enumerate() {
        above += amount.total();
        rows.push(make_row(row, partition.name(*group), amount, above, &total));
    }
    add_elsewhere(&mut rows, &partition, set, &ranked);
    Ok(Table {
        by: grouping.by,
        order: grouping.order,
        total: total.into(),
        rows,
        rows_total: ranked.len() as u64,
        rest: added(&ranked[top..]).into(),
        selection: set.selection.clone(),
        rule: rule(grouping.by),
    })
}

fn rule(by: By) -> Option<&'static str> {
    match by {
        By::Attribute => Some(attribute::RULE),
        By::Owner => Some(owner::RULE),
        _ => None,
    }
}

fn added(rows: &[(u32, Amount)]) -> Amount {
    rows.iter().fold(Amount::default(), |mut sum, row| {
        sum.add(&row.1);
        sum
    })
}

fn make_row(row: usize, kind: String, amount: &Amount, above: u64, total: &Amount) -> Row {
    let sum = Sum::from(*amount);
    Row {
        row,
        kind,
        count: sum.count,
        bytes: sum.bytes,
        payload_bytes: sum.payload_bytes,
        resident_payload_bytes: sum.resident_payload_bytes,
        count_share: share(sum.count as f64, total.count as f64),
        share: share(amount.total() as f64, total.total() as f64),
        cumulative_bytes: above,
        cumulative_share: share(above as f64, total.total() as f64),
        also_elsewhere: None,
    }
}

fn add_elsewhere(rows: &mut [Row], partition: &Partition<'_, '_>, set: &Set, ranked: &[(u32, Amount)]) {
    let Some(also) = partition.also(&set.ids) else { return };
    let groups = partition.group.iter().max().map_or(0, |last| *last as usize + 1);
    let mut counts = vec![0; groups];
    let held = partition.group.iter().zip(also).filter(|(_, also)| *also);
    held.for_each(|(group, _)| counts[*group as usize] += 1);
    for (row, (group, _)) in rows.iter_mut().zip(ranked) {
        row.also_elsewhere = Some(counts[*group as usize]);
    }
}

/// The objects of one row.
pub(super) fn row(heap: &Heap<'_>, set: &Set, grouping: Grouping, row: usize) -> Result<Set, Error> {
    let partition = Partition::of(heap, &set.ids, grouping.by)?;
    let sums = partition.sums(heap.amounts_among(&set.ids).each(&set.ids));
    let ranked = ranked(&partition, &sums, grouping.order);
    let found = ranked.get(row).ok_or(Error::NoSuchRow { row, rows: ranked.len() })?;
    let members = set.ids.iter().zip(partition.group.iter()).filter(|(_, group)| **group == found.0);
    let mut selection = set.selection.clone();
    selection.push(format!("row {row}: {}", partition.name(found.0)));
    Ok(Set { ids: members.map(|(id, _)| *id).collect(), selection })
}
