//! The end of a run: the aggregators' results become the model.

use nilometer_trace::Manifest;

use crate::builder::{LogEnding, RunBuilder};
use crate::cause::Scene;
use crate::growth::{self, Axis, Trend};
use crate::model::{
    About, Cause, Cost, DataEnd, EstimatedSteps, Exit, Growth, GrowthClass, GrowthUnit, LargestProcess,
    Limit, MadeOf, Peak, Run,
};
use crate::peak::Marks;
use crate::quality;
use crate::rhythm;
use crate::stats::XY;
use crate::step::Steps;
use crate::worker;

/// Shorter runs get no verdict on growth over time.
const LEAST_SPAN_S: f64 = 5.0;
const LEAST_LEVELS: usize = 30;

/// The costly part of a model, which a live view makes less often than the rest.
#[derive(Debug, Clone)]
pub(crate) struct Judged {
    growth: Growth,
    heap: Option<crate::heap::model::Growths>,
    estimated_steps: Option<EstimatedSteps>,
}

/// A complete run with the results that several parts of the model need.
pub(crate) struct Closing<'b> {
    pub(crate) builder: &'b RunBuilder,
    pub(crate) ending: LogEnding,
    pub(crate) steps: Steps,
    peak: Option<Peak>,
    limit: Option<Limit>,
}

impl<'b> Closing<'b> {
    pub(crate) fn of(builder: &'b RunBuilder, ending: LogEnding) -> Self {
        let steps = builder.steps.clone().finish(&builder.clock);
        let own = builder.end.as_ref().map(|end| end.cost.rss_bytes);
        let launcher_bytes = builder.system.launcher_bytes().or(own).unwrap_or(0);
        let peak = find_peak(builder, launcher_bytes);
        let limit = builder.limits.finish(peak.as_ref(), &builder.clock);
        let ending = with_manifest(ending, &builder.manifest);
        Self { builder, ending, steps, peak, limit }
    }

    /// What takes long to tell: trends and patterns.
    pub(crate) fn judge(&self) -> Judged {
        let heap = self.builder.heap.finish(&self.builder.clock);
        Judged { growth: self.growth(), heap, estimated_steps: self.estimated_steps() }
    }

    pub(crate) fn run(&self, judged: Judged) -> Run {
        let b = &self.builder;
        let clock = &b.clock;
        let mut run = Run {
            command: b.manifest.command.clone(),
            name: b.manifest.name.clone(),
            about: about(&b.manifest),
            exit: self.exit(),
            origin_ns: clock.origin_ns(),
            duration_s: clock.duration_s(),
            before_s: clock.before_s(),
            after_s: clock.after_s(),
            interval_ms: b.cadence.finish(self.missed()),
            ticks: b.cadence.ticks,
            peak: self.peak.clone(),
            largest_process: self.largest_process(),
            limit: self.limit.clone(),
            growth: judged.growth,
            made_of: self.made_of(),
            heap: judged.heap,
            ledgers: b.ledgers.finish(b.processes.all(), b.peak.at_ns(), clock),
            processes: b.processes.models(clock, b.ticks_per_s),
            processes_seen: b.processes.seen,
            unseen: b.processes.unseen(b.ticks_per_s),
            workers: worker::groups(b.processes.all()),
            ranks: b.ranks.finish(&b.manifest.host.name, b.manifest.host.counter_slack_bytes as f64),
            system: b.system.finish(b.cause.oom_kills(), &b.manifest.host.devices),
            repeats: b.repeats.finish(),
            steps: self.steps.listed.clone(),
            steps_seen: self.steps.seen,
            estimated_steps: judged.estimated_steps,
            phases: self.steps.phases.clone(),
            notes: self.steps.notes.clone(),
            events: b.events.finish(&b.limits, clock),
            events_omitted: b.events.omitted(&b.limits),
            quality: Vec::new(),
            cost: self.cost(),
            data_end: self.data_end(),
            saved: None,
            curve: b.curves.finish(clock, b.processes.series(clock)),
        };
        run.quality = quality::doubts(self, &run).iter().map(ToString::to_string).collect();
        run
    }

    fn estimated_steps(&self) -> Option<EstimatedSteps> {
        if self.steps.seen > 0 { None } else { rhythm::find(self.builder.levels.items()) }
    }

    fn missed(&self) -> Option<u64> {
        self.builder.end.as_ref().filter(|_| !self.is_imported()).map(|end| end.missed_ticks)
    }

    /// Another tool recorded it: there was no target, and what it cost or missed is not known.
    fn is_imported(&self) -> bool {
        self.builder.manifest.verb == "import"
    }

    fn exit(&self) -> Exit {
        let b = &self.builder;
        let in_manifest = b.manifest.end.as_ref().and_then(|end| end.exit.as_ref());
        let in_log = b.end.as_ref().and_then(|end| end.exit.as_ref()).or(b.target_exit.as_ref());
        let told = in_log.or(in_manifest);
        let mut exit = b.cause.finish(Scene {
            exit: told,
            cut: matches!(self.ending, LogEnding::Cut { .. }),
            limits: &b.limits,
            processes: &b.processes,
            last_s: b.clock.seconds(b.clock.last_ns()),
        });
        if self.is_imported() {
            exit.evidence = vec!["imported: there was no target".into()];
        }
        if self.ending == LogEnding::Running {
            exit.cause = Cause::Running;
            exit.inferred = false;
            exit.evidence.clear(); // of what has not ended
        }
        exit
    }

    fn largest_process(&self) -> Option<LargestProcess> {
        let largest = self.builder.processes.largest().filter(|largest| largest.hwm().0 > 0)?;
        Some(LargestProcess {
            pid: largest.pid,
            role: largest.role.name.clone(),
            hwm_bytes: largest.hwm().0,
            at_s: self.builder.clock.seconds(largest.hwm_at_ns),
        })
    }

    fn made_of(&self) -> Option<MadeOf> {
        let b = &self.builder;
        b.composition.finish(b.processes.all(), self.peak.as_ref()?, b.peak.at_ns(), &b.clock)
    }

    fn cost(&self) -> Option<Cost> {
        if self.is_imported() {
            return None;
        }
        let told = self.builder.end.as_ref().map(|end| end.cost);
        let cost = told.or_else(|| self.builder.manifest.end.as_ref().map(|end| end.cost))?;
        Some(Cost {
            cpu_s: cost.cpu_s,
            rss_bytes: cost.rss_bytes,
            written_bytes: cost.written_bytes,
            pause_s: cost.pause_s,
        })
    }

    fn data_end(&self) -> DataEnd {
        let clock = &self.builder.clock;
        match &self.ending {
            LogEnding::Clean => DataEnd {
                clean: true,
                at_s: clock.seconds(clock.last_ns()),
                why: "the run ended in order".into(),
            },
            LogEnding::Running => DataEnd {
                clean: false,
                at_s: clock.seconds(clock.last_ns()),
                why: "it is still recorded".into(),
            },
            LogEnding::Cut { at_ns, why } => {
                let at_ns = if *at_ns == 0 { clock.last_ns() } else { *at_ns };
                DataEnd { clean: false, at_s: clock.seconds(at_ns), why: why.clone() }
            }
        }
    }

    /// Over steps where there are enough, otherwise over time.
    fn growth(&self) -> Growth {
        let limit_bytes = self.limit.as_ref().map(|limit| limit.bytes);
        let slack = self.builder.manifest.host.counter_slack_bytes as f64;
        if self.steps.levels.len() >= growth::LEAST_POINTS {
            let axis =
                Axis { per: GrowthUnit::Step, numbered: self.steps.numbered, last_x: self.steps.last_x };
            return growth::model(&growth::trend_of_memory(&self.steps.levels, slack), axis, limit_bytes);
        }
        let points = self.levels_over_time();
        let axis = Axis {
            per: GrowthUnit::Minute,
            numbered: false,
            last_x: points.last().map_or(0.0, |point| point.0),
        };
        let trend = trend_over_time(&points, slack, self.steps.levels.len());
        growth::model(&trend, axis, limit_bytes)
    }

    fn levels_over_time(&self) -> Vec<XY> {
        let clock = &self.builder.clock;
        self.builder
            .levels
            .items()
            .iter()
            .map(|(at_ns, bytes)| (clock.seconds(*at_ns), *bytes as f64))
            .collect()
    }
}

/// The manifest is written before the last of the log: if it knows of the end, nobody killed nilo.
fn with_manifest(ending: LogEnding, manifest: &Manifest) -> LogEnding {
    match ending {
        LogEnding::Cut { at_ns, why } if manifest.end.is_some() => LogEnding::Cut {
            at_ns,
            why: format!("{why}; nilo ended in order, so the disk refused the rest or it was lost later"),
        },
        ending => ending,
    }
}

fn trend_over_time(points: &[XY], slack: f64, steps: usize) -> Trend {
    let span_s = points.last().map_or(0.0, |last| last.0 - points[0].0);
    if points.len() >= LEAST_LEVELS && span_s >= LEAST_SPAN_S {
        return growth::trend_of_memory(points, slack);
    }
    let samples = if points.len() == 1 { "sample" } else { "samples" };
    let seen = format!("only {} {samples} in {span_s:.1} s", points.len());
    let reason = match steps {
        0 => format!("{seen} and no steps"),
        1 => format!("{seen} and one step"),
        _ => format!("{seen} and {steps} steps"),
    };
    Trend {
        reason,
        class: GrowthClass::CannotTell,
        slope: None,
        since_x: 0.0,
        points: points.len(),
        end_level: 0.0,
    }
}

fn find_peak(builder: &RunBuilder, launcher_bytes: u64) -> Option<Peak> {
    let largest = builder.processes.all().map(|process| (process.hwm_bytes, process.hwm_at_ns));
    let marks = Marks {
        processes: builder.processes.seen,
        cgroup_peak_bytes: builder.end.as_ref().and_then(|end| end.cgroup_peak_bytes),
        largest: largest.max_by_key(|(bytes, _)| *bytes),
        maxrss: builder.processes.maxrss(launcher_bytes),
        unseen: builder.processes.unseen(builder.ticks_per_s).is_some(),
        blind_below: builder.processes.blind_below(),
        imported: builder.manifest.verb == "import",
        walked: builder.processes.all().any(|process| process.uss_bytes().is_some()),
    };
    builder.peak.finish(marks, |at_ns| builder.clock.seconds(at_ns))
}

fn about(manifest: &Manifest) -> About {
    let host = &manifest.host;
    About {
        nilo_version: manifest.nilo_version.clone(),
        verb: manifest.verb.clone(),
        started: manifest.started.clone(),
        directory: manifest.directory.clone(),
        host: host.name.clone(),
        kernel: host.kernel.clone(),
        cpus: host.cpus,
        memory_bytes: host.memory_bytes,
        container: host.container.clone(),
        counter_slack_bytes: host.counter_slack_bytes,
        method: manifest.notes.clone(),
    }
}
