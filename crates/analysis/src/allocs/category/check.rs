//! A second evidence: a gradient is as large as its parameter, and an optimizer keeps so many numbers for each.
//!
//! The recorder tells the sizes of the blocks that lived when an optimizer began. Sizes are compared as multisets, so that
//! two tensors do not pass for one. Where a framework takes memory on threads of its own and no stack tells for whom,
//! sizes are all the evidence there is.

use std::collections::BTreeMap;

use nilometer_rules::Role;
use nilometer_trace::allocs::KeptSize;
use rustc_hash::FxHashMap;

use super::super::model::{Category, Confidence};
use super::stack::Meaning;

/// How many of each size.
type Multiset = BTreeMap<u64, u64>;

/// States for each parameter that an optimizer may keep.
const MOST_STATES: u64 = 4;
/// Agreement from which on the sizes speak for the category.
const AGREES: f64 = 0.99;

#[derive(Debug)]
pub struct Sizes<'a> {
    by_site: FxHashMap<u32, Vec<&'a KeptSize>>,
    parameters: Multiset,
    gradients: Multiset,
    states: Multiset,
    /// Sets of parameters' sizes among memory that no stack tells of.
    twins: Option<Twins>,
}

/// Memory of one site that has the parameters' sizes several times over: one for gradients, the others an optimizer's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Twins {
    pub site: u32,
    /// Of one set.
    pub bytes: u64,
    pub sets: u64,
}

impl<'a> Sizes<'a> {
    pub fn new(kept: &'a [KeptSize]) -> Self {
        let mut by_site: FxHashMap<u32, Vec<&KeptSize>> = FxHashMap::default();
        for size in kept {
            by_site.entry(size.site).or_default().push(size);
        }
        let empty = Multiset::new;
        Self { by_site, parameters: empty(), gradients: empty(), states: empty(), twins: None }
    }

    pub fn see(&mut self, site: u32, meaning: &Meaning) {
        let Some(sizes) = self.by_site.get(&site).filter(|_| meaning.payload) else { return };
        let into = match meaning.role {
            Some(Role::Init) => &mut self.parameters,
            Some(Role::Backward) => &mut self.gradients,
            Some(Role::Optimizer) => &mut self.states,
            _ => return,
        };
        for size in sizes {
            *into.entry(size.bytes).or_default() += size.count;
        }
    }

    /// Looks through sites on whose stacks nobody can be seen to ask, once all parameters are seen: the one with the
    /// most sets.
    pub fn find_twins(&mut self, unsaid: impl Iterator<Item = u32>) {
        let twins = unsaid.filter_map(|site| self.twins_of(site));
        self.twins = twins.max_by_key(|twins| twins.bytes * twins.sets);
    }

    fn twins_of(&self, site: u32) -> Option<Twins> {
        let sizes = self.by_site.get(&site)?;
        let counts: BTreeMap<u64, u64> = sizes.iter().map(|size| (size.bytes, size.count)).collect();
        let bytes_in = |sets: u64| -> u64 {
            let there = self.parameters.iter().filter(|(bytes, count)| {
                counts.get(*bytes).copied().unwrap_or(0) >= count.saturating_mul(sets)
            });
            there.map(|(bytes, count)| bytes.saturating_mul(*count)).sum()
        };
        let all = bytes_in(0);
        let is_whole = |sets: &u64| bytes_in(*sets) as f64 >= all as f64 * AGREES;
        let sets = (1..=MOST_STATES + 1).rev().find(is_whole).filter(|_| all > 0)?;
        Some(Twins { site, bytes: bytes_in(sets), sets })
    }

    /// Those of a site.
    pub fn twins(&self, site: u32) -> Option<Twins> {
        self.twins.filter(|twins| twins.site == site)
    }

    /// Whether the blocks of a site are known, and are as large as parameters.
    pub fn speak_for(&self, site: u32) -> bool {
        let Some(sizes) = self.by_site.get(&site) else { return false };
        let found = sizes.iter().map(|size| (size.bytes, size.count)).collect();
        agreement(&found, &self.parameters, 1).is_some_and(|share| share >= AGREES)
    }

    /// Says in the categories whether the sizes agree.
    pub fn judge(&self, categories: &mut [Category]) {
        if self.parameters.is_empty() {
            return;
        }
        if let Some(twins) = self.twins {
            return tell_twins(categories, twins);
        }
        let gradients = agreement(&self.gradients, &self.parameters, 1);
        let states = (1..=MOST_STATES)
            .filter_map(|times| agreement(&self.states, &self.parameters, times).map(|share| (share, times)))
            .find(|(share, _)| *share >= AGREES);
        for category in categories {
            match category.category.as_str() {
                "gradients" => {
                    let words =
                        |share: f64| format!("sizes are those of parameters ({:.1} %)", share * 100.0);
                    tell(category, gradients.is_some_and(|share| share >= AGREES), gradients.map(words));
                }
                "optimizer state" => {
                    let words =
                        states.map(|(_, times)| format!("sizes are those of parameters, {times} for each"));
                    tell(category, words.is_some(), words);
                }
                _ => {}
            }
        }
    }
}

fn tell_twins(categories: &mut [Category], twins: Twins) {
    let words = format!("by its sizes alone: those of parameters, {} for each and gradients", twins.sets - 1);
    for category in categories {
        if matches!(category.category.as_str(), "gradients" | "optimizer state") {
            tell(category, false, Some(words.clone()));
        }
    }
}

fn tell(category: &mut Category, agrees: bool, evidence: Option<String>) {
    category.evidence = evidence;
    if !agrees {
        category.confidence = category.confidence.min(Confidence::Medium);
    }
}

/// The share of the bytes of `found` that have their size among so many times `known`; numbers of a few bytes (counters
/// of steps) do not matter.
fn agreement(found: &Multiset, known: &Multiset, times: u64) -> Option<f64> {
    let all: u64 = found.iter().map(|(bytes, count)| bytes.saturating_mul(*count)).sum();
    let common = found.iter().map(|(bytes, count)| {
        let most = known.get(bytes).copied().unwrap_or(0).saturating_mul(times);
        bytes.saturating_mul(most.min(*count))
    });
    (all > 0).then(|| common.sum::<u64>() as f64 / all as f64)
}
