//! One JSON object per line for every record, in the order of the reader, so that `jq` can stream it.
//!
//! Every line has `kind`, and `seconds` since the first sample where the record has a time (`*_ns` are the
//! log's own `CLOCK_MONOTONIC`). Memory is in bytes (`*_bytes`), except for `system`, whose values are as the
//! kernel gives them, in the unit that `columns` tells. What was not available is `null`.
//!
//! | kind | fields besides |
//! |---|---|
//! | `header` | `format_version`, `mono_ns` and `realtime_ns` (read together), `page_bytes`, `ticks_per_s`, `interval_ns`, `nilo_pid` |
//! | `columns` | `columns`: name and unit of the system values of the ticks that follow |
//! | `process` | a process when first seen: `index`, `pid`, `parent_pid`, `parent`, `start_ticks`, `seen_ns`, `comm`, `command`, `role` |
//! | `process_update` | after `exec`: `index`, `pid`, `comm`, `command`, `role` |
//! | `process_end` | `index`, `pid`, `hwm_bytes`, `waited` (`null`, or what `wait4` told) |
//! | `tick` | `phase`, `step`, `tree` (`low_bytes`, `high_bytes`), `system` by name (`null` if not read), `processes` |
//! | `shares` | PSS and USS of one process: `index`, `pid`, `rss_bytes`, `pss_bytes`, `uss_bytes`, … |
//! | `kinds` | mappings of one process by kind: `index`, `pid`, `mappings`, `kinds`, `largest` |
//! | `mark` | `pid`, `error_ns`, and one of `step`, `phase`, `note` |
//! | `event` | `event` (its name) and the fields of that event |
//! | `end` | the last record: `exit`, `cost`, `ticks`, `missed_ticks`, `cgroup_peak_bytes` |
//!
//! A mark that the target told late stands after ticks that followed it: sort by `seconds` if it matters.

use std::{collections::HashMap, io::Write, path::Path};

use nilometer_trace::{
    Ending, Reader,
    record::{Column, ProcessSample, Record, Tick},
};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, to_value};

use crate::{Error, csv::phase_name, layout::present, outline::Outline};

/// Writes the JSON lines of a run directory. `out` should be buffered.
pub fn write_json(run: &Path, out: &mut dyn Write) -> Result<Ending, Error> {
    let (outline, _) = Outline::read(run)?;
    let mut reader = Reader::open(run)?;
    let mut pids = Pids::default();
    let mut columns = Vec::new();
    while let Some(record) = reader.next_record()? {
        pids.see(record);
        match record {
            Record::Tick(tick) => {
                serde_json::to_writer(&mut *out, &tick_line(&outline, &columns, &pids, tick))?;
            }
            rare => {
                if let Record::Columns(layout) = rare {
                    columns.clone_from(&layout.columns);
                }
                serde_json::to_writer(&mut *out, &rare_line(&outline, &pids, rare)?)?;
            }
        }
        out.write_all(b"\n").map_err(Error::Output)?;
    }
    out.flush().map_err(Error::Output)?;
    Ok(reader.ending())
}

/// Pids by the index that names a process in all later records.
#[derive(Debug, Default)]
pub(crate) struct Pids(HashMap<u32, i32>);

impl Pids {
    pub(crate) fn see(&mut self, record: &Record) {
        if let Record::Process(process) = record {
            self.0.insert(process.index, process.pid);
        }
    }

    pub(crate) fn of(&self, index: u32) -> Option<i32> {
        self.0.get(&index).copied()
    }
}

#[derive(Serialize)]
struct RareLine {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    #[serde(flatten)]
    fields: Map<String, Value>,
}

fn rare_line(outline: &Outline, pids: &Pids, record: &Record) -> Result<RareLine, Error> {
    let (kind, value) = named_value(record)?;
    let Value::Object(mut fields) = in_bytes(value) else { return Ok(no_fields(kind)) };
    if let Some(Value::Object(what)) = fields.remove("what") {
        fields.extend(what);
    }
    let index = fields.get("index").and_then(Value::as_u64).and_then(|index| u32::try_from(index).ok());
    if let Some(index) = index {
        fields.entry("pid").or_insert_with(|| pids.of(index).into());
    }
    Ok(RareLine { kind, seconds: record.at_ns().map(|at_ns| outline.clock.seconds(at_ns)), fields })
}

fn no_fields(kind: &'static str) -> RareLine {
    RareLine { kind, seconds: None, fields: Map::new() }
}

fn named_value(record: &Record) -> Result<(&'static str, Value), serde_json::Error> {
    Ok(match record {
        Record::Header(it) => ("header", to_value(it)?),
        Record::Columns(it) => ("columns", to_value(it)?),
        Record::Process(it) => ("process", to_value(it)?),
        Record::ProcessUpdate(it) => ("process_update", to_value(it)?),
        Record::ProcessEnd(it) => ("process_end", to_value(it)?),
        Record::Shares(it) => ("shares", to_value(it)?),
        Record::Kinds(it) => ("kinds", to_value(it)?),
        Record::Mark(it) => ("mark", to_value(it)?),
        Record::Event(it) => ("event", to_value(it)?),
        Record::End(it) => ("end", to_value(it)?),
        Record::HeapTable(it) => ("heap_table", to_value(it)?),
        Record::Ledger(it) => ("ledger", to_value(it)?),
        // Has a line of its own kind.
        Record::Tick(_) => ("tick", Value::Null),
    })
}

/// Every `…_kib` becomes `…_bytes`.
pub(crate) fn in_bytes(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(in_bytes).collect(),
        Value::Object(fields) => fields.into_iter().map(field_in_bytes).collect(),
        other => other,
    }
}

fn field_in_bytes((name, value): (String, Value)) -> (String, Value) {
    match (name.strip_suffix("_kib"), value.as_u64()) {
        (Some(what), Some(kib)) => (format!("{what}_bytes"), bytes(kib).into()),
        _ => (name, in_bytes(value)),
    }
}

pub(crate) fn bytes(kib: u64) -> u64 {
    kib.saturating_mul(1024)
}

#[derive(Serialize)]
struct TickLine<'a> {
    kind: &'static str,
    seconds: f64,
    at_ns: u64,
    phase: &'static str,
    step: Option<u64>,
    tree: Option<Tree>,
    system: Option<System<'a>>,
    processes: Vec<Sample>,
}

#[derive(Serialize)]
struct Tree {
    low_bytes: u64,
    high_bytes: u64,
}

struct System<'a> {
    columns: &'a [Column],
    values: &'a [u64],
}

impl Serialize for System<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let names = self.columns.iter().map(|column| &column.name);
        serializer.collect_map(names.zip(self.values.iter().map(|value| present(*value))))
    }
}

#[derive(Serialize)]
struct Sample {
    index: u32,
    pid: Option<i32>,
    anon_bytes: u64,
    file_bytes: u64,
    shmem_bytes: u64,
    swap_bytes: u64,
    hwm_bytes: u64,
    minor_faults: u64,
    major_faults: u64,
    child_minor_faults: u64,
    child_major_faults: u64,
    user_s: f64,
    system_s: f64,
    child_user_s: f64,
    child_system_s: f64,
    threads: u32,
}

fn tick_line<'a>(outline: &Outline, columns: &'a [Column], pids: &Pids, tick: &'a Tick) -> TickLine<'a> {
    TickLine {
        kind: "tick",
        seconds: outline.clock.seconds(tick.at_ns),
        at_ns: tick.at_ns,
        phase: phase_name(tick.phase),
        step: outline.step(tick),
        tree: tick.tree.map(|it| Tree { low_bytes: bytes(it.low_kib), high_bytes: bytes(it.high_kib) }),
        system: (!tick.system.is_empty()).then_some(System { columns, values: &tick.system }),
        processes: tick.processes.iter().map(|it| sample(outline, pids, it)).collect(),
    }
}

fn sample(outline: &Outline, pids: &Pids, it: &ProcessSample) -> Sample {
    Sample {
        index: it.index,
        pid: pids.of(it.index),
        anon_bytes: bytes(it.anon_kib),
        file_bytes: bytes(it.file_kib),
        shmem_bytes: bytes(it.shmem_kib),
        swap_bytes: bytes(it.swap_kib),
        hwm_bytes: bytes(it.hwm_kib),
        minor_faults: it.minor_faults,
        major_faults: it.major_faults,
        child_minor_faults: it.child_minor_faults,
        child_major_faults: it.child_major_faults,
        user_s: outline.cpu_s(it.user_ticks),
        system_s: outline.cpu_s(it.system_ticks),
        child_user_s: outline.cpu_s(it.child_user_ticks),
        child_system_s: outline.cpu_s(it.child_system_ticks),
        threads: it.threads,
    }
}
