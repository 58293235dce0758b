//! One line per tick at which the system was read. `TABLES.md` defines the columns.
//!
//! The first ones are those of the Caffe choke test's `mem_info.csv`, all in kB. Sums of RSS over processes are not
//! offered: shared pages would be counted once per process; the tree's interval is the honest number.

use std::{
    borrow::Cow,
    io::{self, Write},
    path::Path,
};

use nilometer_trace::{
    Ending, Reader,
    record::{Phase, Record, Tick},
};

use crate::{
    Error,
    layout::{Layout, Union},
    outline::Outline,
};

const MEMINFO: &str = "meminfo.";
const OWN_RSS: &str = "nilo.rss";
/// Between the meminfo fields and all other system columns.
const OURS: [&str; 7] =
    ["program_usage", "used_less_buffers_cache", "swap", "phase", "step", "tree_low_kb", "tree_high_kb"];

/// Writes the CSV of a run directory. `out` should be buffered.
pub fn write_csv(run: &Path, out: &mut dyn Write) -> Result<Ending, Error> {
    let (outline, _) = Outline::read(run)?;
    let plan = Plan::new(&outline.union);
    plan.write_header(&outline.union, out).map_err(Error::Output)?;
    let mut reader = Reader::open(run)?;
    let mut layout = Layout::default();
    while let Some(record) = reader.next_record()? {
        match record {
            Record::Columns(columns) => layout.set(columns, &outline.union),
            Record::Tick(tick) if !tick.system.is_empty() => {
                plan.write_row(&outline, tick, layout.spread(&tick.system), out).map_err(Error::Output)?;
            }
            _ => {}
        }
    }
    out.flush().map_err(Error::Output)?;
    Ok(reader.ending())
}

/// Which slot of the union goes where.
#[derive(Debug)]
struct Plan {
    meminfo: Vec<usize>,
    others: Vec<usize>,
    own_rss: Option<usize>,
    memory: Option<[usize; 4]>,
    swap: Option<[usize; 2]>,
    swap_cached: Option<usize>,
}

impl Plan {
    fn new(union: &Union) -> Self {
        let names = || union.columns().iter().map(|column| column.name.as_str()).enumerate();
        let field = |name: &str| union.slot(&format!("{MEMINFO}{name}"));
        let all_of = |names: [&str; 4]| -> Option<[usize; 4]> {
            let [a, b, c, d] = names.map(field);
            Some([a?, b?, c?, d?])
        };
        Self {
            meminfo: names().filter(|(_, name)| name.starts_with(MEMINFO)).map(|(slot, _)| slot).collect(),
            others: names()
                .filter(|(_, name)| !name.starts_with(MEMINFO) && *name != OWN_RSS)
                .map(|(slot, _)| slot)
                .collect(),
            own_rss: union.slot(OWN_RSS),
            memory: all_of(["MemTotal", "MemFree", "Buffers", "Cached"]),
            swap: field("SwapTotal").zip(field("SwapFree")).map(<[usize; 2]>::from),
            swap_cached: field("SwapCached"),
        }
    }

    fn write_header(&self, union: &Union, out: &mut dyn Write) -> io::Result<()> {
        let name = |slot: &usize| union.columns()[*slot].name.as_str();
        out.write_all(b"seconds")?;
        for slot in &self.meminfo {
            write_text(out, name(slot).strip_prefix(MEMINFO).unwrap_or_default())?;
        }
        for ours in OURS {
            write_text(out, ours)?;
        }
        for slot in &self.others {
            write_text(out, name(slot))?;
        }
        out.write_all(b"\n")
    }

    fn write_row(
        &self,
        outline: &Outline,
        tick: &Tick,
        values: &[Option<u64>],
        out: &mut dyn Write,
    ) -> io::Result<()> {
        write!(out, "{}", outline.clock.seconds(tick.at_ns))?;
        for slot in &self.meminfo {
            write_number(out, values[*slot])?;
        }
        write_number(out, self.own_rss.and_then(|slot| values[slot]).map(|bytes| bytes / 1024))?;
        write_number(out, self.used_less_buffers_cache(values))?;
        write_number(out, self.swap_used(values))?;
        write_text(out, phase_name(tick.phase))?;
        write_number(out, outline.step(tick))?;
        write_number(out, tick.tree.map(|tree| tree.low_kib))?;
        write_number(out, tick.tree.map(|tree| tree.high_kib))?;
        for slot in &self.others {
            write_number(out, values[*slot])?;
        }
        out.write_all(b"\n")
    }

    /// As `free` said it on its line `-/+ buffers/cache` in the days of that test (2016).
    fn used_less_buffers_cache(&self, values: &[Option<u64>]) -> Option<u64> {
        let [total, free, buffers, cached] = self.memory?.map(|slot| values[slot]);
        Some(total?.saturating_sub(free?).saturating_sub(buffers?).saturating_sub(cached?))
    }

    /// Pages that are in swap only: those in the swap cache are in memory too.
    fn swap_used(&self, values: &[Option<u64>]) -> Option<u64> {
        let [total, free] = self.swap?.map(|slot| values[slot]);
        let cached = self.swap_cached.and_then(|slot| values[slot]).unwrap_or(0);
        Some(total?.saturating_sub(free?).saturating_sub(cached))
    }
}

pub(crate) fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Before => "before",
        Phase::During => "during",
        Phase::After => "after",
    }
}

fn write_number(out: &mut dyn Write, value: Option<u64>) -> io::Result<()> {
    match value {
        Some(value) => write!(out, ",{value}"),
        None => out.write_all(b","),
    }
}

fn write_text(out: &mut dyn Write, text: &str) -> io::Result<()> {
    write!(out, ",{}", quoted(text))
}

/// Quoted where RFC 4180 wants it.
pub(crate) fn quoted(text: &str) -> Cow<'_, str> {
    if text.contains(['"', ',', '\n', '\r']) {
        Cow::Owned(format!("\"{}\"", text.replace('"', "\"\"")))
    } else {
        Cow::Borrowed(text)
    }
}
