//! Sizes of objects: own bytes, and the payload of those few that have one.

use nilometer_trace::heap::{Graph, ObjectId};

use super::model::Sum;

/// A sum in the making.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) count: u64,
    pub(super) bytes: u64,
    pub(super) payload: u64,
    pub(super) resident: u64,
    /// Payload whose residency nobody knows.
    pub(super) unknown: bool,
}

impl Amount {
    pub(super) fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.bytes += other.bytes;
        self.payload += other.payload;
        self.resident += other.resident;
        self.unknown |= other.unknown;
    }

    pub(super) fn total(&self) -> u64 {
        self.bytes + self.payload
    }
}

impl From<Amount> for Sum {
    fn from(amount: Amount) -> Self {
        Self {
            count: amount.count,
            bytes: amount.bytes,
            payload_bytes: amount.payload,
            resident_payload_bytes: (!amount.unknown).then_some(amount.resident),
        }
    }
}

/// What an object has besides its own bytes: payload, and the storages told with it.
#[derive(Debug, Clone, Copy)]
struct Extra {
    object: ObjectId,
    amount: Amount,
}

/// The amounts of objects; the few with more than own bytes stand in a sorted list.
#[derive(Debug)]
pub(super) struct Amounts<'g> {
    bytes: &'g [u64],
    extra: Vec<Extra>,
    /// Storages that are counted with another object, increasing.
    silent: Vec<ObjectId>,
}

impl<'g> Amounts<'g> {
    /// Storages are counted with the object that stands beside them in `told`, which is sorted by storage.
    pub(super) fn told(graph: &'g Graph, told: &[(ObjectId, ObjectId)]) -> Self {
        let teller = |object: ObjectId| {
            let place = told.binary_search_by_key(&object, |row| row.0).ok()?;
            Some(told[place].1)
        };
        let headers = told.iter().map(|(storage, teller)| Extra {
            object: *teller,
            amount: Amount { bytes: graph.objects.bytes[*storage as usize], ..Amount::default() },
        });
        let payloads =
            payloads(graph).map(|it| Extra { object: teller(it.object).unwrap_or(it.object), ..it });
        let mut amounts = Self::merged(graph, headers.chain(payloads).collect());
        amounts.silent = told.iter().map(|row| row.0).collect();
        amounts
    }

    /// Every node for itself.
    pub(super) fn plain(graph: &'g Graph) -> Self {
        Self::merged(graph, payloads(graph).collect())
    }

    fn merged(graph: &'g Graph, mut extra: Vec<Extra>) -> Self {
        extra.sort_by_key(|it| it.object);
        extra.dedup_by(|next, kept| {
            let same = next.object == kept.object;
            if same {
                kept.amount.add(&next.amount);
            }
            same
        });
        Self { bytes: &graph.objects.bytes, extra, silent: Vec::new() }
    }

    /// Of one object, counted as one; nothing for a storage that is told with another.
    pub(super) fn of(&self, object: ObjectId) -> Amount {
        if self.is_silent(object) {
            return Amount::default();
        }
        let place = self.extra.binary_search_by_key(&object, |it| it.object);
        self.with(object, place.ok().map(|place| &self.extra[place]))
    }

    fn is_silent(&self, object: ObjectId) -> bool {
        self.silent.binary_search(&object).is_ok()
    }

    fn with(&self, object: ObjectId, extra: Option<&Extra>) -> Amount {
        let mut amount = Amount { count: 1, bytes: self.bytes[object as usize], ..Amount::default() };
        if let Some(extra) = extra {
            amount.add(&extra.amount);
        }
        amount
    }

    /// Of each object of an increasing list, in its order.
    pub(super) fn each<'s>(&'s self, ids: &'s [ObjectId]) -> impl Iterator<Item = Amount> + 's {
        let first = ids.first().copied().unwrap_or(0);
        let mut next = self.extra.partition_point(|it| it.object < first);
        ids.iter().map(move |id| {
            while self.extra.get(next).is_some_and(|it| it.object < *id) {
                next += 1;
            }
            if !self.silent.is_empty() && self.is_silent(*id) {
                return Amount::default();
            }
            self.with(*id, self.extra.get(next).filter(|it| it.object == *id))
        })
    }

    /// Of all objects; storages that are told with others are counted there.
    pub(super) fn total(&self) -> Amount {
        let objects = self.bytes.len() - self.silent.len();
        let own = self.bytes.iter().sum::<u64>();
        let silent: u64 = self.silent.iter().map(|storage| self.bytes[*storage as usize]).sum();
        let own = Amount { count: objects as u64, bytes: own - silent, ..Amount::default() };
        self.extra.iter().fold(own, |mut sum, extra| {
            sum.add(&extra.amount);
            sum
        })
    }

    pub(super) fn sum(&self, ids: &[ObjectId]) -> Amount {
        self.each(ids).fold(Amount::default(), |mut sum, amount| {
            sum.add(&amount);
            sum
        })
    }
}

fn payloads(graph: &Graph) -> impl Iterator<Item = Extra> + '_ {
    graph.payloads.iter().map(|payload| Extra {
        object: payload.owner,
        amount: Amount {
            count: 0,
            bytes: 0,
            payload: payload.bytes,
            resident: payload.resident_bytes.unwrap_or(0),
            unknown: payload.resident_bytes.is_none() && payload.bytes > 0,
        },
    })
}
