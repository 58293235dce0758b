//! An address trace for people: what it consists of, how far apart its touches are, what a smaller memory would miss.

use nilometer_analysis::pages::model::{Accesses, Bound, How, Pages, Reuse};

use crate::layout::{Line, Style};
use crate::table::Table;
use crate::text;

pub(crate) const HEADS: [&str; 4] = ["would miss", "of touches", "reused", "with so much resident"];

/// How much memory was touched how often; none where it was no trace.
pub(super) fn sentence(pages: &Pages) -> Option<String> {
    let reuse = traced(pages)?;
    let about = if reuse.how == How::Sampled { "about " } else { "" };
    Some(format!(
        "{} touches of {about}{} ({about}{} of {})",
        text::count(reuse.touches),
        text::bytes(reuse.units.saturating_mul(reuse.unit_bytes)),
        text::counted(reuse.units, "page", "pages"),
        text::bytes(reuse.unit_bytes),
    ))
}

fn traced(pages: &Pages) -> Option<&Reuse> {
    pages.reuse.as_ref().filter(|_| pages.trace.is_some())
}

pub(super) fn lines(pages: &Pages, accesses: &Accesses) -> Vec<Line> {
    let seen = format!(
        "every access that valgrind's lackey traced: {}, {}, {} that do both; {} in two pages or more, which \
         {} in each",
        text::counted(accesses.loads, "load", "loads"),
        text::counted(accesses.stores, "store", "stores"),
        text::count(accesses.modifies),
        text::counted(accesses.crossing, "lies", "lie"),
        if accesses.crossing == 1 { "counts" } else { "count" },
    );
    let code = format!(
        "{}: code, not data",
        text::counted(accesses.instructions, "fetch of an instruction", "fetches of instructions")
    );
    let mut lines = vec![Line::new("seen", seen), Line::new("left out", code)];
    lines.extend(traced(pages).into_iter().flat_map(reuse));
    lines
}

fn reuse(reuse: &Reuse) -> Vec<Line> {
    let median = reuse
        .median_bytes
        .map_or_else(String::new, |(_, bytes)| format!(", half of the others within {}", text::bytes(bytes)));
    let first = format!(
        "{}: {} ({}) of the touches were first ones{median}",
        how(reuse),
        percent(reuse.cold_share),
        text::count(reuse.units),
    );
    let mut lines = vec![Line::new("reuse", first)];
    lines.extend(telling(&reuse.bounds).iter().map(|bound| Line::new("", miss(bound, reuse.touches))));
    lines
}

/// `exact`, `sampled (25 % of the pages, ± 0.1 % of the touches as its two halves differ)`
pub(crate) fn how(reuse: &Reuse) -> String {
    if reuse.how != How::Sampled {
        return "exact".into();
    }
    let error = reuse.sampling_error.map_or_else(String::new, |error| {
        format!(", ± {} of the touches as its two halves differ", percent(error))
    });
    format!("sampled ({} of the pages{error})", percent(reuse.sampled_share))
}

/// The smallest memory with which at most twice the unavoidable would miss, and half of it.
fn telling(bounds: &[Bound]) -> &[Bound] {
    let least = bounds.last().map_or(0.0, |bound| bound.miss_high);
    let at = bounds.iter().position(|bound| bound.miss_high <= 2.0 * least).unwrap_or(0);
    &bounds[at.saturating_sub(1).min(bounds.len())..bounds.len().min(at + 1)]
}

fn miss(bound: &Bound, touches: u64) -> String {
    format!(
        "with {} resident, {} ({}) of the touches would miss",
        text::bytes(bound.resident_bytes),
        percent(bound.miss_high),
        misses(bound, touches)
    )
}

/// Shares of many touches are small, and their numbers are not.
fn misses(bound: &Bound, touches: u64) -> String {
    text::count((bound.miss_high * touches as f64).round() as u64)
}

/// Little is not nothing.
pub(crate) fn percent(share: f64) -> String {
    if share > 0.0 && share < 0.0005 { "< 0.1 %".into() } else { text::percent(share) }
}

/// The histogram and the curve of misses, by doublings.
pub(crate) fn rows(pages: &Pages) -> Vec<Vec<String>> {
    let Some(reuse) = traced(pages) else { return Vec::new() };
    let row = |(bound, bin): (&Bound, &nilometer_analysis::pages::curve::Bin)| {
        vec![
            misses(bound, reuse.touches),
            percent(bound.miss_high),
            text::count(bin.touches),
            text::bytes(bound.resident_bytes),
        ]
    };
    reuse.bounds.iter().zip(&reuse.histogram).map(row).collect()
}

pub(super) fn table(pages: &Pages, style: &Style) -> String {
    let mut table = Table::new(&HEADS);
    for row in rows(pages) {
        table.row(row);
    }
    table.render(style)
}
