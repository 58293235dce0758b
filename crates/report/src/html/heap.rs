//! Which kinds of Python object there are, and which of them grow.

use nilometer_analysis::heap::model::{Growths, KindGrowth, Sum};

use super::Page;
use super::markup;
use super::run::growth_text;
use super::view::{Badge, View};
use crate::text;

const QUESTION: &str = "Which Python objects, and which of them grow?";
const ROWS: usize = 30;

pub(super) fn view(page: &Page<'_>) -> View {
    let Some(heap) = &page.run.heap else {
        let command = format!("nilo run --heap -- {}", page.run.command.join(" "));
        return View::absent("heap", QUESTION, "no census was taken", &command);
    };
    let total = |sum: &Sum| sum.bytes.saturating_add(sum.payload_bytes);
    let row = |kind: &KindGrowth| {
        vec![
            text::bytes(total(&kind.first)),
            text::bytes(total(&kind.last)),
            text::bytes(total(&kind.max)),
            text::count(kind.last.count),
            growth_text(&kind.growth),
            kind.kind.clone(),
        ]
    };
    let rows: Vec<Vec<String>> = heap.kinds.iter().take(ROWS).map(row).collect();
    let heads = ["first", "last", "highest", "objects", "grows", "kind"];
    let body = markup::table(&heads, &rows, 5);
    View { id: "heap", question: QUESTION, sentence: sentence(heap), badge: Badge::Measured, body }
}

fn sentence(heap: &Growths) -> String {
    let fastest = heap
        .kinds
        .first()
        .map(|kind| format!("; first of them {} ({})", kind.kind, growth_text(&kind.growth)));
    format!(
        "{} of process {} from {} to {}, paused {:.0} ms at most{}.",
        text::counted(heap.tables, "census", "censuses"),
        heap.pid,
        text::duration(heap.first_s),
        text::duration(heap.last_s),
        heap.pause_ms_longest,
        fastest.unwrap_or_default()
    )
}
