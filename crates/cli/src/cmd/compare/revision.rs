//! `--rev`: the command at several revisions, each in a git worktree of its own, in turns so that slow changes of the
//! machine hit all alike. The worktrees are removed at the end, also of an interruption; those that a kill left behind
//! are removed by the next call.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, anyhow};
use jiff::Zoned;
use nilometer_analysis::compare::Side;
use nilometer_capture::describe::directory_name;
use nilometer_capture::rundir::{Places, SUFFIX, command_name};
use nilometer_report::text;

use super::super::child::{Recording, Runner};
use super::super::exit;
use super::{source, usage};
use crate::args::compare::CompareArgs;
use crate::path::AtPath as _;
use crate::talk::{self, Failure};

const REPEATS: u32 = 3;
/// Names of our worktrees: the process that made them is part of it.
const PREFIX: &str = "nilo-revision-";

pub enum Made {
    Sides {
        sides: Vec<Side>,
        failed: bool,
    },
    /// The exit code.
    Interrupted(u8),
}

pub fn sides(args: &CompareArgs) -> Result<Made, Failure> {
    if args.rev.len() < 2 {
        return Err(usage("a comparison needs two revisions").hint("--rev main --rev HEAD"));
    }
    let repository = Repository::here()?;
    let revisions = args.rev.iter().map(|name| repository.resolve(name)).collect::<Result<Vec<_>, _>>()?;
    let home = home(args)?;
    repository.remove_abandoned();
    // From here on a signal is read, not suffered: what is made below is also unmade.
    let mut runner = Runner::new()?;
    let trees = Worktrees { repository: &repository, made: Vec::new() };
    run_all(args, &mut runner, trees, &revisions, &home)
}

fn run_all(
    args: &CompareArgs,
    runner: &mut Runner,
    mut trees: Worktrees<'_>,
    revisions: &[Revision],
    home: &Path,
) -> Result<Made, Failure> {
    let places = revisions.iter().map(|revision| trees.add(revision)).collect::<Result<Vec<_>, _>>()?;
    let mut failed = false;
    for turn in 1..=args.repeat.unwrap_or(REPEATS) {
        for (revision, place) in revisions.iter().zip(&places) {
            failed |= one(args, runner, turn, revision, place, home)?;
            if let Some(signal) = runner.interrupted {
                talk::say(&format!("interrupted; the runs so far are in {}", home.display()));
                return Ok(Made::Interrupted(exit::SIGNAL_BASE.wrapping_add(signal as u8)));
            }
        }
    }
    drop(trees);
    let side = |revision: &Revision| -> Result<Side, Failure> {
        let mut side = source::of_runs(&revision.name, &source::runs_in(&home.join(&revision.folder)))?;
        side.facts.insert(0, ("commit".to_owned(), revision.title.clone()));
        Ok(side)
    };
    let sides = revisions.iter().map(side).collect::<Result<_, _>>()?;
    talk::say(&format!("the runs are kept in {}", home.display()));
    Ok(Made::Sides { sides, failed })
}

/// True where the command failed.
fn one(
    args: &CompareArgs,
    runner: &mut Runner,
    turn: u32,
    revision: &Revision,
    place: &Path,
    home: &Path,
) -> Result<bool, Failure> {
    let folder = home.join(&revision.folder);
    std::fs::create_dir_all(&folder).writing(&folder)?;
    let directory = folder.join(format!("{turn:03}{SUFFIX}"));
    let output = directory.with_extension("out");
    let recording = Recording {
        directory: &directory,
        output: &output,
        options: &args.with,
        argv: &args.command,
        environment: &[],
        working_directory: Some(place),
    };
    let code = runner.run(&recording)?;
    if !directory.exists() && runner.interrupted.is_none() {
        let said = std::fs::read_to_string(&output).unwrap_or_default();
        let failure = anyhow!(
            "{} at {}: {}",
            args.command.join(" "),
            revision.name,
            said.trim().trim_start_matches("nilo: ")
        );
        return Err(Failure {
            code: code.and_then(|c| u8::try_from(c).ok()).unwrap_or(exit::OURS),
            error: failure,
            hint: Some(
                "files that git does not keep are not in a worktree: name them by their whole path"
                    .to_owned(),
            ),
        });
    }
    let peak = super::super::load::model(&directory)
        .ok()
        .and_then(|run| run.peak)
        .map_or_else(String::new, |peak| format!(", peak {}", text::bytes(peak.bytes)));
    talk::say(&format!("{} run {turn}: exit {}{peak}", revision.name, code.unwrap_or(-1)));
    Ok(code != Some(0))
}

fn home(args: &CompareArgs) -> Result<PathBuf, Failure> {
    let places = Places::from_environment();
    let home = places.candidates().next().map(Path::to_owned).unwrap_or_default();
    let usual =
        || home.join(directory_name(&command_name(&args.command), &Zoned::now()).replace(SUFFIX, ".compare"));
    let home = args.output.clone().unwrap_or_else(usual);
    if home.exists() {
        return Err(Failure::from(anyhow!("{} exists", home.display())).hint("another -o"));
    }
    std::fs::create_dir_all(&home).writing(&home)?;
    std::fs::write(home.join(".gitignore"), "*\n")?;
    Ok(home.canonicalize()?)
}

/// A revision by its name and by its commit.
struct Revision {
    name: String,
    commit: String,
    /// Short commit and subject.
    title: String,
    /// Where its runs go.
    folder: String,
}

struct Repository {
    top: PathBuf,
    /// Where in it we are.
    below: PathBuf,
}

impl Repository {
    fn here() -> Result<Self, Failure> {
        let told = git(Path::new("."), &["rev-parse", "--show-toplevel", "--show-prefix"]);
        let told = told
            .map_err(|error| Failure::from(error).hint("--rev needs a git repository: run it inside one"))?;
        let mut lines = told.lines();
        let top = PathBuf::from(lines.next().unwrap_or_default());
        Ok(Self { top, below: PathBuf::from(lines.next().unwrap_or_default()) })
    }

    fn resolve(&self, name: &str) -> Result<Revision, Failure> {
        let commit = git(&self.top, &["rev-parse", "--verify", "--quiet", &format!("{name}^{{commit}}")]);
        let commit =
            commit.map_err(|_| usage(&format!("`{name}` is no revision here")).hint("git log --oneline"))?;
        let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
        let folder = format!("{}-{:.12}", name.chars().map(plain).collect::<String>(), commit.trim());
        let title = git(&self.top, &["log", "-1", "--format=%h %s", commit.trim()])
            .unwrap_or_default()
            .trim()
            .to_owned();
        Ok(Revision { title, name: name.to_owned(), commit: commit.trim().to_owned(), folder })
    }

    /// Worktrees whose maker was killed.
    fn remove_abandoned(&self) {
        let list = git(&self.top, &["worktree", "list", "--porcelain"]).unwrap_or_default();
        for path in list.lines().filter_map(|line| line.strip_prefix("worktree ")) {
            let name = Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let maker = name
                .strip_prefix(PREFIX)
                .and_then(|rest| rest.split('-').next())
                .and_then(|pid| pid.parse::<u32>().ok());
            if maker.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
                self.remove(Path::new(path));
            }
        }
    }

    fn remove(&self, path: &Path) {
        let _ = git(&self.top, &["worktree", "remove", "--force", &path.to_string_lossy()]);
        let _ = std::fs::remove_dir_all(path);
        let _ = git(&self.top, &["worktree", "prune"]);
    }
}

/// Worktrees that exist as long as this does.
struct Worktrees<'a> {
    repository: &'a Repository,
    made: Vec<PathBuf>,
}

impl Worktrees<'_> {
    /// Where the command runs: the same folder inside the worktree as we are in.
    fn add(&mut self, revision: &Revision) -> Result<PathBuf, Failure> {
        let number = self.made.len();
        let path = std::env::temp_dir().join(format!("{PREFIX}{}-{number}", std::process::id()));
        self.made.push(path.clone());
        git(
            &self.repository.top,
            &["worktree", "add", "--detach", "--quiet", &path.to_string_lossy(), &revision.commit],
        )?;
        let inside = path.join(&self.repository.below);
        if inside.is_dir() {
            Ok(inside)
        } else {
            Err(Failure::from(anyhow!("{} is not in {}", self.repository.below.display(), revision.name)))
        }
    }
}

impl Drop for Worktrees<'_> {
    fn drop(&mut self) {
        self.made.iter().for_each(|path| self.repository.remove(path));
    }
}

/// What git says; its own words where it refuses.
fn git(directory: &Path, words: &[&str]) -> Result<String, anyhow::Error> {
    let output =
        Command::new("git").arg("-C").arg(directory).args(words).output().context("cannot start git")?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(anyhow!("git {}: {}", words.first().unwrap_or(&""), String::from_utf8_lossy(&output.stderr).trim()))
}
