//! Phases of a training as its allocations tell them: what is left of each when it ends, how high memory rose in it.
//!
//! A thread is in the phases that stand on the stack of its last allocation that has any. When one of them is no longer
//! there, it has ended, and what its sites have then is what it keeps: parameters after the making of a model, activations
//! after a forward pass, gradients after a backward one. The one invariant: a site is looked at once a phase's end.

use nilometer_rules::Role;
use nilometer_trace::allocs::{PhasePeak, special};
use rustc_hash::FxHashMap;

use super::block::Blocks;
use super::meaning::Meaning;
use super::site::{Site, Sites};

/// Peaks of phases that are kept, turn by turn; when there are more, every second turn is dropped.
const MOST_TURNS: usize = 64;

/// The phases of one process.
#[derive(Debug, Default)]
pub struct Phases {
    /// Sites of each phase that changed since it last ended.
    touched: [Vec<u32>; Role::PHASES],
}

/// Blocks that are looked at for their sizes; more would take longer than a ring may wait.
const MOST_BLOCKS: usize = 4 << 20;
/// Different sizes that are kept of each sort.
const MOST_SIZES: usize = 8192;

/// Smaller blocks of threads without Python are not looked at: the frameworks' own objects, most of them.
const LEAST_UNSAID: u64 = 1024;

/// The sizes of the blocks whose sites are of a phase, and of larger ones of threads on which nobody can be seen to ask.
pub fn survey(sites: &mut Sites, blocks: &Blocks) {
    if blocks.len() > MOST_BLOCKS {
        return;
    }
    let (mut of_phases, mut unsaid) = (FxHashMap::default(), FxHashMap::default());
    for (_, block) in blocks.iter() {
        let Some(site) = sites.all.get(block.site as usize) else { continue };
        if site.meaning.inner != 0 {
            count(&mut of_phases, block.site, block.bytes);
        } else if site.python == special::NONE && block.bytes >= LEAST_UNSAID {
            count(&mut unsaid, block.site, block.bytes);
        }
    }
    let all = of_phases.into_iter().chain(unsaid);
    sites.turns.sizes = all.map(|((site, bytes), count)| (site, bytes, count)).collect();
    sites.turns.sizes.sort_unstable();
}

fn count(sizes: &mut FxHashMap<(u32, u64), u64>, site: u32, bytes: u64) {
    if sizes.len() < MOST_SIZES || sizes.contains_key(&(site, bytes)) {
        *sizes.entry((site, bytes)).or_default() += 1;
    }
}

/// What all processes' phases add up to.
#[derive(Debug, Clone)]
pub struct Turns {
    /// Turns of the training: forward, backward, optimizer, forward again.
    pub count: u64,
    pub peaks: Vec<PhasePeak>,
    stride: u64,
    /// The highest since the last change of phase.
    highest: u64,
    seen_optimizer: bool,
    /// Optimizers that began.
    begun: u64,
    /// Sizes of blocks when one began: site, bytes, how many.
    pub sizes: Vec<(u32, u64, u64)>,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            count: 0,
            peaks: Vec::new(),
            stride: 1,
            highest: 0,
            seen_optimizer: false,
            begun: 0,
            sizes: Vec::new(),
        }
    }
}

impl Turns {
    #[inline]
    pub fn see(&mut self, live_bytes: u64) {
        self.highest = self.highest.max(live_bytes);
    }

    /// A phase ends: how high memory rose in it.
    fn end(&mut self, role: Role, live_bytes: u64) {
        let highest = std::mem::replace(&mut self.highest, live_bytes);
        if !self.count.is_multiple_of(self.stride) {
            return;
        }
        let (turn, phase) = (self.count, role.name().to_owned());
        match self.peaks.iter_mut().rev().find(|peak| peak.turn == turn && peak.phase == phase) {
            Some(known) => known.peak_bytes = known.peak_bytes.max(highest),
            None => self.peaks.push(PhasePeak { turn, phase, peak_bytes: highest }),
        }
        if self.peaks.len() > MOST_TURNS * Role::PHASES {
            self.stride = self.stride.saturating_mul(2);
            let stride = self.stride;
            self.peaks.retain(|peak| peak.turn.is_multiple_of(stride));
        }
    }

    /// Phases begin; a forward pass after the optimizer is a new turn.
    fn begin(&mut self, began: u8) {
        let is_new = began & bit(Role::Forward) != 0 && self.seen_optimizer;
        self.seen_optimizer = (self.seen_optimizer && !is_new) || began & bit(Role::Optimizer) != 0;
        self.count += u64::from(is_new);
        self.begun += u64::from(began & bit(Role::Optimizer) != 0);
    }
}

fn bit(role: Role) -> u8 {
    1 << role as u8
}

impl Phases {
    /// A site of a phase has changed.
    #[inline]
    pub fn touch(&mut self, meaning: Meaning, site: u32) {
        if let Some(touched) =
            usize::from(meaning.inner).checked_sub(1).and_then(|at| self.touched.get_mut(at))
        {
            touched.push(site);
        }
    }

    /// A thread goes from some phases to others. True if the sizes of what lives now are wanted: parameters, gradients
    /// and the state of an optimizer that has stepped before are there together.
    #[cold]
    pub fn change(&mut self, sites: &mut Sites, from: u8, to: u8) -> bool {
        for number in (0..Role::PHASES).filter(|number| from & !to & (1 << number) != 0) {
            self.end(sites, number);
            if let Some(role) = Role::phase(number) {
                let live = sites.live.bytes;
                sites.turns.end(role, live);
            }
        }
        let began = to & !from;
        if began & bit(Role::Backward) != 0 {
            self.settle(sites);
        }
        sites.turns.begin(began);
        began & bit(Role::Optimizer) != 0 && sites.turns.begun > 1 && sites.turns.begun.is_power_of_two()
    }

    /// What was made for models and is there when the last backward pass began is their parameters; other things that
    /// were made so may have been garbage.
    fn settle(&mut self, sites: &mut Sites) {
        for site in &self.touched[Role::Init as usize] {
            if let Some(site) = sites.all.get_mut(*site as usize) {
                site.kept = site.live;
            }
        }
    }

    fn end(&mut self, sites: &mut Sites, number: usize) {
        if number == Role::Init as usize {
            let made = self.touched[number].iter();
            made.for_each(|site| sites.all.get_mut(*site as usize).into_iter().for_each(Site::hold));
            return;
        }
        let Some(touched) = self.touched.get_mut(number) else { return };
        for site in touched.drain(..) {
            if let Some(site) = sites.all.get_mut(site as usize) {
                site.leave();
            }
        }
    }

    /// The process has ended: phases that were open end with it.
    pub fn close(&mut self, sites: &mut Sites) {
        for number in 0..Role::PHASES {
            self.end(sites, number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocs::site::Own;
    use nilometer_trace::allocs::{Amount, Source};

    const FORWARD: u8 = 0b0010;
    const BACKWARD: u8 = 0b0100;
    const OPTIMIZER: u8 = 0b1000;

    struct Bench {
        sites: Sites,
        own: Own,
        phases: Phases,
        now: u8,
    }

    impl Bench {
        fn new() -> Self {
            Self { sites: Sites::default(), own: Own::default(), phases: Phases::default(), now: 0 }
        }

        fn site(&mut self, mask: u8, inner: Role) -> u32 {
            let meaning = Meaning { mask, inner: inner as u8 + 1 };
            self.sites.push(0, 0, 0, Source::Heap, meaning).unwrap()
        }

        fn alloc(&mut self, site: u32, bytes: u64) {
            let meaning = self.sites.all[site as usize].meaning;
            if meaning.mask != self.now {
                self.phases.change(&mut self.sites, self.now, meaning.mask);
                self.now = meaning.mask;
            }
            if self.sites.grow(&mut self.own, site, &Amount { bytes, count: 1, variance: 0 }, 0) {
                self.phases.touch(meaning, site);
            }
        }

        fn free(&mut self, site: u32, bytes: u64) {
            self.sites.shrink(&mut self.own, site, &Amount { bytes, count: 1, variance: 0 });
        }

        fn kept(&self, site: u32) -> u64 {
            self.sites.all[site as usize].kept.bytes
        }
    }

    #[test]
    fn what_is_left_when_a_phase_ends_is_what_it_keeps() {
        let mut it = Bench::new();
        let [saved, temporary] = [(); 2].map(|()| it.site(FORWARD, Role::Forward));
        let gradient = it.site(BACKWARD, Role::Backward);
        let state = it.site(OPTIMIZER, Role::Optimizer);
        for turn in 0..3 {
            it.alloc(saved, 100);
            it.alloc(temporary, 30);
            it.free(temporary, 30);
            it.alloc(gradient, 40);
            it.alloc(gradient, 10);
            it.free(gradient, 10);
            it.free(saved, 100);
            it.alloc(state, if turn == 0 { 80 } else { 0 });
            it.free(gradient, 40);
        }
        it.phases.close(&mut it.sites);
        assert_eq!([saved, temporary, gradient, state].map(|site| it.kept(site)), [100, 0, 40, 80]);
        assert_eq!(it.sites.turns.count, 2);
        let first: Vec<(&str, u64)> =
            it.sites.turns.peaks[..2].iter().map(|peak| (peak.phase.as_str(), peak.peak_bytes)).collect();
        assert_eq!(first, [("forward", 130), ("backward", 150)]);
    }

    #[test]
    fn what_is_made_and_gone_before_a_training_is_no_parameter() {
        let mut it = Bench::new();
        let [gone, weight] = [(); 2].map(|()| it.site(0b0001, Role::Init));
        let forward = it.site(FORWARD, Role::Forward);
        let gradient = it.site(BACKWARD, Role::Backward);
        it.alloc(gone, 32);
        it.alloc(forward, 1);
        assert_eq!(it.kept(gone), 32);
        it.alloc(weight, 400);
        it.alloc(gradient, 400);
        assert_eq!((it.kept(gone), it.kept(weight)), (32, 400));
        it.free(gone, 32);
        it.alloc(forward, 1);
        it.alloc(gradient, 400);
        assert_eq!((it.kept(gone), it.kept(weight)), (0, 400));
    }

    #[test]
    fn a_forward_pass_inside_a_backward_one_does_not_end_it() {
        let mut it = Bench::new();
        let passing = it.site(BACKWARD, Role::Backward);
        let again = it.site(FORWARD | BACKWARD, Role::Forward);
        let step = it.site(OPTIMIZER, Role::Optimizer);
        it.alloc(passing, 70);
        it.alloc(again, 500);
        it.alloc(passing, 1);
        assert_eq!((it.kept(passing), it.kept(again)), (0, 500));
        it.free(passing, 70);
        it.free(again, 500);
        it.alloc(step, 9);
        assert_eq!(it.kept(passing), 1);
    }
}
