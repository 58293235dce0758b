//! `cargo xtask bench allocs`: what tracking allocations costs, against memray and heaptrack on the same programs.
//!
//! The figure to trust is the program's own CPU time, in interleaved rounds; what a tool adds is compared, not totals.

mod extra;
mod known;
mod page;
mod reading;
mod verdict;
mod workload;
mod workshop;

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args;
use serde_json::{Value, json};

use super::bar::{self, Bar};
use super::{machine, write_folder};
use extra::Extras;
use page::Page;
use reading::{Reading, Readings};
use workload::{ALL, Workload};
use workshop::Workshop;

#[derive(Debug, Args)]
pub struct Options {
    /// One round of small sizes: to see that the bench works, not for figures
    #[arg(long)]
    pub quick: bool,
    /// Interleaved rounds
    #[arg(long, value_name = "N", default_value_t = 15)]
    pub rounds: usize,
    /// These workloads only: stress-1, stress-2, churn, numpy, sklearn, cnn, transformer
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Count instructions of a training under callgrind too (some minutes)
    #[arg(long)]
    pub instructions: bool,
    /// Folder to write [default: bench/DATE-allocs]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Measures in interleaved rounds, judges, writes the folder.
pub fn run(options: &Options) -> Result<bool> {
    let workloads = select(options)?;
    let workshop = Workshop::open()?;
    let rounds = if options.quick { 1 } else { options.rounds };
    let readings = measure(&workshop, &workloads, rounds)?;
    let extras = extras(&workshop, &workloads, options);
    let bars = verdict::bars(&workloads, &readings, &extras);
    let page = page::render(&Page {
        versions: workshop.versions(),
        quick: options.quick,
        rounds,
        workloads: &workloads,
        readings: &readings,
        extras: &extras,
        bars: &bars,
    })?;
    println!("\n{page}");
    let data = json!({
        "date": machine::read_date()?,
        "machine": machine::read_machine()?,
        "versions": workshop.versions(),
        "readings": readings.0.iter().map(Reading::to_json).collect::<Vec<Value>>(),
        "extras": extras.to_json(),
        "bars": bars.iter().map(Bar::to_json).collect::<Vec<Value>>(),
    });
    write_folder(options.out.clone(), "allocs", &page, &data)?;
    Ok(bar::all_hold(&bars))
}

fn select(options: &Options) -> Result<Vec<Workload>> {
    let asked = |workload: &&Workload| {
        options.only.is_empty() || options.only.iter().any(|name| name == workload.name)
    };
    let names: Vec<&str> = ALL.iter().map(|workload| workload.name).collect();
    let unknown = options.only.iter().find(|name| !names.contains(&name.as_str()));
    ensure!(unknown.is_none(), "unknown workload {unknown:?}: there are {}", names.join(", "));
    let sized = |workload: &Workload| if options.quick { workload.quick() } else { *workload };
    Ok(ALL.iter().filter(asked).map(sized).collect())
}

fn measure(workshop: &Workshop, workloads: &[Workload], rounds: usize) -> Result<Readings> {
    let mut readings = Readings::default();
    for round in 1..=rounds {
        for workload in workloads {
            for &tool in workload.tools.iter().filter(|tool| workshop.can(workload, **tool)) {
                let reading = workshop.measure(workload, tool, round)?;
                println!("{}", reading.summary());
                readings.0.push(reading);
            }
        }
    }
    Ok(readings)
}

/// A failure here is told and leaves a bar unmeasured; the rounds were long.
fn extras(workshop: &Workshop, workloads: &[Workload], options: &Options) -> Extras {
    let mut extras = Extras::default();
    for workload in workloads.iter().filter(|workload| workshop.can(workload, workload::Tool::Nobody)) {
        extras.reports.extend(extra::reports(workshop, workload));
        extras.complete.extend(told(extra::complete(workshop, workload)).unwrap_or_default());
        extras.streams.extend(told(extra::stream(workshop, workload)).flatten());
    }
    if workloads.iter().any(|workload| workload.name == "stress-2") {
        extras.long_run = told(extra::long_run(workshop, options.quick.then_some(500_000)));
    }
    if workloads.iter().any(|workload| workload.name == "stress-1") {
        extras.known = told(known::measure(workshop));
    }
    if options.instructions {
        extras.instructions = told(extra::instructions(workshop));
    }
    extras
}

fn told<T>(result: Result<T>) -> Option<T> {
    result.map_err(|error| println!("not measured: {error:#}")).ok()
}
