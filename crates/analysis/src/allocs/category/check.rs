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

/// Memory that has the parameters' sizes several times over: one for gradients, the others an optimizer's.
#[derive(Debug, Default)]
struct Twins {
    sets: u64,
    shares: FxHashMap<u32, Twin>,
}

/// What one site has of them, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Twin {
    pub gradients: u64,
    pub states: u64,
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

    /// Looks through the sites on whose stacks nobody can be seen to ask, once all parameters are seen. They are looked
    /// through together: which of its threads, by which way, takes the memory for an array is up to the framework.
    pub fn find_twins(&mut self, unsaid: impl Iterator<Item = u32>) {
        let mut blocks: BTreeMap<u64, Vec<(u32, u64)>> = BTreeMap::new();
        for site in unsaid {
            for size in self.by_site.get(&site).into_iter().flatten() {
                blocks.entry(size.bytes).or_default().push((site, size.count));
            }
        }
        self.twins = self.count_sets(&blocks).map(|sets| Twins { sets, shares: self.share(&blocks, sets) });
    }

    /// How often all parameters' sizes are among these blocks.
    fn count_sets(&self, blocks: &BTreeMap<u64, Vec<(u32, u64)>>) -> Option<u64> {
        let all: u64 = self.parameters.iter().map(|(bytes, count)| bytes.saturating_mul(*count)).sum();
        let is_whole = |sets: &u64| {
            let there =
                self.parameters.iter().filter(|(bytes, count)| has_sets(blocks, **bytes, **count, *sets));
            let bytes: u64 = there.map(|(bytes, count)| bytes.saturating_mul(*count)).sum();
            bytes as f64 >= all as f64 * AGREES
        };
        (1..=MOST_STATES + 1).rev().find(is_whole).filter(|_| all > 0)
    }

    /// Whose blocks the sets are: of each size the first make the gradients.
    fn share(&self, blocks: &BTreeMap<u64, Vec<(u32, u64)>>, sets: u64) -> FxHashMap<u32, Twin> {
        let mut shares: FxHashMap<u32, Twin> = FxHashMap::default();
        let complete =
            self.parameters.iter().filter(|(bytes, count)| has_sets(blocks, **bytes, **count, sets));
        for (bytes, count) in complete {
            let (mut gradients, mut states) = (*count, count.saturating_mul(sets - 1));
            for (site, there) in blocks.get(bytes).into_iter().flatten() {
                let first = gradients.min(*there);
                let later = states.min(there - first);
                (gradients, states) = (gradients - first, states - later);
                let share = shares.entry(*site).or_default();
                share.gradients = share.gradients.saturating_add(bytes.saturating_mul(first));
                share.states = share.states.saturating_add(bytes.saturating_mul(later));
            }
        }
        shares
    }

    /// What a site has of them.
    pub fn twin(&self, site: u32) -> Option<Twin> {
        self.twins.as_ref()?.shares.get(&site).copied()
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
        if let Some(twins) = &self.twins {
            return tell_twins(categories, twins.sets);
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

/// Are there blocks of this size for so many sets?
fn has_sets(blocks: &BTreeMap<u64, Vec<(u32, u64)>>, bytes: u64, count: u64, sets: u64) -> bool {
    let there: u64 = blocks.get(&bytes).into_iter().flatten().map(|(_, count)| count).sum();
    there >= count.saturating_mul(sets)
}

fn tell_twins(categories: &mut [Category], sets: u64) {
    let words = format!("by its sizes alone: those of parameters, {} for each and gradients", sets - 1);
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
