//! One verdict from everything that was seen.
//!
//! Resident memory says whether the tree grows. Looks inside say whether what grows is live, kept by an allocator,
//! or only pages of files, and find what resident memory is too coarse for. What is left on the machine comes first:
//! no process can be blamed for it later.

use super::axis::Axis;
use super::collect::{LeakBuilder, ProcessLevels};
use super::inside::{self, Books, Census};
use super::model::{Class, Evidence, Forecast, Leak, Looks, Per, StepsFrom, Teeth, Window};
use super::place;
use super::repeat;
use super::series::{self, Course, Judged, Rate, Terms};
use crate::model::Run;
use crate::settle::SWAPPED;
use crate::stats::XY;

/// Shared memory and files in memory below this are no finding in a single run.
const LEAST_REMAINS: u64 = 1 << 20;
/// A process is judged for itself if it lived for this share of the run.
const LIVED: f64 = 0.5;
const PROCESSES: usize = 6;

/// The verdict on a run: `evidence` was fed all its records, `run` is its model.
pub fn verdict(evidence: &LeakBuilder, run: &Run) -> Leak {
    if !evidence.repeated.is_empty() || run.repeats.as_ref().is_some_and(|repeats| repeats.runs > 1) {
        return Repeats { evidence, run }.leak();
    }
    Scene::of(evidence, run).leak()
}

/// All that was judged of one run.
pub(crate) struct Scene<'a> {
    pub(crate) evidence: &'a LeakBuilder,
    pub(crate) run: &'a Run,
    pub(crate) axis: Axis,
    pub(crate) held: Judged,
    pub(crate) file: Judged,
    /// Processes that lived long enough, largest first.
    pub(crate) processes: Vec<(&'a ProcessLevels, Judged)>,
    /// Private memory of children.
    pub(crate) children: Vec<(&'a ProcessLevels, Judged)>,
    pub(crate) census: Option<Census>,
    pub(crate) books: Option<Books>,
}

impl<'a> Scene<'a> {
    fn of(evidence: &'a LeakBuilder, run: &'a Run) -> Self {
        let seconds = |at_ns: u64| evidence.clock.seconds(at_ns);
        let axis = evidence.axis(run);
        let slack = run.about.counter_slack_bytes as f64;
        let judge = |points: &[XY]| judge_resident(points, slack, &axis);
        let along = |levels: &mut dyn Iterator<Item = (u64, u64)>| -> Vec<XY> {
            let points = levels.filter_map(|(at_ns, level)| Some((axis.x(seconds(at_ns))?, level as f64)));
            let mut points: Vec<XY> = points.collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0)); // a damaged log may go back in time
            points
        };
        let levels = evidence.levels.items();
        let held = judge(&along(&mut levels.iter().map(|level| (level.at_ns, level.held))));
        let file = judge(&along(&mut levels.iter().map(|level| (level.at_ns, level.file))));
        let mut processes: Vec<_> = evidence.processes.values().collect();
        processes.retain(|process| lived(process, levels.len()));
        processes
            .sort_by_key(|process| std::cmp::Reverse(process.levels.items().last().map(|level| level.1)));
        processes.truncate(PROCESSES);
        let children = processes.iter().filter(|process| process.parent.is_some());
        let children =
            children.map(|p| (*p, judge(&along(&mut p.private.items().iter().copied())))).collect();
        // Of one process alone the levels are those of the tree, and need no second look.
        let is_tree =
            |p: &ProcessLevels| evidence.processes.len() == 1 && p.levels.seen() == evidence.levels.seen();
        let own = |p: &ProcessLevels| judge(&along(&mut p.levels.items().iter().copied()));
        let judged = processes.iter().map(|p| (*p, if is_tree(p) { held.clone() } else { own(p) }));
        let processes = judged.collect();
        let since_x = held.since_x;
        Self {
            census: inside::census(evidence, &axis, since_x),
            books: inside::books(evidence, &axis, since_x),
            evidence,
            run,
            axis,
            held,
            file,
            processes,
            children,
        }
    }

    fn leak(&self) -> Leak {
        let (class, judged, reason, by) = self.outliving().unwrap_or_else(|| self.course());
        let mut leak = Leak {
            class,
            reason,
            per: self.axis.per,
            steps_from: self.axis.from,
            rate_bytes_per_step: judged.rate.map(|rate| rate.value),
            ci95: judged.rate.map(|rate| [rate.low, rate.high]),
            rate_bytes_per_s: judged.rate.map(|rate| rate.value * self.axis.per_s()),
            smallest_detectable: self.smallest(class, &judged),
            smallest_by: by,
            forecast: self.forecast(class, &judged),
            window: self.window(&judged),
            teeth: judged.teeth.map(|(height_bytes, period)| Teeth { height_bytes, period }),
            bound_bytes: judged.bound.filter(|_| class == Class::ToBound),
            longer_s: judged.longer.filter(|_| class == Class::CannotTell).map(|times| self.longer_s(times)),
            places: Vec::new(),
            evidence: self.list_evidence(),
            missing: Vec::new(),
            looks: self.looks(),
            runs: Vec::new(),
        };
        leak.places = place::places(self, &leak);
        leak.missing = place::missing(self, &leak);
        leak
    }

    /// What the processes do: class, what it rests on, why, and by what the smallest rate is meant.
    fn course(&self) -> (Class, Judged, String, &'static str) {
        const RESIDENT: &str = "resident memory";
        let held = &self.held;
        if held.course == Course::Grows {
            let rate = inside::rate(held);
            if self.books.as_ref().is_some_and(|books| books.says_retention(rate)) {
                let reason =
                    "what grows is memory that was given back and that the allocator keeps".to_owned();
                return (Class::Retention, held.clone(), reason, RESIDENT);
            }
            return (Class::Grows, self.finer(held), held.reason.clone(), RESIDENT);
        }
        if let Some((process, judged)) = self.growing_process() {
            let reason = format!("{} ({}) rises steadily", process.role, process.pid);
            return (Class::Grows, judged.clone(), reason, RESIDENT);
        }
        if let Some(judged) = self.growing_census() {
            let reason = "objects of the interpreter become more, too slowly for resident memory to show it"
                .to_owned();
            return (Class::Grows, judged, reason, "census");
        }
        if let Some(judged) = self.copying() {
            let reason =
                "children copy pages that they shared with their parent by writing to them".to_owned();
            return (Class::CopyOnWrite, judged, reason, RESIDENT);
        }
        if self.file.course == Course::Grows && held.course != Course::Unclear {
            let reason =
                "only pages of files become more: the kernel takes them back when it needs them".to_owned();
            return (Class::PageCache, self.file.clone(), reason, RESIDENT);
        }
        let class = match held.course {
            Course::Steady => Class::Steady,
            Course::Settled => Class::Settled,
            Course::Sawtooth => Class::Sawtooth,
            Course::ToBound => Class::ToBound,
            Course::Grows | Course::Unclear => Class::CannotTell,
        };
        let calm = self.calm_inside().filter(|_| class == Class::CannotTell);
        calm.unwrap_or_else(|| (class, held.clone(), held.reason.clone(), RESIDENT))
    }

    /// The same with the rate of what is live, where all that grows was looked into.
    fn finer(&self, held: &Judged) -> Judged {
        let whole = inside::rate(held);
        let of_one = |(process, judged): &(&ProcessLevels, Judged)| {
            let looked_at = self.books.as_ref().is_some_and(|books| books.pid == process.pid);
            looked_at && (self.processes.len() == 1 || inside::rate(judged) > 0.9 * whole)
        };
        let alone = self.processes.iter().any(of_one);
        let books = self.books.as_ref().filter(|_| alone);
        let rate = held.rate.and_then(|resident| books?.finer(resident)).or(held.rate);
        Judged { rate, ..held.clone() }
    }

    /// Files in memory that are left: many that came one after the other, or what a process of the tree had mapped.
    /// A single file may be anybody's.
    fn outliving(&self) -> Option<(Class, Judged, String, &'static str)> {
        let mapped = self.evidence.levels.items().iter().map(|level| level.shared).max().unwrap_or(0);
        let own = self.run.about.verb == "run";
        let large =
            self.evidence.remains.items.iter().filter(|remains| own && remains.bytes >= LEAST_REMAINS);
        for remains in large {
            let judged = self.births(&remains.births);
            if judged.course == Course::Grows {
                let reason =
                    "files in memory become more with the run, and are left after its end".to_owned();
                return Some((Class::Outlives, judged, reason, "files in memory"));
            }
            if mapped >= remains.bytes / 2 {
                let reason = "shared memory that the run had mapped is left after its end".to_owned();
                let judged = Judged { rate: None, rise: remains.bytes as f64, ..self.held.clone() };
                return Some((Class::Outlives, judged, reason, "files in memory"));
            }
        }
        None
    }

    /// What the files that are left had together, at the time of each.
    fn births(&self, births: &[(u64, u64)]) -> Judged {
        let mut sum = 0.0;
        let points = births.iter().filter_map(|(at_ns, bytes)| {
            sum += *bytes as f64;
            Some((self.axis.x(self.evidence.clock.seconds(*at_ns))?, sum))
        });
        let points: Vec<XY> = points.collect();
        series::judge(&points, &Terms { least_bytes: LEAST_REMAINS as f64 / 2.0, ..Terms::counted() })
    }

    /// Where processes come and go the tree's sum says nothing, but one that stays may grow.
    fn growing_process(&self) -> Option<&(&'a ProcessLevels, Judged)> {
        let churn = self.held.course == Course::Unclear || self.held.course == Course::Sawtooth;
        let several = self.run.processes_seen > 1;
        self.processes.iter().find(|(_, judged)| churn && several && judged.course == Course::Grows)
    }

    /// Kinds that grow, together. Slower than what resident memory would have shown, or it would have.
    fn growing_census(&self) -> Option<Judged> {
        let census = self.census.as_ref()?;
        let largest = census.kinds.first()?;
        if self.held.course == Course::Sawtooth || self.held.course == Course::ToBound {
            return None; // garbage on its way to the collector, or a cache: counted, it grows as well
        }
        let sum =
            |of: &dyn Fn(Rate) -> f64| census.kinds.iter().filter_map(|kind| kind.judged.rate).map(of).sum();
        let value: f64 = sum(&|rate| rate.value);
        let visible = self.held.smallest.is_some_and(|smallest| value > 3.0 * smallest);
        if visible && matches!(self.held.course, Course::Steady | Course::Settled) {
            return None; // something else becomes less by as much
        }
        let rate = Rate { value, low: sum(&|rate| rate.low), high: sum(&|rate| rate.high) };
        Some(Judged { rate: Some(rate), ..largest.judged.clone() })
    }

    /// Resident memory cannot tell, but everything that is live was counted and stays.
    fn calm_inside(&self) -> Option<(Class, Judged, String, &'static str)> {
        let books = self.books.as_ref()?;
        let least = Terms::resident(self.held.end_level, 0.0).least_bytes;
        let live = books.live;
        let calm = live.smallest * books.span < Terms::resident(self.held.end_level, 0.0).flat_bytes
            && live.slope * books.span < least;
        let retained = books.retained.low > 0.0 && books.retained.slope * books.span > least;
        let class = if retained { Class::Retention } else { Class::Settled };
        let judged = Judged {
            rate: Some(books.rate(&live)),
            smallest: Some(live.smallest.max(least / books.span)),
            ..self.held.clone()
        };
        let reason = "what is live does not grow; resident memory moves because of the allocator".to_owned();
        calm.then_some((class, judged, reason, "ledger"))
    }

    /// Children whose own memory grows although what they have mapped does not.
    fn copying(&self) -> Option<Judged> {
        let (_, private) = self.children.iter().find(|(child, private)| {
            let mapped = self.processes.iter().find(|(process, _)| process.pid == child.pid);
            let rising = matches!(private.course, Course::Grows | Course::ToBound)
                || private.course == Course::Settled && private.rise > 4.0 * f64::from(1 << 20);
            rising && mapped.is_some_and(|(_, mapped)| inside::rate(mapped) < 0.3 * inside::rate(private))
        })?;
        Some(private.clone())
    }

    /// A census that found nothing would have seen less than resident memory.
    fn smallest(&self, class: Class, judged: &Judged) -> Option<f64> {
        let counted = self.census.as_ref().and_then(|census| census.total.smallest);
        let smallest = match (judged.smallest, counted) {
            (Some(resident), Some(counted)) => Some(resident.min(counted)),
            (resident, _) => resident,
        };
        smallest.filter(|smallest| would_be_seen(class, inside::rate(judged), *smallest))
    }

    /// So many times as long, and long enough for the points that any verdict needs.
    fn longer_s(&self, times: f64) -> f64 {
        let least_s = series::LEAST_POINTS as f64 * self.run.interval_ms.asked / 1e3;
        (times * self.run.duration_s).max(least_s)
    }

    fn window(&self, judged: &Judged) -> Window {
        let to = judged.since_x + judged.span;
        Window {
            from: judged.since_x,
            to,
            from_s: self.axis.seconds(judged.since_x),
            to_s: self.axis.seconds(to),
            points: judged.points,
        }
    }

    fn forecast(&self, class: Class, judged: &Judged) -> Option<Forecast> {
        let limit = self.run.limit.as_ref()?;
        // What fills the limit is resident memory, with all that is not live in it.
        let rate = judged.rate.filter(|rate| rate.low > 0.0 && class == Class::Grows)?.value;
        let resident = self.held.rate.filter(|_| self.held.course == Course::Grows);
        let rate = resident.map_or(rate, |resident| resident.value);
        let room = (limit.bytes as f64 - self.held.end_level - self.file.end_level).max(0.0);
        Some(Forecast {
            limit_bytes: limit.bytes,
            limit_source: limit.source.clone(),
            at: self.held.since_x + self.held.span + room / rate,
            in_s: Some(room / (rate * self.axis.per_s())),
        })
    }

    fn looks(&self) -> Looks {
        let heap = self.evidence.heap.items();
        let ledgers = self.evidence.ledgers.items();
        let pauses = || heap.iter().map(|look| look.pause_ns).chain(ledgers.iter().map(|look| look.pause_ns));
        Looks {
            heap: self.evidence.heap.seen(),
            ledger: self.evidence.ledgers.seen(),
            pause_ms_total: pauses().map(|ns| ns as f64 / 1e6).sum(),
            pause_ms_longest: pauses().max().unwrap_or(0) as f64 / 1e6,
        }
    }

    fn list_evidence(&self) -> Vec<Evidence> {
        let mut list =
            vec![evidence("memory of the tree", &self.held), evidence("pages of files", &self.file)];
        if self.processes.len() > 1 {
            let process = |(process, judged): &(&ProcessLevels, Judged)| {
                evidence(&format!("{} ({})", process.role, process.pid), judged)
            };
            list.extend(self.processes.iter().map(process));
            list.extend(self.children.iter().map(|(process, judged)| {
                evidence(&format!("private memory of {} ({})", process.role, process.pid), judged)
            }));
        }
        list.extend(self.census.as_ref().map(|census| evidence("objects of the interpreter", &census.total)));
        list.extend(self.books.as_ref().into_iter().flat_map(book_evidence));
        list
    }
}

fn judge_resident(points: &[XY], slack: f64, axis: &Axis) -> Judged {
    let level = points.iter().map(|point| point.1).fold(0.0, f64::max);
    let terms = Terms::resident(level, slack);
    let judged = series::judge(points, &terms);
    let judged = match axis.from {
        StepsFrom::Marks => series::by_step_ends(points, judged, &terms),
        StepsFrom::Estimated | StepsFrom::Nothing => judged,
    };
    series::with_lateness(points, judged, axis.rhythm())
}

/// Where a rise that is larger cannot be told from a jump or a cache, nor could a leak of that size.
pub(super) fn would_be_seen(class: Class, rate: f64, smallest: f64) -> bool {
    class != Class::CannotTell || rate.abs() < smallest
}

fn lived(process: &ProcessLevels, ticks: usize) -> bool {
    process.levels.seen() as f64 >= LIVED * ticks as f64
}

pub(crate) fn evidence(what: &str, judged: &Judged) -> Evidence {
    Evidence {
        what: what.to_owned(),
        course: course_name(judged.course),
        rate_bytes_per_step: judged.rate.map(|rate| rate.value),
        ci95: judged.rate.map(|rate| [rate.low, rate.high]),
        smallest_detectable: judged.smallest,
        points: judged.points,
        reason: judged.reason.clone(),
    }
}

fn book_evidence(books: &Books) -> [Evidence; 2] {
    let of = |what: &str, trend: &super::trend::Trend| {
        let rate = books.rate(trend);
        Evidence {
            what: what.to_owned(),
            course: if trend.low > 0.0 { "rises" } else { "no rise" },
            rate_bytes_per_step: Some(rate.value),
            ci95: Some([rate.low, rate.high]),
            smallest_detectable: Some(trend.smallest),
            points: books.looks,
            reason: "sum of lines of the ledger".to_owned(),
        }
    };
    [of("live memory", &books.live), of("memory that allocators keep", &books.retained)]
}

fn course_name(course: Course) -> &'static str {
    match course {
        Course::Steady => "steady",
        Course::Settled => "warm-up then flat",
        Course::Grows => "grows",
        Course::Sawtooth => "sawtooth",
        Course::ToBound => "to a bound",
        Course::Unclear => "cannot tell",
    }
}

/// The verdict on several runs of one command.
struct Repeats<'a> {
    evidence: &'a LeakBuilder,
    run: &'a Run,
}

impl Repeats<'_> {
    fn leak(&self) -> Leak {
        let repeated = &self.evidence.repeated;
        let (named, name) = repeated.named();
        let kernel = repeated.kernel();
        let mut list: Vec<Evidence> = vec![evidence("files in memory left by name", &named)];
        list.extend(kernel.iter().map(|(name, judged)| evidence(name, judged)));
        let growing: Vec<_> = kernel.iter().filter(|(_, judged)| judged.course == Course::Grows).collect();
        let largest = growing.iter().max_by(|a, b| inside::rate(&a.1).total_cmp(&inside::rate(&b.1)));
        let swapped = growing.iter().find(|(name, _)| *name == SWAPPED.name).map(|(_, judged)| judged);
        let (class, judged, reason, place) = if named.course == Course::Grows {
            let moved = if swapped.is_some() { ", and the kernel moves it to swap" } else { "" };
            let reason = format!("each run leaves shared memory or files in memory{moved}");
            (Class::Outlives, named, reason, name)
        } else if let Some((name, judged)) = largest {
            let reason = if *name == SWAPPED.name {
                "each run leaves shared memory behind, which the kernel moves to swap"
            } else {
                "each run leaves memory of the kernel behind"
            };
            (Class::Outlives, judged.clone(), reason.to_owned(), Some((*name).to_owned()))
        } else if let Some(found) = self.two_looks() {
            found
        } else {
            Self::nothing_left(&kernel, &named)
        };
        let in_swap = swapped.filter(|_| place.as_deref() != Some(SWAPPED.name)).cloned();
        let mut leak = self.model(class, &judged, reason, place, list);
        leak.places.extend(in_swap.map(|judged| place::machine(SWAPPED.name, Some(inside::rate(&judged)))));
        leak
    }

    /// Only what was before all runs and after them is known.
    fn two_looks(&self) -> Option<(Class, Judged, String, Option<String>)> {
        let repeats = self.run.repeats.as_ref().filter(|_| self.evidence.repeated.is_empty())?;
        let (before, after) = (repeats.before_kib? * 1024.0, repeats.after_kib? * 1024.0);
        let found = repeat::two_looks(before, after, repeats.runs)?;
        let rate = Rate { value: found.per_run, low: found.ci95[0], high: found.ci95[1] };
        let judged = Judged {
            rate: Some(rate),
            smallest: Some(found.per_run - found.ci95[0]),
            span: repeats.runs as f64,
            points: 2,
            rise: after - before,
            ..series::judge(&[], &Terms::counted())
        };
        let (class, reason) = if found.certain {
            (
                Class::Outlives,
                "memory in use on the machine, without page cache, is higher after the runs by far more than it moves by itself",
            )
        } else {
            (Class::CannotTell, "two looks at the machine, and a difference that others may have made")
        };
        let place = Some("memory of the machine that no process holds".to_owned()).filter(|_| found.certain);
        Some((class, judged, reason.to_owned(), place))
    }

    fn nothing_left(
        kernel: &[(&'static str, Judged)],
        named: &Judged,
    ) -> (Class, Judged, String, Option<String>) {
        let unclear = kernel.iter().find(|(_, judged)| judged.course == Course::Unclear);
        match unclear {
            Some((name, judged)) => {
                (Class::CannotTell, judged.clone(), format!("{name}: {}", judged.reason), None)
            }
            None => (Class::Steady, named.clone(), "no run leaves anything behind".to_owned(), None),
        }
    }

    fn model(
        &self,
        class: Class,
        judged: &Judged,
        reason: String,
        place: Option<String>,
        evidence: Vec<Evidence>,
    ) -> Leak {
        let runs = self.evidence.repeated.models();
        let per_run_s = if runs.is_empty() {
            0.0
        } else {
            runs.iter().map(|run| run.seconds).sum::<f64>() / runs.len() as f64
        };
        let rate = judged.rate.map(|rate| rate.value);
        let name = place.unwrap_or_else(|| "shared memory".to_owned());
        let places = if class == Class::Outlives { vec![place::machine(&name, rate)] } else { Vec::new() };
        Leak {
            class,
            reason,
            per: Per::Run,
            steps_from: StepsFrom::Nothing,
            rate_bytes_per_step: rate,
            ci95: judged.rate.map(|rate| [rate.low, rate.high]),
            rate_bytes_per_s: rate.filter(|_| per_run_s > 0.0).map(|rate| rate / per_run_s),
            smallest_detectable: judged.smallest,
            smallest_by: "the machine between runs",
            forecast: self.forecast(class, rate, runs.len(), per_run_s),
            window: Window {
                from: judged.since_x,
                to: judged.since_x + judged.span,
                points: judged.points,
                ..Window::default()
            },
            teeth: None,
            bound_bytes: None,
            longer_s: judged
                .longer
                .filter(|_| class == Class::CannotTell)
                .map(|times| times * self.run.duration_s),
            places,
            evidence,
            missing: Vec::new(),
            looks: Looks::default(),
            runs,
        }
    }

    /// Until the machine has no memory left.
    fn forecast(&self, class: Class, rate: Option<f64>, runs: usize, per_run_s: f64) -> Option<Forecast> {
        let rate = rate.filter(|rate| class.is_leak() && *rate > 0.0)?;
        let room = self.run.system.available_min_bytes? as f64;
        Some(Forecast {
            limit_bytes: self.run.system.memory_bytes?,
            limit_source: "memory of the machine".to_owned(),
            at: runs as f64 + room / rate,
            in_s: Some(room / rate * per_run_s),
        })
    }
}
