//! Which memory is new in a window, whose it is, and whose code touched it first.

use std::collections::BTreeMap;

use nilometer_trace::pages::{Births as Told, Process};

use super::mapping::Names;
use super::model::{Births, Met};

/// Files that are named for the faults of their code.
const MOST_NAMED: usize = 8;

/// The births of the last look of each round.
#[derive(Debug, Default)]
pub(super) struct Newborn {
    rounds: u64,
    faults: u64,
    lost: u64,
    elsewhere: u64,
    gone_pages: u64,
    code: BTreeMap<String, u64>,
    /// Pages by process, stretch (first page and end) and mapping.
    places: BTreeMap<(i32, u64, u64, u32), u64>,
}

impl Newborn {
    pub fn push(&mut self, processes: &[Process]) {
        self.rounds += 1;
        for process in processes {
            if let Some(told) = &process.births {
                self.take(process, told);
            }
        }
    }

    fn take(&mut self, process: &Process, told: &Told) {
        self.faults = self.faults.saturating_add(told.faults);
        self.lost = self.lost.saturating_add(told.lost);
        self.elsewhere = self.elsewhere.saturating_add(told.elsewhere);
        for (name, faults) in &told.code {
            let met = self.code.entry(name.clone()).or_default();
            *met = met.saturating_add(*faults);
        }
        for (first, pages) in &told.pages {
            self.place(process, *first, first.saturating_add(*pages));
        }
    }

    /// Shares out a run of pages among the stretches that it lies in.
    fn place(&mut self, process: &Process, first: u64, end: u64) {
        let mut left = end - first;
        let from = process.spans.partition_point(|span| span.first + span.pages <= first);
        for span in process.spans[from..].iter().take_while(|span| span.first < end) {
            let span_end = span.first + span.pages;
            let pages = span_end.min(end).saturating_sub(span.first.max(first)).min(left);
            left -= pages;
            let place = self.places.entry((process.pid, span.first, span_end, span.mapping)).or_default();
            *place = place.saturating_add(pages);
        }
        self.gone_pages = self.gone_pages.saturating_add(left);
    }

    /// New bytes in a window, by owner.
    pub fn by_owner<'n>(&self, names: &'n Names, page: u64) -> BTreeMap<&'n str, u64> {
        let mut owners: BTreeMap<&str, u64> = BTreeMap::new();
        for ((pid, first, end, mapping), pages) in &self.places {
            let name = names.of(*pid, first.saturating_mul(page), end.saturating_mul(page), *mapping);
            let bytes = owners.entry(name).or_default();
            *bytes = bytes.saturating_add(pages.saturating_mul(page));
        }
        for bytes in owners.values_mut() {
            *bytes /= self.rounds.max(1);
        }
        owners
    }

    pub fn finish(&self, how: String, page: u64) -> Births {
        let mut code: Vec<Met> =
            self.code.iter().map(|(name, faults)| Met { name: name.clone(), faults: *faults }).collect();
        code.sort_by(|a, b| b.faults.cmp(&a.faults).then_with(|| a.name.cmp(&b.name)));
        code.truncate(MOST_NAMED);
        let gone_bytes = self.gone_pages.saturating_mul(page) / self.rounds.max(1);
        let (faults, lost, elsewhere) = (self.faults, self.lost, self.elsewhere);
        Births { how, faults, lost, elsewhere, gone_bytes, code }
    }
}
