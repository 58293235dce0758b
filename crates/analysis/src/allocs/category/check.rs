//! A second evidence: a gradient is as large as its parameter, and an optimizer keeps so many numbers for each.
//!
//! The recorder tells the sizes of the blocks that lived when an optimizer began. Sizes are compared as multisets, so that
//! two tensors do not pass for one.

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
}

impl<'a> Sizes<'a> {
    pub fn new(kept: &'a [KeptSize]) -> Self {
        let mut by_site: FxHashMap<u32, Vec<&KeptSize>> = FxHashMap::default();
        for size in kept {
            by_site.entry(size.site).or_default().push(size);
        }
        let empty = Multiset::new;
        Self { by_site, parameters: empty(), gradients: empty(), states: empty() }
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

    /// Says in the categories whether the sizes agree.
    pub fn judge(&self, categories: &mut [Category]) {
        if self.parameters.is_empty() {
            return;
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
