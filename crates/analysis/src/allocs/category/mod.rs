//! What memory is for: parameters, gradients, optimizer state, activations and the rest, by rules over stacks and by what
//! outlives the phase of its birth.
//!
//! A tensor's memory has the category of its phase: that which is left when the phase ends, or that which passes within it.
//! Everything else is told by its stack alone. The one invariant: the categories add up to the whole, at the peak, at the
//! end and over all.

mod check;
mod stack;

#[cfg(test)]
mod tests;

use nilometer_rules::{FrameRules, Role};
use nilometer_trace::allocs::{Recording, Site, special};
use nilometer_trace::symbols::Symbols;
use rustc_hash::FxHashMap;

use super::model::{Category, Confidence, Layer};
use super::moment;
use check::{Sizes, Twin};
use stack::{Meaning, Meanings};

const PYTHON: &str = "Python objects";
const FRAMEWORK: &str = "framework objects";
const DATA: &str = "data";
const IMPORT: &str = "code and import";
const OTHER: &str = "other";

/// A site, put into one category or several.
struct Sorted<'a> {
    site: &'a Site,
    /// What outlives its phase, and how much of it.
    kept: Vec<(String, u64)>,
    /// What does not.
    passing: String,
    layer: Option<String>,
    confidence: Confidence,
}

/// All categories, the largest at the peak first.
pub fn build(recording: &Recording, symbols: &Symbols, rules: &FrameRules) -> Vec<Category> {
    let mut meanings = Meanings::new(recording, symbols, rules);
    let mut categories = Categories::default();
    let kept: FxHashMap<u32, u64> = recording.about.kept.iter().map(|kept| (kept.site, kept.bytes)).collect();
    let series = moment::at_steps(recording);
    let mut sizes = Sizes::new(&recording.about.kept_sizes);
    let told: Vec<Meaning> = recording.sites.iter().map(|site| meanings.of(site)).collect();
    (0..).zip(&told).for_each(|(number, meaning)| sizes.see(number, meaning));
    let threads = (0..).zip(recording.sites.iter().zip(&told));
    let unsaid = threads.filter(|(_, (site, meaning))| is_unsaid(site, meaning)).map(|(number, _)| number);
    sizes.find_twins(unsaid);
    for (number, (site, meaning)) in (0..).zip(recording.sites.iter().zip(told)) {
        let values = series.get(&number).map_or(&[][..], Vec::as_slice);
        // Threads without Python are in no phase.
        let phases = !recording.about.kept.is_empty()
            && site.python != special::NONE
            && meaning.role != Some(Role::State);
        let left = if phases { kept.get(&number).copied() } else { Some(guessed(site, &meaning, values)) };
        let sorted = match sizes.twin(number) {
            Some(twin) => sort_twin(site, twin, rules),
            None if is_scratch(&meaning, phases) && !sizes.speak_for(number) => {
                sort(site, meaning, 0, phases, rules)
            }
            None => sort(site, meaning, left.unwrap_or(0), phases, rules),
        };
        categories.add(&sorted, values);
    }
    let mut all = categories.finish();
    sizes.judge(&mut all);
    all
}

/// A tensor's memory, taken on a thread of the framework's: nobody can be seen to ask for it.
fn is_unsaid(site: &Site, meaning: &Meaning) -> bool {
    meaning.payload && meaning.role.is_none() && site.python == special::NONE
}

/// What a backward pass takes on a thread of the framework's is its workspace, unless sizes speak for gradients.
fn is_scratch(meaning: &Meaning, phases: bool) -> bool {
    meaning.payload && meaning.role == Some(Role::Backward) && !phases
}

/// One set of the parameters' sizes is the gradients; the others are an optimizer's.
fn sort_twin<'a>(site: &'a Site, twin: Twin, rules: &FrameRules) -> Sorted<'a> {
    let of = |role, bytes| (rules.category(role, true).to_owned(), bytes);
    Sorted {
        site,
        kept: vec![of(Role::Backward, twin.gradients), of(Role::Optimizer, twin.states)],
        passing: DATA.to_owned(),
        layer: None,
        confidence: Confidence::Low,
    }
}

/// What the memory of these sites is for, where it stays.
pub fn names(
    recording: &Recording,
    symbols: &Symbols,
    rules: &FrameRules,
    sites: impl IntoIterator<Item = u32>,
) -> Vec<String> {
    let mut meanings = Meanings::new(recording, symbols, rules);
    let mut name = |site: &Site| {
        let sorted = sort(site, meanings.of(site), 0, false, rules);
        sorted.kept.into_iter().next().map_or(sorted.passing, |kept| kept.0)
    };
    let site = |number: u32| recording.sites.get(number as usize);
    sites.into_iter().map(|number| site(number).map_or_else(|| OTHER.to_owned(), &mut name)).collect()
}

/// Without phases: what was there at steps or in the end outlives its phase; what makes a model, and what a forward
/// pass has at the peak, is taken for kept.
fn guessed(site: &Site, meaning: &Meaning, values: &[u64]) -> u64 {
    let later = values.get(values.len() / 2..).unwrap_or_default();
    let at_steps = later.iter().copied().min().unwrap_or(0);
    let seen = site.live.bytes.max(at_steps);
    match meaning.role {
        Some(Role::Init | Role::Forward) if values.is_empty() => site.peak.bytes.max(seen),
        _ => seen,
    }
}

fn sort<'a>(
    site: &'a Site,
    meaning: Meaning,
    kept_bytes: u64,
    phases: bool,
    rules: &FrameRules,
) -> Sorted<'a> {
    let one = |category: &str, confidence| Sorted {
        site,
        kept: Vec::new(),
        passing: category.to_owned(),
        layer: None,
        confidence,
    };
    match meaning.role {
        Some(role) if meaning.payload && role.has_fate() => Sorted {
            site,
            kept: vec![(rules.category(role, true).to_owned(), kept_bytes)],
            passing: rules.category(role, false).to_owned(),
            layer: meaning.layer,
            confidence: if phases { Confidence::High } else { Confidence::Medium },
        },
        Some(role) if !role.has_fate() => one(rules.category(role, true), Confidence::High),
        _ if meaning.linker => one(IMPORT, Confidence::High),
        _ if meaning.interpreter => one(PYTHON, Confidence::High),
        Some(_) => one(FRAMEWORK, Confidence::Medium),
        // Tensors and arrays that the program's own code makes.
        None if meaning.payload => one(DATA, Confidence::Low),
        None => one(OTHER, Confidence::Low),
    }
}

#[derive(Default)]
struct Categories {
    all: FxHashMap<String, Category>,
}

impl Categories {
    fn add(&mut self, sorted: &Sorted<'_>, values: &[u64]) {
        let mut below = 0;
        for (category, bytes) in &sorted.kept {
            // What is there at some time is what is kept first of all.
            let part = |all: u64| all.saturating_sub(below).min(*bytes);
            self.count(category, sorted, *bytes, values, part);
            below = below.saturating_add(*bytes);
        }
        self.count(&sorted.passing, sorted, 0, values, |all| all.saturating_sub(below));
    }

    fn count(
        &mut self,
        name: &str,
        sorted: &Sorted<'_>,
        kept: u64,
        values: &[u64],
        share: impl Fn(u64) -> u64,
    ) {
        let site = sorted.site;
        let [peak, live, total] = [site.peak, site.live, site.total].map(|amount| share(amount.bytes));
        if peak == 0 && live == 0 && kept == 0 && total == 0 {
            return;
        }
        let category = self.all.entry(name.to_owned()).or_insert_with(|| Category {
            category: name.to_owned(),
            confidence: Confidence::High,
            ..Category::default()
        });
        let add = |sum: &mut u64, bytes: u64| *sum = sum.saturating_add(bytes);
        add(&mut category.peak_bytes, peak);
        add(&mut category.live_end_bytes, live);
        add(&mut category.kept_bytes, kept);
        add(&mut category.cumulative_bytes, total);
        if peak > 0 || kept > 0 {
            category.confidence = category.confidence.min(sorted.confidence);
        }
        if category.step_bytes.len() < values.len() {
            category.step_bytes.resize(values.len(), 0);
        }
        for (sum, bytes) in category.step_bytes.iter_mut().zip(values) {
            add(sum, share(*bytes));
        }
        if let Some(layer) = &sorted.layer {
            add_layer(&mut category.layers, layer, peak, kept);
        }
    }

    fn finish(self) -> Vec<Category> {
        let mut all: Vec<Category> = self.all.into_values().collect();
        for category in &mut all {
            category.layers.retain(|layer| layer.peak_bytes > 0 || layer.kept_bytes > 0);
            category.layers.sort_by(|a, b| {
                (b.peak_bytes, b.kept_bytes)
                    .cmp(&(a.peak_bytes, a.kept_bytes))
                    .then_with(|| a.layer.cmp(&b.layer))
            });
        }
        all.sort_by(|a, b| b.peak_bytes.cmp(&a.peak_bytes).then_with(|| a.category.cmp(&b.category)));
        all
    }
}

fn add_layer(layers: &mut Vec<Layer>, name: &str, peak: u64, kept: u64) {
    let place = layers.iter().position(|layer| layer.layer == name).unwrap_or_else(|| {
        layers.push(Layer { layer: name.to_owned(), ..Layer::default() });
        layers.len() - 1
    });
    if let Some(layer) = layers.get_mut(place) {
        layer.peak_bytes = layer.peak_bytes.saturating_add(peak);
        layer.kept_bytes = layer.kept_bytes.saturating_add(kept);
    }
}
