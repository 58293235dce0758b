//! What the patched MXNet prints about GPU memory, what was made of it, and the table of MXNet's own later profiler.
//!
//! Such a log tells what was handed out, by tag, and never what was given back: sums are cumulative. Lines of
//! other programs (`2>&1`) are skipped and counted.

use nilometer_trace::allocs::Recording;

use crate::error::{Error, Fault, quoted};
use crate::sites::Sites;
use crate::stacks::{Stacks, Told, add};
use crate::time::FIRST_NS;

/// The prefix of what the profiler prints.
const PREFIX: &str = "[mem] ";
const MIB: u64 = 1 << 20;
const SHAPE: &str = "a log of the patched MXNet has lines `[mem] Allocate N bytes GPU memory (TAG).`";
/// Contrib operators print whole MB, no prefix and no tag.
const REGION_PROPOSAL: &str = "(proposal).";

/// A log, an analysis of one, or a table.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Log {
    pub entries: Vec<Entry>,
    /// `Release` lines: neither size nor tag is told.
    pub releases: u64,
    /// Free and total MB of the device, as told after each allocation.
    pub device: Option<Device>,
    pub skipped_lines: u64,
    /// Begin as the profiler's and are none: two prints into one line.
    pub broken_lines: u64,
    pub notes: Vec<String>,
}

/// Allocations of one tag.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// As printed: `(in_arg:fc1_weight).`
    pub tag: String,
    /// The key of its category, where that is told instead of rules.
    pub key: Option<String>,
    pub bytes: u64,
    pub count: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Device {
    pub total_bytes: u64,
    pub lowest_free_bytes: u64,
    pub last_free_bytes: u64,
}

/// Any of the three, told from its first character.
pub fn parse(bytes: &[u8]) -> Result<Log, Error> {
    let text = String::from_utf8_lossy(bytes);
    let log = match text.trim_start().chars().next() {
        Some('{') => parse_analysis(&text)?,
        Some('"') if is_table(&text) => parse_table(&text)?,
        _ => parse_log(&text),
    };
    if log.entries.is_empty() {
        return Err(Error::Unknown { what: "no allocation is told in it".into(), hint: SHAPE });
    }
    Ok(log)
}

pub(crate) fn is_table(head: &str) -> bool {
    head.trim_start().starts_with("\"Attribute Name\"")
}

/// One line of a log.
#[derive(Debug, PartialEq)]
enum Line {
    Allocated { tag: String, bytes: u64 },
    Free { free_bytes: u64, total_bytes: u64 },
    Released,
    Progress,
    Broken,
    Foreign,
}

fn parse_log(text: &str) -> Log {
    let mut log = Log::default();
    for line in text.lines() {
        match parse_line(line) {
            Line::Allocated { tag, bytes } => log.entries.push(Entry { tag, key: None, bytes, count: 1 }),
            Line::Free { free_bytes, total_bytes } => log.see_device(free_bytes, total_bytes),
            Line::Released => log.releases += 1,
            Line::Progress => {}
            Line::Broken => log.broken_lines += 1,
            Line::Foreign => log.skipped_lines += u64::from(!line.trim().is_empty()),
        }
    }
    log
}

impl Log {
    fn see_device(&mut self, free_bytes: u64, total_bytes: u64) {
        let lowest = self.device.map_or(free_bytes, |device| device.lowest_free_bytes.min(free_bytes));
        self.device = Some(Device { total_bytes, lowest_free_bytes: lowest, last_free_bytes: free_bytes });
    }
}

fn parse_line(line: &str) -> Line {
    if let Some((_, told)) = line.split_once(PREFIX) {
        return parse_told(told).unwrap_or(Line::Broken);
    }
    if line.starts_with("[trace]") {
        return Line::Progress;
    }
    parse_region_proposal(line.trim()).unwrap_or(Line::Foreign)
}

fn parse_told(told: &str) -> Option<Line> {
    let words: Vec<&str> = told.split_whitespace().collect();
    match words.as_slice() {
        ["Allocate", bytes, "bytes", "GPU", "memory", ..] => {
            let (_, tag) = told.split_once(" GPU memory ")?;
            Some(Line::Allocated { tag: checked_tag(tag.trim())?, bytes: bytes.parse().ok()? })
        }
        ["Release", "GPU", "memory."] => Some(Line::Released),
        [free, "MB", "GPU", "global", "memory", "free,", "total", total, "MB."] => {
            Some(Line::Free { free_bytes: parse_mb(free)?, total_bytes: parse_mb(total)? })
        }
        ["finished", ..] => Some(Line::Progress),
        _ => None,
    }
}

/// `(TAG).` and nothing behind it: two prints into one line are none.
fn checked_tag(tag: &str) -> Option<String> {
    let inside =
        tag.strip_prefix('(')?.strip_suffix(").").or_else(|| tag.strip_prefix('(')?.strip_suffix(')'))?;
    (!inside.contains(PREFIX.trim())).then(|| format!("({inside})."))
}

/// `Allocate 12 MB GPU memory`, with or without more words.
fn parse_region_proposal(line: &str) -> Option<Line> {
    let mut words = line.split_whitespace();
    let (first, size, unit) = (words.next()?, words.next()?, words.next()?);
    (first == "Allocate" && unit.starts_with("MB")).then_some(())?;
    Some(Line::Allocated { tag: REGION_PROPOSAL.to_owned(), bytes: parse_mb(size)? })
}

fn parse_mb(word: &str) -> Option<u64> {
    let value: f64 = word.parse().ok()?;
    (value.is_finite() && (0.0..1e9).contains(&value)).then(|| (value * MIB as f64).round() as u64)
}

/// `{"in_arg": [BYTES, ["(in_arg:…).", …]], …}`.
fn parse_analysis(text: &str) -> Result<Log, Error> {
    type Analysis = std::collections::BTreeMap<String, (f64, Vec<String>)>;
    const HINT: &str = "an _ANALYSIS file is {\"category\": [bytes, [tags]]}";
    let parsed: Analysis = serde_json::from_str(text)
        .map_err(|error| Error::Unknown { what: format!("not an _ANALYSIS file: {error}"), hint: HINT })?;
    let entry = |(key, (bytes, tags)): (String, (f64, Vec<String>))| Entry {
        tag: tags.first().cloned().unwrap_or_default(),
        key: Some(key),
        bytes: bytes.max(0.0) as u64,
        count: tags.len() as u64,
    };
    let notes =
        vec!["the sizes of single allocations are not in an analysis: each category is one entry".into()];
    Ok(Log { entries: parsed.into_iter().map(entry).collect(), notes, ..Log::default() })
}

/// `"Attribute Name","Requested Size","Device","Actual Size","Reuse?"`.
fn parse_table(text: &str) -> Result<Log, Error> {
    let mut log = Log::default();
    for (number, line) in (1..).zip(text.lines()).skip(1).filter(|(_, line)| !line.trim().is_empty()) {
        let row = parse_row(line).map_err(|fault| fault.at(number))?;
        match row {
            Row::Allocated(entry) => log.entries.push(entry),
            Row::Reused => log.releases += 1,
            Row::Negative(bytes) => log.notes.push(format!(
                "nvml_amend is {bytes}: the driver tells less than the blocks add up to; it was left out"
            )),
        }
    }
    if log.releases > 0 {
        log.notes.push(format!(
            "{} rows use memory of an earlier row again and are not counted twice",
            log.releases
        ));
        log.releases = 0;
    }
    Ok(log)
}

enum Row {
    Allocated(Entry),
    Reused,
    Negative(i64),
}

fn parse_row(line: &str) -> Result<Row, Fault> {
    const SHAPE: &str = "a row is \"NAME\",\"BYTES\",\"DEVICE\",\"BYTES\",\"0 or 1\"";
    let fault = || Fault::new(format!("{} is no row of the table", quoted(line)), SHAPE);
    let cells: Vec<&str> = line.trim().trim_matches('"').split("\",\"").collect();
    let [name, _, _, actual, reuse] = cells.as_slice() else { return Err(fault()) };
    let bytes: u64 = actual.parse().map_err(|_| fault())?;
    if *reuse == "1" {
        return Ok(Row::Reused);
    }
    // A residual below zero was printed as if it had no sign.
    match i64::try_from(bytes) {
        Ok(_) => Ok(Row::Allocated(Entry { tag: format!("({name})."), key: None, bytes, count: 1 })),
        Err(_) => Ok(Row::Negative(bytes as i64)),
    }
}

/// The sites of logs: a tag is a stack of one frame, a log is a process.
pub fn sites(logs: &[(String, Log)]) -> Sites {
    let mut stacks = Stacks::default();
    let mut notes = Vec::new();
    for (name, log) in logs {
        let process = stacks.process(name);
        for entry in &log.entries {
            let site = stacks.site(process, &[Told::named(&entry.tag, "<mxnet>")]);
            count(&mut stacks, site, entry, log.releases == 0);
        }
        notes.extend(log.notes.iter().map(|note| format!("{name}: {note}")));
        if log.releases > 0 {
            notes.push(format!(
                "{name}: {} releases without size or tag: what was live is not known, only what was allocated \
                 (--what cumulative)",
                log.releases
            ));
        }
    }
    let (mut recording, symbols): (Recording, _) = stacks.finish();
    (recording.about.started_ns, recording.about.ended_ns) = (FIRST_NS, FIRST_NS);
    Sites { recording, symbols, realtime_ns: 0, last_ns: FIRST_NS, notes }
}

/// Where nothing was given back, all that was allocated is live.
fn count(stacks: &mut Stacks, site: u32, entry: &Entry, all_live: bool) {
    let Some(site) = stacks.site_mut(site) else { return };
    let amount = nilometer_trace::allocs::Amount { bytes: entry.bytes, count: entry.count, variance: 0 };
    add(&mut site.total, &amount);
    if all_live {
        add(&mut site.live, &amount);
        add(&mut site.peak, &amount);
        site.highest_bytes = site.total.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shape_of_line_is_known() {
        let allocated = |tag: &str, bytes| Line::Allocated { tag: tag.into(), bytes };
        for (line, known) in [
            (
                "[mem] Allocate 4096 bytes GPU memory (in_arg:fc1_weight).",
                allocated("(in_arg:fc1_weight).", 4096),
            ),
            (
                "INFO:root:x [mem] Allocate 12 bytes GPU memory (warning!,ctx_source_unclear).",
                allocated("(warning!,ctx_source_unclear).", 12),
            ),
            (
                "[mem] 7934.5 MB GPU global memory free, total 8114 MB.",
                Line::Free { free_bytes: 8_319_926_272, total_bytes: 8_508_145_664 },
            ),
            ("[mem] Release GPU memory.", Line::Released),
            ("[mem] finished binding.", Line::Progress),
            ("[trace] forward 3", Line::Progress),
            ("Allocate 3 MB GPU memory for proposals", allocated("(proposal).", 3 << 20)),
            ("[mem] Allocate 12 bytes GPU[mem] Release GPU memory.", Line::Broken),
            ("Epoch[0] Batch [20] Speed: 12.5 samples/sec", Line::Foreign),
            ("Allocate a bigger machine", Line::Foreign),
        ] {
            assert_eq!(parse_line(line), known, "{line}");
        }
    }

    #[test]
    fn the_later_table_has_a_residual_that_may_be_negative() {
        let text = "\"Attribute Name\",\"Requested Size\",\"Device\",\"Actual Size\",\"Reuse?\"\n\
                    \"net:in_arg:w\",\"4000\",\"0\",\"4096\",\"0\"\n\
                    \"net:dot\",\"4000\",\"0\",\"4096\",\"1\"\n\
                    \"nvml_amend\",\"1000\",\"0\",\"1000\",\"0\"\n";
        let sum = |log: &Log| log.entries.iter().map(|entry| entry.bytes).sum::<u64>();
        let log = parse(text.as_bytes()).unwrap();
        assert_eq!(sum(&log), 5096);
        assert_eq!((log.entries.len(), log.notes.len()), (2, 1));
        let negative = text.replace("\"1000\",\"0\",\"1000\"", "\"0\",\"0\",\"18446744073709551516\"");
        let log = parse(negative.as_bytes()).unwrap();
        assert_eq!(sum(&log), 4096);
        assert!(log.notes.iter().any(|note| note.contains("nvml_amend is -100")), "{:?}", log.notes);
    }
}
