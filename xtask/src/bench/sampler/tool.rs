//! The samplers: how each is called, and how its output tells what it sampled.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::workshop::Workshop;
use super::{Cell, SMALL, Tree};
use crate::bench::machine;

/// A sampler in one way of calling it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// `nilo run`.
    Nilo,
    /// `nilo run --no-slow`: the fast ticks with discovery, no PSS and no smaps.
    NiloFast,
    /// `mprof run`, as it comes: the command alone, none of its children.
    MprofAlone,
    /// `mprof run --multiprocess`: a series per process, as ours.
    Mprof,
    /// `mprof run --multiprocess --include-children`: the same and the tree's sum, which is read again.
    MprofSum,
    /// `psrecord --include-children`: the tree's sum only.
    Psrecord,
    /// What the kernel takes for the answers that a fast tick of `nilo` asks for, and nothing else.
    Floor,
}

const ALL: &[Tool] =
    &[Tool::Nilo, Tool::NiloFast, Tool::MprofAlone, Tool::Mprof, Tool::MprofSum, Tool::Psrecord, Tool::Floor];

/// What a sampler delivered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Yield {
    pub ticks: f64,
    pub process_samples: f64,
}

/// The tools whose names were asked for; all when none was.
pub fn select(names: &[String]) -> Result<Vec<Tool>> {
    if let Some(unknown) = names.iter().find(|name| !ALL.iter().any(|tool| tool.family() == **name)) {
        bail!("unknown sampler `{unknown}`: nilo, mprof, psrecord or floor");
    }
    let asked = |tool: &&Tool| names.is_empty() || names.iter().any(|name| *name == tool.family());
    Ok(ALL.iter().filter(asked).copied().collect())
}

impl Tool {
    pub fn family(self) -> &'static str {
        match self {
            Self::Nilo | Self::NiloFast => "nilo",
            Self::MprofAlone | Self::Mprof | Self::MprofSum => "mprof",
            Self::Psrecord => "psrecord",
            Self::Floor => "floor",
        }
    }

    /// Is it one of the Python programs?
    pub fn is_peer(self) -> bool {
        matches!(self, Self::MprofAlone | Self::Mprof | Self::MprofSum | Self::Psrecord)
    }

    /// All are compared on one tree; on the others those whose cost depends on what is different there.
    pub fn has_news_on(self, tree: Tree) -> bool {
        tree == SMALL || matches!(self, Self::Nilo | Self::NiloFast | Self::Mprof)
    }

    pub fn label(self) -> &'static str {
        match self {
            Self::Nilo => "nilo",
            Self::NiloFast => "nilo --no-slow",
            Self::MprofAlone => "mprof",
            Self::Mprof => "mprof -M",
            Self::MprofSum => "mprof -M -C",
            Self::Psrecord => "psrecord",
            Self::Floor => "floor",
        }
    }

    /// The whole command line, which writes to `record`.
    pub fn command(self, workshop: &Workshop, cell: Cell, record: &Path) -> Vec<OsString> {
        let tree = [
            workshop.tree.clone().into_os_string(),
            cell.tree.processes.to_string().into(),
            cell.tree.mib_each.to_string().into(),
        ];
        let seconds = (cell.interval_ms as f64 / 1000.0).to_string();
        let mut command: Vec<OsString> = Vec::new();
        match self {
            Self::Nilo | Self::NiloFast => {
                command.extend([
                    workshop.nilo.clone().into(),
                    "run".into(),
                    "-q".into(),
                    "--interval".into(),
                ]);
                command.push(format!("{}ms", cell.interval_ms).into());
                command.extend((self == Self::NiloFast).then(|| "--no-slow".into()));
                command.extend(["-o".into(), record.into(), "--".into()]);
                command.extend(tree);
            }
            Self::MprofAlone | Self::Mprof | Self::MprofSum => {
                command.extend([workshop.venv_program("mprof").into(), "run".into()]);
                command.extend((self != Self::MprofAlone).then(|| "--multiprocess".into()));
                command.extend((self == Self::MprofSum).then(|| "--include-children".into()));
                command.extend(["--interval".into(), seconds.into(), "-o".into(), record.into()]);
                command.extend(tree);
            }
            Self::Psrecord => {
                command.extend([workshop.venv_program("psrecord").into(), "--include-children".into()]);
                command.extend(["--interval".into(), seconds.into(), "--log-format".into(), "csv".into()]);
                command.extend(["--log".into(), record.into()]);
                // It runs its argument through a shell; without `exec` the shell would be one more process.
                let words: Vec<_> = tree.iter().map(|word| word.to_string_lossy()).collect();
                command.push(format!("exec {}", words.join(" ")).into());
            }
            Self::Floor => {
                command.extend([workshop.floor.clone().into(), cell.interval_ms.to_string().into()]);
                command.extend([cell.tree.processes.to_string().into(), record.into()]);
                command.extend(tree);
            }
        }
        command
    }
}

/// The Unix times between which the window was open.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    pub opened_s: f64,
    pub closed_s: f64,
}

/// Ticks and process-samples of a mprof record: all, and those within a window.
///
/// Lines are `MEM MIB TIME` for a tick (and the root process) and `CHLD N MIB TIME` for a child.
pub fn parse_mprof(text: &str, window: Window) -> (Yield, Yield) {
    let (mut all, mut inside) = (NOTHING, NOTHING);
    for line in text.lines() {
        let tick = match line.split_once(' ') {
            Some(("MEM", _)) => 1.0,
            Some(("CHLD", _)) => 0.0,
            _ => continue,
        };
        let Some(at_s) = line.rsplit(' ').next().and_then(|time| time.parse::<f64>().ok()) else { continue };
        let one = Yield { ticks: tick, process_samples: 1.0 };
        all.add(one);
        if (window.opened_s..window.closed_s).contains(&at_s) {
            inside.add(one);
        }
    }
    (all, inside)
}

/// Ticks and process-samples of a psrecord log: lines are `ELAPSED,PROCESSES,CPU,REAL,VIRTUAL`.
pub fn parse_psrecord(text: &str) -> Yield {
    text.lines().skip(1).filter_map(|line| line.split(',').nth(1)?.parse::<f64>().ok()).fold(
        NOTHING,
        |mut total, processes| {
            total.add(Yield { ticks: 1.0, process_samples: processes });
            total
        },
    )
}

/// What `floor` leaves: its ticks, the answers of single processes, and the seconds that it ran.
pub fn parse_floor(text: &str) -> Result<(Yield, f64)> {
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [ticks, process_samples, duration_s] = numbers[..] else { bail!("not a record of floor: {text}") };
    Ok((Yield { ticks, process_samples }, duration_s))
}

const NOTHING: Yield = Yield { ticks: 0.0, process_samples: 0.0 };

impl Yield {
    fn add(&mut self, other: Self) {
        self.ticks += other.ticks;
        self.process_samples += other.process_samples;
    }

    /// Ticks are even, so a part of the time holds its share of them.
    pub fn share(self, part: f64) -> Self {
        Self { ticks: self.ticks * part, process_samples: self.process_samples * part }
    }

    pub fn minus(self, other: Self) -> Self {
        Self {
            ticks: self.ticks - other.ticks,
            process_samples: self.process_samples - other.process_samples,
        }
    }
}

/// What `nilo report DIR --json` says about a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NiloReport {
    pub ticks: f64,
    pub duration_s: f64,
    pub cpu_s: f64,
    pub written_bytes: f64,
}

pub fn read_nilo_report(nilo: &PathBuf, run: &Path) -> Result<NiloReport> {
    let text = machine::read_output(nilo, &["report", &run.to_string_lossy(), "--json"])?;
    parse_nilo_report(&serde_json::from_str(&text).context("nilo report --json is not JSON")?)
}

fn parse_nilo_report(report: &Value) -> Result<NiloReport> {
    let number = |pointer: &str| {
        report
            .pointer(pointer)
            .and_then(Value::as_f64)
            .with_context(|| format!("nilo report: no number {pointer}"))
    };
    Ok(NiloReport {
        ticks: number("/ticks").or_else(|_| number("/ticks/taken"))?,
        duration_s: number("/duration_s")?,
        cpu_s: number("/cost/cpu_s")?,
        written_bytes: number("/cost/written_bytes")?,
    })
}

impl NiloReport {
    pub fn share(&self, cell: Cell, window_s: f64) -> Yield {
        let all = Yield { ticks: self.ticks, process_samples: self.ticks * cell.tree.processes as f64 };
        all.share(window_s / self.duration_s)
    }
}

/// Bytes of a file.
pub fn read_file_bytes(path: &Path) -> Result<f64> {
    Ok(fs::metadata(path).with_context(|| format!("no record {}", path.display()))?.len() as f64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn mprof_lines_inside_the_window_are_counted() {
        let text = "CMDLINE tree 2 4\nMEM 4.5 100.0\nCHLD 0 4.1 100.1\nMEM 4.5 101.0\nCHLD 0 4.1 101.1\nCHLD";
        let (all, inside) = parse_mprof(text, Window { opened_s: 100.5, closed_s: 200.0 });
        assert_eq!(all, Yield { ticks: 2.0, process_samples: 4.0 });
        assert_eq!(inside, Yield { ticks: 1.0, process_samples: 2.0 });
    }

    #[test]
    fn psrecord_lines_carry_the_number_of_processes() {
        let text = "elapsed_time,nproc,cpu,mem_real,mem_virtual\n0.1,1,0,4,5\n0.2,10,0,40,50\n";
        assert_eq!(parse_psrecord(text), Yield { ticks: 2.0, process_samples: 11.0 });
    }

    #[test]
    fn a_record_of_floor_is_read() {
        let (all, duration_s) = parse_floor("40 391 4.5\n").unwrap();
        assert_eq!(all.share(2.25 / duration_s), Yield { ticks: 20.0, process_samples: 195.5 });
        assert!(parse_floor("40 391").is_err());
    }

    #[test]
    fn a_nilo_report_is_read_and_shared_by_time() {
        let report = json!({"ticks": 120, "duration_s": 12.0, "cost": {"cpu_s": 0.01, "written_bytes": 960}});
        let report = parse_nilo_report(&report).unwrap();
        let cell = Cell { tree: SMALL, tool: Tool::Nilo, interval_ms: 100 };
        assert_eq!(report.share(cell, 10.0), Yield { ticks: 100.0, process_samples: 1000.0 });
        assert!(parse_nilo_report(&json!({"ticks": 1})).is_err());
    }

    #[test]
    fn samplers_are_selected_by_family() {
        assert_eq!(select(&[]).unwrap().len(), ALL.len());
        assert_eq!(select(&["mprof".to_owned()]).unwrap(), [Tool::MprofAlone, Tool::Mprof, Tool::MprofSum]);
        assert!(select(&["top".to_owned()]).is_err());
    }
}
