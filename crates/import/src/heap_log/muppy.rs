//! Pympler's tables: `types | # objects | total size`, of a summary or of a difference.

use super::{Look, Looks, Row};
use crate::emit::Emitter;
use crate::error::{Error, Fault, quoted};
use crate::lines::Lines;

const SHAPE: &str =
    "a row is `KIND | COUNT | SIZE UNIT`, a table begins with `types | # objects | total size`";
/// Pympler prints so many rows unless told otherwise.
const LIMIT: usize = 15;

pub(crate) fn convert(
    lines: &mut Lines<'_>,
    looks: &mut Looks,
    out: &mut Emitter<'_, '_>,
) -> Result<(), Error> {
    let mut open: Option<Look> = None;
    let mut cut = false;
    while lines.advance()? {
        match parse_line(lines.text()).map_err(|fault| lines.at(fault))? {
            Line::Head => {
                if let Some(look) = open.replace(Look::default()) {
                    cut |= look.rows.len() == LIMIT;
                    looks.put(&look, out)?;
                }
            }
            Line::Row(row) => {
                let look =
                    open.as_mut().ok_or_else(|| lines.at(Fault::new("a row without a table", SHAPE)))?;
                look.rows.push(row);
            }
            Line::Other => {}
        }
    }
    if let Some(look) = open {
        cut |= look.rows.len() == LIMIT;
        looks.put(&look, out)?;
    }
    looks.notes(out);
    if cut {
        out.note(
            "a table has 15 rows, Pympler's limit: kinds below them are not in it, and sums are no totals",
        );
    }
    Ok(())
}

#[derive(Debug, PartialEq)]
enum Line {
    Head,
    Row(Row),
    Other,
}

fn parse_line(line: &str) -> Result<Line, Fault> {
    let cells: Vec<&str> = line.rsplitn(3, '|').map(str::trim).collect();
    let [size, count, kind] = cells.as_slice() else { return Ok(Line::Other) };
    if *kind == "types" {
        return Ok(Line::Head);
    }
    if kind.starts_with("==") {
        return Ok(Line::Other);
    }
    let fault = || Fault::new(format!("{} is no row", quoted(line)), SHAPE);
    let count = count.parse().map_err(|_| fault())?;
    Ok(Line::Row(Row { kind: (*kind).to_owned(), count, bytes: parse_size(size).ok_or_else(fault)? }))
}

/// `4.06 MB`, `-147456     B`; the units are binary.
fn parse_size(text: &str) -> Option<i64> {
    let mut words = text.split_whitespace();
    let value: f64 = words.next()?.parse().ok()?;
    let unit = match words.next()? {
        "B" => 1.0,
        "KB" => 1024.0,
        "MB" => 1024.0 * 1024.0,
        "GB" => 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    let bytes = value * unit;
    (bytes.is_finite() && bytes.abs() < 1e18).then(|| bytes.round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_binary_units_and_signs() {
        let row = |kind: &str, count, bytes| Ok(Line::Row(Row { kind: kind.into(), count, bytes }));
        assert_eq!(
            parse_line("numpy.ndarray |       53157 |      4.06 MB"),
            row("numpy.ndarray", 53_157, 4_257_219)
        );
        assert_eq!(parse_line("list |        8532 |    869.02 KB"), row("list", 8_532, 889_876));
        assert_eq!(
            parse_line("collections.defaultdict | 0 | -147456     B"),
            row("collections.defaultdict", 0, -147_456)
        );
        assert_eq!(parse_line("types |   # objects |   total size"), Ok(Line::Head));
        assert_eq!(parse_line("===== | =========== | ============"), Ok(Line::Other));
        assert!(parse_line("x | y | z").is_err());
    }
}
