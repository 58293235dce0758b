//! Measured once: reports, the event stream, a long run, instructions.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::known::Known;
use super::workload::{ALL, Tool, Workload};
use super::workshop::Workshop;
use crate::bench::bar::{Bar, Limit};

/// Events of the long run: two threads, an allocation and a free each.
const LONG_RUN_PAIRS: u64 = 25_000_000;

/// What rounds would not make better.
#[derive(Debug, Default)]
pub struct Extras {
    pub reports: Vec<Report>,
    /// Workload, events, bytes of the stream per event.
    pub streams: Vec<(String, u64, f64)>,
    pub long_run: Option<LongRun>,
    pub instructions: Option<Instructions>,
    pub known: Option<Known>,
    pub complete: Vec<Complete>,
}

/// Instructions of a torch training, unwatched and sampled: of a few steps, which is mostly imports, and of some more.
#[derive(Debug, Clone, Copy)]
pub struct Instructions {
    few: (f64, f64),
    more: (f64, f64),
}

/// Steps under callgrind: it takes minutes for each.
const FEW_STEPS: u64 = 3;
const MORE_STEPS: u64 = 23;

impl Instructions {
    /// In percent: of the steps alone, and of the short run as a whole.
    fn shares(&self) -> (f64, f64) {
        let steps = (self.more.1 - self.few.1) / (self.more.0 - self.few.0).max(1.0);
        ((steps - 1.0) * 100.0, (self.few.1 / self.few.0 - 1.0) * 100.0)
    }
}

/// What a complete record of the last round says of itself. What is lost costs the program nothing, so that costs are only
/// worth something beside this.
#[derive(Debug, Clone)]
pub struct Complete {
    workload: &'static str,
    events: u64,
    raw_bytes: u64,
    lost_events: u64,
}

#[derive(Debug, Clone)]
pub struct Report {
    pub workload: String,
    pub tool: &'static str,
    pub wall_s: f64,
    pub cpu_s: f64,
    pub peak_bytes: f64,
}

#[derive(Debug, Clone)]
pub struct LongRun {
    pub events: u64,
    pub lost: u64,
    pub record_bytes: u64,
    pub report: Report,
}

/// The reports of records that the last round left.
pub fn reports(workshop: &Workshop, workload: &Workload) -> Vec<Report> {
    let mut reports = Vec::new();
    for &tool in workload.tools.iter().filter(|tool| workshop.can(workload, **tool)) {
        let record = workshop.record(workload, tool);
        let words = report_command(workshop, workload, tool, &record);
        if words.is_empty() || !record.exists() {
            continue;
        }
        match report(workshop, workload.name, tool.label(), &words, workload.is_torch()) {
            Ok(report) => reports.push(report),
            Err(error) => println!("no report of {} under {}: {error:#}", workload.name, tool.label()),
        }
    }
    reports
}

fn report_command(workshop: &Workshop, workload: &Workload, tool: Tool, record: &Path) -> Vec<OsString> {
    let python = workload.plain(workshop).into_iter().next().unwrap_or_default();
    match tool {
        Tool::Nobody => Vec::new(),
        Tool::Heaptrack => vec!["heaptrack_print".into(), record.into()],
        tool if tool.is_nilo() => {
            // The names are read anew, as in a first report.
            let _ = fs::remove_file(record.join("symbols"));
            vec![workshop.nilo.clone().into(), "report".into(), record.into(), "--allocs".into()]
        }
        _ => {
            let page = record.with_extension("html");
            let words = ["-m", "memray", "flamegraph", "-f", "-o"].map(OsString::from);
            [vec![python], words.to_vec(), vec![page.into(), record.into()]].concat()
        }
    }
}

fn report(
    workshop: &Workshop,
    workload: &str,
    tool: &'static str,
    words: &[OsString],
    with_packages: bool,
) -> Result<Report> {
    let (cost, _) = workshop.cost(words, with_packages)?;
    let number = |name: &str| cost[name].as_f64().unwrap_or(f64::NAN);
    println!("report of {workload} under {tool}: {:.2} s", number("wall_s"));
    Ok(Report {
        workload: workload.to_owned(),
        tool,
        wall_s: number("wall_s"),
        cpu_s: number("cpu_s"),
        peak_bytes: number("peak_bytes"),
    })
}

/// What the complete records of the last round say.
pub fn complete(workshop: &Workshop, workload: &Workload) -> Result<Vec<Complete>> {
    let tools = [Tool::NiloAll, Tool::NiloDeep].into_iter().filter(|tool| workload.tools.contains(tool));
    let read = |tool: Tool| -> Result<Complete> {
        let document = read_document(workshop, &workshop.record(workload, tool))?;
        let number = |name: &str| document[name].as_u64().with_context(|| format!("no {name} was told"));
        let (events, raw_bytes, lost_events) =
            (number("events")?, number("raw_bytes")?, number("lost_events")?);
        Ok(Complete { workload: workload.name, events, raw_bytes, lost_events })
    };
    tools.map(read).collect()
}

/// Bytes per event of the stream that `--events` keeps.
pub fn stream(workshop: &Workshop, workload: &Workload) -> Result<Option<(String, u64, f64)>> {
    let mode = if workload.tools.contains(&Tool::NiloDeep) { "--allocs=deep" } else { "--allocs=all" };
    let record = workshop.folder.join("stream.nilo");
    let _ = fs::remove_dir_all(&record);
    let mut words: Vec<OsString> = vec![workshop.nilo.clone().into()];
    words.extend(["run", "-q", mode, "--events", "-o"].map(OsString::from));
    words.extend([record.clone().into(), "--".into()]);
    words.extend(workload.plain(workshop));
    workshop.cost(&words, workload.is_torch())?;
    let document = read_document(workshop, &record)?;
    let _ = fs::remove_dir_all(&record);
    let (Some(events), Some(bytes)) = (document["events"].as_u64(), document["event_bytes"].as_f64()) else {
        return Ok(None);
    };
    Ok(Some((workload.name.to_owned(), events, bytes / events.max(1) as f64)))
}

pub fn read_document(workshop: &Workshop, record: &Path) -> Result<Value> {
    let words =
        [workshop.nilo.clone().into(), "report".into(), record.into(), "--allocs".into(), "--json".into()];
    let (_, said) = workshop.cost(&words, false)?;
    serde_json::from_str(&said).context("nilo report --allocs --json is not JSON")
}

/// A hundred million events.
pub fn long_run(workshop: &Workshop, pairs: Option<u64>) -> Result<LongRun> {
    let stress = ALL.iter().find(|workload| workload.name == "stress-2").context("no stress")?;
    let workload = stress.sized(pairs.unwrap_or(LONG_RUN_PAIRS));
    let reading = workshop.measure(&workload, Tool::NiloAll, 0)?;
    let record = workshop.record(&workload, Tool::NiloAll);
    let words = report_command(workshop, &workload, Tool::NiloAll, &record);
    let report = report(workshop, "long run", Tool::NiloAll.label(), &words, false)?;
    let document = read_document(workshop, &record)?;
    let number = |name: &str| document[name].as_u64().unwrap_or(0);
    Ok(LongRun {
        events: number("events"),
        lost: number("lost_events"),
        record_bytes: reading.record_bytes,
        report,
    })
}

pub fn instructions(workshop: &Workshop) -> Result<Instructions> {
    Ok(Instructions {
        few: instructions_of(workshop, FEW_STEPS)?,
        more: instructions_of(workshop, MORE_STEPS)?,
    })
}

/// Instructions of a training, unwatched and sampled, as callgrind counts them.
fn instructions_of(workshop: &Workshop, steps: u64) -> Result<(f64, f64)> {
    let cnn = ALL.iter().find(|workload| workload.name == "cnn").context("no cnn")?.sized(steps);
    let file = workshop.folder.join("callgrind.out");
    // Both the same work: by chance alone, hashes of strings make a difference of a thousandth.
    let seeded = ["env", "PYTHONHASHSEED=0"].map(OsString::from);
    let mut valgrind: Vec<OsString> = vec!["valgrind".into(), "--tool=callgrind".into()];
    valgrind.push(format!("--callgrind-out-file={}", file.display()).into());
    valgrind.extend(cnn.plain(workshop));
    let record = workshop.folder.join("callgrind.nilo");
    let _ = fs::remove_dir_all(&record);
    let mut watched: Vec<OsString> = vec![workshop.nilo.clone().into()];
    watched.extend(["run", "-q", "--allocs", "-o"].map(OsString::from));
    watched.extend([record.into(), "--".into()]);
    watched.extend(valgrind.iter().cloned());
    let mut counted = [0.0, 0.0];
    for (count, words) in counted.iter_mut().zip([valgrind, watched]) {
        workshop.cost(&[&seeded, &words[..]].concat(), true)?;
        *count = parse_totals(&fs::read_to_string(&file)?).context("callgrind told no totals")?;
    }
    Ok((counted[0], counted[1]))
}

fn parse_totals(text: &str) -> Option<f64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("totals:").or_else(|| line.strip_prefix("summary:")))?;
    line.trim().parse().ok()
}

impl Extras {
    pub fn bars(&self) -> Vec<Bar> {
        let bar = |what: String, measured: Option<f64>, limit: f64, unit| Bar {
            what,
            measured,
            limit: Limit::AtMost(limit),
            unit,
        };
        let of = |workload: &str| {
            self.reports.iter().find(|r| r.workload == workload && r.tool == Tool::NiloAll.label())
        };
        let mut bars = Vec::new();
        for workload in ["sklearn", "cnn", "transformer"] {
            bars.push(bar(format!("{workload}: report, wall"), of(workload).map(|r| r.wall_s), 3.0, " s"));
            bars.push(bar(
                format!("{workload}: report, memory"),
                of(workload).map(|r| r.peak_bytes / 1e6),
                300.0,
                " MB",
            ));
        }
        for (workload, limit) in [("churn", 3.0), ("numpy", 3.0), ("cnn", 4.5), ("transformer", 4.5)] {
            let measured = self.streams.iter().find(|stream| stream.0 == workload).map(|stream| stream.2);
            bars.push(bar(format!("{workload}: bytes per event of --events"), measured, limit, " B"));
        }
        let long = self.long_run.as_ref();
        bars.push(bar("long run: report, wall".into(), long.map(|run| run.report.wall_s), 5.0, " s"));
        bars.push(bar(
            "long run: report, memory".into(),
            long.map(|run| run.report.peak_bytes / 1e6),
            500.0,
            " MB",
        ));
        bars.push(bar("long run: events lost".into(), long.map(|run| run.lost as f64), 0.0, ""));
        let shares = self.instructions.as_ref().map(Instructions::shares);
        bars.push(bar("cnn: more instructions per step, sampled".into(), shares.map(|it| it.0), 1.0, " %"));
        let whole = format!("cnn: more instructions with imports and {FEW_STEPS} steps, sampled");
        bars.push(bar(whole, shares.map(|it| it.1), 1.0, " %"));
        bars.extend(Known::bars(self.known.as_ref()));
        for Complete { workload, events, raw_bytes, lost_events } in &self.complete {
            let share = *lost_events as f64 / (lost_events + events).max(1) as f64 * 100.0;
            bars.push(bar(format!("{workload}: events lost"), Some(share), 0.0, " %"));
            let each = *raw_bytes as f64 / (*events).max(1) as f64;
            bars.push(bar(format!("{workload}: raw bytes per event"), Some(each), 7.0, " B"));
        }
        bars
    }

    pub fn to_json(&self) -> Value {
        let reports: Vec<Value> = self.reports.iter().map(Report::to_json).collect();
        let streams: Vec<Value> = self
            .streams
            .iter()
            .map(|(workload, events, bytes)| json!({"workload": workload, "events": events, "bytes_per_event": bytes}))
            .collect();
        let long = self.long_run.as_ref().map(|run| {
            json!({"events": run.events, "lost": run.lost, "record_bytes": run.record_bytes, "report": run.report.to_json()})
        });
        let complete = self.complete.iter().map(|it| {
            json!({
                "workload": it.workload, "events": it.events, "raw_bytes": it.raw_bytes,
                "lost_events": it.lost_events,
            })
        });
        let complete: Vec<Value> = complete.collect();
        json!({
            "reports": reports, "streams": streams, "long_run": long, "instructions": self.instructions.map(|it| [it.few, it.more]),
            "known": self.known.map(Known::to_json), "complete": complete,
        })
    }
}

impl Report {
    fn to_json(&self) -> Value {
        json!({
            "workload": self.workload, "tool": self.tool, "wall_s": self.wall_s, "cpu_s": self.cpu_s,
            "peak_bytes": self.peak_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callgrinds_totals_are_read() {
        assert_eq!(parse_totals("events: Ir\nfn=(1) x\n0 5\n\ntotals: 123456\n"), Some(123_456.0));
        assert_eq!(parse_totals("events: Ir\n"), None);
    }
}
