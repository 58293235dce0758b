//! How large blocks were, and how long they lived: bars of blocks, bytes beside them.

use nilometer_analysis::allocs::model::{Allocs, Bin};

use crate::layout::{Style, Tone};
use crate::text;

/// Bins of a power of two are put together until so many rows are left.
const MOST_ROWS: usize = 12;
const LABEL: usize = 10;
const BAR: usize = 30;

pub(super) fn render(allocs: &Allocs, style: &Style) -> String {
    let sizes = section("sizes", &coarser(&allocs.sizes), text::bytes, style);
    let lives = coarser(&from_a_microsecond(&allocs.lifetimes));
    sizes + &section("lifetimes of blocks that were given back", &lives, life, style)
}

fn section(title: &str, bins: &[Bin], label: impl Fn(u64) -> String, style: &Style) -> String {
    let most = bins.iter().map(|bin| bin.count).max().unwrap_or(0);
    if most == 0 {
        return String::new();
    }
    let mut out = style.paint(title, Tone::Strong) + "\n";
    let room = BAR.min(style.columns().saturating_sub(LABEL + 34)).max(6);
    for bin in bins.iter().filter(|bin| bin.count > 0) {
        let from = label(bin.from);
        let bar = bar(bin.count as f64 / most as f64, room, style);
        let blocks = text::counted(bin.count, "block", "blocks");
        let row = format!(" {:>LABEL$} – {bar} {blocks}, {}", style.safe(&from), text::bytes(bin.bytes));
        out += if style.unicode { row.clone() } else { text::ascii(&row) }.trim_end();
        out.push('\n');
    }
    out
}

/// Times are told some events apart: shorter lives cannot be told from each other.
fn from_a_microsecond(bins: &[Bin]) -> Vec<Bin> {
    let short = bins.iter().take_while(|bin| bin.to.is_some_and(|to| to <= 1024)).count();
    let (below, above) = bins.split_at(short);
    let joined = (!below.is_empty()).then(|| Bin { from: 0, ..join(below) });
    joined.into_iter().chain(above.iter().copied()).collect()
}

/// Neighbours together until the rows are few.
fn coarser(bins: &[Bin]) -> Vec<Bin> {
    let per = bins.len().div_ceil(MOST_ROWS).max(1);
    bins.chunks(per).map(join).collect()
}

fn join(bins: &[Bin]) -> Bin {
    Bin {
        from: bins.first().map_or(0, |bin| bin.from),
        to: bins.last().and_then(|bin| bin.to),
        count: bins.iter().map(|bin| bin.count).sum(),
        bytes: bins.iter().map(|bin| bin.bytes).sum(),
    }
}

fn bar(share: f64, room: usize, style: &Style) -> String {
    let eighths = (share * room as f64 * 8.0).round() as usize;
    let eighths = if share > 0.0 { eighths.max(1) } else { 0 };
    if !style.unicode {
        return format!("{:<room$}", "#".repeat(eighths.div_ceil(8)));
    }
    let parts = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let filled = "█".repeat(eighths / 8) + parts[eighths % 8];
    let cells = eighths.div_ceil(8);
    filled + &" ".repeat(room.saturating_sub(cells))
}

/// Nanoseconds as people say them.
fn life(ns: u64) -> String {
    match ns {
        0 => "0".into(),
        1..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} µs", text::digits(ns as f64 / 1e3)),
        1_000_000..1_000_000_000 => format!("{} ms", text::digits(ns as f64 / 1e6)),
        _ => text::duration(ns as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_share() {
        let style = Style { width: 80, color: false, unicode: true, whole: false };
        assert_eq!(bar(1.0, 6, &style), "██████");
        assert_eq!(bar(0.5, 6, &style), "███   ");
        assert_eq!(bar(0.001, 6, &style), "▏     ");
        assert_eq!(bar(0.0, 6, &style), "      ");
        let plain = Style { unicode: false, ..style };
        assert_eq!(bar(0.5, 6, &plain), "###   ");
    }

    #[test]
    fn many_bins_become_few_without_losing_any() {
        let bins: Vec<Bin> =
            (0..40).map(|n| Bin { from: 1 << n, to: Some(2 << n), count: 1, bytes: 2 }).collect();
        let few = coarser(&bins);
        assert_eq!(few.len(), 10);
        assert_eq!(few.iter().map(|bin| bin.count).sum::<u64>(), 40);
        assert_eq!((few[0].from, few[0].to, few[9].to), (1, Some(16), Some(1 << 40)));
        assert_eq!(
            (life(12), life(1_500), life(2_000_000), life(3_000_000_000)),
            ("12 ns".into(), "1.50 µs".into(), "2.00 ms".into(), "3.00 s".into())
        );
    }
}
