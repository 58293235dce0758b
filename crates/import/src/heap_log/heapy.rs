//! Heapy: dumps of `stat.dump` (`.loader:` …, one `.r: COUNT BYTES KIND` a kind) and printed tables.

use super::{Look, Looks, Row};
use crate::emit::Emitter;
use crate::error::{Error, Fault, quoted};
use crate::lines::Lines;
use crate::time::parse_stamp;

const DUMP: &str = "a row of a dump is `.r: COUNT BYTES KIND`";
const TABLE: &str = "a row of a table is `INDEX COUNT % SIZE % CUMULATIVE % KIND`";

pub(crate) fn convert(
    lines: &mut Lines<'_>,
    looks: &mut Looks,
    out: &mut Emitter<'_, '_>,
) -> Result<(), Error> {
    let mut open: Option<Look> = None;
    while lines.advance()? {
        match parse_line(lines.text()).map_err(|fault| lines.at(fault))? {
            Line::Begin(whole) => {
                if let Some(look) = open.replace(Look { whole, ..Look::default() }) {
                    looks.put(&look, out)?;
                }
            }
            Line::Made(at) => open.get_or_insert_default().realtime_ns = Some(at),
            Line::Count(count) => open.get_or_insert_default().whole.get_or_insert_default().0 = count,
            Line::Size(bytes) => open.get_or_insert_default().whole.get_or_insert_default().1 = bytes,
            Line::Row(row) => open.get_or_insert_default().rows.push(row),
            Line::More(kinds) => open.get_or_insert_default().other_kinds = kinds,
            Line::Other => {}
        }
    }
    if let Some(look) = open.filter(|look| !look.rows.is_empty()) {
        looks.put(&look, out)?;
    }
    looks.notes(out);
    Ok(())
}

#[derive(Debug, PartialEq)]
enum Line {
    Begin(Option<(u64, u64)>),
    Made(u64),
    Count(u64),
    Size(u64),
    Row(Row),
    More(u64),
    Other,
}

fn parse_line(line: &str) -> Result<Line, Fault> {
    if let Some(rest) = line.strip_prefix("Partition of a set of ") {
        return parse_head(rest)
            .ok_or_else(|| Fault::new(format!("{} is no head of a table", quoted(line)), TABLE));
    }
    if let Some(told) = line.strip_prefix('.') {
        return parse_dump(told);
    }
    if let Some(rest) = line.strip_prefix('<') {
        return Ok(rest
            .split(' ')
            .next()
            .and_then(|count| count.parse().ok())
            .map_or(Line::Other, Line::More));
    }
    Ok(parse_row(line).map_or(Line::Other, Line::Row))
}

/// `N objects. Total size = B bytes.`
fn parse_head(rest: &str) -> Option<Line> {
    let (count, rest) = rest.split_once(' ')?;
    let bytes = rest.split(" = ").nth(1)?.split(' ').next()?;
    Some(Line::Begin(Some((count.parse().ok()?, bytes.parse().ok()?))))
}

fn parse_dump(told: &str) -> Result<Line, Fault> {
    let (key, value) = told.split_once(':').unwrap_or((told, ""));
    let value = value.trim();
    let number = || value.parse().map_err(|_| Fault::new(format!("{} is no number", quoted(value)), DUMP));
    Ok(match key {
        "loader" => Line::Begin(None),
        "timemade" => Line::Made(parse_stamp(value)?),
        "count" => Line::Count(number()?),
        "size" => Line::Size(number()?),
        "r" => Line::Row(
            parse_cells(value).ok_or_else(|| Fault::new(format!("{} is no row", quoted(value)), DUMP))?,
        ),
        _ => Line::Other,
    })
}

/// `27683 1768704 str`
fn parse_cells(value: &str) -> Option<Row> {
    let mut parts = value.splitn(3, ' ');
    let (count, bytes) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some(Row { count, bytes, kind: parts.next()?.to_owned() })
}

/// `0 182936 7 7317440 6 7317440 6 numpy.ndarray`
fn parse_row(line: &str) -> Option<Row> {
    let mut words = line.split_whitespace();
    let mut numbers = [0_i64; 7];
    for number in &mut numbers {
        *number = words.next()?.parse().ok()?;
    }
    let kind: Vec<&str> = words.collect();
    (!kind.is_empty()).then(|| Row { count: numbers[1], bytes: numbers[3], kind: kind.join(" ") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_tables_and_dumps_are_known() {
        let row = |count, bytes, kind: &str| Line::Row(Row { count, bytes, kind: kind.into() });
        for (line, known) in [
            (
                "Partition of a set of 2703203 objects. Total size = 117259620 bytes.",
                Line::Begin(Some((2_703_203, 117_259_620))),
            ),
            (
                "0 182936   7  7317440   6   7317440   6 numpy.ndarray",
                row(182_936, 7_317_440, "numpy.ndarray"),
            ),
            ("1 7 1 90 2 99 3 dict (no owner)", row(7, 90, "dict (no owner)")),
            ("<399 more rows. Type e.g. '_.more' to view.>", Line::More(399)),
            ("Index  Count   %     Size   % Cumulative  % Kind (class / dict of class)", Line::Other),
            (".r: 27683 1768704 str", row(27_683, 1_768_704, "str")),
            (".timemade: 1231517359.474866", Line::Made(1_231_517_359_474_866_000)),
            (".loader: _load_stat", Line::Begin(None)),
            (".end: .loader: _load_stat", Line::Other),
        ] {
            assert_eq!(parse_line(line), Ok(known), "{line}");
        }
        assert!(parse_line(".r: x").is_err());
    }
}
