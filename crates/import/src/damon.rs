//! Recordings of DAMON: the JSON of `damo` (plain or packed by zlib), and the kernel's own trace event as text.
//!
//! A snapshot becomes one look: a region in which an access was sampled counts as touched whole. What a file does not say
//! (which memory is resident, who owns it) stays unsaid.

use std::collections::BTreeMap;
use std::io::Read as _;

use nilometer_trace::pages::{About, End, Line, Look, Process, Span, Unit, VERSION};
use serde_json::Value;

use crate::error::Error;

const PAGE: u64 = 4096;
/// The most that a packed file may unpack to.
const MOST_BYTES: u64 = 1 << 30;
const ZLIB: u8 = 0x78;
/// include/trace/events/damon.h
const EVENT: &str = "damon_aggregated:";

/// Regions of all targets between two times.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Snapshot {
    start_ns: u64,
    end_ns: u64,
    /// By target.
    regions: BTreeMap<u64, Vec<Region>>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Region {
    start: u64,
    end: u64,
    touched: bool,
}

/// Whether a file that begins so is one.
pub fn recognises(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    head.first() == Some(&ZLIB)
        && head.get(1).is_some_and(|second| (0x7800 + u16::from(*second)).is_multiple_of(31))
        || text.contains("damon_aggregated:")
        || text.trim_start().starts_with(['[', '{']) && text.contains("\"kdamond_idx\"")
}

/// All lines of a recording of looks.
pub fn convert(bytes: &[u8], name: &str) -> Result<Vec<Line>, Error> {
    let bytes = &unpack(bytes)?;
    let begins = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    let snapshots = match begins {
        Some(b'[' | b'{') => of_json(bytes)?,
        _ => of_trace(&String::from_utf8_lossy(bytes)),
    };
    if snapshots.is_empty() {
        return Err(unknown("it has no snapshot of DAMON"));
    }
    Ok(lines(&snapshots, name))
}

fn unpack(bytes: &[u8]) -> Result<Vec<u8>, Error> {
    if bytes.first() != Some(&ZLIB) {
        return Ok(bytes.to_vec());
    }
    let mut unpacked = Vec::new();
    let mut reader = flate2::read::ZlibDecoder::new(bytes).take(MOST_BYTES);
    reader.read_to_end(&mut unpacked).map_err(|error| unknown(&format!("it cannot be unpacked: {error}")))?;
    Ok(unpacked)
}

fn unknown(what: &str) -> Error {
    let hint = "known: the file of `damo record` (damon.data), its JSON, or the text of `perf script` with damon_aggregated events";
    Error::Unknown { what: what.to_owned(), hint }
}

/// Records, each of one target, with snapshots in order of time.
fn of_json(bytes: &[u8]) -> Result<Vec<Snapshot>, Error> {
    let document: Value =
        serde_json::from_slice(bytes).map_err(|error| unknown(&format!("it is no JSON: {error}")))?;
    let mut found: BTreeMap<(u64, u64), Snapshot> = BTreeMap::new();
    let whole = std::slice::from_ref(&document);
    let records = document.as_array().map_or(whole, Vec::as_slice);
    for (place, record) in records.iter().enumerate() {
        let target = number(&record["target_id"]).unwrap_or(place as u64);
        for snapshot in record["snapshots"].as_array().into_iter().flatten() {
            let Some(times) = time(&snapshot["start_time"]).zip(time(&snapshot["end_time"])) else {
                continue;
            };
            let regions = snapshot["regions"].as_array().into_iter().flatten().filter_map(region);
            let into = found.entry(times).or_default();
            (into.start_ns, into.end_ns) = times;
            into.regions.entry(target).or_default().extend(regions);
        }
    }
    Ok(found.into_values().collect())
}

fn region(region: &Value) -> Option<Region> {
    let (start, end) = (number(&region["start"])?, number(&region["end"])?);
    let accesses = &region["nr_accesses"];
    let samples = number(accesses).or_else(|| number(&accesses["samples"]));
    let touched = match samples {
        Some(samples) => samples > 0,
        None => accesses["percent"].as_f64().or_else(|| decimal(accesses["percent"].as_str()?))? > 0.0,
    };
    (start < end).then_some(Region { start, end, touched })
}

/// `4096`, `"4,096"`.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_f64().map(|number| number as u64)).or_else(|| {
        let digits: String = value.as_str()?.chars().filter(|c| *c != ',').collect();
        digits.trim().parse().ok()
    })
}

fn decimal(text: &str) -> Option<f64> {
    let digits: String = text.chars().filter(|c| c.is_ascii_digit() || *c == '.').collect();
    digits.parse().ok()
}

/// Nanoseconds: a number, or words as `1 m 2.5 s 3 ms`.
fn time(value: &Value) -> Option<u64> {
    if let Some(ns) = number(value) {
        return Some(ns);
    }
    let text: String = value.as_str()?.chars().filter(|c| *c != ',').collect();
    let mut total = 0.0;
    let mut words = text.split_whitespace();
    while let Some(word) = words.next() {
        let split = word.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(word.len());
        let (amount, unit) = word.split_at(split);
        let unit = if unit.is_empty() { words.next().unwrap_or("ns") } else { unit };
        total += amount.parse::<f64>().ok()? * unit_ns(unit)?;
    }
    Some(total as u64)
}

fn unit_ns(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" => 60e9,
        "h" => 3600e9,
        "day" | "days" | "d" => 86_400e9,
        _ => return None,
    })
}

/// `… 1234.567890: damon:damon_aggregated: target_id=0 nr_regions=11 4096-8192: 0 864`, one region a line.
fn of_trace(text: &str) -> Vec<Snapshot> {
    let mut snapshots: Vec<Snapshot> = Vec::new();
    for line in text.lines() {
        let Some((at_ns, target, region)) = event(line) else { continue };
        let is_new = snapshots.last().is_none_or(|last| last.end_ns.abs_diff(at_ns) > 1_000_000);
        if is_new {
            let start_ns = snapshots.last().map_or(at_ns, |last| last.end_ns);
            snapshots.push(Snapshot { start_ns, end_ns: at_ns, ..Snapshot::default() });
        }
        if let Some(last) = snapshots.last_mut() {
            last.regions.entry(target).or_default().push(region);
        }
    }
    // When the first began is not told: as long before its end as the second took.
    let second = snapshots.get(1).map_or(0, |second| second.end_ns - second.start_ns);
    if let Some(first) = snapshots.first_mut() {
        first.start_ns = first.end_ns.saturating_sub(second);
    }
    snapshots
}

fn event(line: &str) -> Option<(u64, u64, Region)> {
    let (head, tail) = line.split_once(EVENT)?;
    let stamp = head.split_whitespace().rev().find_map(|word| word.strip_suffix(':')?.parse::<f64>().ok())?;
    let words: Vec<&str> = tail.split_whitespace().collect();
    let target = words.iter().find_map(|word| word.strip_prefix("target_id=")?.parse().ok())?;
    let at = words.iter().position(|word| word.ends_with(':') && word.contains('-'))?;
    let (start, end) = words.get(at)?.trim_end_matches(':').split_once('-')?;
    let accesses: u64 = words.get(at + 1)?.parse().ok()?;
    let region = Region { start: start.parse().ok()?, end: end.parse().ok()?, touched: accesses > 0 };
    (region.start < region.end).then_some(((stamp * 1e9) as u64, target, region))
}

fn lines(snapshots: &[Snapshot], name: &str) -> Vec<Line> {
    let first_ns = snapshots.first().map_or(0, |snapshot| snapshot.start_ns);
    let last_ns = snapshots.last().map_or(0, |snapshot| snapshot.end_ns);
    let about = About {
        version: VERSION,
        command: name.to_owned(),
        backend: "damon".into(),
        why: "imported".into(),
        unit: Unit::Region,
        page_bytes: PAGE,
        reuse_why_not: Some("regions are samples, and change from window to window".into()),
        written_why_not: Some("DAMON does not tell writes apart".into()),
        notes: vec![
            "resident is all that DAMON watched: the recording does not say what of it is in memory".into(),
        ],
        ..About::default()
    };
    let looks =
        snapshots.iter().zip(0..).map(|(snapshot, round)| Line::Look(look(snapshot, round, first_ns)));
    let end = End { duration_ns: last_ns.saturating_sub(first_ns), why: "imported".into(), ..End::default() };
    let about = Line::About(Box::new(about));
    std::iter::once(about).chain(looks).chain([Line::End(end)]).collect()
}

fn look(snapshot: &Snapshot, round: u32, first_ns: u64) -> Look {
    let window_ns = snapshot.end_ns.saturating_sub(snapshot.start_ns);
    let process = |(target, regions): (&u64, &Vec<Region>)| {
        let spans: Vec<Span> = spans(regions);
        let rss_bytes = spans.iter().map(|span| span.pages).sum::<u64>() * PAGE;
        Process { pid: (*target & 0x7fff_ffff) as i32, rss_bytes, spans, ..Process::default() }
    };
    Look {
        round,
        last: true,
        asked_ns: window_ns,
        effective_ns: window_ns,
        mark_ns: snapshot.start_ns.saturating_sub(first_ns),
        processes: snapshot.regions.iter().map(process).collect(),
        ..Look::default()
    }
}

/// In order of address, none overlapping the one before.
fn spans(regions: &[Region]) -> Vec<Span> {
    let mut regions = regions.to_vec();
    regions.sort_unstable_by_key(|region| region.start);
    let mut end = 0;
    let mut spans = Vec::new();
    for region in regions {
        let (first, last) = ((region.start / PAGE).max(end), (region.end / PAGE).min(1 << 52));
        let Some(pages) = last.checked_sub(first).filter(|pages| *pages > 0) else { continue };
        end = last;
        let touched = if region.touched { pages } else { 0 };
        spans.push(Span { first, pages, resident: pages, touched, mapping: 0 });
    }
    spans
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    const JSON: &str = r#"[{"kdamond_idx": 0, "target_id": "3", "snapshots": [
        {"start_time": "1 s", "end_time": "1 s 100 ms", "regions": [
            {"start": "4,096", "end": "12,288", "nr_accesses": {"samples": "2", "percent": null}, "age": {}},
            {"start": 12288, "end": 20480, "nr_accesses": {"samples": 0, "percent": 0}, "age": {}}]},
        {"start_time": 1100000000, "end_time": 1200000000, "regions": [
            {"start": "4096", "end": "8192", "nr_accesses": {"samples": null, "percent": "5 %"}}]}]}]"#;

    fn looks(bytes: &[u8]) -> Vec<Look> {
        let lines = convert(bytes, "x").unwrap();
        lines
            .into_iter()
            .filter_map(|line| if let Line::Look(look) = line { Some(look) } else { None })
            .collect()
    }

    #[test]
    fn the_json_of_damo_plain_and_packed() {
        let plain = looks(JSON.as_bytes());
        let told: Vec<(u64, u64, u64)> = plain
            .iter()
            .map(|look| (look.mark_ns, look.asked_ns, look.processes[0].touched_pages()))
            .collect();
        assert_eq!(told, [(0, 100_000_000, 2), (100_000_000, 100_000_000, 1)]);
        assert_eq!((plain[0].processes[0].pid, plain[0].processes[0].rss_bytes), (3, 4 * PAGE));
        let mut packer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(JSON.as_bytes()).unwrap();
        assert_eq!(looks(&packer.finish().unwrap()), plain);
    }

    #[test]
    fn the_event_of_the_kernel_as_text() {
        let text = "kdamond.0  99 [001]  10.500000: damon:damon_aggregated: target_id=0 nr_regions=2 4096-8192: 3 1\n\
                    kdamond.0  99 [001]  10.500010: damon:damon_aggregated: target_id=0 nr_regions=2 8192-40960: 0 1\n\
                    noise\n\
                    kdamond.0  99 [001]  10.600000: damon:damon_aggregated: target_id=0 nr_regions=1 4096-40960: 1 0\n";
        let told: Vec<(u64, u64)> = looks(text.as_bytes())
            .iter()
            .map(|look| (look.asked_ns, look.processes[0].touched_pages()))
            .collect();
        assert_eq!(told.iter().map(|(_, pages)| *pages).collect::<Vec<_>>(), [1, 9]);
        assert!(told.iter().all(|(ns, _)| ns.abs_diff(100_000_000) < 1000), "{told:?}");
    }

    #[test]
    fn what_is_no_recording_is_said() {
        for bad in [&b"[]"[..], b"", b"{", b"hello", b"\x78\x9c\x00", b"{\"snapshots\":7}"] {
            assert!(convert(bad, "x").unwrap_err().hint().is_some());
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let _ = convert(&bytes, "x");
        }
    }
}
