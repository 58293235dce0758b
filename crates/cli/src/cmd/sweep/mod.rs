//! `nilo sweep`: runs of one command that differ in stated parameters, and what their figures say about others.

mod cluster;
mod kept;
mod limit;
mod place;
mod plan;
mod progress;
mod substitute;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::anyhow;
use nilometer_analysis::sweep::find::{self, Next};
use nilometer_analysis::sweep::model::{PointRun, Sweep};
use nilometer_analysis::sweep::outcome::Outcome;
use nilometer_analysis::sweep::space::{Point, Value};
use nilometer_analysis::sweep::{self, Limited};
use nilometer_report::sweep as screen;

use super::child::{Recording, Runner};
use super::{exit, load};
use crate::args::sweep::{On, SweepArgs};
use crate::path::AtPath as _;
use crate::talk::{self, Failure};
use cluster::{Cluster, Ground};
use plan::{Plan, usage};
use progress::Progress;

pub fn run(args: &SweepArgs) -> Result<ExitCode, Failure> {
    if let Some(directory) = args.sweep.as_deref().filter(|_| !args.resume) {
        nilometer_kernel::sys::signals::restore_sigpipe();
        let sweep = read(directory, args)?;
        show(&sweep, args)?;
        return Ok(if args.predict.is_empty() { ExitCode::SUCCESS } else { predicted(&sweep) });
    }
    let (plan, command) = planned(args)?;
    if args.on == On::Print {
        return print(&plan, &command);
    }
    let directory = opened(&plan, args)?;
    let mut work = Work::new(plan, command, directory, args)?;
    work.all()?;
    if let Some(code) = work.unstartable.filter(|_| work.runs.is_empty()) {
        let _ = std::fs::remove_dir_all(&work.directory); // nothing ran: it would only be in the way
        return Ok(ExitCode::from(code));
    }
    let sweep = read(&work.directory, args)?;
    show(&sweep, args)?;
    Ok(verdict(&sweep, &work))
}

/// Whether the laws could say anything of what was asked.
fn predicted(sweep: &Sweep) -> ExitCode {
    if sweep.groups.iter().flat_map(|group| &group.predictions).any(|asked| asked.prediction.is_some()) {
        return ExitCode::SUCCESS;
    }
    let good = sweep.runs.iter().filter(|run| run.outcome.ran()).count();
    talk::say(&format!("nothing is predicted: no law of {} yet, {good} runs have ended well", sweep.metric));
    ExitCode::from(exit::NOT_ENOUGH)
}

/// The plan as typed, or as kept, and the command with its secrets.
fn planned(args: &SweepArgs) -> Result<(Plan, Vec<String>), Failure> {
    let Some(directory) = &args.sweep else {
        let limit = limit::bytes(args)?;
        return Ok((Plan::of(args, limit)?, args.command.clone()));
    };
    let plan = Plan::read(directory)?;
    if plan.masked && args.command.is_empty() {
        return Err(
            usage("its command has a secret that was not kept").hint("type the command again after --")
        );
    }
    let command = if args.command.is_empty() { plan.command.clone() } else { args.command.clone() };
    Ok((plan, command))
}

fn opened(plan: &Plan, args: &SweepArgs) -> Result<PathBuf, Failure> {
    if let Some(directory) = &args.sweep {
        return Ok(directory.clone());
    }
    let is_done = |directory: &Path| read(directory, args).is_ok_and(|sweep| is_complete(&sweep));
    let place = place::open(plan, args.output.as_deref(), args.force, is_done)?;
    if place.continued && !args.quiet {
        let there = kept::list(&place.directory).len();
        talk::say(&format!("going on with {}: {there} runs are there", place.directory.display()));
    }
    Ok(place.directory)
}

fn is_complete(sweep: &Sweep) -> bool {
    let searched = sweep.groups.iter().filter_map(|group| group.found.as_ref()).collect::<Vec<_>>();
    if searched.is_empty() {
        sweep.runs.len() >= sweep.planned
    } else {
        searched.iter().all(|found| !found.unfinished)
    }
}

/// `--on print`: one line per run, for another launcher.
fn print(plan: &Plan, command: &[String]) -> Result<ExitCode, Failure> {
    if plan.find.is_some() {
        return Err(usage("a search needs the result of each run before the next")
            .hint("--set NAME=VALUES --on print"));
    }
    for point in plan.points()? {
        for _ in 0..plan.repeat {
            let instance = substitute::instance(command, &point).map_err(usage)?;
            talk::data(&(substitute::shell_line(&instance) + "\n"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether a directory is a sweep.
pub fn is_one(directory: &Path) -> bool {
    directory.join(plan::PLAN_FILE).exists()
}

/// The model of a sweep's directory.
pub fn read(directory: &Path, args: &SweepArgs) -> Result<Sweep, Failure> {
    let plan = Plan::read(directory)?;
    let question = plan.question(args, load::short_path(directory))?;
    let runs = kept::list(directory)
        .iter()
        .map(|kept| kept::point(kept, &question.at))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(sweep::sweep(&question, runs))
}

/// A sweep that goes on.
struct Work {
    plan: Plan,
    command: Vec<String>,
    directory: PathBuf,
    options: Vec<String>,
    runner: Runner,
    progress: Progress,
    runs: Vec<PointRun>,
    /// Where the points run, if not here.
    cluster: Option<Cluster>,
    /// `nilo run` could not start the command.
    unstartable: Option<u8>,
}

impl Work {
    fn new(plan: Plan, command: Vec<String>, directory: PathBuf, args: &SweepArgs) -> Result<Self, Failure> {
        if let Some(pid) = kept::still_running(&directory) {
            return Err(Failure::from(anyhow!(
                "process {pid} is still recording into {}",
                directory.display()
            ))
            .hint(format!("wait for it, or end it:  kill {pid}")));
        }
        let runs: Vec<PointRun> = kept::list(&directory)
            .iter()
            .map(|kept| kept::outline(kept, &plan.metric))
            .collect::<Result<_, _>>()?;
        let planned =
            if plan.find.is_some() { None } else { Some(plan.points()?.len() * plan.repeat as usize) };
        Ok(Self {
            options: options(&plan),
            cluster: Cluster::of(args),
            progress: Progress::new(planned, args.quiet),
            runner: Runner::new()?,
            plan,
            command,
            directory,
            runs,
            unstartable: None,
        })
    }

    fn all(&mut self) -> Result<(), Failure> {
        match self.plan.search()? {
            None => self.grid(),
            Some(find) => self.search(&find),
        }
    }

    fn goes_on(&self) -> bool {
        self.runner.interrupted.is_none() && self.unstartable.is_none()
    }

    fn grid(&mut self) -> Result<(), Failure> {
        let points = self.plan.points()?;
        let wanted: Vec<(Point, u32)> = points
            .iter()
            .flat_map(|point| (1..=self.plan.repeat).map(move |repeat| (point.clone(), repeat)))
            .collect();
        if self.cluster.is_some() {
            let missing: Vec<_> =
                wanted.into_iter().filter(|(params, repeat)| !self.has(params, *repeat)).collect();
            return self.on_cluster(&missing);
        }
        for (place, (params, repeat)) in wanted.iter().enumerate() {
            if !self.goes_on() {
                break;
            }
            if !self.has(params, *repeat) {
                let rest: Vec<&Point> = wanted[place + 1..].iter().map(|(params, _)| params).collect();
                self.one(params, *repeat, &rest)?;
            }
        }
        Ok(())
    }

    fn search(&mut self, find: &Limited) -> Result<(), Failure> {
        for fixed in self.plan.points()? {
            let mut first = true;
            while self.goes_on() {
                let members: Vec<&PointRun> = self.runs.iter().filter(|run| is_of(run, &fixed)).collect();
                let tried = sweep::tried(find, &self.plan.metric, &members);
                let Next::Try(x) = find::next(&find.search(), &tried) else { break };
                let params: Point =
                    fixed.iter().cloned().chain([(find.name.clone(), Value::of(x))]).collect();
                let missing = (1..=self.plan.repeat).filter(|repeat| !self.has(&params, *repeat));
                let missing: Vec<u32> = missing.collect();
                for repeat in &missing {
                    self.one(&params, *repeat, &[])?;
                }
                if missing.is_empty() {
                    break; // its scheduler ended it before it told anything: there is nothing to go on
                }
                // What fails at its smallest fails for another reason than memory: no search would help.
                let failed = self.runs.last().is_some_and(|run| run.outcome == Outcome::Failed);
                if std::mem::take(&mut first) && failed || self.runs.last().is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    fn has(&self, params: &Point, repeat: u32) -> bool {
        self.runs.iter().any(|run| run.params == *params && run.repeat == repeat)
    }

    /// Makes these runs elsewhere, all at once, and reads what came of them.
    fn on_cluster(&mut self, points: &[(Point, u32)]) -> Result<(), Failure> {
        let Some(cluster) = self.cluster.clone().filter(|_| !points.is_empty()) else { return Ok(()) };
        let ground = Ground {
            cluster: &cluster,
            sweep: &self.directory,
            working_directory: Path::new(&self.plan.directory),
            options: &self.options,
            command: &self.command,
            limit_bytes: self.plan.limit_bytes,
            there: self.runs.len(),
        };
        cluster::run(&ground, points, &mut self.runner)?;
        self.runs = kept::list(&self.directory)
            .iter()
            .map(|kept| kept::outline(kept, &self.plan.metric))
            .collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Makes one run and keeps it.
    fn one(&mut self, params: &Point, repeat: u32, rest: &[&Point]) -> Result<(), Failure> {
        if self.cluster.is_some() {
            return self.on_cluster(&[(params.clone(), repeat)]);
        }
        let instance = substitute::instance(&self.command, params).map_err(usage)?;
        let directory = self.directory.join(place::run_name(self.runs.len() + 1, params, repeat));
        self.progress.begin(params, repeat, &self.runs, rest);
        let output = kept::output_of(&directory);
        let _ = std::fs::remove_file(&output);
        let code = self.runner.run(&Recording {
            directory: &directory,
            output: &output,
            options: &self.options,
            argv: &instance.argv,
            environment: &instance.environment,
            working_directory: Some(Path::new(&self.plan.directory)),
        })?;
        if !directory.exists() {
            self.not_started(code, &output);
            return Ok(());
        }
        // What we were asked to end is no result: it is run again next time.
        if self.runner.interrupted.is_some() {
            return Ok(());
        }
        kept::label(&directory, params, repeat, None).writing(&directory)?;
        let kept =
            kept::Kept { directory, params: params.clone(), repeat, unrecorded: false, ended_by: None };
        let run = kept::outline(&kept, &self.plan.metric)?;
        self.progress.end(&run, &output);
        self.runs.push(run);
        Ok(())
    }

    fn not_started(&mut self, code: Option<i32>, output: &Path) {
        if self.runner.interrupted.is_none() {
            talk::talk(&kept::read_tail(output));
            self.unstartable = Some(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(exit::OURS));
        }
    }
}

fn is_of(run: &PointRun, fixed: &Point) -> bool {
    fixed.iter().all(|pair| run.params.contains(pair))
}

/// Options of each `nilo run`.
fn options(plan: &Plan) -> Vec<String> {
    let mut options = vec!["--guard".to_owned()];
    if let Some(limit) = plan.limit_bytes {
        let option = match plan.metric.as_str() {
            "cgroup" => Some("--max-cgroup"),
            "largest" => Some("--max-rss"),
            "peak" => Some("--max-pss"),
            _ => None, // no watchdog for it: the result tells
        };
        options.extend(option.map(|option| [option.to_owned(), limit.to_string()]).into_iter().flatten());
    }
    if !plan.stop_after.is_empty() {
        options.extend(["--stop-after".to_owned(), plan.stop_after.join(",")]);
    }
    options.extend(plan.steps.iter().flat_map(|steps| ["--steps".to_owned(), steps.clone()]));
    options.extend(plan.with.iter().cloned());
    options
}

fn show(sweep: &Sweep, args: &SweepArgs) -> Result<(), Failure> {
    let document = || format!("{:#}\n", screen::json(sweep));
    match &args.json {
        Some(Some(file)) => {
            std::fs::write(file, document()).writing(file)?;
        }
        Some(None) => {
            talk::data(&document());
            return Ok(());
        }
        None => {}
    }
    talk::data(&screen::render(sweep, &talk::stdout_style()));
    Ok(())
}

fn verdict(sweep: &Sweep, work: &Work) -> ExitCode {
    if let Some(signal) = work.runner.interrupted {
        let again = format!("nilo sweep {} --resume", work.directory.display());
        talk::say(&format!("interrupted after {} runs; to go on:  {again}", sweep.runs.len()));
        return ExitCode::from(exit::SIGNAL_BASE.wrapping_add(signal as u8));
    }
    if let Some(code) = work.unstartable {
        return ExitCode::from(code);
    }
    let ran = sweep.runs.iter().any(|run| run.outcome.ran());
    let failed = sweep.runs.iter().any(|run| run.outcome == Outcome::Failed);
    let found: Vec<_> = sweep.groups.iter().filter_map(|group| group.found.as_ref()).collect();
    let code = if !ran && failed {
        exit::TARGET_FAILED
    } else if found.iter().any(|found| found.largest.is_none() && !found.unfinished) {
        exit::BAD
    } else if found.iter().any(|found| found.unfinished || found.gave_up) || !ran {
        exit::NOT_ENOUGH
    } else {
        0
    };
    ExitCode::from(code)
}
