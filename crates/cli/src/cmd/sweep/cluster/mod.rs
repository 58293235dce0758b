//! Points of a sweep on a cluster: all that are missing at once, each a `nilo run` of its own into the sweep's directory,
//! which every node must see.
//!
//! The one invariant: a point counts when its run has ended, or when the scheduler says that it ended it; then that is its
//! outcome. What never started is run again next time.

mod ray;
mod slurm;

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use nilometer_analysis::sweep::space::Point;
use nilometer_trace::Manifest;

use super::super::child::Runner;
use super::{kept, place, substitute, usage};
use crate::args::sweep::{On, SweepArgs};
use crate::path::AtPath as _;
use crate::talk::{self, Failure};

/// A run that its scheduler ended writes its last words within this.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// Asked of the scheduler beyond the limit, so that our watchdog sees it first.
const ROOM: f64 = 1.1;

/// Where points run besides here.
#[derive(Debug, Clone)]
pub enum Cluster {
    Slurm { submit: Vec<String> },
    Ray { address: Option<String>, python: String },
}

impl Cluster {
    pub fn of(args: &SweepArgs) -> Option<Self> {
        match &args.on {
            On::Local | On::Print => None,
            On::Slurm => Some(Self::Slurm { submit: args.submit.clone() }),
            On::Ray(address) => Some(Self::Ray { address: address.clone(), python: args.python.clone() }),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Slurm { .. } => "slurm",
            Self::Ray { .. } => "ray",
        }
    }
}

/// One point, ready to be submitted.
#[derive(Debug)]
struct Task {
    directory: PathBuf,
    output: PathBuf,
    /// `nilo run … -- command`.
    argv: Vec<String>,
    environment: Vec<(String, String)>,
}

/// What all of them have in common.
pub struct Ground<'a> {
    pub cluster: &'a Cluster,
    pub sweep: &'a Path,
    pub working_directory: &'a Path,
    /// Options of each `nilo run`.
    pub options: &'a [String],
    pub command: &'a [String],
    pub limit_bytes: Option<u64>,
    /// Runs that are there already.
    pub there: usize,
}

/// How the scheduler says that a task ended, where that was not the task's own doing.
type Ended = BTreeMap<usize, String>;

/// Runs these points and labels what came of them.
pub fn run(ground: &Ground<'_>, points: &[(Point, u32)], runner: &mut Runner) -> Result<(), Failure> {
    let tasks = points
        .iter()
        .enumerate()
        .map(|(place, (params, repeat))| task(ground, place, params, *repeat))
        .collect::<Result<Vec<_>, _>>()?;
    let count = nilometer_report::text::counted(tasks.len() as u64, "task", "tasks");
    talk::say(&format!("{count} on {}", ground.cluster.name()));
    let ended = match ground.cluster {
        Cluster::Slurm { submit } => slurm::run(ground, &tasks, submit, runner),
        Cluster::Ray { address, python } => ray::run(ground, &tasks, address.as_deref(), python, runner),
    }?;
    if runner.interrupted.is_some() {
        return Ok(());
    }
    for (number, (task, (params, repeat))) in tasks.iter().zip(points).enumerate() {
        settle(ground, task, params, *repeat, ended.get(&number))?;
    }
    Ok(())
}

fn task(ground: &Ground<'_>, number: usize, params: &Point, repeat: u32) -> Result<Task, Failure> {
    let instance = substitute::instance(ground.command, params).map_err(usage)?;
    let name = place::run_name(ground.there + number + 1, params, repeat);
    let directory = std::path::absolute(ground.sweep).context("the sweep has no place")?.join(name);
    let output = kept::output_of(&directory);
    let _ = std::fs::remove_file(&output);
    let nilo = std::env::current_exe().context("nilo does not find itself")?;
    let mut argv: Vec<String> =
        [&*nilo.to_string_lossy(), "run", "-q", "--force", "-o", &directory.to_string_lossy()]
            .map(String::from)
            .to_vec();
    argv.extend(ground.options.iter().cloned());
    argv.push("--".to_owned());
    argv.extend(instance.argv);
    let mut environment = instance.environment;
    environment.push((nilometer_capture::rank::RANK_VARIABLE.to_owned(), "none".to_owned()));
    Ok(Task { directory, output, argv, environment })
}

/// Labels a run that ended, or that its scheduler ended.
fn settle(
    ground: &Ground<'_>,
    task: &Task,
    params: &Point,
    repeat: u32,
    ended: Option<&String>,
) -> Result<(), Failure> {
    if let Some(how) = ended {
        wait_for_end(&task.directory);
        let line = format!("\nnilo sweep: {} ended this task: {how}\n", ground.cluster.name());
        let _ = append(&task.output, &line);
    }
    if ended.is_some() && !task.directory.exists() {
        // It was ended before it began: that is a result too, with nothing recorded.
        let made = DirBuilder::new().mode(0o700).create(&task.directory);
        made.writing(&task.directory)?;
    }
    if !task.directory.exists() {
        let said = kept::read_tail(&task.output);
        talk::say(&format!("{} did not start: {}", task.directory.display(), said.trim()));
        return Ok(());
    }
    let labelled = kept::label(&task.directory, params, repeat, ended.map(String::as_str));
    labelled.writing(&task.directory)?;
    Ok(())
}

fn wait_for_end(directory: &Path) {
    let deadline = Instant::now() + LAST_WORDS;
    let open = || Manifest::read(directory).is_ok_and(|manifest| manifest.end.is_none());
    while Instant::now() < deadline && open() {
        std::thread::sleep(LAST_WORDS / 100);
    }
}

fn append(path: &Path, line: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path)?.write_all(line.as_bytes())
}

/// What to ask of the scheduler.
fn memory_bytes(ground: &Ground<'_>) -> Option<u64> {
    ground.limit_bytes.filter(|limit| *limit < u64::MAX / 2).map(|limit| (limit as f64 * ROOM) as u64)
}
