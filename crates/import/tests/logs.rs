//! Whole logs in, records out: the published figures, and what happens to logs that are cut or malformed.

#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests

use std::io::{self, BufRead, Read};

use nilometer_import::{Error, Format, Known, Outline, convert};
use nilometer_trace::Record;
use nilometer_trace::record::{Columns, EventKind, MarkKind, Phase, Tick, Unit};

const REPEATS: &str = include_str!("../fixtures/repeats.log");
const SAMPLED: &str = include_str!("../fixtures/free_sampled.log");
const MEMINFO: &str = include_str!("../fixtures/mem_info.log");

struct Made {
    outline: Outline,
    records: Vec<Record>,
}

fn make(format: Format, text: &str) -> Result<Made, Error> {
    let mut records = Vec::new();
    let mut keep = |record: &Record| {
        records.push(record.clone());
        Ok(())
    };
    let outline = convert(format, &Known::default(), &mut text.as_bytes(), &mut keep)?;
    Ok(Made { outline, records })
}

impl Made {
    fn ticks(&self) -> Vec<&Tick> {
        self.records
            .iter()
            .filter_map(|r| if let Record::Tick(tick) = r { Some(tick) } else { None })
            .collect()
    }

    fn columns(&self) -> Vec<&Columns> {
        self.records.iter().filter_map(|r| if let Record::Columns(c) = r { Some(c) } else { None }).collect()
    }

    fn events(&self) -> Vec<&EventKind> {
        self.records
            .iter()
            .filter_map(|r| if let Record::Event(e) = r { Some(&e.what) } else { None })
            .collect()
    }

    fn value(&self, tick: &Tick, name: &str) -> u64 {
        let place = self.columns()[0].columns.iter().position(|column| column.name == name).unwrap();
        tick.system[place]
    }

    fn in_use_kib(&self, tick: &Tick) -> u64 {
        let of = |name| self.value(tick, name);
        of("meminfo.MemTotal") - of("meminfo.MemFree") - of("meminfo.Buffers") - of("meminfo.Cached")
    }
}

fn fault(format: Format, text: &str) -> (u64, String) {
    match make(format, text).err() {
        Some(Error::Line { line, what, hint }) => {
            assert!(!hint.is_empty());
            (line, what)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn thirty_repeats_are_before_after_and_thirty_phases() {
    let made = make(Format::FreeLog, REPEATS).unwrap();
    let ticks = made.ticks();
    assert_eq!(ticks.iter().map(|tick| tick.phase).collect::<Vec<_>>(), [Phase::Before, Phase::After]);
    assert_eq!((made.in_use_kib(ticks[0]), made.in_use_kib(ticks[1])), (1_627_552, 3_342_636));
    assert_eq!((3_342_636 - 1_627_552) / 30, 57_169);
    let repeats = EventKind::Repeats { runs: 30, span_ns: Some(544_000_000_000) };
    assert_eq!(made.events(), [&EventKind::Started, &repeats, &EventKind::Exited]);
    let phases = made.records.iter().filter(
        |record| matches!(record, Record::Mark(mark) if matches!(&mark.what, MarkKind::Phase(name) if name.starts_with("run "))),
    );
    assert_eq!(phases.count(), 30);
    assert!((made.outline.duration_s() - 544.0).abs() < 1e-9);
    assert_eq!((made.outline.memory_kib, made.outline.swap_kib), (16_421_400, 32_767_996));
    assert_eq!(made.outline.realtime_ns, 1_461_465_313_000_000_000);
}

#[test]
fn one_sampled_run_left_61_766_mb() {
    let made = make(Format::FreeLog, SAMPLED).unwrap();
    let ticks = made.ticks();
    let used_mb = |tick: &Tick| {
        let heap_kib = made.value(tick, "import.sampler_heap") as f64 / 1024.0;
        (made.in_use_kib(tick) as f64 - heap_kib) / 1024.0
    };
    let (first, last) = (used_mb(ticks[0]), used_mb(ticks[299]));
    assert_eq!((format!("{first:.3}"), format!("{last:.3}")), ("2460.823".into(), "2522.590".into()));
    assert_eq!(format!("{:.3}", last - first), "61.766");
    assert_eq!(
        (ticks[0].phase, ticks[1].phase, ticks[299].phase),
        (Phase::Before, Phase::During, Phase::After)
    );
    assert!(made.events().contains(&&EventKind::Repeats { runs: 1, span_ns: None }));
}

#[test]
fn the_records_of_meminfo_keep_all_42_fields_and_their_units() {
    let made = make(Format::MeminfoLog, MEMINFO).unwrap();
    let columns = &made.columns()[0].columns;
    assert_eq!((made.columns().len(), columns.len(), made.ticks().len()), (1, 43, 60));
    let units: Vec<&str> = columns
        .iter()
        .filter(|column| column.unit == Unit::Count)
        .map(|column| column.name.as_str())
        .collect();
    assert_eq!(units, ["Total", "Free", "Rsvd", "Surp"].map(|name| format!("meminfo.HugePages_{name}")));
    assert_eq!(made.value(made.ticks()[0], "meminfo.HugePages_Total"), 8);
    assert_eq!(made.value(made.ticks()[59], "import.sampler_heap"), 231_472);
    assert!((made.outline.duration_s() - 590.0).abs() < 0.01);
}

#[test]
fn header_comes_first_and_times_never_go_back() {
    for (format, text) in
        [(Format::FreeLog, REPEATS), (Format::FreeLog, SAMPLED), (Format::MeminfoLog, MEMINFO)]
    {
        let made = make(format, text).unwrap();
        assert!(
            matches!(&made.records[0], Record::Header(header) if header.realtime_ns == made.outline.realtime_ns)
        );
        assert!(matches!(&made.records[1], Record::Columns(_)));
        assert!(made.ticks().windows(2).all(|pair| pair[0].at_ns <= pair[1].at_ns));
        assert!(made.outline.last_ns >= made.outline.first_ns);
    }
}

/// Such logs end with the machine: what is whole is kept, wherever the cut is.
#[test]
fn a_log_cut_anywhere_keeps_its_whole_records() {
    for (format, text) in [(Format::FreeLog, SAMPLED), (Format::MeminfoLog, MEMINFO)] {
        let lines: Vec<&str> = text.lines().collect();
        let length = if format == Format::FreeLog { 5 } else { 44 };
        for kept in length * 3..length * 5 {
            let made = make(format, &lines[..kept].join("\n")).unwrap();
            let cut = kept % length != 0;
            assert_eq!(made.ticks().len(), kept / length, "{kept}");
            assert_eq!(made.outline.notes.iter().any(|note| note.contains("cut within")), cut, "{kept}");
        }
    }
}

#[test]
fn repeats_without_the_last_free_claim_nothing() {
    let (head, _) = REPEATS.rsplit_once("             total").unwrap();
    let made = make(Format::FreeLog, head).unwrap();
    assert_eq!(made.ticks().len(), 1);
    assert!(made.outline.notes.iter().any(|note| note.contains("cannot be told")));
}

#[test]
fn a_malformed_line_is_named() {
    let at = |format, text: &str, from: &str, to: &str| fault(format, &text.replacen(from, to, 1));
    let cases = [
        (at(Format::FreeLog, REPEATS, "3231908", "32319x8"), 2, "expected 6 numbers"),
        (at(Format::FreeLog, REPEATS, "3231908", "3231909"), 2, "not the total"),
        (at(Format::FreeLog, REPEATS, "1627552", "1627553"), 3, "used - buffers - cached"),
        (at(Format::FreeLog, REPEATS, "Swap:", "Swop:"), 4, "expected `Swap:`"),
        (at(Format::FreeLog, REPEATS, "1461465331", "soon"), 6, "expected a Unix time"),
        (at(Format::FreeLog, SAMPLED, "\n232192\n", "\nhello\n"), 5, "sampler's heap"),
        (at(Format::FreeLog, SAMPLED, "1461693208.9298", "later"), 6, "no Unix time"),
        (at(Format::MeminfoLog, MEMINFO, "MemFree:  ", "MemFree:!!"), 3, "expected a field"),
        (at(Format::MeminfoLog, MEMINFO, "Buffers:", "MemFree:"), 4, "twice"),
        (at(Format::MeminfoLog, MEMINFO, "MemFree", "FreeMem"), 1, "without MemTotal and MemFree"),
        (
            at(Format::MeminfoLog, MEMINFO, "microtime 1462118410", "microtime 99999999999"),
            45,
            "no Unix time",
        ),
        (at(Format::MeminfoLog, MEMINFO, "microtime", "macrotime"), 1, "expected a field"),
    ];
    for ((line, what), expected, words) in cases {
        assert!(line == expected && what.contains(words), "{line}: {what}");
    }
}

#[test]
fn hostile_bytes_are_not_repeated_raw() {
    let (_, what) = fault(Format::MeminfoLog, &format!("microtime 1\n\x1b[2J{}\n", "x".repeat(900)));
    assert!(what.chars().all(|c| !c.is_control()) && what.len() < 200, "{what:?}");
    let (line, what) = fault(Format::MeminfoLog, &format!("microtime 1\n{}", "x".repeat(5_000)));
    assert_eq!((line, what.as_str()), (2, "longer than 1024 bytes"));
}

#[test]
fn a_clock_that_was_set_back_is_told() {
    let text = MEMINFO.replacen("microtime 1462118420", "microtime 1462118405", 1);
    let made = make(Format::MeminfoLog, &text).unwrap();
    assert!(made.events().iter().any(|event| matches!(event, EventKind::ClockStep { by_ns } if *by_ns < 0)));
    assert!(made.ticks().windows(2).all(|pair| pair[0].at_ns <= pair[1].at_ns));
}

#[test]
fn a_change_of_fields_is_told_by_new_columns() {
    let newer = "microtime 1462119000\nMemTotal: 8 kB\nMemFree: 4 kB\nMemAvailable: 5 kB\nprogram_usage 1\n";
    let made = make(Format::MeminfoLog, &format!("{MEMINFO}{newer}{newer}")).unwrap();
    assert_eq!(made.columns().len(), 2);
    assert_eq!(made.ticks().last().unwrap().system, [8, 4, 5, 1]);
}

/// A log without an end, made as it is read.
struct Endless {
    text: Vec<u8>,
    place: usize,
    left: u64,
}

impl Read for Endless {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let length = self.fill_buf()?.len().min(out.len());
        out[..length].copy_from_slice(&self.fill_buf()?[..length]);
        self.consume(length);
        Ok(length)
    }
}

impl BufRead for Endless {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.place == self.text.len() {
            (self.place, self.left) = (0, self.left - 1);
        }
        let end = if self.left == 0 { self.place } else { self.text.len() };
        Ok(&self.text[self.place..end])
    }

    fn consume(&mut self, amount: usize) {
        self.place += amount;
    }
}

#[test]
fn a_log_larger_than_memory_is_read_as_it_comes() {
    let mut input = Endless { text: MEMINFO.as_bytes().to_vec(), place: 0, left: 500 };
    let mut records = 0u64;
    let outline = convert(Format::MeminfoLog, &Known::default(), &mut input, &mut |_| {
        records += 1;
        Ok(())
    });
    assert_eq!(outline.unwrap().ticks, 30_000);
    assert!(records >= 30_000);
}
