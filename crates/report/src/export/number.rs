//! Numbers for things by what they are, in the order in which they are first seen.

use std::borrow::Borrow;
use std::hash::Hash;

use rustc_hash::FxHashMap;

#[derive(Debug)]
pub(super) struct Numbers<T> {
    known: FxHashMap<T, u64>,
    next: u64,
}

impl<T: Hash + Eq> Numbers<T> {
    pub(super) fn starting_at(first: u64) -> Self {
        Self { known: FxHashMap::default(), next: first }
    }

    /// The number of a thing; `tell` hears of it the first time.
    pub(super) fn of<Q>(&mut self, thing: &Q, tell: impl FnOnce(u64)) -> u64
    where
        T: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = T> + ?Sized,
    {
        if let Some(number) = self.known.get(thing) {
            return *number;
        }
        let number = self.next;
        self.next += 1;
        self.known.insert(thing.to_owned(), number);
        tell(number);
        number
    }
}
