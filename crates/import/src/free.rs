//! One output of `free` as procps up to 3.3.9 prints it: a header and three lines, in kB.

use nilometer_trace::record::Unit;

use crate::error::{Error, Fault, quoted};
use crate::lines::Lines;
use crate::time::parse_stamp;

const KIB: &str = "the log must come from `free` without options, which prints kB";
const OLD: &str = "an output of `free` is: header, Mem:, -/+ buffers/cache:, Swap:";
const NEW: &str = "record with nilo instead:  nilo record --interval 1s";

const WORDS: [&str; 6] = ["total", "used", "free", "shared", "buffers", "cached"];

/// The header line, with the time that may stand before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) stamp: Option<u64>,
}

/// `None` if the line is no header.
pub(crate) fn parse_head(line: &str) -> Option<Result<Head, Fault>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let place = words.iter().position(|word| *word == "total")?;
    if place > 1 || words.get(place + 1) != Some(&"used") {
        return None;
    }
    Some(head(&words[..place], &words[place..]))
}

fn head(before: &[&str], words: &[&str]) -> Result<Head, Fault> {
    if words.contains(&"buff/cache") {
        return Err(Fault::new(
            "the `free` of procps 3.3.10 or newer: buffers and cache are one number in it",
            NEW,
        ));
    }
    if words != WORDS {
        return Err(Fault::new(
            format!("columns that are not those of `free`: {}", quoted(&words.join(" "))),
            OLD,
        ));
    }
    Ok(Head { stamp: before.first().map(|word| parse_stamp(word)).transpose()? })
}

/// All in kB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Reading {
    pub(crate) total: u64,
    free: u64,
    shared: u64,
    buffers: u64,
    cached: u64,
    pub(crate) swap_total: u64,
    swap_free: u64,
}

/// What the values of [`Reading::values`] are.
pub(crate) const COLUMNS: [(&str, Unit); 7] = [
    ("meminfo.MemTotal", Unit::Kib),
    ("meminfo.MemFree", Unit::Kib),
    ("meminfo.Shmem", Unit::Kib),
    ("meminfo.Buffers", Unit::Kib),
    ("meminfo.Cached", Unit::Kib),
    ("meminfo.SwapTotal", Unit::Kib),
    ("meminfo.SwapFree", Unit::Kib),
];

impl Reading {
    pub(crate) fn values(&self) -> [u64; 7] {
        [self.total, self.free, self.shared, self.buffers, self.cached, self.swap_total, self.swap_free]
    }
}

/// The three lines after the header; `None` where the file ends before.
pub(crate) fn read(lines: &mut Lines<'_>) -> Result<Option<Reading>, Error> {
    let Some([total, used, free, shared, buffers, cached]) = read_row(lines, "Mem:")? else {
        return Ok(None);
    };
    check(lines, used.checked_add(free) == Some(total), "used and free are not the total")?;
    let Some([net_used, net_free]) = read_row(lines, "-/+ buffers/cache:")? else { return Ok(None) };
    let net = used.checked_sub(buffers).and_then(|rest| rest.checked_sub(cached));
    check(lines, net == Some(net_used), "this is not used - buffers - cached")?;
    check(lines, net_used.checked_add(net_free) == Some(total), "used and free are not the total")?;
    let Some([swap_total, swap_used, swap_free]) = read_row(lines, "Swap:")? else { return Ok(None) };
    check(lines, swap_used.checked_add(swap_free) == Some(swap_total), "used and free are not the total")?;
    Ok(Some(Reading { total, free, shared, buffers, cached, swap_total, swap_free }))
}

fn check(lines: &Lines<'_>, right: bool, what: &str) -> Result<(), Error> {
    if right { Ok(()) } else { Err(lines.at(Fault::new(format!("{what}: {}", quoted(lines.text())), KIB))) }
}

/// The numbers behind a label.
fn read_row<const N: usize>(lines: &mut Lines<'_>, label: &str) -> Result<Option<[u64; N]>, Error> {
    if !lines.advance()? {
        return Ok(None);
    }
    parse_row(lines.text(), label).map(Some).map_err(|fault| lines.at(fault))
}

fn parse_row<const N: usize>(line: &str, label: &str) -> Result<[u64; N], Fault> {
    let Some(rest) = line.strip_prefix(label) else {
        return Err(Fault::new(format!("expected `{label}`, found {}", quoted(line)), OLD));
    };
    let numbers: Option<Vec<u64>> = rest.split_whitespace().map(|word| word.parse().ok()).collect();
    let numbers = numbers.and_then(|numbers| <[u64; N]>::try_from(numbers).ok());
    numbers.ok_or_else(|| {
        Fault::new(format!("expected {N} numbers after `{label}`, found {}", quoted(rest.trim())), KIB)
    })
}
