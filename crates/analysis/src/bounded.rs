//! Collections that stay small whatever is pushed into them.

/// Keeps an evenly spaced selection: when full, every second item goes and the stride doubles.
#[derive(Debug, Clone)]
pub(crate) struct Thinned<T> {
    items: Vec<T>,
    limit: usize,
    stride: u64,
    seen: u64,
}

impl<T> Thinned<T> {
    /// `limit` is rounded up to an even number, so that the spacing stays even after thinning.
    pub(crate) fn new(limit: usize) -> Self {
        Self { items: Vec::new(), limit: limit.max(2).next_multiple_of(2), stride: 1, seen: 0 }
    }

    pub(crate) fn push(&mut self, item: T) {
        if self.seen.is_multiple_of(self.stride) && self.items.len() == self.limit {
            self.halve();
        }
        if self.seen.is_multiple_of(self.stride) {
            self.items.push(item);
        }
        self.seen += 1;
    }

    fn halve(&mut self) {
        let mut position = 0;
        self.items.retain(|_| {
            position += 1;
            position % 2 == 1
        });
        self.stride *= 2;
    }

    pub(crate) fn items(&self) -> &[T] {
        &self.items
    }

    /// How many were pushed, kept or not.
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    /// Every how many-th item is kept.
    pub(crate) fn stride(&self) -> u64 {
        self.stride
    }
}

/// Keeps the first `limit` items and counts the others.
#[derive(Debug, Clone)]
pub(crate) struct Capped<T> {
    pub(crate) items: Vec<T>,
    pub(crate) omitted: u64,
    limit: usize,
}

impl<T> Capped<T> {
    pub(crate) fn new(limit: usize) -> Self {
        Self { items: Vec::new(), omitted: 0, limit }
    }

    pub(crate) fn push(&mut self, item: T) {
        if self.items.len() < self.limit {
            self.items.push(item);
        } else {
            self.omitted += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinned_items_are_evenly_spaced_and_start_with_the_first() {
        let mut thinned = Thinned::new(8);
        (0..1_000).for_each(|n| thinned.push(n));
        assert_eq!(thinned.items(), &[0, 128, 256, 384, 512, 640, 768, 896]);
        assert_eq!((thinned.seen(), thinned.stride()), (1_000, 128));
    }

    #[test]
    fn few_items_are_all_kept() {
        let mut thinned = Thinned::new(8);
        (0..8).for_each(|n| thinned.push(n));
        assert_eq!(thinned.items(), (0..8).collect::<Vec<_>>());
    }

    #[test]
    fn capped_counts_what_it_refuses() {
        let mut capped = Capped::new(2);
        (0..5).for_each(|n| capped.push(n));
        assert_eq!((capped.items, capped.omitted), (vec![0, 1], 3));
    }
}
