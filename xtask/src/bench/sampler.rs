//! `cargo xtask bench sampler`: what watching costs, against mprof and psrecord on the same process trees.
//!
//! Only differences inside a window are judged: the sampler starts, the tree says that it is ready, a
//! settling time passes, and only then the window opens. So no start-up is in any figure, and the method
//! is the same for every sampler.

mod beside;
mod page;
mod reading;
mod tool;
mod verdict;
mod workshop;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use serde_json::{Value, json};

use super::bar::{self, Bar};
use super::{machine, write_folder};
use beside::Beside;
use reading::Reading;
use tool::Tool;
use workshop::Workshop;

#[derive(Debug, Args)]
pub struct Options {
    /// One short round on the small trees: to see that the bench works, not for figures
    #[arg(long)]
    pub quick: bool,
    /// Measure these samplers only: nilo, mprof, psrecord, floor
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Folder to write [default: bench/DATE-sampler]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// A process tree to be watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tree {
    pub processes: u64,
    pub mib_each: u64,
    /// Sleeping processes of others on the same machine, beside those that it has anyway.
    pub neighbours: u64,
}

impl Tree {
    const fn alone(processes: u64, mib_each: u64) -> Self {
        Self { processes, mib_each, neighbours: 0 }
    }
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} × {} MiB", self.processes, self.mib_each)?;
        if self.neighbours > 0 {
            write!(f, " beside {}", self.neighbours)?;
        }
        Ok(())
    }
}

/// One sampler at one interval on one tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    pub tree: Tree,
    pub tool: Tool,
    pub interval_ms: u64,
}

/// How long and how often.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub settle: Duration,
    pub window: Duration,
    pub rounds: usize,
    /// Of the trees on which most is compared.
    pub most_rounds: usize,
}

impl Plan {
    pub fn has(&self, cell: Cell, round: usize) -> bool {
        round <= if matches!(cell.tree, SMALL | LARGE) { self.most_rounds } else { self.rounds }
    }

    /// Where tools are compared, not shorter than the paces of their readings, so that these are in it: `nilo` reads command
    /// lines, and PSS of a process that is as it was, every 30 s, and looks at all processes every 15 s.
    pub fn window_of(&self, cell: Cell) -> Duration {
        if cell.tool.family() == "nilo" && cell.tree == SMALL { self.window * 3 } else { self.window }
    }
}

const ONE: Tree = Tree::alone(1, 4);
const SMALL: Tree = Tree::alone(10, 4);
const MANY: Tree = Tree::alone(200, 4);
const LARGE: Tree = Tree::alone(10, 400);
/// A desktop or a server has some hundreds of processes, kernel threads among them; a bare virtual machine has 70.
const INHABITED: Tree = Tree { neighbours: 200, ..SMALL };
const TREES: &[Tree] = &[ONE, SMALL, LARGE, INHABITED, MANY];
const INTERVALS_MS: &[u64] = &[100, 10];

/// Measures all cells in interleaved rounds, judges, and writes the folder.
pub fn run(options: &Options) -> Result<bool> {
    let tools = tool::select(&options.only)?;
    let (plan, trees) = plan_of(options.quick)?;
    let workshop = Workshop::open(&tools)?;
    let cells = cells_of(&trees, &tools);
    let beside = if options.only.is_empty() { beside::measure(&workshop)? } else { Vec::new() };
    let readings = measure_rounds(&workshop, &cells, plan)?;
    let best = reading::best_of(&readings);
    let bars = verdict::bars(&readings, &beside);
    let page = page::render(&page::Facts::read(&workshop, options, plan)?, &best, &beside, &bars);
    println!("\n{page}");
    write_folder(
        options.out.clone(),
        "sampler",
        &page,
        &to_json(&workshop, plan, &readings, &beside, &bars)?,
    )?;
    Ok(bar::all_hold(&bars))
}

/// Trees that do not fit into memory are left out, and that is said.
fn plan_of(quick: bool) -> Result<(Plan, Vec<Tree>)> {
    if quick {
        let plan = Plan {
            settle: Duration::from_millis(500),
            window: Duration::from_secs(3),
            rounds: 1,
            most_rounds: 1,
        };
        return Ok((plan, TREES[..2].to_vec()));
    }
    let plan =
        Plan { settle: Duration::from_secs(1), window: Duration::from_secs(10), rounds: 2, most_rounds: 4 };
    let available_mib = machine::read_available_bytes()? >> 20;
    let (fit, too_large): (Vec<Tree>, Vec<Tree>) =
        TREES.iter().partition(|tree| tree.processes * tree.mib_each * 5 / 4 < available_mib);
    for tree in too_large {
        println!("left out, needs more memory than is available: {tree}");
    }
    ensure!(!fit.is_empty(), "not enough memory for any tree");
    Ok((plan, fit))
}

/// There and back: the cells of `nilo` on two trees that are compared are neighbours, because what a reading costs changes
/// with the machine's caches from one minute to the next.
fn cells_of(trees: &[Tree], tools: &[Tool]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for &interval_ms in INTERVALS_MS {
        for (place, &tree) in trees.iter().enumerate() {
            let tools = tools.iter().filter(|tool| tool.has_news_on(tree));
            let mut row: Vec<Cell> = tools.map(|&tool| Cell { tree, tool, interval_ms }).collect();
            if place % 2 == 1 {
                row.reverse();
            }
            cells.append(&mut row);
        }
    }
    cells
}

/// Interleaved: a slow minute of the machine hits every sampler once, not one sampler in all its rounds.
fn measure_rounds(workshop: &Workshop, cells: &[Cell], plan: Plan) -> Result<Vec<Reading>> {
    let mut readings = Vec::new();
    for round in 1..=plan.most_rounds {
        for &cell in cells.iter().filter(|cell| plan.has(**cell, round)) {
            let reading = workshop.measure(cell, plan, round)?;
            println!("round {round}: {}", reading.summary());
            readings.push(reading);
        }
    }
    Ok(readings)
}

fn to_json(
    workshop: &Workshop,
    plan: Plan,
    readings: &[Reading],
    beside: &[Beside],
    bars: &[Bar],
) -> Result<Value> {
    Ok(json!({
        "date": machine::read_date()?,
        "machine": machine::read_machine()?,
        "versions": workshop.read_versions()?,
        "window_s": plan.window.as_secs_f64(),
        "settle_s": plan.settle.as_secs_f64(),
        "rounds": plan.rounds,
        "most_rounds": plan.most_rounds,
        "readings": readings.iter().map(Reading::to_json).collect::<Vec<_>>(),
        "beside": beside.iter().map(Beside::to_json).collect::<Vec<_>>(),
        "bars": bars.iter().map(Bar::to_json).collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_that_are_compared_are_neighbours() {
        let cells = cells_of(TREES, &tool::select(&[]).unwrap());
        let place = |tree, interval_ms| {
            let cell = Cell { tree, tool: Tool::NiloFast, interval_ms };
            cells.iter().position(|other| *other == cell).unwrap()
        };
        for &interval_ms in INTERVALS_MS {
            assert!(place(SMALL, interval_ms).abs_diff(place(LARGE, interval_ms)) < 4);
        }
        let all = TREES.len() * INTERVALS_MS.len();
        assert_eq!(cells.iter().filter(|cell| cell.tool == Tool::Nilo).count(), all);
    }
}
