//! `cargo xtask bench ledger`: does every byte have a name, is it the right one, and what does it cost?
//!
//! The truths come from inside the workloads (`mallinfo2`, arrays of known sizes), from `smaps`, and from a cgroup's
//! counter; `ledger/measure.py` puts them beside what `nilo where` says, and here they are judged.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use serde_json::{Value, json};

use super::bar::{self, Bar, Limit, render_bars};
use super::{machine, write_folder};
use crate::workspace::{self, succeed};

#[derive(Debug, Args)]
pub struct Options {
    /// Small workloads: to see that the bench works, not for figures
    #[arg(long)]
    pub quick: bool,
    /// Folder to write [default: bench/DATE-ledger]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

const PACKAGES: &[&str] = &["numpy==2.3.5", "pandas", "scikit-learn", "jax"];
/// Name, environment, and the scale that makes a process of some hundred MiB to a GB.
const CASES: &[(&str, Environment, &str)] = &[
    ("bare", Environment::System, "20"),
    ("treelstm", Environment::Packages, "4"),
    ("sklearn", Environment::Packages, "4"),
    ("torch_cnn", Environment::Torch, "1"),
    ("torch_transformer", Environment::Torch, "1"),
    ("jax", Environment::Packages, "4"),
    ("threads", Environment::C, "1"),
    ("tree", Environment::System, "1"),
];
const QUICK_SCALE: &str = "0.2";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Environment {
    System,
    Packages,
    Torch,
    C,
}

/// Measures each case, judges, writes the folder.
pub fn run(options: &Options) -> Result<bool> {
    let workshop = Workshop::open()?;
    let mut rows = Vec::new();
    for (case, environment, scale) in CASES {
        let scale = if options.quick { QUICK_SCALE } else { scale };
        let row = match workshop.command(case, *environment, scale) {
            Ok(command) => workshop.measure(case, &command)?,
            Err(reason) => json!({"case": case, "skipped": format!("{reason:#}")}),
        };
        println!("{row}");
        rows.push(row);
    }
    let bars = bars(&rows);
    let page = render(options.quick, &rows, &bars)?;
    println!("\n{page}");
    let data = json!({
        "date": machine::read_date()?,
        "machine": machine::read_machine()?,
        "commit": machine::read_commit(),
        "readings": rows,
        "bars": bars.iter().map(Bar::to_json).collect::<Vec<Value>>(),
    });
    write_folder(options.out.clone(), "ledger", &page, &data)?;
    Ok(bar::all_hold(&bars))
}

struct Workshop {
    nilo: PathBuf,
    folder: PathBuf,
    packages: PathBuf,
}

impl Workshop {
    fn open() -> Result<Self> {
        let target = workspace::read_target_dir()?;
        let folder = target.join("bench-ledger");
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("workload.py"), include_str!("ledger/workload.py"))?;
        std::fs::write(folder.join("measure.py"), include_str!("ledger/measure.py"))?;
        std::fs::write(folder.join("threads.c"), include_str!("ledger/threads.c"))?;
        succeed(workspace::cargo().args(["build", "--release", "--locked", "-p", "nilometer"]))?;
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-pthread", "-o"]).args([folder.join("threads"), folder.join("threads.c")]);
        succeed(&mut cc)?;
        let packages = workspace::cache_folder()?.join("bench-ledger-venv");
        Ok(Self { nilo: target.join("release/nilo"), folder, packages })
    }

    /// The workload's command; an environment that cannot be made is the reason why not.
    fn command(&self, case: &str, environment: Environment, scale: &str) -> Result<Vec<PathBuf>> {
        let python = match environment {
            Environment::C => return Ok(vec![self.folder.join("threads")]),
            Environment::System => "python3".into(),
            Environment::Packages => workspace::install(&self.packages, PACKAGES)?,
            Environment::Torch => torch()?,
        };
        Ok(vec![python, self.folder.join("workload.py"), case.into(), scale.into()])
    }

    fn measure(&self, case: &str, command: &[PathBuf]) -> Result<Value> {
        let output = Command::new("python3")
            .arg(self.folder.join("measure.py"))
            .args([&self.nilo, &self.folder])
            .arg(case)
            .args(command)
            .output()
            .context("cannot start python3")?;
        let talk = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{case} failed:\n{talk}");
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

/// The newest of the environments that the tests make.
fn torch() -> Result<PathBuf> {
    Ok(workspace::environment("torch-2.15")?.into())
}

/// The worst of all cases is judged.
fn bars(rows: &[Value]) -> Vec<Bar> {
    let worst = |figure: &dyn Fn(&Value) -> Option<f64>| rows.iter().filter_map(figure).reduce(f64::max);
    let field =
        |name: &'static str, unit: f64| move |row: &Value| row[name].as_f64().map(|value| value * unit);
    let per_gb = |row: &Value| Some(row["wall_s"].as_f64()? / (row["rss_bytes"].as_f64()? / 1e9).max(1.0));
    let stop =
        |row: &Value| Some(row["stopped_ms"].as_f64()? / (30.0 + 130.0 * row["rss_bytes"].as_f64()? / 1e9));
    let bar = |what: &str, measured, limit, unit| Bar {
        what: what.to_owned(),
        measured,
        limit: Limit::AtMost(limit),
        unit,
    };
    vec![
        bar("residual under a stop, of RSS", worst(&field("residual_share", 100.0)), 2.0, " %"),
        bar(
            "residual without a stop (--pause off), of RSS",
            worst(&field("running_residual_share", 100.0)),
            5.0,
            " %",
        ),
        bar("residual of a run's own ledgers, of RSS", worst(&field("run_residual_share", 100.0)), 5.0, " %"),
        bar("arrays of known sizes, error", worst(&field("arrays_error_bytes", 1.0)), 0.0, " B"),
        bar("malloc in use against mallinfo2, error", worst(&field("in_use_error", 100.0)), 1.0, " %"),
        bar("malloc free against mallinfo2, error", worst(&field("free_error", 100.0)), 1.0, " %"),
        bar("code against the file pages of smaps, error", worst(&field("code_error_bytes", 1.0)), 0.0, " B"),
        bar("wall time of `nilo where`, per GB and at least for one", worst(&per_gb), 1.0, " s"),
        bar("stop, of 30 ms + 130 ms per GB of RSS", worst(&stop), 1.0, "×"),
        bar(
            "private memory of a tree against its cgroup, error",
            worst(&field("tree_error", 100.0)),
            1.0,
            " %",
        ),
    ]
}

fn render(quick: bool, rows: &[Value], bars: &[Bar]) -> Result<String> {
    let warning = if quick { "**A quick run: it shows that the bench works, no more.**\n\n" } else { "" };
    Ok(format!(
        "# Where memory goes: is every byte named, and rightly? {date}\n\n{warning}\
         Machine: {machine}  \nCommit: {commit}  \nRepeat with: `cargo xtask bench ledger`\n\n\
         Each workload (`xtask/src/bench/ledger/workload.py`) is looked at while it waits, then under `nilo run` with \
         `--budget 20%`. *Misplaced* is the share of RSS that a run's own ledger, which never stops the process, tells in \
         another line than one under a stop.\n\n## Bars\n\n{bars}\n## Readings\n\n{table}",
        date = machine::read_date()?,
        machine = machine::read_machine()?,
        commit = machine::read_commit(),
        bars = render_bars(bars),
        table = render_table(rows),
    ))
}

/// Head, field, factor, digits.
const COLUMNS: &[(&str, &str, f64, usize)] = &[
    ("RSS MiB", "rss_bytes", 1.0 / 1_048_576.0, 0),
    ("residual %", "residual_share", 100.0, 3),
    ("running %", "running_residual_share", 100.0, 3),
    ("in a run %", "run_residual_share", 100.0, 3),
    ("misplaced %", "run_misplaced_share", 100.0, 1),
    ("not judged %", "not_judged_share", 100.0, 1),
    ("arrays off B", "arrays_error_bytes", 1.0, 0),
    ("malloc in use off %", "in_use_error", 100.0, 3),
    ("free off %", "free_error", 100.0, 3),
    ("code off B", "code_error_bytes", 1.0, 0),
    ("wall s", "wall_s", 1.0, 2),
    ("first look s", "first_wall_s", 1.0, 2),
    ("CPU s", "cpu_s", 1.0, 2),
    ("stop ms", "stopped_ms", 1.0, 1),
    ("a run's ms/GB", "run_cost_ms_per_gb", 1.0, 0),
];

fn render_table(rows: &[Value]) -> String {
    let mut table =
        format!("| case | {} |\n|---|", COLUMNS.iter().map(|c| c.0).collect::<Vec<_>>().join(" | "));
    table += &"---:|".repeat(COLUMNS.len());
    for row in rows {
        let cells = COLUMNS.iter().map(|(_, field, factor, digits)| {
            row[*field]
                .as_f64()
                .map_or_else(|| "–".to_owned(), |value| format!("{:.digits$}", value * factor))
        });
        let name = row["case"].as_str().unwrap_or("?");
        let _ = write!(table, "\n| {name} | {} |", cells.collect::<Vec<_>>().join(" | "));
    }
    for row in rows.iter().filter(|row| row["skipped"].is_string()) {
        let _ = write!(table, "\n\n{}: skipped: {}", row["case"], row["skipped"]);
    }
    for row in rows.iter().filter(|row| row["tree_error"].is_number()) {
        let _ = write!(
            table,
            "\n\nThe tree: {} processes, private memory by PSS {} B, its cgroup's counter {} B. Un-shared since the \
             fork, still shared, largest kind, per worker: {}",
            row["tree_processes"], row["tree_pss_bytes"], row["group_bytes"], row["unshared"]
        );
    }
    table + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_case_is_judged_and_what_was_skipped_is_not() {
        let rows = [
            json!({"case": "a", "residual_share": 0.01, "rss_bytes": 2e9, "wall_s": 1.0}),
            json!({"case": "b", "residual_share": 0.03, "rss_bytes": 1e8, "wall_s": 0.5}),
            json!({"case": "c", "skipped": "no index"}),
        ];
        let bars = bars(&rows);
        assert_eq!(bars[0].holds(), Some(false));
        assert_eq!(bars[7].measured, Some(0.5));
        assert_eq!(bars[9].holds(), None);
        assert!(render_table(&rows).contains("skipped: \"no index\""));
    }
}
