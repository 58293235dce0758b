//! What a sweep is: `plan.json` in its directory. Written once, before the first run; everything else is read from the
//! runs themselves, so a sweep that was cut anywhere goes on.

use std::path::Path;

use anyhow::{Context as _, anyhow};
use nilometer_analysis::sweep::model::At;
use nilometer_analysis::sweep::space::{self, Axis, Point, Value, parse_axis, parse_sets};
use nilometer_analysis::sweep::{Limited, Question};
use serde::{Deserialize, Serialize};

use super::substitute;
use crate::args::sweep::SweepArgs;
use crate::cmd::exit;
use crate::path::{AtPath as _, closed_to_us};
use crate::talk::Failure;

pub const PLAN_FILE: &str = "plan.json";
const FORMAT_VERSION: u32 = 1;
const DEFAULT_METRIC: &str = "peak";

/// The words that define a sweep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub format_version: u32,
    pub nilo_version: String,
    /// As typed, secrets masked: a sweep whose command has any is resumed by typing it again.
    pub command: Vec<String>,
    pub masked: bool,
    pub set: Vec<String>,
    pub rows: Vec<Vec<(String, String)>>,
    pub random: Option<u32>,
    pub seed: u64,
    pub repeat: u32,
    pub find: Option<String>,
    pub limit_bytes: Option<u64>,
    pub metric: String,
    pub stop_after: Vec<String>,
    pub steps: Option<String>,
    pub with: Vec<String>,
    /// Where the runs are started.
    pub directory: String,
    #[serde(default)]
    pub at: Vec<String>,
}

/// A mistake of the person at the terminal.
pub fn usage(words: impl Into<String>) -> Failure {
    Failure::from(anyhow!(words.into())).exiting(exit::USAGE).hint("nilo sweep --help")
}

impl Plan {
    pub fn of(args: &SweepArgs, limit_bytes: Option<u64>) -> Result<Self, Failure> {
        let rows = args.sets.as_deref().map(read_sets).transpose()?.unwrap_or_default();
        let command = nilometer_capture::privacy::mask_arguments(&args.command);
        let directory = std::env::current_dir().context("the current directory is not known")?;
        let plan = Self {
            format_version: FORMAT_VERSION,
            nilo_version: env!("CARGO_PKG_VERSION").to_owned(),
            masked: command != args.command,
            command,
            set: args.set.clone(),
            rows: rows
                .iter()
                .map(|row| row.iter().map(|(name, value)| (name.clone(), value.text.clone())).collect())
                .collect(),
            random: args.random,
            seed: args.seed,
            repeat: args.repeat,
            find: args.find.clone(),
            limit_bytes,
            metric: args.metric.clone().unwrap_or_else(|| DEFAULT_METRIC.to_owned()),
            stop_after: args.stop_after.clone(),
            steps: args.steps.clone(),
            with: args.looks().into_iter().chain(args.with.iter().cloned()).collect(),
            directory: directory.to_string_lossy().into_owned(),
            at: args.at.clone(),
        };
        plan.check(&args.command)?;
        Ok(plan)
    }

    /// Everything that can be wrong is told before the first run.
    fn check(&self, command: &[String]) -> Result<(), Failure> {
        if command.is_empty() {
            return Err(usage("which command?")
                .hint("nilo sweep --set batch=16,32 -- python train.py --batch {batch}"));
        }
        let mut points = self.points()?;
        if let Some(find) = self.search()? {
            let first = find.candidates.first().copied().unwrap_or_default();
            for point in &mut points {
                point.push((find.name.clone(), Value::of(first)));
            }
        }
        if points.first().is_none_or(Vec::is_empty) {
            return Err(
                usage("no parameter").hint("--set batch=16,32,64  or  --find batch=1..4096 --limit 16G")
            );
        }
        points
            .first()
            .map_or(Ok(()), |point| substitute::instance(command, point).map(drop).map_err(usage))?;
        for word in &self.stop_after {
            crate::args::value::parse_stop_after(word)
                .map_err(|why| usage(format!("--stop-after {word}: {why}")))?;
        }
        Self::sizes_at(&self.at).map(drop)
    }

    fn axes(&self) -> Result<Vec<Axis>, Failure> {
        self.set.iter().map(|word| parse_axis(word).map_err(usage)).collect()
    }

    /// The planned parameter sets, smallest first; with a search, the combinations of the other parameters.
    pub fn points(&self) -> Result<Vec<Point>, Failure> {
        let value = |(name, text): &(String, String)| (name.clone(), Value::new(text));
        let rows: Vec<Point> = self.rows.iter().map(|row| row.iter().map(value).collect()).collect();
        let random = self.random.map(|count| (count as usize, self.seed));
        space::points(&rows, &self.axes()?, random).map_err(usage)
    }

    pub fn search(&self) -> Result<Option<Limited>, Failure> {
        let Some(word) = &self.find else { return Ok(None) };
        let axis = parse_axis(word).map_err(usage)?;
        if self.set.iter().any(|set| set.split('=').next() == Some(&axis.name)) {
            return Err(usage(format!("{} is set and searched", axis.name)));
        }
        let numbers: Option<Vec<f64>> = axis.values.iter().map(|value| value.number).collect();
        let mut candidates =
            numbers.ok_or_else(|| usage(format!("--find {word}: only numbers can be searched")))?;
        candidates.sort_by(f64::total_cmp);
        let limit_bytes = self.limit_bytes.unwrap_or(u64::MAX);
        Ok(Some(Limited { name: axis.name, candidates, limit_bytes }))
    }

    /// `step=0,100`, `phase=evaluate`.
    fn sizes_at(words: &[String]) -> Result<Vec<At>, Failure> {
        words.iter().map(|word| parse_at(word)).collect::<Result<Vec<_>, _>>().map(|found| found.concat())
    }

    /// What the model is asked; `args` may ask more than the plan did.
    pub fn question(&self, args: &SweepArgs, saved: String) -> Result<Question, Failure> {
        let at = if args.at.is_empty() { &self.at } else { &args.at };
        let predict = args.predict.iter().map(|word| parse_params(word)).collect::<Result<_, _>>()?;
        let planned = if self.find.is_some() { 0 } else { self.points()?.len() * self.repeat as usize };
        Ok(Question {
            command: self.command.clone(),
            metric: args.metric.clone().unwrap_or_else(|| self.metric.clone()),
            planned,
            at: Self::sizes_at(at)?,
            find: self.search()?,
            predict,
            saved,
        })
    }

    pub fn read(directory: &Path) -> Result<Self, Failure> {
        if let Some(closed) = closed_to_us(directory) {
            return Err(closed);
        }
        let path = directory.join(PLAN_FILE);
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("{} is no sweep", directory.display()));
        let text = text.map_err(|error| {
            Failure::from(error).hint("nilo sweep --set batch=16,32 -- python train.py --batch {batch}")
        })?;
        let plan: Self = serde_json::from_str(&text).reading(&path)?;
        if plan.format_version > FORMAT_VERSION {
            return Err(Failure::from(anyhow!("{} was written by a newer nilo", path.display())));
        }
        Ok(plan)
    }

    /// The same runs are wanted; what was asked about them may differ.
    pub fn is_same(&self, other: &Self) -> bool {
        let bare = |plan: &Self| Self { nilo_version: String::new(), at: Vec::new(), ..plan.clone() };
        bare(self) == bare(other)
    }
}

fn read_sets(path: &Path) -> Result<Vec<Point>, Failure> {
    let text = std::fs::read_to_string(path).reading(path)?;
    parse_sets(&text).map_err(|why| usage(format!("{}: {why}", path.display())))
}

fn parse_at(word: &str) -> Result<Vec<At>, Failure> {
    let wrong = || usage(format!("--at {word}: write step=0,100,1000 or phase=evaluate"));
    match word.split_once('=').ok_or_else(wrong)? {
        ("step", list) => list.split(',').map(|n| n.parse().map(At::Step).map_err(|_| wrong())).collect(),
        ("phase", list) => Ok(list.split(',').map(|name| At::Phase(name.to_owned())).collect()),
        _ => Err(wrong()),
    }
}

fn parse_params(word: &str) -> Result<Point, Failure> {
    let pair = |pair: &str| pair.split_once('=').map(|(name, value)| (name.to_owned(), Value::new(value)));
    let params: Option<Point> = word.split(',').map(pair).collect();
    params.ok_or_else(|| usage(format!("--predict {word}: write batch=256,threads=2")))
}
