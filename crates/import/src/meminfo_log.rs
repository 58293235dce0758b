//! `microtime` and a Unix time, all of `/proc/meminfo`, `program_usage` and the bytes of the sampler's own heap.
//!
//! The set of fields is the kernel's; when it changes on the way, new columns are told. A record ends where
//! the next begins. The last one counts only if it is whole: such a log often ends with the machine.

use nilometer_trace::record::{Phase, Unit};

use crate::emit::{Emitter, SAMPLER_HEAP};
use crate::error::{Error, Fault, quoted};
use crate::lines::Lines;
use crate::time::parse_stamp;

const SHAPE: &str = "a record is: `microtime SECONDS`, the lines of /proc/meminfo, `program_usage BYTES`";
const METHOD: &str =
    "imported from a log of /proc/meminfo; the sampler's own heap is the column import.sampler_heap";
/// Kernels of 2026 have some 60 fields; a tick holds up to 1,024 columns.
const MOST_FIELDS: usize = 1_000;
/// Where the sampler did not tell its heap.
const ABSENT: u64 = u64::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line<'a> {
    Time(u64),
    Field { name: &'a str, value: u64, unit: Unit },
    Heap(u64),
}

fn parse_line(line: &str) -> Result<Line<'_>, Fault> {
    let fault = || Fault::new(format!("expected a field of /proc/meminfo, found {}", quoted(line)), SHAPE);
    let mut words = line.split_whitespace();
    let (Some(name), Some(value), unit, None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(fault());
    };
    if name == "microtime" && unit.is_none() {
        return parse_stamp(value).map(Line::Time);
    }
    let value: u64 = value.parse().map_err(|_| fault())?;
    match (name.strip_suffix(':'), unit) {
        (None, None) if name == "program_usage" => Ok(Line::Heap(value)),
        (Some(name), Some("kB")) => Ok(Line::Field { name, value, unit: Unit::Kib }),
        // Not in kB: numbers of huge pages, zero or not.
        (Some(name), None) => Ok(Line::Field { name, value, unit: Unit::Count }),
        _ => Err(fault()),
    }
}

/// The fields of one record, in the order of the log.
#[derive(Debug, Default)]
struct Fields {
    /// Full names with units; those of the record before, as far as they are the same.
    layout: Vec<(String, Unit)>,
    values: Vec<u64>,
    changed: bool,
}

impl Fields {
    fn push(&mut self, name: &str, value: u64, unit: Unit) -> Result<(), Fault> {
        let place = self.values.len();
        let same = |(known, known_unit): &(String, Unit)| short(known) == name && *known_unit == unit;
        if !self.layout.get(place).is_some_and(same) {
            self.layout.truncate(place);
            if self.layout.iter().any(|(known, _)| short(known) == name) {
                return Err(Fault::new(format!("{} twice in one record", quoted(name)), SHAPE));
            }
            if place >= MOST_FIELDS {
                return Err(Fault::new(format!("more than {MOST_FIELDS} fields in one record"), SHAPE));
            }
            self.layout.push((format!("{PREFIX}{name}"), unit));
            self.changed = true;
        }
        self.values.push(value);
        Ok(())
    }

    fn get(&self, name: &str) -> Option<u64> {
        self.values.get(self.layout.iter().position(|(known, _)| short(known) == name)?).copied()
    }

    /// Fields at the end that this record lacks.
    fn is_shorter(&self) -> bool {
        self.values.len() < self.layout.len()
    }
}

const PREFIX: &str = "meminfo.";

fn short(name: &str) -> &str {
    name.strip_prefix(PREFIX).unwrap_or(name)
}

#[derive(Debug)]
struct Log {
    fields: Fields,
    stamp_ns: u64,
    heap: Option<u64>,
    line: u64,
    /// Some record told the sampler's heap.
    tells_heap: bool,
}

pub(crate) fn convert(lines: &mut Lines<'_>, out: &mut Emitter<'_, '_>) -> Result<(), Error> {
    let mut log = Log {
        fields: Fields::default(),
        stamp_ns: first_stamp(lines)?,
        heap: None,
        line: 1,
        tells_heap: false,
    };
    log.line = lines.number();
    out.note(METHOD);
    while lines.advance()? {
        match parse_line(lines.text()).map_err(|fault| lines.at(fault))? {
            Line::Time(stamp_ns) => {
                log.put(out)?;
                (log.stamp_ns, log.heap, log.line) = (stamp_ns, None, lines.number());
            }
            _ if log.heap.is_some() => {
                return Err(lines.at(Fault::new("expected `microtime` after `program_usage`", SHAPE)));
            }
            Line::Heap(bytes) => log.heap = Some(bytes),
            Line::Field { name, value, unit } => {
                log.fields.push(name, value, unit).map_err(|fault| lines.at(fault))?;
            }
        }
    }
    log.put_last(out)
}

fn first_stamp(lines: &mut Lines<'_>) -> Result<u64, Error> {
    let found = lines.advance()?;
    let first =
        if found { parse_line(lines.text()).map_err(|fault| lines.at(fault))? } else { Line::Heap(0) };
    match first {
        Line::Time(stamp_ns) => Ok(stamp_ns),
        _ => Err(lines.at(Fault::new("a log begins with `microtime`", SHAPE))),
    }
}

impl Log {
    fn put(&mut self, out: &mut Emitter<'_, '_>) -> Result<(), Error> {
        let (Some(total), Some(_)) = (self.fields.get("MemTotal"), self.fields.get("MemFree")) else {
            let what = "a record without MemTotal and MemFree".into();
            return Err(Error::Line { line: self.line, what, hint: SHAPE });
        };
        self.tells_heap |= self.heap.is_some();
        let at_ns = out.at(self.stamp_ns)?;
        if out.ticks() == 0 {
            out.machine(total, self.fields.get("SwapTotal").unwrap_or(0));
        }
        self.put_columns(out)?;
        self.fields.values.push(self.heap.unwrap_or(ABSENT));
        out.tick(at_ns, Phase::During, &self.fields.values)?;
        self.fields.values.clear();
        Ok(())
    }

    fn put_columns(&mut self, out: &mut Emitter<'_, '_>) -> Result<(), Error> {
        let fields = &mut self.fields;
        if !fields.changed && !fields.is_shorter() {
            return Ok(());
        }
        fields.layout.truncate(fields.values.len());
        fields.changed = false;
        let columns = fields.layout.iter().map(|(name, unit)| (name.as_str(), *unit));
        out.columns(columns.chain([(SAMPLER_HEAP, Unit::Bytes)]))
    }

    /// A cut is told by the missing end, or where no record has one, by missing fields.
    fn put_last(&mut self, out: &mut Emitter<'_, '_>) -> Result<(), Error> {
        let whole = self.heap.is_some() || !(self.tells_heap || self.fields.is_shorter());
        let usable = self.fields.get("MemTotal").is_some() && self.fields.get("MemFree").is_some();
        if out.ticks() == 0 || (whole && usable) {
            return self.put(out);
        }
        out.note(format!("the log is cut within the record of line {}, which was left out", self.line));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_what_they_say() {
        assert_eq!(parse_line("microtime 2.5"), Ok(Line::Time(2_500_000_000)));
        assert_eq!(parse_line("program_usage 226504"), Ok(Line::Heap(226_504)));
        let active = Line::Field { name: "Active(anon)", value: 7, unit: Unit::Kib };
        assert_eq!(parse_line("Active(anon):      7 kB"), Ok(active));
        let huge = Line::Field { name: "HugePages_Total", value: 8, unit: Unit::Count };
        assert_eq!(parse_line("HugePages_Total:       8"), Ok(huge));
    }

    #[test]
    fn other_lines_are_refused() {
        for line in [
            "",
            "MemFree",
            "MemFree: x kB",
            "MemFree: 1 MB",
            "MemFree 1 kB",
            "MemFree: 1 kB 2",
            "MemFree: -1 kB",
            "microtime",
            "microtime x",
            "program_usage 1 kB",
        ] {
            assert!(parse_line(line).is_err(), "{line}");
        }
    }
}
