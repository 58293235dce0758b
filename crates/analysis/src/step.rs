//! Steps, phases and notes of the target.
//!
//! A step lasts until the next mark of the same process. Its peak is a mark that moved in it, or the highest
//! sample; a mark that moved between its last tick and the first of the next step is counted to the latter. What a
//! process tells at its end only, it reached in the step and the phase of its end.

use nilometer_trace::record::{Mark, MarkKind};

use crate::bounded::{Capped, Thinned};
use crate::clock::Clock;
use crate::model;
use crate::peak::Moment;
use crate::stats::XY;
use crate::tracked::Ended;
use crate::unit::difference;

const STEPS: usize = 9_998;
const PHASES: usize = 1_000;
const NOTES: usize = 1_000;

const ROSE: &str = "VmHWM rose in this step";
const RESET: &str = "VmHWM reset at this step";
const SAMPLE: &str = "highest sample";
const ENDED: &str = "a process's mark, told at its end";
const NOTHING: &str = "no sample in this step: the one before";

#[derive(Debug, Clone, Copy)]
struct Step {
    number: u64,
    ordinal: u64,
    start_ns: u64,
    end_ns: u64,
    peak: u64,
    method: &'static str,
    reset: bool,
    end_level: u64,
    increment: i64,
}

#[derive(Debug, Clone)]
pub(crate) struct StepTracker {
    kept: Thinned<Step>,
    current: Option<Step>,
    /// The one before it: a reading between its end and the reset of the marks may still raise its peak.
    ended: Option<Step>,
    /// Steps of the first process that marks any; those of others run beside it.
    leader: Option<i32>,
    pub(crate) foreign_marks: u64,
    ordered: bool,
    level: u64,
    phases: Capped<Phase>,
    notes: Capped<(u64, String)>,
}

#[derive(Debug, Clone)]
struct Phase {
    name: String,
    start_ns: u64,
    end_ns: Option<u64>,
    peak: u64,
}

/// The name by which a phase is left without another beginning.
const NO_PHASE: &str = "-";

impl StepTracker {
    pub(crate) fn new() -> Self {
        Self {
            kept: Thinned::new(STEPS),
            current: None,
            ended: None,
            leader: None,
            foreign_marks: 0,
            ordered: true,
            level: 0,
            phases: Capped::new(PHASES),
            notes: Capped::new(NOTES),
        }
    }

    pub(crate) fn step(&self) -> Option<u64> {
        self.current.map(|step| step.number)
    }

    /// Returns the place on the axis of the step that ended with this mark.
    pub(crate) fn mark(&mut self, mark: &Mark) -> Option<f64> {
        match &mark.what {
            MarkKind::Step(number) => return self.begin_step(mark, *number),
            MarkKind::Phase(name) => self.begin_phase(mark.at_ns, name),
            MarkKind::Note(text) => self.notes.push((mark.at_ns, text.clone())),
        }
        None
    }

    fn begin_step(&mut self, mark: &Mark, number: u64) -> Option<f64> {
        if self.is_foreign(mark.pid) {
            self.foreign_marks += 1;
            return None;
        }
        let ended = self.end_step(mark.at_ns);
        self.ordered &= ended.is_none_or(|step| step.number < number);
        self.current = Some(Step {
            number,
            ordinal: ended.map_or(0, |step| step.ordinal + 1),
            start_ns: mark.at_ns,
            end_ns: mark.at_ns,
            peak: self.level,
            method: NOTHING,
            reset: false,
            end_level: self.level,
            increment: 0,
        });
        ended.map(|step| self.x(&step))
    }

    fn is_foreign(&mut self, pid: Option<i32>) -> bool {
        pid.is_some_and(|pid| *self.leader.get_or_insert(pid) != pid)
    }

    fn x(&self, step: &Step) -> f64 {
        if self.ordered { step.number as f64 } else { step.ordinal as f64 }
    }

    fn end_step(&mut self, at_ns: u64) -> Option<Step> {
        let mut step = self.current.take()?;
        step.end_ns = at_ns.max(step.start_ns);
        if let Some(before) = self.ended.replace(step) {
            self.kept.push(before);
        }
        Some(step)
    }

    fn begin_phase(&mut self, at_ns: u64, name: &str) {
        self.end_phase(at_ns);
        if name == NO_PHASE {
            return;
        }
        self.phases.push(Phase { name: name.into(), start_ns: at_ns, end_ns: None, peak: self.level });
    }

    fn end_phase(&mut self, at_ns: u64) {
        if let Some(open) = self.phases.items.last_mut() {
            open.end_ns.get_or_insert(at_ns);
        }
    }

    /// Marks that ticks saw between the beginning of the step and this reset were reached in the step before.
    pub(crate) fn peaks_reset(&mut self, number: u64) {
        let Some(step) = self.current.as_mut().filter(|step| step.number == number && !step.reset) else {
            return;
        };
        if let Some(before) =
            self.ended.as_mut().filter(|before| step.method == ROSE && step.peak > before.peak)
        {
            (before.peak, before.method) = (step.peak, step.method);
        }
        (step.peak, step.method, step.reset) = (self.level, NOTHING, true);
    }

    pub(crate) fn tick(&mut self, moment: &Moment) {
        let level = moment.mid();
        if let Some(phase) = self.phases.items.last_mut().filter(|phase| phase.end_ns.is_none()) {
            phase.peak = phase.peak.max(moment.spike_mid());
        }
        if let Some(step) = &mut self.current {
            step.sample(moment, level);
        }
        self.level = level;
    }

    /// What a process told at its end: that it had been higher than its samples, after the last of them, beside whatever
    /// lives; and what it or a child of its had in all its life, if that is all of this phase.
    pub(crate) fn ended(&mut self, at_ns: u64, ended: Ended) {
        let level = self.level;
        let beside = ended.rise.map(|rise| level.saturating_add(rise.above()).max(rise.hwm_bytes));
        let phase = self.phases.items.iter_mut().rev().find(|phase| phase.start_ns <= at_ns);
        if let Some(phase) = phase.filter(|phase| phase.end_ns.is_none_or(|end_ns| at_ns <= end_ns)) {
            let whole = ended.maxrss_bytes.filter(|_| phase.start_ns <= ended.seen_ns);
            phase.peak = phase.peak.max(beside.max(whole).unwrap_or(0));
        }
        let step = self.current.as_mut().filter(|step| step.start_ns <= at_ns && step.method != NOTHING);
        if let Some((step, peak)) = step.zip(beside).filter(|(step, peak)| *peak > step.peak) {
            (step.peak, step.method) = (peak, ENDED);
        }
    }

    /// Whoever begins now does not begin where the last one was.
    pub(crate) fn nobody_left(&mut self) {
        self.level = 0;
    }

    pub(crate) fn finish(mut self, clock: &Clock) -> Steps {
        let end_ns = clock.end_ns();
        self.end_phase(end_ns);
        let last = self.end_step(end_ns);
        if let Some(ended) = self.ended.take() {
            self.kept.push(ended);
        }
        let (seen, stride) = (self.kept.seen(), self.kept.stride());
        let mut steps = self.kept.items().to_vec();
        steps.extend(last.filter(|last| steps.last().is_none_or(|kept| kept.ordinal != last.ordinal)));
        let sampled = steps.iter().filter(|step| step.method != NOTHING);
        Steps {
            levels: sampled.map(|step| (self.x(step), step.end_level as f64)).collect(),
            numbered: self.ordered,
            last_x: steps.last().map_or(0.0, |step| self.x(step)),
            listed: steps.iter().map(|step| step.model(clock)).collect(),
            seen,
            stride,
            phases: self.phases.items.iter().map(|phase| phase.model(clock, end_ns)).collect(),
            notes: self.notes.items.into_iter().map(|(at, text)| note(clock, at, text)).collect(),
            omitted: self.phases.omitted + self.notes.omitted,
            foreign_marks: self.foreign_marks,
        }
    }
}

impl Step {
    fn sample(&mut self, moment: &Moment, level: u64) {
        let (peak, method) = self.peak_of(moment, level);
        if self.method == NOTHING || peak > self.peak {
            (self.peak, self.method) = (peak, method);
        }
        self.increment = self.increment.saturating_add(difference(level, self.end_level));
        self.end_level = level;
    }

    fn peak_of(&self, moment: &Moment, level: u64) -> (u64, &'static str) {
        if self.reset {
            (level.saturating_add(moment.together.mark_above), RESET)
        } else if moment.together.rose {
            (moment.spike_mid(), ROSE)
        } else {
            (level, SAMPLE)
        }
    }

    fn model(&self, clock: &Clock) -> model::Step {
        model::Step {
            step: self.number,
            start_s: clock.seconds(self.start_ns),
            duration_s: self.end_ns.saturating_sub(self.start_ns) as f64 / 1e9,
            peak_bytes: self.peak,
            peak_method: self.method,
            increment_bytes: self.increment,
            end_bytes: self.end_level,
        }
    }
}

impl Phase {
    fn model(&self, clock: &Clock, end_ns: u64) -> model::Phase {
        let end_ns = self.end_ns.unwrap_or(end_ns);
        model::Phase {
            name: self.name.clone(),
            start_s: clock.seconds(self.start_ns),
            duration_s: end_ns.saturating_sub(self.start_ns) as f64 / 1e9,
            peak_bytes: self.peak,
        }
    }
}

fn note(clock: &Clock, at_ns: u64, text: String) -> model::Note {
    model::Note { at_s: clock.seconds(at_ns), text }
}

/// What the tracker found.
#[derive(Debug)]
pub(crate) struct Steps {
    pub(crate) listed: Vec<model::Step>,
    pub(crate) seen: u64,
    /// Every how many-th step is listed.
    pub(crate) stride: u64,
    /// Levels at the ends of sampled steps.
    pub(crate) levels: Vec<XY>,
    pub(crate) numbered: bool,
    pub(crate) last_x: f64,
    pub(crate) phases: Vec<model::Phase>,
    pub(crate) notes: Vec<model::Note>,
    pub(crate) omitted: u64,
    pub(crate) foreign_marks: u64,
}
